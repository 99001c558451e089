/*
 * Makes a snapshot from ini files: sections, defaults, includes, and errors that say
 * where.  The same code serves loading, which ends at the first error, and checking,
 * which reports each error and goes on.  Nothing outside the new snapshot is changed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu_time.h"
#include "base/map.h"
#include "base/text.h"
#include "conf/config.h"
#include "conf/entry.h"
#include "conf/ini.h"

enum section {
	SECTION_NONE,
	SECTION_MAIN,
	SECTION_DATABASES,
	SECTION_USERS,
	SECTION_PEERS,
	SECTION_UNKNOWN, /* an unknown section, when checking: its items are skipped */
};

struct loader {
	struct config *config;
	struct settings defaults;
	/* the entries are in the config's arena */
	struct map *databases, *users, *peers;
	struct buf where;
	enum section section;
	bool main_seen;
	unsigned problems;

	/* borrowed */
	const struct config *running;
	config_warn_fn *problem; /* NULL: loading, which stops at the first problem */
	config_warn_fn *warn;
	void *ctx;
	struct err *err;
	struct throttle *throttle; /* may be NULL */
};

/* Returns "file:line", valid until the next call. */
static const char *where(struct loader *l, struct config_place at)
{
	buf_clear(&l->where);
	buf_put_text(&l->where, at.file);
	if (at.line)
		buf_printf(&l->where, ":%u", at.line);
	return buf_text(&l->where);
}

static void __attribute__((format(printf, 3, 4)))
warn(struct loader *l, struct config_place at, const char *fmt, ...)
{
	struct err text;
	va_list ap;

	if (!l->warn)
		return;
	va_start(ap, fmt);
	vsnprintf(text.text, sizeof(text.text), fmt, ap);
	va_end(ap);
	l->warn(l->ctx, at.file ? where(l, at) : "", text.text);
}

/* Reports a problem: what is wrong, the log line for it (which names the place), and
 * what to do (or NULL).  Returns 0 when the reading should go on. */
static int report(struct loader *l, struct config_place at, const char *what,
    const char *log_line, const char *advice)
{
	struct err text;

	l->problems++;
	if (!l->problem) /* log parsers know this line, so it must not change */
		return err_set(l->err, "%s%s%s", log_line, advice ? "\n\t" : "",
		    advice ? advice : "");
	err_set(&text, "%s%s%s", what, advice ? ": " : "", advice ? advice : "");
	l->problem(l->ctx, where(l, at), text.text);
	return 0;
}

/* Reports a bad assignment; `what` is the exact reason, or NULL. */
static int report_value(struct loader *l, struct config_place at,
    const struct ini_item *item, const char *what, const char *advice)
{
	/* connection strings may contain a password */
	bool is_secret =
	    l->section == SECTION_NONE ||
	    (l->section == SECTION_DATABASES && strstr(item->value, "password"));
	struct err value, line;

	err_set(&value, "invalid value \"%.100s\" for parameter %.100s",
	    is_secret ? "..." : item->value, item->name);
	err_set(&line, "%s%s%s in configuration (%s)", what ? what : "",
	    what ? "\n" : "", value.text, where(l, at));
	return report(l, at, what ? what : value.text, line.text, advice);
}

static int assign_setting(
    struct loader *l, struct config_place at, const struct ini_item *item)
{
	struct settings ignored = l->config->settings;
	const struct setting *row;
	struct err err;
	size_t i;

	for (i = 0; (row = setting_at(i)); i++)
		if (strcmp(setting_name(row), item->name) == 0)
			break;
	if (!row) {
		const struct setting *like = setting_like(item->name);
		struct err advice;

		err_set(&err, "unknown parameter: pgbouncer/%.100s", item->name);
		err_set(&advice,
		    like ? "did you mean %s?" : "remove it or correct its name",
		    like ? setting_name(like) : "");
		return report_value(l, at, item, err.text, advice.text);
	}
	/* a restart-only setting keeps its value now, but the next start will use the
	 * new one, so it is checked */
	bool is_kept = l->running && !setting_is_live(row);
	struct settings *to = is_kept ? &ignored : &l->config->settings;
	int rc = setting_parse(row, to, item->value, l->config->arena, &err);
	if (rc < 0) {
		bool is_known_line = strcmp(item->name, "auth_dbname") == 0;
		return report_value(l, at, item, is_known_line ? err.text : NULL,
		    is_known_line ? "name another database" : err.text);
	}
	if (rc > 0)
		warn(l, at, "%s: %s", item->name, err.text);
	if (!is_kept)
		l->config->places[i] = at;
	return 0;
}

