/*
 * The configuration in force: the ini file and all files that it names, as one
 * snapshot.  A start, RELOAD, SIGHUP, SET, --check-config and tls_reload_period all
 * load a snapshot with the functions here, in the same order: settings and entries, log
 * file, user list, HBA and ident files, TLS.  A snapshot is loaded as a whole or not at
 * all.
 */
#ifndef DAEMON_CONFIGURATION_H
#define DAEMON_CONFIGURATION_H

#include <stdbool.h>

#include "auth/userlist.h"
#include "base/mark.h"
#include "base/throttle.h"
#include "conf/config.h"
#include "daemon/findings.h"
#include "session/rules.h"
#include "session/tls_setup.h"

struct configuration {
	/* owned */
	struct config *config;  /* one reference: settings, databases, users, peers */
	struct userlist *users; /* one reference; NULL: the list in force stays */
	struct rules *rules;    /* one reference; NULL: auth_type needs no rules */
	struct tls_setup *tls;  /* NULL: the contexts in force stay */
	struct findings findings;
	bool has_broken_tls; /* TLS is the only reason why the snapshot is refused */
	struct throttle *throttle; /* borrowed: of a helper thread; NULL: not on one */
	struct mark users_mark;    /* of the auth_file whose secrets are in force */
};

enum strictness {
	STRICT,  /* a reload: a file that cannot be read refuses the snapshot */
	AT_START /* a start: some files may be missing; that is logged */
};

/* An empty configuration, which configuration_done may free as well. */
void configuration_init(struct configuration *c);
void configuration_done(struct configuration *c);

/* Loads the ini file and all files that it names.  running is the snapshot in force or
 * NULL; files that have not changed since are taken over from it and not read again.
 * Changes only c, so that a helper thread may call it.  -1: refused; the findings say
 * why. */
int configuration_load(struct configuration *c, const char *path,
    const struct configuration *running, enum strictness strictness);
/* The last line of the log of a start that was refused: "cannot load config file" or
 * "TLS setup failed". */
const char *configuration_failure(const struct configuration *c);
/* Loads all files but the ini file: c->config has been loaded already.  Returns what
 * configuration_load does. */
int configuration_load_named(struct configuration *c,
    const struct configuration *running, enum strictness strictness);
/* Makes the snapshot in force with its certificates loaded again. Returns 1 if their
 * files have changed and 0 if not.  -1: they cannot be loaded; the findings say why,
 * and they are not tried again before the files change once more. */
int configuration_load_tls(
    struct configuration *c, const struct configuration *running);
/* Makes the snapshot in force with one setting changed.  -1 and err: refused.  1 and
 * err: accepted, with a warning. */
int configuration_set(struct configuration *c, const struct configuration *running,
    const char *name, const char *value, struct err *err);
/* Moves a complete snapshot from next to c; next is empty afterwards.  Cannot fail. */
void configuration_take(struct configuration *c, struct configuration *next);

#endif
