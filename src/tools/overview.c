/*
 * Prints the overview, for which sizing.c computes the numbers, and pieces of advice as
 * the items of a list.
 */
#include "tools/overview.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "conf/entry.h"
#include "conf/setting_row.h"

enum { VALUE_TEXT = 32, HOST_WIDTH = 36 };

struct row {
	enum setting_index index;
	bool is_limit; /* 0 means no limit */
};

static const struct row process_rows[] = {
    {SETTING_INDEX_auth_type, false},
    {SETTING_INDEX_max_client_conn, false},
    {SETTING_INDEX_max_server_connections, true},
    {SETTING_INDEX_max_user_connections, true},
    {SETTING_INDEX_max_user_client_connections, true},
};

static const struct row database_rows[] = {
    {SETTING_INDEX_pool_mode, false},
    {SETTING_INDEX_default_pool_size, true},
    {SETTING_INDEX_reserve_pool_size, false},
    {SETTING_INDEX_min_pool_size, false},
    {SETTING_INDEX_max_db_connections, true},
    {SETTING_INDEX_max_db_client_connections, true},
};

static const struct row user_rows[] = {
    {SETTING_INDEX_pool_mode, false},
    {SETTING_INDEX_default_pool_size, true},
    {SETTING_INDEX_reserve_pool_size, false},
    {SETTING_INDEX_min_pool_size, false},
    {SETTING_INDEX_max_user_connections, true},
    {SETTING_INDEX_max_user_client_connections, true},
};

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

/* ---- a value and its origin ---- */

/* Appends "line 7", with the file before it if that is not the ini file itself. */
static void overview_put_place(
    struct buf *out, const struct config *c, const char *file, unsigned line)
{
	if (file && strcmp(file, c->file) != 0)
		buf_printf(out, "%s:%u", file, line);
	else
		buf_printf(out, "line %u", line);
}

static const char *value_of(
    struct scope scope, const struct row *at, char text[VALUE_TEXT])
{
	const struct setting *row = setting_at((size_t)at->index);
	const struct level *level = scope_level(scope, at->index);
	const char *base = row->level == LEVEL_GLOBAL ? (const char *)scope.settings
						      : (const char *)level;
	int value = *(const int *)(const void *)(base + row->offset);

	if (row->type == SETTING_ENUM)
		return row->words[value];
	if (at->is_limit && value <= 0)
		return "no limit";
	snprintf(text, VALUE_TEXT, "%d", value);
	return text;
}

static void put_row(FILE *out, const struct overview *o, struct scope scope,
    const struct user_config *user, const struct row *at)
{
	const struct setting *row = setting_at((size_t)at->index);
	char text[VALUE_TEXT];
	struct buf origin;

	buf_init(&origin, 0);
	const struct config *c = o->input->config;
	enum setting_index i = setting_index(row);
	const struct config_place *place = config_place(c, row);
	if (user && level_has(&user->own, i)) {
		buf_printf(&origin, "user %s, ", user->name);
		overview_put_place(&origin, c, user->file, user->line);
	} else if (scope_level(scope, i) != &c->settings.global) {
		buf_put_text(&origin, "this entry");
	} else if (place->file) {
		overview_put_place(&origin, c, place->file, place->line);
	} else {
		buf_put_text(&origin, "default");
	}
	fprintf(out, "  %-28s %-14s %s\n",
	    row->level == LEVEL_GLOBAL ? row->name : entry_key_of(row),
	    value_of(scope, at, text), buf_text(&origin));
	buf_done(&origin);
}

static void put_title(FILE *out, const struct overview *o, const char *kind,
    const char *name, const char *file, unsigned line)
{
	struct buf place;

	buf_init(&place, 0);
	overview_put_place(&place, o->input->config, file, line);
	fprintf(out, "\n%s %s (%s)\n", kind, name, buf_text(&place));
	buf_done(&place);
}

/* ---- the process ---- */

static struct scope scope_of(
    const struct overview *o, const struct level *database, const struct level *user)
{
	return (struct scope){user, database, &o->input->config->settings};
}

