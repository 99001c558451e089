/*
 * The configuration in force: everything that the ini file says and names, as one
 * snapshot.  A start, RELOAD, SIGHUP, SET, --check-config and the clock that looks at
 * certificates make theirs with the functions here, in one order: settings and entries,
 * log file, user list, HBA and ident files, TLS.  A snapshot is whole, or there is
 * none.
 */
#ifndef DAEMON_CONFIGURATION_H
#define DAEMON_CONFIGURATION_H

#include <stdbool.h>

#include "auth/userlist.h"
#include "base/mark.h"
#include "conf/config.h"
#include "daemon/findings.h"
#include "session/rules.h"
#include "session/tls_setup.h"

struct configuration {
	/* owned */
	struct config *config;  /* one reference: settings, databases, users, peers */
	struct userlist *users; /* NULL: the secrets in force stay */
	struct rules *rules;    /* one reference; NULL: auth_type asks for none */
	struct tls_setup *tls;  /* NULL: the one in force stays */
	struct findings findings;
	bool has_broken_tls;    /* nothing but TLS is why the snapshot is refused */
	struct mark users_mark; /* of the auth_file whose secrets are in force */
};

enum strictness {
	STRICT,  /* a reload: what cannot be read refuses the snapshot */
	AT_START /* what other poolers start without is told, and the start goes on */
};

/* Before anything else; a configuration without a snapshot may be freed as well. */
void configuration_init(struct configuration *c);
void configuration_done(struct configuration *c);

/* Loads the file and all that it names.  running is the snapshot in force or NULL; what
 * has not changed since then is taken over from it and not read again.  Touches nothing
 * but c, so that a helper thread may do it.  -1: the findings say why. */
int configuration_load(struct configuration *c, const char *path,
    const struct configuration *running, enum strictness strictness);
/* How a start that was refused ends: "cannot load config file", "TLS setup failed". */
const char *configuration_failure(const struct configuration *c);
/* Everything but the ini file: c->config is there already. */
int configuration_load_named(struct configuration *c,
    const struct configuration *running, enum strictness strictness);
/* The snapshot in force with its certificates loaded again, if their files have
 * changed:
 * 1.  0: they have not; -1: the findings say why not, and the files are not looked at
 * again before they change once more. */
int configuration_load_tls(
    struct configuration *c, const struct configuration *running);
/* The snapshot in force with one setting changed.  -1 and err: refused.  1 and err: it
 * is taken, with a remark. */
int configuration_set(struct configuration *c, const struct configuration *running,
    const char *name, const char *value, struct err *err);
/* Takes over what a complete snapshot has; next is empty afterwards.  Cannot fail. */
void configuration_take(struct configuration *c, struct configuration *next);

#endif
