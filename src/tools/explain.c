/*
 * Runs the check, and prints the overview and the advice for the loaded configuration:
 * common mistakes that are no errors, such as values that have no effect together,
 * missing limits, and what figures of the running pooler say that a setting would save.
 * Advice about secrets and logins is in advice_access.c.
 */
#include "tools/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "tools/advice_access.h"
#include "tools/check.h"
#include "tools/overview.h"
#include "tools/pg_client.h"

/* ---- advice: what the running pooler counts ---- */

/* From so many repeated Parses on, if these are one of so many queries, it is worth a
 * sentence. */
enum { REPEATED_LEAST = 100, QUERIES_FOR_ONE = 5 };

enum { CONNECT_SECONDS = 2, NAME_MOST = 64 };

enum column { DATABASE, QUERIES, REPEATED, SAVED, COLUMNS };

struct live {
	size_t at[COLUMNS]; /* their places in a row */
	/* borrowed */
	struct advice *a;
};

static int take_columns(void *ctx, const struct pg_client_row *names)
{
	static const char *const wanted[] = {
	    [DATABASE] = "database",
	    [QUERIES] = "total_query_count",
	    [REPEATED] = "total_repeated_parse_count",
	    [SAVED] = "total_saved_parse_count",
	};
	struct live *l = ctx;

	for (size_t i = 0; i < COLUMNS; i++) {
		l->at[i] = names->count;
		for (size_t j = 0; j < names->count; j++)
			if (strcmp((const char *)names->values[j], wanted[i]) == 0)
				l->at[i] = j;
	}
	return 0;
}

/* Copies a value.  An empty text: there is none, or none that can be printed. */
static void copy_value(const struct live *l, const struct pg_client_row *row,
    enum column column, char text[NAME_MOST])
{
	size_t at = l->at[column];

	text[0] = '\0';
	if (at >= row->count || !row->values[at] || row->lens[at] >= NAME_MOST)
		return;
	for (size_t i = 0; i < row->lens[at]; i++)
		if (!text_is_printable(row->values[at][i]))
			return;
	memcpy(text, row->values[at], row->lens[at]);
	text[row->lens[at]] = '\0';
}

static uint64_t number_of(
    const struct live *l, const struct pg_client_row *row, enum column column)
{
	char text[NAME_MOST];

	copy_value(l, row, column, text);
	return strtoull(text, NULL, 10);
}

static int take_row(void *ctx, const struct pg_client_row *row)
{
	struct live *l = ctx;
	const struct sizing_input *input = l->a->o->input;
	uint64_t queries = number_of(l, row, QUERIES);
	uint64_t again = number_of(l, row, REPEATED), saved = number_of(l, row, SAVED);
	const struct database_config *db = input->template;
	char name[NAME_MOST];
	struct scope scope;

	copy_value(l, row, DATABASE, name);
	for (size_t i = 0; i < input->config->database_count; i++)
		if (strcmp(input->config->databases[i].name, name) == 0)
			db = &input->config->databases[i];
	if (!db || !name[0] || strcmp(name, "pgbouncer") == 0 || saved ||
	    again < REPEATED_LEAST || again < queries / QUERIES_FOR_ONE)
		return 0;
	scope =
	    (struct scope){.settings = &input->config->settings, .database = &db->own};
	if (scope_prepare_unnamed(scope) > 0 ||
	    scope_max_prepared_statements(scope) == 0 ||
	    scope_pool_mode(scope) == POOL_MODE_SESSION)
		return 0;
	advice_give_at(l->a,
	    db == input->template ? input->config->template->file : db->file,
	    db == input->template ? input->config->template->line : db->line,
	    "database %s: %" PRIu64 " of %" PRIu64
	    " queries parsed an unnamed statement whose text the same client had sent "
	    "just before; with prepare_unnamed = 5 PostgreSQL parses such a text once",
	    name, again, queries);
	return 0;
}

static int take_error(
    void *ctx, const char *user, const struct error_fields *fields, struct err *err)
{
	(void)ctx;
	(void)user;
	return err_set(err, "%s", fields->message);
}

static const struct pg_client_ops live_ops = {
    .row = take_row, .columns = take_columns, .error = take_error};

/* Asks the console over the Unix socket of the configuration, where the pooler's own
 * account needs no password.  Nothing is said where no such socket is. */