static void wipe_database(struct database_config *db)
{
	if (!db)
		return;
	mem_wipe_text(db->connstr);
	mem_wipe_text(db->password);
}

static void note_own(struct config *config, const struct level *own)
{
	for (size_t i = 0; i < sizeof(own->given) / sizeof(own->given[0]); i++)
		config->own_given[i] |= own->given[i];
}

/* Parses the template only to report problems now; databases are made from it when
 * clients ask for them. */
static void assign_template(struct loader *l, struct config_place at,
    const struct ini_item *item, const struct entry_notes *notes)
{
	struct database_config tried = {.connstr = NULL};
	struct arena *arena = arena_new();
	struct database_config *template;
	struct err err;

	if (entry_parse_database(&tried, item->name, item->value, arena, notes, &err) <
	    0) {
		warn(l, at, "%s: no database can be made from the entry \"*\"",
		    err.text);
	} else {
		note_own(l->config, &tried.own);
		wipe_database(&tried);
	}
	arena_free(&arena);

	wipe_database(l->config->template);
	template = arena_alloc(l->config->arena, sizeof(*template));
	template->name = arena_strdup(l->config->arena, item->name);
	template->connstr = arena_strdup(l->config->arena, item->value);
	template->file = at.file;
	template->line = item->line;
	l->config->template = template;
}

/* The database has an earlier line.  If both have weight=, their hosts are joined;
 * otherwise the later line counts. */
static int meet_earlier(struct loader *l, struct config_place at,
    struct database_config *db, struct err *err)
{
	const struct database_config *earlier = map_get_str(l->databases, db->name);

	if (!earlier)
		return 0;
	if (earlier->weight && db->weight)
		return entry_join(db, earlier, l->config->arena, err);
	warn(l, at,
	    "database \"%s\" was given before, at %s:%u: this line counts; for several "
	    "hosts write weight= on each line",
	    db->name, earlier->file, earlier->line);
	return 0;
}

static const char *entry_remedy(const struct err *err)
{
	return text_has_prefix(err->text, "syntax error")
		   ? "write key=value pairs with blanks between them; a value with "
		     "blanks stands in single quotes, none is empty"
		   : "correct the entry, its keys are listed in pgbouncer.ini(5)";
}

static int assign_database(
    struct loader *l, struct config_place at, const struct ini_item *item)
{
	struct entry_notes notes = {l->warn, l->ctx, where(l, at)};
	struct arena *arena = l->config->arena;
	struct database_config *db;
	struct err err;

	if (strcmp(item->name, "*") == 0) {
		assign_template(l, at, item, &notes);
		return 0;
	}
	db = arena_alloc(arena, sizeof(*db));
	if (entry_parse_database(db, item->name, item->value, arena, &notes, &err) < 0)
		return report_value(l, at, item, err.text, entry_remedy(&err));
	db->file = at.file;
	db->line = item->line;
	if (meet_earlier(l, at, db, &err) < 0) {
		wipe_database(db);
		return report_value(l, at, item, err.text,
		    "write the same keys on each line of the database");
	}
	note_own(l->config, &db->own);
	wipe_database(map_put_str(l->databases, db->name, db));
	return 0;
}

static int assign_user(
    struct loader *l, struct config_place at, const struct ini_item *item)
{
	struct entry_notes notes = {l->warn, l->ctx, where(l, at)};
	struct arena *arena = l->config->arena;
	struct user_config *user = arena_alloc(arena, sizeof(*user));
	struct err err;

	if (entry_parse_user(user, item->name, item->value, arena, &notes, &err) < 0)
		return report_value(l, at, item, err.text, entry_remedy(&err));
	user->file = at.file;
	user->line = item->line;
	note_own(l->config, &user->own);
	map_put_str(l->users, user->name, user);
	return 0;
}

