/*
 * The configuration in force: the ini file and all files that it names, as one
 * snapshot.  A start, RELOAD, SIGHUP, SET, --check-config and tls_reload_period all
 * load a snapshot with the functions here, in the same order: settings and entries, log
 * file, user list, HBA and ident files, TLS.  A snapshot is loaded as a whole or not at
 * all.
 */
#ifndef DAEMON_LOADED_CONFIG_H
#define DAEMON_LOADED_CONFIG_H

#include <stdbool.h>

#include "auth/userlist.h"
#include "base/cpu_time.h"
#include "base/file_id.h"
#include "conf/config.h"
#include "daemon/diagnostics.h"
#include "session/access_rules.h"
#include "session/tls_setup.h"

struct loaded_config {
	/* owned */
	struct config *config;  /* one reference: settings, databases, users, peers */
	struct userlist *users; /* one reference; NULL: the list in force stays */
	struct access_rules *rules; /* one reference; NULL: auth_type needs no rules */
	struct tls_setup *tls;      /* NULL: the contexts in force stay */
	struct diagnostics diagnostics;
	bool has_broken_tls; /* TLS is the only reason why the snapshot is refused */
	struct throttle *throttle; /* borrowed: of a helper thread; NULL: not on one */
	struct file_id users_file_id; /* of the auth_file whose secrets are in force */
};

enum strictness {
	STRICT,  /* a reload: a file that cannot be read refuses the snapshot */
	AT_START /* a start: some files may be missing; that is logged */
};

/* An empty configuration, which loaded_config_done may free as well. */
void loaded_config_init(struct loaded_config *c);
void loaded_config_done(struct loaded_config *c);

/* Loads the ini file and all files that it names.  running is the snapshot in force or
 * NULL; files that have not changed since are taken over from it and not read again.
 * Changes only c, so that a helper thread may call it.  -1: refused; the diagnostics
 * say why. */
int loaded_config_load(struct loaded_config *c, const char *path,
    const struct loaded_config *running, enum strictness strictness);
/* The last line of the log of a start that was refused: "cannot load config file" or
 * "TLS setup failed". */
const char *loaded_config_failure(const struct loaded_config *c);
/* Loads all files but the ini file: c->config has been loaded already.  Returns what
 * loaded_config_load does. */
int loaded_config_load_named(struct loaded_config *c,
    const struct loaded_config *running, enum strictness strictness);
/* Makes the snapshot in force with its certificates loaded again. Returns 1 if their
 * files have changed and 0 if not.  -1: they cannot be loaded; the diagnostics say why,
 * and they are not tried again before the files change once more. */
int loaded_config_load_tls(
    struct loaded_config *c, const struct loaded_config *running);
/* Makes the snapshot in force with one setting changed.  -1 and err: refused.  1 and
 * err: accepted, with a warning. */
int loaded_config_set(struct loaded_config *c, const struct loaded_config *running,
    const char *name, const char *value, struct err *err);
/* Moves a complete snapshot from next to c; next is empty afterwards.  Cannot fail. */
void loaded_config_take(struct loaded_config *c, struct loaded_config *next);

#endif