static void advice_live_look(struct advice *a)
{
	const struct settings *s = &a->o->input->config->settings;
	struct live l = {.a = a};
	enum pg_client_answer answer = PG_CLIENT_DONE;
	struct buf path, entry;
	struct err err = {.text = ""};

	buf_init(&path, 0);
	buf_init(&entry, 0);
	buf_printf(&path, "%s/.s.PGSQL.%d", s->unix_socket_dir, s->listen_port);
	buf_printf(&entry,
	    "host='%s' port=%d dbname=pgbouncer user=pgbouncer "
	    "server_connect_timeout=%d",
	    s->unix_socket_dir, s->listen_port, CONNECT_SECONDS);
	/* a folder with a quote is not worth more */
	if (s->unix_socket_dir[0] == '/' && !strchr(s->unix_socket_dir, '\'') &&
	    access(buf_text(&path), F_OK) == 0)
		answer = pg_client_query(
		    buf_text(&entry), 0, &live_ops, &l, "SHOW STATS", &err);
	if (answer == PG_CLIENT_PASSWORD_WANTED)
		err_set(&err, "only the pooler's own account needs no password");
	if (answer != PG_CLIENT_DONE)
		text_put_wrapped(a->out, "",
		    "The pooler at %s could not be asked for what it counts: %s",
		    buf_text(&path), err.text);
	buf_done(&entry);
	buf_done(&path);
}

/* ---- advice: what the configuration says ---- */

/* In a pool of up to this size, idle transactions can easily occupy all servers. */
enum { SMALL_POOL = 50 };

/* PostgreSQL's defaults: max_connections and superuser_reserved_connections. */
enum { USUAL_CONNECTIONS = 100, USUAL_RESERVED = 3 };

/* Whose values are examined: those of the process, of one database or of one user. */
struct subject {
	struct scope scope;
	const struct level *own; /* its entry; NULL: the process */
	const char *kind, *name;
	const char *file; /* where the entry is */
	unsigned line;
};

/* Is the value written in the subject's own entry?  Advice about inherited values is
 * given where they are written. */
static bool is_said_by(const struct subject *at, enum setting_index i)
{
	return !at->own || level_has(at->own, i);
}

static void __attribute__((format(printf, 4, 5))) give(struct advice *a,
    const struct subject *at, enum setting_index i, const char *fmt, ...)
{
	struct err text;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text.text, sizeof(text.text), fmt, ap);
	va_end(ap);
	if (at->own)
		advice_give_at(
		    a, at->file, at->line, "%s %s: %s", at->kind, at->name, text.text);
	else
		advice_give(a, setting_at((size_t)i), "%s", text.text);
}

/* ---- pools ---- */

static void look_at_sizes(struct advice *a, const struct subject *at)
{
	int size = scope_default_pool_size(at->scope);
	int least = scope_min_pool_size(at->scope);
	int limit = scope_max_db_connections(at->scope);
	bool says_size = is_said_by(at, SETTING_INDEX_default_pool_size);

	if (size <= 0 && least > 0 &&
	    (says_size || is_said_by(at, SETTING_INDEX_min_pool_size)))
		give(a, at, SETTING_INDEX_min_pool_size,
		    "min_pool_size has no effect where pool_size has no limit");
	if (size > 0 && least > size &&
	    (says_size || is_said_by(at, SETTING_INDEX_min_pool_size)))
		give(a, at, SETTING_INDEX_min_pool_size,
		    "min_pool_size is %d, but pool_size lets a pool have only %d",
		    least, size);
	if (limit > 0 && (size <= 0 || limit < size) &&
	    is_said_by(at, SETTING_INDEX_max_db_connections))
		give(a, at, SETTING_INDEX_max_db_connections,
		    "max_db_connections is %d, below pool_size: the users of a "
		    "database share %d connections, and one user may get all of them",
		    limit, limit);
	if (scope_reserve_pool_size(at->scope) > 0 &&
	    !scope_reserve_pool_timeout(at->scope) &&
	    (is_said_by(at, SETTING_INDEX_reserve_pool_size) ||
		is_said_by(at, SETTING_INDEX_reserve_pool_timeout)))
		give(a, at, SETTING_INDEX_reserve_pool_size,
		    "the reserve is never used, because reserve_pool_timeout is 0");
}

/* ---- modes ---- */

