/*
 * The content of the ini file: an immutable snapshot of settings, databases, users and
 * peers, in one arena, reference-counted.  Loading changes nothing outside the new
 * snapshot; a faulty file gives an error that says the file, the line, what is wrong
 * and what to do.  The formats are described in configuration.md.
 */
#ifndef CONF_CONFIG_H
#define CONF_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu_time.h"
#include "base/err.h"
#include "base/file_id.h"
#include "base/mem.h"
#include "conf/settings.h"

/* One host of a [databases] entry with several. */
struct host_config {
	const char *host; /* NULL: the Unix socket in unix_socket_dir */
	int port;
	int weight; /* >= 1 */
};

/* One parameter that the pooler sends in the startup packet to servers. */
struct server_param {
	const char *name, *value;
};

/* One [databases] entry.  Strings are NULL when they are not given. */
struct database_config {
	const char *name;
	/* place plus 1 of the entry of this name in config->compared, if its text is
	 * the same; otherwise 0 */
	size_t twin;
	/* the text of the entry, for templates and for comparison */
	const char *connstr;
	const char *dbname; /* never NULL; the default is name */
	const char *host;   /* as it is written, also a list with commas */
	struct host_config *hosts;
	size_t host_count; /* >= 1 */
	const char *ports; /* as they are written */
	int port;          /* port of the first host */
	const char *user;  /* the user whom all clients use on the server */
	const char *password;
	int load_balance_hosts; /* an enum load_balance */
	const char *weight;     /* as it is written, for SHOW; NULL when not given */
	const char *connect_query;
	const char *client_encoding, *datestyle, *timezone, *application_name;
	int sslnegotiation;          /* an enum tls_start */
	const char *options;         /* the startup parameter `options` for servers */
	struct server_param *params; /* from param.NAME=, sorted by name */
	size_t param_count;
	struct level own; /* the settings that this entry has */
	const char *file; /* the file that has the entry; NULL: it comes from no file */
	unsigned line;
};

/* One [users] entry. */
struct user_config {
	const char *name;
	struct level own; /* the settings that this entry has */
	const char *file;
	unsigned line;
};

/* One [peers] entry. */
struct peer_config {
	int id;
	const char *host;
	int port;
	int pool_size; /* -1: inherited */
	unsigned line;
};

/* A line of a file; line 0 stands for the whole file. */
struct config_place {
	const char *file; /* NULL: no place */
	unsigned line;
};

/* A file of the configuration, with its identity when it was read. */
struct config_file {
	const char *path;
	struct file_id id;
	struct config_file *next;
};

struct config {
	struct settings settings;
	struct database_config *databases; /* sorted by name; without the template */
	size_t database_count;
	/* The databases of the snapshot that was in force when this one was loaded.
	 * Only the pointer may be used, for a comparison. */
	const struct database_config *compared;
	/* the `*` entry, which is not yet parsed: only name, connstr, file and line are
	 * set; NULL: none */
	struct database_config *template;
	struct user_config *users; /* sorted by name */
	size_t user_count;
	struct peer_config *peers; /* sorted by id */
	size_t peer_count;
	/* bits of the settings that some entry has */
	uint64_t own_given[(SETTING_COUNT + 63) / 64];
	/* for each row, the line of [pgbouncer] whose value is in force */
	struct config_place *places;
	const char *file; /* the ini file's path */

	struct config_file *files; /* the ini file and the files it includes */

	/* owned */
	struct arena *arena;
	/* only after config_with: the snapshot whose arena has the databases, users and
	 * peers, with one reference; otherwise NULL */
	struct config *base;
	atomic_uint refs; /* must be the last member; threads share snapshots */
};

/* Is called for each report that does not stop the load: unknown but harmless names,
 * settings without effect that differ from their default, and so on.  where is
 * "file:line" or "". */
typedef void config_warn_fn(void *ctx, const char *where, const char *text);

/*
 * Loads the file.  running is the snapshot in force, or NULL at start: restart-only
 * settings keep its values, and settings without a default keep what SET gave them
 * unless the file sets them.  Returns a snapshot with one reference, or NULL and err,
 * whose text is the log line of configuration.md 1 followed by what to do.  throttle:
 * of the thread, see base/cpu_time.h; may be NULL.
 */
struct config *config_load(const char *path, const struct config *running,
    struct throttle *throttle, config_warn_fn *warn, void *warn_ctx, struct err *err);

/* Loads the file for --check-config: goes on after an error, reports each error through
 * problem() and returns their number.  *out gets what could be read, with one
 * reference; never NULL. */
unsigned config_check(const char *path, config_warn_fn *problem, config_warn_fn *warn,
    void *ctx, struct config **out);

/* Makes a configuration without a file: default settings and this one database.  NULL
 * and err: the database's text is wrong. */
struct config *config_of_database(const char *name, const char *text, struct err *err);

/* Returns a copy of old with one setting changed, for the console's SET.  Restart-only
 * settings silently keep their value.  NULL and err for unknown names and bad values.
 * Otherwise err is empty, or says which value is used in place of a meaningless one. */
struct config *config_with(
    const struct config *old, const char *name, const char *value, struct err *err);

/* Whether loading the file again would certainly give the same.  False after SET, and
 * when any file may have changed. */
bool config_is_current(const struct config *c);

struct config *config_ref(struct config *c);
/* Drops one reference and sets the caller's pointer to NULL. */
void config_unref(struct config **c);

/* The line of [pgbouncer] that gives a setting its value. */
const struct config_place *config_place(
    const struct config *c, const struct setting *row);

/* The line of the setting that an error is about: the error's text names the setting,
 * or a TLS file that is the value of one.  NULL: no such line. */
const struct config_place *config_place_blamed(
    const struct config *c, const char *text);

/* Whether any entry of [databases] or [users] has this setting. */
bool config_has_own(const struct config *c, enum setting_index i);

/* Whether this entry of c has the same text as the entry of that name in old. */
static inline bool config_is_unchanged(const struct config *c,
    const struct database_config *entry, const struct config *old)
{
	return entry->twin && old && c->compared == old->databases;
}

/* NULL: there is no such entry. */
const struct database_config *config_database(const struct config *c, const char *name);
const struct user_config *config_user(const struct config *c, const char *name);

#endif
