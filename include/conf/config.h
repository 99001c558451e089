/*
 * What was written in the ini file: one immutable snapshot of settings, databases,
 * users and peers, in one arena, counted by reference.  Loading touches nothing; a
 * broken file gives an error that says file, line, what and what to do.
 */
#ifndef CONF_CONFIG_H
#define CONF_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"
#include "conf/settings.h"

/* One member of a host list. */
struct host_config {
	const char *host; /* NULL: unix socket in unix_socket_dir */
	int weight;       /* >= 1 */
};

/* One [databases] entry.  Strings are NULL when not given; -1 = inherit unless said. */
struct database_config {
	const char *name;
	const char *connstr; /* the text of the entry, for templates and comparison */
	const char *dbname;  /* never NULL: defaults to name */
	const char *host;    /* as written, comma list and all */
	struct host_config *hosts;
	size_t host_count; /* >= 1 */
	int port;
	const char *user; /* forced user */
	const char *password;
	const char *auth_user, *auth_query, *auth_dbname;
	int pool_size, min_pool_size, reserve_pool_size;
	int max_db_connections, max_db_client_connections; /* > 0 overrides */
	uint64_t server_lifetime;                          /* us; 0 = inherit */
	int64_t query_wait_timeout;    /* us; -1 = unset, 0 = none */
	int64_t auth_query_cache_time; /* us; -1 = unset, 0 = none */
	int pool_mode;                 /* -1 = inherit */
	int session_state;             /* -1 = inherit */
	int load_balance_hosts;        /* enum load_balance */
	const char *weight;            /* as written, for SHOW; NULL when not given */
	const char *connect_query;
	const char *client_encoding, *datestyle, *timezone, *application_name;
	int sslmode, channel_binding;                        /* -1 = inherit */
	int sslnegotiation;                                  /* enum tls_start */
	const char *sslrootcert, *sslcrl, *sslcert, *sslkey; /* NULL = inherit */
	const char *options; /* sent as startup parameter `options` to the server */
	unsigned line;
};

/* One [users] entry; -1 (or 0 for the > 0 ones) = inherit. */
struct user_config {
	const char *name;
	int pool_mode, session_state, pool_size, reserve_pool_size;
	int max_user_connections, max_user_client_connections; /* > 0 */
	uint64_t query_timeout, idle_transaction_timeout,
	    transaction_timeout;      /* us > 0 */
	int64_t query_wait_timeout;   /* us; -1 = unset, 0 = none */
	uint64_t client_idle_timeout; /* us > 0 */
	unsigned line;
};

/* One [peers] entry. */
struct peer_config {
	int id;
	const char *host;
	int port;
	int pool_size; /* -1 = inherit */
	unsigned line;
};

struct config {
	struct settings settings;
	struct database_config *databases; /* sorted by name; without the template */
	size_t database_count;
	struct database_config *template; /* the `*` entry, not yet parsed: only name,
					     connstr and line are set; or NULL */
	struct user_config *users;        /* sorted by name */
	size_t user_count;
	struct peer_config *peers; /* sorted by id */
	size_t peer_count;
	const char *file; /* the ini file's path */

	/* owned */
	struct arena *arena;
	struct config *base; /* after config_with: whose arena holds databases, users
				and peers, one reference; otherwise NULL */
	unsigned refs;
};

/* Called for each thing that is odd but does not stop the load (unknown but harmless,
 * ineffective setting with a non-default value, ...).  where is "file:line" or "". */
typedef void config_warn_fn(void *ctx, const char *where, const char *text);

/*
 * Load path.  running is the snapshot in force or NULL at start: restart-only settings
 * keep its values, settings without default keep what SET gave them unless the file
 * sets them.  Returns a snapshot with one reference, or NULL and err, whose text is the
 * log line of settings.md 1 followed by what to do.
 */
struct config *config_load(const char *path, const struct config *running,
    config_warn_fn *warn, void *warn_ctx, struct err *err);

/* The same, but goes on after an error and reports each through problem(); returns
 * their number.  For --check-config.  Checks the auxiliary files' existence not. */
unsigned config_check(
    const char *path, config_warn_fn *problem, config_warn_fn *warn, void *ctx);

/* A copy of old with one setting changed (the console's SET).  Restart-only settings
 * are silently unchanged.  NULL and err for unknown names and bad values. */
struct config *config_with(
    const struct config *old, const char *name, const char *value, struct err *err);

struct config *config_ref(struct config *c);
/* Drops one reference and nulls the caller's pointer. */
void config_unref(struct config **c);

/* NULL when absent. */
const struct database_config *config_database(const struct config *c, const char *name);
const struct user_config *config_user(const struct config *c, const char *name);

/* Parse a connection string as database entry `name` into arena memory.  -1 and err
 * with the text of settings.md 5.1. */
int database_config_parse(struct database_config *db, const char *name,
    const char *connstr, struct arena *arena, struct err *err);

/* Do two entries differ in a key that makes existing server connections obsolete
 * (dbname, host, port, user, connect_query, auth_dbname, auth_query,
 * load_balance_hosts, weight, options)? */
bool database_config_is_obsoleting(
    const struct database_config *a, const struct database_config *b);

#endif