/* Is any pool shared by clients between their transactions? */
static bool has_shared_pools(const struct config *c)
{
	if (c->settings.global.pool_mode != POOL_MODE_SESSION)
		return true;
	for (size_t i = 0; i < c->database_count; i++)
		if (c->databases[i].own.pool_mode != POOL_MODE_SESSION)
			return true;
	for (size_t i = 0; i < c->user_count; i++)
		if (c->users[i].own.pool_mode != POOL_MODE_SESSION)
			return true;
	return false;
}

/* Does the entry put all its clients into session mode?  A user's mode has precedence
 * over that of the database. */
static bool is_in_session_mode(const struct advice *a, const struct subject *at)
{
	const struct config *c = a->o->input->config;

	if (!at->own || !level_has(at->own, SETTING_INDEX_pool_mode))
		return !has_shared_pools(c);
	if (scope_pool_mode(at->scope) != POOL_MODE_SESSION)
		return false;
	for (size_t i = 0; !at->scope.user && i < c->user_count; i++)
		if (c->users[i].own.pool_mode != POOL_MODE_SESSION)
			return false;
	return true;
}

static void look_at_session_mode(struct advice *a, const struct subject *at)
{
	const struct {
		enum setting_index index;
		bool is_on;
	} rows[] = {
	    {SETTING_INDEX_max_prepared_statements,
		scope_max_prepared_statements(at->scope) > 0},
	    {SETTING_INDEX_track_sql_prepare, scope_track_sql_prepare(at->scope)},
	    {SETTING_INDEX_session_state,
		scope_session_state(at->scope) != SESSION_STATE_FORWARD},
	    {SETTING_INDEX_server_reset_query_always,
		scope_server_reset_query_always(at->scope)},
	};

	if (!is_in_session_mode(a, at))
		return;
	const struct level *own =
	    at->own ? at->own : &a->o->input->config->settings.global;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].is_on && level_has(own, rows[i].index))
			give(a, at, rows[i].index,
			    "%s has no effect in session mode: it is for pool_mode "
			    "transaction and statement",
			    setting_name(setting_at((size_t)rows[i].index)));
}

static void look_at_shared_mode(struct advice *a, const struct subject *at)
{
	int size = scope_default_pool_size(at->scope);

	if (scope_pool_mode(at->scope) == POOL_MODE_SESSION)
		return;
	if (scope_track_sql_prepare(at->scope) &&
	    scope_max_prepared_statements(at->scope) == 0 &&
	    (is_said_by(at, SETTING_INDEX_track_sql_prepare) ||
		is_said_by(at, SETTING_INDEX_max_prepared_statements)))
		give(a, at, SETTING_INDEX_track_sql_prepare,
		    "track_sql_prepare has no effect while max_prepared_statements is "
		    "0");
	if (scope_pool_mode(at->scope) == POOL_MODE_TRANSACTION &&
	    !scope_idle_transaction_timeout(at->scope) && size > 0 &&
	    size <= SMALL_POOL &&
	    (is_said_by(at, SETTING_INDEX_pool_mode) ||
		is_said_by(at, SETTING_INDEX_idle_transaction_timeout)))
		give(a, at, SETTING_INDEX_idle_transaction_timeout,
		    "idle_transaction_timeout is off: %d clients that stay idle in a "
		    "transaction hold a whole pool, and all others wait",
		    size);
}

static void look_at_times(struct advice *a, const struct subject *at)
{
	if (!scope_server_lifetime(at->scope) &&
	    is_said_by(at, SETTING_INDEX_server_lifetime))
		give(a, at, SETTING_INDEX_server_lifetime,
		    "server_lifetime is 0: each server connection is used once, and "
		    "then closed; a large number makes it last");
	if (!scope_query_wait_timeout(at->scope) &&
	    is_said_by(at, SETTING_INDEX_query_wait_timeout))
		give(a, at, SETTING_INDEX_query_wait_timeout,
		    "query_wait_timeout is 0: clients wait for a server connection "
		    "without end");
}

static void look_at(struct advice *a, const struct subject *at)
{
	look_at_sizes(a, at);
	look_at_session_mode(a, at);
	look_at_shared_mode(a, at);
	look_at_times(a, at);
}

