/*
 * Puts configurations in force.  Loading a new one may fail and changes nothing;
 * putting it in force cannot fail.
 */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include "base/err.h"
#include "daemon/daemon.h"
#include "daemon/loaded_config.h"

/* Sets destinations and levels of the log as the settings say. */
void reload_configure_log(struct daemon *d, const struct settings *settings);
/* Puts a loaded snapshot in force; *next is empty afterwards.  The start calls it once,
 * too. */
void reload_adopt(struct daemon *d, struct loaded_config *next);
/* Logs the warnings of a snapshot unless the one in force had the same. */
void reload_tell_warnings(struct daemon *d, const struct loaded_config *c);
/* Loads certificates again if their files have changed (tls_reload_period). */
void reload_changed_tls(struct daemon *d);

/* Puts in force what loaded_config_load() has loaded with this result, and logs it.
 * users: if it is not NULL and the user list has changed, the secrets are not taken
 * over; the caller gets the list instead.  -1 and err: refused; err has two lines, the
 * second says why.  next remains the caller's. */
int reload_take(struct daemon *d, struct loaded_config *next, int result,
    struct userlist **users, struct err *err);
/* The process verb `set` (site.h). */
int reload_set(struct site *site, const char *name, const char *value, struct err *err);

#endif
