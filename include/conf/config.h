/*
 * What was written in the ini file: one immutable snapshot of settings, databases,
 * users and peers, in one arena, counted by reference.  Loading touches nothing; a
 * broken file gives an error that says file, line, what and what to do.
 */
#ifndef CONF_CONFIG_H
#define CONF_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mark.h"
#include "base/mem.h"
#include "conf/settings.h"

/* One member of a host list. */
struct host_config {
	const char *host; /* NULL: unix socket in unix_socket_dir */
	int port;
	int weight; /* >= 1 */
};

/* One parameter that servers get in their startup packet. */
struct server_param {
	const char *name, *value;
};

/* One [databases] entry.  Strings are NULL when not given. */
struct database_config {
	const char *name;
	const char *connstr; /* the text of the entry, for templates and comparison */
	const char *dbname;  /* never NULL: defaults to name */
	const char *host;    /* as written, comma list and all */
	struct host_config *hosts;
	size_t host_count; /* >= 1 */
	const char *ports; /* as written */
	int port;          /* of the first host */
	const char *user;  /* forced user */
	const char *password;
	int load_balance_hosts; /* enum load_balance */
	const char *weight;     /* as written, for SHOW; NULL when not given */
	const char *connect_query;
	const char *client_encoding, *datestyle, *timezone, *application_name;
	int sslnegotiation;  /* enum tls_start */
	const char *options; /* sent as startup parameter `options` to the server */
	struct server_param *params; /* param.NAME=, sorted by name */
	size_t param_count;
	struct level own; /* the settings it has for itself */
	const char *file; /* the file of its last line; NULL: it comes from no file */
	unsigned line;
	bool is_unchanged; /* its text is that of the entry in config->compared */
};

/* One [users] entry. */
struct user_config {
	const char *name;
	struct level own; /* the settings it has for itself */
	const char *file;
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

/* A line of a file; line 0: the file as a whole. */
struct config_place {
	const char *file; /* NULL: nowhere */
	unsigned line;
};

/* A file that the configuration was read from, with its mark at that time. */
struct config_file {
	const char *path;
	struct mark mark;
	struct config_file *next;
};

struct config {
	struct settings settings;
	struct database_config *databases; /* sorted by name; without the template */
	size_t database_count;
	/* the databases that were in force when this was loaded; for comparison with a
	 * pointer only */
	const struct database_config *compared;
	struct database_config *template; /* the `*` entry, not yet parsed: only name,
					     connstr, file and line are set; or NULL */
	struct user_config *users;        /* sorted by name */
	size_t user_count;
	struct peer_config *peers; /* sorted by id */
	size_t peer_count;
	uint64_t own_given[(SETTING_COUNT + 63) / 64]; /* settings that some entry has
							  for itself */
	struct config_place *places; /* by row: the lines of [pgbouncer] whose values
					are in force */
	const char *file;            /* the ini file's path */

	struct config_file *files; /* the ini file and what it includes */

	/* owned */
	struct arena *arena;
	struct config *base; /* after config_with: whose arena holds databases, users
				and peers, one reference; otherwise NULL */
	atomic_uint refs;    /* last; snapshots are shared by threads */
};

/* Called for each remark that does not stop the load: unknown but harmless names,
 * settings without effect that have another value than the default, and so on. where is
 * "file:line" or "". */
typedef void config_warn_fn(void *ctx, const char *where, const char *text);

/*
 * Load path.  running is the snapshot in force or NULL at start: restart-only settings
 * keep its values, settings without default keep what SET gave them unless the file
 * sets them.  Returns a snapshot with one reference, or NULL and err, whose text is the
 * log line of configuration.md 1 followed by what to do.
 */
struct config *config_load(const char *path, const struct config *running,
    config_warn_fn *warn, void *warn_ctx, struct err *err);

/* The same for --check-config: goes on after an error, reports each through problem()
 * and returns their number. *out is what could be read, with one reference; never NULL.
 */
unsigned config_check(const char *path, config_warn_fn *problem, config_warn_fn *warn,
    void *ctx, struct config **out);

/* A configuration without a file: all settings have their defaults, and there is this
 * one database.  NULL and err: its text is wrong. */
struct config *config_of_database(const char *name, const char *text, struct err *err);

/* A copy of old with one setting changed (the console's SET).  Restart-only settings
 * are silently unchanged.  NULL and err for unknown names and bad values; otherwise err
 * is empty, or says what counts instead of a value that means nothing. */
struct config *config_with(
    const struct config *old, const char *name, const char *value, struct err *err);

/* Would loading the file again give the same?  Not after SET, and only if all files are
 * certain to be what they were. */
bool config_is_current(const struct config *c);

struct config *config_ref(struct config *c);
/* Drops one reference and nulls the caller's pointer. */
void config_unref(struct config **c);

/* Where [pgbouncer] has the value of a setting. */
const struct config_place *config_place(
    const struct config *c, const struct setting *row);

/* ... and of the one that an error is about: it names the setting, or a file of TLS as
 * the setting does.  NULL: none that is written there. */
const struct config_place *config_place_blamed(
    const struct config *c, const char *text);

/* Does any entry of [databases] or [users] have this setting for itself? */
bool config_has_own(const struct config *c, enum setting_index i);

/* Has this entry of c the same text as that of its name in old? */
static inline bool config_is_unchanged(const struct config *c,
    const struct database_config *entry, const struct config *old)
{
	return entry->is_unchanged && old && c->compared == old->databases;
}

/* NULL when absent. */
const struct database_config *config_database(const struct config *c, const char *name);
const struct user_config *config_user(const struct config *c, const char *name);

#endif