/* ---- databases ---- */

static void put_database(
    FILE *out, const struct overview *o, const struct database_config *db)
{
	const struct user_config *forced =
	    db->user ? config_user(o->input->config, db->user) : NULL;
	struct scope scope = scope_of(o, &db->own, forced ? &forced->own : NULL);
	struct buf list;

	buf_init(&list, 0);
	for (size_t i = 0; i < db->host_count; i++) {
		const char *dir = o->input->config->settings.unix_socket_dir;
		const char *name = db->hosts[i].host ? db->hosts[i].host : dir;
		buf_printf(&list, "%s%s:%d", i ? ", " : "", name ? name : "",
		    db->hosts[i].port);
	}
	text_put_wrapped(out, "  server                       ", "%s%s%s",
	    buf_text(&list), strcmp(db->dbname, db->name) == 0 ? "" : ", there called ",
	    strcmp(db->dbname, db->name) == 0 ? "" : db->dbname);
	buf_done(&list);
	/* prints the users that log in to the database's servers; each of them has a
	 * pool */
	static const char lead[] = "  users                        ";
	size_t listed = sizing_listed_users(o->input, db);
	bool has_others = sizing_has_other_users(o->input, db);
	if (db->user) {
		text_put_wrapped(out, lead, "%s, whoever the client is", db->user);
	} else if (!listed && !has_others) {
		text_put_wrapped(out, lead, "none: nobody can log in");
	} else if (has_others) {
		text_put_wrapped(out, lead, "%zu of auth_file, and any number that %s",
		    listed,
		    o->input->has_external_auth ? "LDAP, PAM, Kerberos or OAuth lets in"
						: "auth_query finds");
	} else {
		text_put_wrapped(out, lead, "%zu of auth_file", listed);
	}
	for (size_t i = 0; i < COUNT_OF(database_rows); i++)
		put_row(out, o, scope, forced, &database_rows[i]);
}

static void put_databases(FILE *out, const struct overview *o)
{
	const struct config *c = o->input->config;

	for (size_t i = 0; i < c->database_count; i++) {
		const struct database_config *db = &c->databases[i];

		put_title(out, o, "Database", db->name, db->file, db->line);
		put_database(out, o, db);
	}
	if (!o->input->template)
		return;
	put_title(out, o, "Database", "*", c->template->file, c->template->line);
	put_database(out, o, o->input->template);
}

/* ---- users ---- */

static void put_users_own(FILE *out, const struct overview *o)
{
	const struct config *c = o->input->config;

	for (size_t i = 0; i < c->user_count; i++) {
		const struct user_config *user = &c->users[i];
		struct scope scope = scope_of(o, NULL, &user->own);
		size_t shown = 0;

		for (size_t r = 0; r < COUNT_OF(user_rows); r++) {
			if (!level_has(&user->own, user_rows[r].index))
				continue;
			if (!shown++)
				put_title(
				    out, o, "User", user->name, user->file, user->line);
			put_row(out, o, scope, NULL, &user_rows[r]);
		}
	}
}

/* ---- connections and descriptors ---- */

static const char *count_text(int64_t n, char text[VALUE_TEXT])
{
	if (n >= SIZING_NO_LIMIT)
		return "no limit";
	snprintf(text, VALUE_TEXT, "%" PRId64, n);
	return text;
}

static void put_count_row(
    FILE *out, const char *name, size_t databases, const struct sizing_most *most)
{
	char named[VALUE_TEXT], all[VALUE_TEXT];

	if (strlen(name) > HOST_WIDTH) {
		fprintf(out, "  %s\n", name);
		name = "";
	}
	fprintf(out, "  %-*s %10zu %14s %13s\n", HOST_WIDTH, name, databases,
	    count_text(most->named, named), count_text(most->all, all));
}

