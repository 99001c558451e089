/*
 * Puts configurations in force.  Loading a new one may fail and touches nothing;
 * putting it in force cannot fail.
 */
#ifndef DAEMON_RELOAD_H
#define DAEMON_RELOAD_H

#include "base/err.h"
#include "daemon/configuration.h"
#include "daemon/daemon.h"

/* Point the log where the settings say. */
void reload_configure_log(struct daemon *d, const struct settings *settings);
/* Put a loaded snapshot in force; *next is empty afterwards.  The start calls it once.
 */
void reload_adopt(struct daemon *d, struct configuration *next);
/* Log the warnings of a snapshot unless the one in force had the same. */
void reload_tell_warnings(struct daemon *d, const struct configuration *c);
/* Load certificates again if their files have changed (tls_reload_period). */
void reload_changed_tls(struct daemon *d);

/* Put in force what configuration_load() has loaded with this result, and tell the log.
 * users: when it is not NULL and the list has changed, the secrets are not taken over,
 * but the caller has the list.  -1 and err of two lines: it is refused, and why.  next
 * remains the caller's. */
int reload_take(struct daemon *d, struct configuration *next, int result,
    struct userlist **users, struct err *err);
/* The process verb. */
int reload_set(struct site *site, const char *name, const char *value, struct err *err);

#endif