static int assign_peer(
    struct loader *l, struct config_place at, const struct ini_item *item)
{
	struct entry_notes notes = {l->warn, l->ctx, where(l, at)};
	struct arena *arena = l->config->arena;
	struct peer_config *peer = arena_alloc(arena, sizeof(*peer));
	struct err err;

	if (entry_parse_peer(peer, item->name, item->value, arena, &notes, &err) < 0)
		return report_value(l, at, item, err.text,
		    "write NUMBER = host=... port=... pool_size=...");
	peer->line = item->line;
	map_put(l->peers, &peer->id, sizeof(peer->id), peer);
	return 0;
}

static int assign(struct loader *l, struct config_place at, const struct ini_item *item)
{
	struct err what;

	switch (l->section) {
	case SECTION_MAIN:
		return assign_setting(l, at, item);
	case SECTION_DATABASES:
		return assign_database(l, at, item);
	case SECTION_USERS:
		return assign_user(l, at, item);
	case SECTION_PEERS:
		return assign_peer(l, at, item);
	case SECTION_UNKNOWN:
		return 0;
	case SECTION_NONE:
		break;
	}
	err_set(&what, "load_init_file: value without section: %.100s", item->name);
	return report_value(
	    l, at, item, what.text, "put a [section] line in front of it");
}

static int enter_section(struct loader *l, struct config_place at, const char *name)
{
	struct config_place lost = {NULL, 0};
	struct err what, line;
	const struct setting *row;

	l->section = SECTION_UNKNOWN;
	if (strcmp(name, "databases") == 0) {
		l->section = SECTION_DATABASES;
	} else if (strcmp(name, "users") == 0) {
		l->section = SECTION_USERS;
	} else if (strcmp(name, "peers") == 0) {
		l->section = SECTION_PEERS;
	} else if (strcmp(name, "pgbouncer") == 0) {
		l->section = SECTION_MAIN;
		l->main_seen = true;
		for (size_t i = 0; (row = setting_at(i)); i++)
			if (setting_default(row) &&
			    (setting_is_live(row) || !l->running)) {
				if (!lost.file)
					lost = l->config->places[i];
				setting_copy(row, &l->config->settings, &l->defaults);
				l->config->places[i] = (struct config_place){NULL, 0};
			}
		if (lost.file)
			warn(l, at,
			    "[pgbouncer] sets all settings back to their defaults: "
			    "those "
			    "above it, such as at %s:%u, do not count",
			    lost.file, lost.line);
	} else {
		err_set(&what, "invalid section \"%.100s\"", name);
		err_set(&line, "fill_defaults fail\n%s in configuration (%s)",
		    what.text, where(l, at));
		return report(l, at, what.text, line.text,
		    "use [pgbouncer], [databases], [users] or [peers]");
	}
	return 0;
}

static int load_file(
    struct loader *l, struct config_place at, const char *path, unsigned depth);

static int include(
    struct loader *l, struct config_place at, const char *path, unsigned depth)
{
	struct err inner, line;

	if (depth == INCLUDE_DEPTH_MAX) {
		err_set(&line, "include nesting level too deep (%s), stopping loading",
		    where(l, at));
		return report(l, at, "include nesting level too deep", line.text,
		    "a file may not include itself, and at most 10 levels are read");
	}
	if (load_file(l, at, path, depth + 1) == 0)
		return 0;
	inner = *l->err;
	return err_set(l->err,
	    "%s\nerror processing include file in configuration (%s), stopping loading",
	    inner.text, where(l, at));
}

static int report_syntax(struct loader *l, struct config_place at, const char *advice)
{
	struct err line;

	err_set(&line, "syntax error in configuration (%s), stopping loading",
	    where(l, at));
	return report(l, at, "syntax error", line.text, advice);
}

static int load_item(
    struct loader *l, const char *file, const struct ini_item *item, unsigned depth)
{
	struct config_place at = {file, item->line};