static void put_servers(FILE *out, const struct overview *o)
{
	const struct sizing *s = o->sizing;
	size_t databases = o->input->config->database_count + !!o->input->template;
	struct buf name;

	fprintf(out, "\nThe most server connections\n");
	fprintf(out, "  %-*s %10s %14s %13s\n", HOST_WIDTH, "host", "databases",
	    "named users", "all who come");
	buf_init(&name, 0);
	for (size_t i = 0; i < s->host_count; i++) {
		buf_clear(&name);
		buf_printf(&name, "%s:%d", s->hosts[i].host, s->hosts[i].port);
		put_count_row(out, buf_text(&name), s->hosts[i].database_count,
		    &s->hosts[i].servers);
	}
	buf_done(&name);
	if (s->host_count > 1)
		put_count_row(out, "all hosts together", databases, &s->servers);
	text_put_wrapped(out, "  ",
	    "Each user has a pool in each database, of pool_size + reserve_pool_size "
	    "connections. Of several hosts of a database each may get all of them. "
	    "Where limits of databases and of users meet, the number may be somewhat "
	    "too "
	    "great. "
	    "Hosts are told apart by the text of their names. Compare the last column "
	    "with max_connections of the server (SHOW max_connections), of which "
	    "superuser_reserved_connections are not for everybody.");
}

static void put_descriptor_row(FILE *out, const char *name, int64_t n)
{
	char text[VALUE_TEXT];

	fprintf(out, "  %-46s %14s\n", name, count_text(n, text));
}

static void put_descriptors(FILE *out, const struct overview *o)
{
	const struct sizing *s = o->sizing;

	fputs("\nDescriptors\n", out);
	put_descriptor_row(out, "clients (max_client_conn)", s->clients);
	put_descriptor_row(out, "server connections", s->servers.all);
	if (s->peers > 0)
		put_descriptor_row(out, "cancel requests to peers", s->peers);
	put_descriptor_row(out, "listening sockets, log and others, about", s->others);
	put_descriptor_row(out, "needed at most", s->descriptors);
	put_descriptor_row(out, "limit of this shell (ulimit -n)",
	    o->descriptor_limit < SIZING_NO_LIMIT ? o->descriptor_limit
						  : SIZING_NO_LIMIT);
	text_put_wrapped(out, "  ",
	    "A service has a limit of its own: with systemd it is LimitNOFILE. A "
	    "cancel request takes one more for a moment.");
}

static void put_process(FILE *out, const struct overview *o)
{
	struct scope scope = scope_of(o, NULL, NULL);

	text_put_wrapped(
	    out, "", "Lines without a file are those of %s.", o->input->config->file);
	fputs("\nThe process\n", out);
	for (size_t i = 0; i < COUNT_OF(process_rows); i++)
		put_row(out, o, scope, NULL, &process_rows[i]);
}

void overview_put(FILE *out, const struct overview *o)
{
	put_process(out, o);
	put_databases(out, o);
	put_users_own(out, o);
	put_servers(out, o);
	put_descriptors(out, o);
}

/* ---- advice ---- */

static void __attribute__((format(printf, 4, 0)))
put(struct advice *a, const char *file, unsigned line, const char *fmt, va_list ap)
{
	struct err text;
	struct buf place;

	vsnprintf(text.text, sizeof(text.text), fmt, ap);
	buf_init(&place, 0);
	if (line)
		overview_put_place(&place, a->o->input->config, file, line);
	if (a->count++ == 0)
		fputs("\nAdvice\n", a->out);
	text_put_wrapped(a->out, "  * ", "%s%s%s%s", text.text, line ? " (" : "",
	    buf_text(&place), line ? ")" : "");
	buf_done(&place);
}

void advice_give(struct advice *a, const struct setting *row, const char *fmt, ...)
{
	const struct config_place *place =
	    row ? config_place(a->o->input->config, row) : NULL;
	va_list ap;

	va_start(ap, fmt);
	put(a, place ? place->file : NULL, place && place->file ? place->line : 0, fmt,
	    ap);
	va_end(ap);
}

void advice_give_at(
    struct advice *a, const char *file, unsigned line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(a, file, line, fmt, ap);
	va_end(ap);
}
