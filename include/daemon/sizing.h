/*
 * How many server connections a configuration can open, at each host and in all.  It is
 * arithmetic on what was written: nobody is asked, and nothing is opened.
 */
#ifndef DAEMON_SIZING_H
#define DAEMON_SIZING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/userlist.h"
#include "conf/config.h"
#include "conf/scope.h"

/* So many are as good as no limit; no number is larger. */
#define SIZING_NO_LIMIT (INT64_C(1) << 40)

struct sizing_input {
	/* borrowed */
	const struct config *config;
	const struct userlist *users;           /* NULL: there is none */
	const struct database_config *template; /* the `*` entry, parsed; NULL: none */
	unsigned workers;                       /* threads that serve clients */
	bool has_judge; /* LDAP or PAM says who a user is: anybody may come */
};

/* The greatest number of connections: for the databases and users that are named in the
 * configuration and the user list; and for all that may come. */
struct sizing_most {
	int64_t named, all;
};

struct sizing_host {
	const char *host; /* borrowed; a socket's folder where none is written */
	int port;
	size_t database_count; /* entries that name it */
	struct sizing_most servers;
};

struct sizing {
	struct sizing_host *hosts; /* owned; in the order of the databases */
	size_t host_count;
	struct sizing_most servers; /* at all hosts together */
	/* descriptors: for clients, for cancel requests to peers, for all else but
	 * servers; and the sum of all with servers.all */
	int64_t clients, peers, others, descriptors;
};

void sizing_init(struct sizing *s, const struct sizing_input *input);
void sizing_done(struct sizing *s);

/* The most connections of one pool, with its reserve. */
int64_t sizing_pool(struct scope scope);
/* Whom clients of this database may log in as: so many of the user list, and others
 * that auth_query, LDAP or PAM find. */
size_t sizing_listed_users(
    const struct sizing_input *input, const struct database_config *db);
bool sizing_has_other_users(
    const struct sizing_input *input, const struct database_config *db);

#endif