static void look_at_all(struct advice *a)
{
	const struct config *c = a->o->input->config;
	const struct database_config *template = a->o->input->template;
	struct subject at = {.scope.settings = &c->settings};

	look_at(a, &at);
	at.kind = "database";
	for (size_t i = 0; i < c->database_count + !!template; i++) {
		bool is_template = i == c->database_count;
		const struct database_config *db =
		    is_template ? template : &c->databases[i];

		at.scope.database = at.own = &db->own;
		at.name = db->name;
		at.file = is_template ? c->template->file : db->file;
		at.line = is_template ? c->template->line : db->line;
		look_at(a, &at);
	}
	at.scope.database = NULL;
	at.kind = "user";
	for (size_t i = 0; i < c->user_count; i++) {
		at.scope.user = at.own = &c->users[i].own;
		at.name = c->users[i].name;
		at.file = c->users[i].file;
		at.line = c->users[i].line;
		look_at(a, &at);
	}
}

/* ---- connections and descriptors ---- */

static void look_at_limitless(struct advice *a)
{
	const struct sizing *s = a->o->sizing;
	const char *why = "any number of users may come";
	size_t count = 0;

	for (size_t i = 0; i < s->host_count; i++)
		count += s->hosts[i].servers.all >= SIZING_NO_LIMIT;
	if (count == 0)
		return;
	if (s->servers.named >= SIZING_NO_LIMIT)
		why = "pool_size is 0";
	else if (a->o->input->template)
		why = "any number of databases may be made from \"*\"";
	advice_give(a, setting_find("max_server_connections"),
	    "nothing limits the server connections at %zu of %zu hosts, because %s: "
	    "max_server_connections does it for the process, max_db_connections for a "
	    "database",
	    count, s->host_count, why);
}

static void look_at_hosts(struct advice *a)
{
	const struct sizing *s = a->o->sizing;

	for (size_t i = 0; i < s->host_count; i++) {
		int64_t n = s->hosts[i].servers.all;

		if (n >= SIZING_NO_LIMIT || n <= USUAL_CONNECTIONS - USUAL_RESERVED)
			continue;
		advice_give(a, NULL,
		    "%s:%d may get %" PRId64
		    " connections: max_connections must be higher there, and its "
		    "default is %d, of which %d are reserved",
		    s->hosts[i].host, s->hosts[i].port, n, USUAL_CONNECTIONS,
		    USUAL_RESERVED);
	}
}

static void look_at_descriptors(struct advice *a)
{
	bool is_limited;
	int64_t needed = sizing_descriptors(a->o->sizing, &is_limited);

	if (needed <= a->o->descriptor_limit)
		return;
	advice_give(a, setting_find("max_client_conn"),
	    "%" PRId64 " descriptors may be needed%s, and the limit is %lld here (it "
	    "may be raised to %lld): raise it with ulimit -n or LimitNOFILE",
	    needed, is_limited ? "" : " without those for servers",
	    a->o->descriptor_limit, a->o->descriptor_limit_hard);
}

/* ---- --explain-config ---- */

static bool is_there(const char *file)
{
	struct stat st;

	return stat(file, &st) == 0 && !S_ISDIR(st.st_mode) && access(file, R_OK) == 0;
}

unsigned explain_config(FILE *out, const struct options *options)
{
	struct loaded_config loaded;
	unsigned problems;
	struct sizing sizing;

	loaded_config_init(&loaded);
	problems = check_loaded(out, options, &loaded);
	struct sizing_input input;
	sizing_input_init(&input, &loaded);
	if (problems > 0 && is_there(options->file))
		text_put_wrapped(out, "",
		    "The problems above have to be solved first. What follows is about "
		    "the parts that could be read.");
	if (is_there(options->file)) {
		struct overview o = {.input = &input, .sizing = &sizing};
		sizing_init(&sizing, &input);
		struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};
		getrlimit(RLIMIT_NOFILE, &limit);
		o.descriptor_limit = (long long)limit.rlim_cur;
		o.descriptor_limit_hard = (long long)limit.rlim_max;
		overview_put(out, &o);
		/* each piece with the place that it is about, and a title before the
		 * first */
		struct advice a = {.out = out, .o = &o};
		look_at_all(&a);
		look_at_limitless(&a);
		look_at_hosts(&a);
		look_at_descriptors(&a);
		advice_access_look(&a);
		advice_live_look(&a);
		sizing_done(&sizing);
	}
	sizing_input_done(&input);
	loaded_config_done(&loaded);
	return problems;
}