	switch (item->kind) {
	case INI_SECTION:
		return enter_section(l, at, item->name);
	case INI_VALUE:
		return assign(l, at, item);
	case INI_INCLUDE:
		return include(l, at, item->value, depth);
	case INI_BAD:
		return report_syntax(
		    l, at, "write [section], key = value or %include FILE");
	case INI_END:
		break;
	}
	return 0;
}

/* Notes a file with its identity, which is taken before the file is read, so that a
 * change meanwhile is noticed later. */
static const char *note_file(struct config *c, const char *path)
{
	struct config_file *file = arena_alloc(c->arena, sizeof(*file));

	file->path = arena_strdup(c->arena, path);
	file_id_take(&file->id, path);
	file->next = c->files;
	c->files = file;
	return file->path;
}

/* at: the %include; without a file for the first one. */
static int load_file(
    struct loader *l, struct config_place at, const char *path, unsigned depth)
{
	static const char mark[] = "\xef\xbb\xbf";
	const char *file = note_file(l->config, path);
	struct ini_item item;
	struct err why, line;
	struct ini ini;
	size_t len;
	char *text = text_read_slowly(path, l->throttle, &len, &why);
	int rc = 0;

	if (!text) {
		err_set(&line, "could not load file \"%.200s\": %s", path, why.text);
		if (!at.file)
			at.file = file;
		return report(l, at, line.text, line.text,
		    "it must exist and be readable by the user the pooler runs as");
	}
	bool is_marked = text_has_prefix(text, mark);
	if (is_marked)
		rc = report_syntax(l, (struct config_place){file, 1},
		    "the file begins with a byte order mark: save it as UTF-8 without "
		    "one");
	ini_init(&ini, is_marked ? text + strlen(mark) : text,
	    is_marked ? len - strlen(mark) : len);
	while (rc == 0 && ini_next(&ini, &item) != INI_END) {
		rc = load_item(l, file, &item, depth);
		throttle_take(l->throttle, 1);
	}
	text_free_secret_slowly(text, len, l->throttle);
	return rc;
}

/* Warns when a secret has two sources, because logins that need it are refused. */
static void warn_ambiguous(struct loader *l, struct config_place whole)
{
	const struct config *c = l->config;
	int auth_type = c->settings.auth_type;

	if (auth_type != AUTH_LDAP && auth_type != AUTH_PAM)
		return;
	for (size_t i = 0; i < c->database_count; i++)
		if (c->databases[i].own.auth_user)
			warn(l, whole,
			    "database \"%s\" has auth_user, which does not go "
			    "together with auth_type=%s: logins will be refused",
			    c->databases[i].name, setting_auth_type_name(auth_type));
}

static int compare_databases(const void *a, const void *b)
{
	return strcmp((*(const struct database_config *const *)a)->name,
	    (*(const struct database_config *const *)b)->name);
}

static int compare_users(const void *a, const void *b)
{
	return strcmp((*(const struct user_config *const *)a)->name,
	    (*(const struct user_config *const *)b)->name);
}

static int compare_peers(const void *a, const void *b)
{
	int x = (*(const struct peer_config *const *)a)->id;
	int y = (*(const struct peer_config *const *)b)->id;

	return (x > y) - (x < y);
}

/* Copies the values of a map, each of size bytes, to one sorted array. */
static void *flatten(const struct map *m, struct arena *arena, size_t size,
    size_t *count, int (*compare)(const void *, const void *))
{
	void **sorted = map_sorted(m, count, compare);
	char *out = arena_alloc(arena, *count ? *count * size : 1);

	for (size_t i = 0; i < *count; i++)
		memcpy(out + i * size, sorted[i], size);
	free(sorted);
	return out;
}

/* Walks both lists in parallel, because both are sorted by name. */
static void note_unchanged(struct loader *l)
{
	const struct config *old = l->running;
	struct config *c = l->config;
	size_t at = 0;

	c->compared = old->databases;
	for (size_t i = 0; i < c->database_count; i++) {
		struct database_config *entry = &c->databases[i];
		while (at < old->database_count &&
		       strcmp(old->databases[at].name, entry->name) < 0)
			at++;
		if (at < old->database_count &&
		    strcmp(old->databases[at].name, entry->name) == 0 &&
		    strcmp(old->databases[at].connstr, entry->connstr) == 0)
			entry->twin = at + 1;
	}
}

