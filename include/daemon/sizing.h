/*
 * How many server connections a configuration can open at most, at each host and in
 * all: an upper bound, which is exact for most configurations (sizing.c).  It is
 * computed from the configuration alone: no server is asked, and no connection opened.
 */
#ifndef DAEMON_SIZING_H
#define DAEMON_SIZING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/userlist.h"
#include "conf/config.h"
#include "conf/scope.h"
#include "daemon/loaded_config.h"

/* This number stands for "no limit"; larger results are cut to it. */
#define SIZING_NO_LIMIT (INT64_C(1) << 40)

struct sizing_input {
	/* borrowed */
	const struct config *config;
	const struct userlist *users;           /* NULL: there is none */
	const struct database_config *template; /* the `*` entry, parsed; NULL: none */
	unsigned workers;                       /* threads that serve clients */
	bool has_external_auth; /* LDAP, PAM, Kerberos or OAuth checks users: any name
				   may log in */
	bool has_gss;           /* there is a rule with the method gss */
	bool needs_no_hosts;    /* only the sums are needed */
	struct arena *arena;    /* owned: what parsed_template refers to */
	struct database_config parsed_template;
};

/* loaded must outlast it; sizing_input_done wipes its copy of the template. */
void sizing_input_init(struct sizing_input *input, const struct loaded_config *loaded);
void sizing_input_done(struct sizing_input *input);

/* The bound: for the databases and users that the
 * configuration and the user list name; and for all databases and users that are
 * possible. */
struct sizing_most {
	int64_t named, all;
};

struct sizing_host {
	const char
	    *host; /* borrowed; the folder of the unix socket if no host is given */
	int port;
	size_t database_count; /* entries that name it */
	struct sizing_most servers;
};

struct sizing {
	struct sizing_host *hosts; /* owned; in the order of the databases */
	size_t host_count;
	struct sizing_most servers; /* at all hosts together */
	/* Descriptors: for clients, for cancel requests to peers, for everything else
	 * except servers; and the sum of these and of servers.all. */
	int64_t clients, peers, others, descriptors;
};

void sizing_init(struct sizing *s, const struct sizing_input *input);
void sizing_done(struct sizing *s);
/* How many descriptors may be needed; without those of servers (*has_servers false) if
 * nothing limits these. */
int64_t sizing_descriptors(const struct sizing *s, bool *has_servers);

/* The greatest number of connections of one pool, with its reserve. */
int64_t sizing_pool(struct scope scope);
/* Which users may log in to this database: how many of the user list, and whether
 * others can that auth_query, LDAP or PAM find. */
size_t sizing_listed_users(
    const struct sizing_input *input, const struct database_config *db);
bool sizing_has_other_users(
    const struct sizing_input *input, const struct database_config *db);

#endif