/* Settings that do not go together. */
static int report_check(struct loader *l, struct config_place whole, const char *text)
{
	const struct config_place *at = config_place_blamed(l->config, text);
	struct err line;

	if (!at)
		return report(l, whole, text, text, NULL);
	err_set(&line, "%s\n\t%s", text, where(l, *at));
	return report(l, *at, text, line.text, NULL);
}

static int load_all(struct loader *l, const char *path)
{
	static const char missing[] =
	    "load_init_file: main section missing from config file";
	struct config_place whole = {path, 0};
	struct config *c = l->config;
	int rc = load_file(l, (struct config_place){NULL, 0}, path, 0);
	struct err err;

	c->databases = flatten(l->databases, c->arena, sizeof(*c->databases),
	    &c->database_count, compare_databases);
	c->users = flatten(
	    l->users, c->arena, sizeof(*c->users), &c->user_count, compare_users);
	c->peers = flatten(
	    l->peers, c->arena, sizeof(*c->peers), &c->peer_count, compare_peers);
	if (rc < 0)
		return rc;
	if (l->running)
		note_unchanged(l);
	if (!l->main_seen && l->problems == 0 &&
	    report(l, whole, missing, missing, "add a [pgbouncer] section") < 0)
		return -1;
	if (settings_check(&l->config->settings, &err) < 0 &&
	    report_check(l, whole, err.text) < 0)
		return -1;
	warn_ambiguous(l, whole);
	if (l->config->peer_count > 0 && !l->config->settings.peer_id)
		warn(l, whole,
		    "section [peers] has no effect without the setting peer_id");
	return 0;
}

static struct config *new_config(const char *path, const struct config *running)
{
	struct arena *arena = arena_new();
	struct config *c = arena_alloc(arena, sizeof(*c));

	c->arena = arena;
	c->refs = 1;
	c->file = arena_strdup(arena, path);
	c->places = arena_alloc(arena, SETTING_COUNT * sizeof(*c->places));
	if (running)
		settings_dup(&c->settings, &running->settings, arena);
	else
		settings_defaults(&c->settings);
	if (!c->settings.conffile)
		setting_parse(
		    setting_find("conffile"), &c->settings, path, arena, NULL);
	return c;
}

static void loader_init(
    struct loader *l, const char *path, const struct config *running)
{
	memset(l, 0, sizeof(*l));
	l->running = running;
	l->config = new_config(path, running);
	l->databases = map_new();
	l->users = map_new();
	l->peers = map_new();
	settings_defaults(&l->defaults);
	buf_init(&l->where, 0);
}

/* Frees everything except the config. */
static void loader_done(struct loader *l)
{
	map_free(&l->databases);
	map_free(&l->users);
	map_free(&l->peers);
	buf_done(&l->where);
}

struct config *config_load(const char *path, const struct config *running,
    struct throttle *throttle, config_warn_fn *warn_fn, void *warn_ctx, struct err *err)
{
	struct err unwanted = {0};
	struct loader l;

	loader_init(&l, path, running);
	l.throttle = throttle;
	l.warn = warn_fn;
	l.ctx = warn_ctx;
	l.err = err ? err : &unwanted;
	if (load_all(&l, path) < 0)
		config_unref(&l.config);
	loader_done(&l);
	return l.config;
}

struct config *config_of_database(const char *name, const char *text, struct err *err)
{
	struct config *c = new_config("", NULL);
	struct database_config *db = arena_alloc(c->arena, sizeof(*db));

	if (entry_parse_connstr(db, name, text, c->arena, err) < 0) {
		config_unref(&c);
		return NULL;
	}
	c->databases = db;
	c->database_count = 1;
	note_own(c, &db->own);
	return c;
}

unsigned config_check(const char *path, config_warn_fn *problem,
    config_warn_fn *warn_fn, void *ctx, struct config **out)
{
	struct loader l;

	loader_init(&l, path, NULL);
	l.problem = problem;
	l.warn = warn_fn;
	l.ctx = ctx;
	load_all(&l, path);
	*out = l.config;
	loader_done(&l);
	return l.problems;
}
