/*
 * Parses entries by the tables of keys and settings.  The meaning of a key for pools
 * and servers is not known here.  Numbers are parsed like C's atoi, because existing
 * files rely on that; a text that is not a whole number gets a remark.
 */
#include "conf/entry.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/command_line.h"
#include "base/text.h"
#include "conf/connstr.h"
#include "conf/setting_row.h"

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

/* The largest weight.  Weights are added up, and the sum must not overflow. */
enum { WEIGHT_MAX = 1000000 };

static const struct entry_key database_keys[] = {
#define DATABASE_KEY(key, member, type, flags, help) \
	{#key, ENTRY_##type, offsetof(struct database_config, member), flags},
#include "conf/database_keys.def"
#undef DATABASE_KEY
};

static const struct {
	const char *key, *setting;
} aliases[] = {
#define SETTING_ALIAS(key, setting) {#key, #setting},
#include "conf/setting_aliases.def"
#undef SETTING_ALIAS
};

static const struct entry_key peer_keys[] = {
#define PEER_KEY(key, member, type, flags, help) \
	{#key, ENTRY_##type, offsetof(struct peer_config, member), flags},
#include "conf/peer_keys.def"
#undef PEER_KEY
};

const struct entry_key *entry_database_key(size_t i)
{
	return i < COUNT_OF(database_keys) ? &database_keys[i] : NULL;
}

const struct entry_key *entry_peer_key(size_t i)
{
	return i < COUNT_OF(peer_keys) ? &peer_keys[i] : NULL;
}

const struct entry_key *entry_find_key(entry_key_fn *key_at, const char *name)
{
	const struct entry_key *key;

	for (size_t i = 0; key_at && (key = key_at(i)); i++)
		if (strcmp(key->key, name) == 0)
			return key;
	return NULL;
}

static const char *alias_of(const struct setting *row, size_t nth)
{
	for (size_t i = 0; i < COUNT_OF(aliases); i++)
		if (strcmp(aliases[i].setting, row->name) == 0 && nth-- == 0)
			return aliases[i].key;
	return NULL;
}

/* Whether entries use only the alias.  reserve_pool is an older name besides the new
 * one; all other aliases replace the setting's name. */
static bool is_renamed(const struct setting *row)
{
	const char *alias = alias_of(row, 0);

	return alias && !text_has_prefix(row->name, alias);
}

const char *entry_key_of(const struct setting *row)
{
	return is_renamed(row) ? alias_of(row, 0) : row->name;
}

const char *entry_other_key_of(const struct setting *row)
{
	return is_renamed(row) ? NULL : alias_of(row, 0);
}

/* Finds the setting that has this key in entries of a level. */
static const struct setting *find_setting(const char *key, enum setting_level level)
{
	const struct setting *row = NULL;

	for (size_t i = 0; i < COUNT_OF(aliases) && !row; i++)
		if (strcmp(aliases[i].key, key) == 0)
			row = setting_find(aliases[i].setting);
	if (!row)
		row = setting_find(key);
	return row && (row->level & level) ? row : NULL;
}

/* The param.NAME= pairs of an entry, the last one first. */
struct params {
	struct param_link {
		struct server_param param;
		struct param_link *next;
	} * first;
	size_t count;
};

/* State of parsing one entry. */
struct entry {
	/* the table of keys; NULL: settings only */
	const struct entry_key *(*key_at)(size_t i);
	enum setting_level level;
	struct level *own; /* NULL: the entry has no settings */
	void *out;
	struct params *params; /* NULL: the entry has no param.NAME */
	struct arena *arena;
	const struct entry_notes *notes;
	const char *syntax_error; /* error text for bad syntax */
	const char *unknown_key;  /* error text in front of an unknown key */
};

static void __attribute__((format(printf, 2, 3)))
note(const struct entry_notes *notes, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (!notes || !notes->warn)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	notes->warn(notes->ctx, notes->where, text);
}

/* Parses a number like C's atoi, but limits numbers that are too large. */
static int leading_int(const char *s)
{
	long v = strtol(s, NULL, 10);

	return v > INT_MAX ? INT_MAX : v < INT_MIN ? INT_MIN : (int)v;
}

/* Parses a number, with a remark if it is not what the text seems to say. */
static int noted_int(
    const struct entry_notes *notes, const char *key, const char *value)
{
	char *stop;
	int v = leading_int(value);
	long whole = strtol(value, &stop, 10);

	if (stop == value || *stop)
		note(notes, "\"%.60s\" is not a whole number, %s is taken as %d", value,
		    key, v);
	else if (whole != v)
		note(notes, "\"%.60s\" is too large, %s is taken as %d", value, key, v);
	return v;
}

static int set_port(
    int *out, const char *value, const struct entry_notes *notes, struct err *err)
{
	int port = leading_int(value);

	if (port < 1 || port > 65535)
		return err_set(err, "invalid port: %.100s", value);
	*out = noted_int(notes, "port", value);
	return 0;
}

static int set_word(int *out, const char *(*word_of)(int value), const char *what,
    const char *text, struct err *err)
{
	for (int value = 0; word_of(value); value++)
		if (text_equal_nocase(word_of(value), text)) {
			*out = value;
			return 0;
		}
	return err_set(err, "invalid %s: %.100s", what, text);
}

static int set_member(const struct entry *e, const struct entry_key *key,
    const char *value, struct err *err)
{
	void *member = (char *)e->out + key->offset;
	int n;

	switch (key->type) {
	case ENTRY_TEXT:
		*(const char **)member = value;
		return 0;
	case ENTRY_PORT:
		return set_port(member, value, e->notes, err);
	case ENTRY_LOAD_BALANCE:
		return set_word(
		    member, setting_load_balance_name, key->key, value, err);
	case ENTRY_TLS_START:
		return set_word(member, setting_tls_start_name, key->key, value, err);
	case ENTRY_SIZE:
		n = noted_int(e->notes, key->key, value);
		*(int *)member = n < 0 ? -1 : n;
		return 0;
	}
	return -1;
}

/* ---- settings of an entry ---- */

static int set_number(const struct entry *e, const struct setting *row, const char *key,
    const char *value)
{
	void *member = (char *)e->own + row->offset;
	int n;

	if (row->flags & FRACTIONS && text_seconds(value, member) == 0) {
		level_set_given(e->own, setting_index(row), true);
		return 0;
	}
	/* -1: the value is inherited */
	n = noted_int(e->notes, key, value);
	if (n < 0)
		n = row->flags & BELOW_IS_ZERO ? 0 : -1;
	else if (n == 0 && (row->flags & ABOVE_ZERO))
		n = -1;
	if (row->type == SETTING_TIME)
		*(uint64_t *)member = n > 0 ? (uint64_t)n * 1000000 : 0;
	else
		*(int *)member = n > 0 ? n : 0;
	level_set_given(e->own, setting_index(row), n >= 0);
	return 0;
}

static int set_choice(const struct entry *e, const struct setting *row, const char *key,
    const char *value, struct err *err)
{
	void *member = (char *)e->own + row->offset;
	struct err why;

	if (setting_parse_member(row, member, value, e->arena, &why) >= 0) {
		level_set_given(e->own, setting_index(row), true);
		return 0;
	}
	/* log watchers know the text "pool mode" with a blank */
	return err_set(err, "invalid %s: %.100s",
	    strcmp(key, "pool_mode") == 0 ? "pool mode" : key, value);
}

/* ---- startup parameters ---- */

#define PARAM_PREFIX "param."

/* Refuses a parameter that has its own key or that the pooler itself sets. */
static int check_param_name(const char *name, struct err *err)
{
	static const char *const pairs[][2] = {{"user", "user"}, {"database", "dbname"},
	    {"options", "options"}, {"client_encoding", "client_encoding"},
	    {"DateStyle", "datestyle"}, {"TimeZone", "timezone"},
	    {"application_name", "application_name"}};

	if (!*name)
		return err_set(err, "param. needs the name of a parameter behind it");
	if (text_equal_nocase(name, "replication") || text_has_prefix(name, "_pq_."))
		return err_set(err,
		    "param.%.60s cannot be set: replication clients and protocol "
		    "options have server connections of their own",
		    name);
	for (size_t i = 0; i < COUNT_OF(pairs); i++)
		if (text_equal_nocase(name, pairs[i][0]))
			return err_set(err,
			    "write %s= instead of param.%.60s=", pairs[i][1], name);
	return 0;
}

/* Adds a parameter; a later value of the same name replaces the earlier one. */
static int take_param(
    const struct entry *e, const char *name, const char *value, struct err *err)
{
	struct param_link *link;

	if (check_param_name(name, err) < 0)
		return -1;
	for (link = e->params->first; link; link = link->next)
		if (text_equal_nocase(link->param.name, name)) {
			link->param.value = value;
			return 0;
		}
	link = arena_alloc(e->arena, sizeof(*link));
	link->param = (struct server_param){name, value};
	link->next = e->params->first;
	e->params->first = link;
	e->params->count++;
	return 0;
}

static int compare_params(const void *a, const void *b)
{
	const struct server_param *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static struct server_param *sort_params(
    const struct params *params, struct arena *arena)
{
	struct server_param *out;
	size_t i = 0;

	if (params->count == 0)
		return NULL;
	out = arena_alloc(arena, params->count * sizeof(*out));
	for (const struct param_link *link = params->first; link; link = link->next)
		out[i++] = link->param;
	qsort(out, params->count, sizeof(*out), compare_params);
	return out;
}

/* ---- the pairs ---- */

static int take_pair(
    const struct entry *e, const char *name, const char *value, struct err *err)
{
	const struct entry_key *key = entry_find_key(e->key_at, name);
	const struct setting *row =
	    key || !e->own ? NULL : find_setting(name, e->level);

	/* only some settings can be switched off with an empty text; nothing else may
	 * be empty */
	if (!*value && (key || (row && !(row->flags & MAY_BE_EMPTY))))
		return err_set(err, "%s", e->syntax_error);
	if (key)
		return set_member(e, key, value, err);
	if (row) {
		switch (row->type) {
		case SETTING_INT:
		case SETTING_TIME:
			return set_number(e, row, name, value);
		case SETTING_BOOL:
		case SETTING_ENUM:
			return set_choice(e, row, name, value, err);
		case SETTING_STR:
		case SETTING_UINT:
		case SETTING_SIZE:
			break;
		}
		assert(row->type == SETTING_STR);
		if ((row->flags & IS_COMMAND) && *value &&
		    command_line_check(value, err) < 0)
			return err_prefix(err, "%s: ", name);
		*(const char **)((char *)e->own + row->offset) = value;
		level_set_given(e->own, setting_index(row), true);
		return 0;
	}
	if (e->params && text_has_prefix(name, PARAM_PREFIX))
		return take_param(e, name + strlen(PARAM_PREFIX), value, err);
	return err_set(err, "%s: %.100s", e->unknown_key, name);
}

static int parse_pairs(const struct entry *e, const char *text, struct err *err)
{
	char *copy = arena_strdup(e->arena, text), *at = copy;
	const char *name, *value;
	int more, rc = 0;

	while (rc == 0 && (more = connstr_next(&at, &name, &value)) != 0)
		rc = more < 0 ? err_set(err, "%s", e->syntax_error)
			      : take_pair(e, name, value, err);
	if (rc < 0)
		mem_wipe(copy, strlen(text)); /* it may contain a password */
	return rc;
}

static size_t count_items(const char *list)
{
	size_t n = 0, len;
	const char *item;

	while (text_list_next(&list, &item, &len))
		n++;
	return n;
}

static int split_hosts(struct database_config *db, struct arena *arena, struct err *err)
{
	const char *at = db->host, *item;
	size_t len, i = 0;

	db->host_count = at ? count_items(at) : 1;
	if (db->host_count == 0)
		return err_set(err, "invalid host: %.100s", db->host);
	db->hosts = arena_alloc(arena, db->host_count * sizeof(*db->hosts));
	db->hosts[0] = (struct host_config){.weight = 1};
	for (; at && text_list_next(&at, &item, &len); i++) {
		db->hosts[i].host = arena_strndup(arena, item, len);
		db->hosts[i].weight = 1;
	}
	return 0;
}

static int take_weight(const char *item, size_t len, int *out)
{
	int v = 0;

	if (len == 0)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (item[i] < '0' || item[i] > '9')
			return -1;
		v = v * 10 + (item[i] - '0');
		if (v > WEIGHT_MAX)
			return -1;
	}
	*out = v;
	return v > 0 ? 0 : -1;
}

/* Sets one port for all hosts, or one for each. */
static int set_ports(struct database_config *db, struct arena *arena,
    const struct entry_notes *notes, struct err *err)
{
	const char *at = db->ports, *item;
	size_t len, n = 0;

	for (; text_list_next(&at, &item, &len) && n < db->host_count; n++) {
		const char *text = arena_strndup(arena, item, len);

		if (set_port(&db->hosts[n].port, text, notes, err) < 0)
			return -1;
	}
	if (n != count_items(db->ports) || (n != 1 && n != db->host_count))
		return err_set(err, "invalid port: %.100s", db->ports);
	for (; n < db->host_count; n++)
		db->hosts[n].port = db->hosts[0].port;
	db->port = db->hosts[0].port;
	return 0;
}

/* Sets one weight for all hosts, or one for each. */
static int set_weights(struct database_config *db, struct err *err)
{
	const char *at = db->weight, *item;
	size_t len, n = 0;
	int weight;

	if (!at)
		return 0;
	for (; text_list_next(&at, &item, &len); n++) {
		if (take_weight(item, len, &weight) < 0 || n >= db->host_count)
			return err_set(err, "invalid weight: %.100s", db->weight);
		db->hosts[n].weight = weight;
	}
	if (n != 1 && n != db->host_count)
		return err_set(err, "invalid weight: %.100s", db->weight);
	for (; n < db->host_count; n++)
		db->hosts[n].weight = db->hosts[0].weight;
	return 0;
}

static int check_database_name(const char *name, struct err *err)
{
	if (strlen(name) > DATABASE_NAME_MAX)
		return err_set(err, "database name \"%.70s\" is longer than %d bytes",
		    name, DATABASE_NAME_MAX);
	if (strcmp(name, "pgbouncer") == 0)
		return err_set(err, "database name \"pgbouncer\" is reserved");
	return 0;
}

static int check_tls(const struct database_config *db, struct err *err)
{
	const struct level *own = &db->own;
	bool has_mode = level_has(own, SETTING_INDEX_server_tls_sslmode);

	if (db->sslnegotiation == TLS_START_DIRECT && has_mode &&
	    own->server_tls_sslmode < TLS_REQUIRE)
		return err_set(err, "sslnegotiation=direct needs sslmode=require, "
				    "verify-ca or verify-full");
	if (!own->server_tls_cert_file != !own->server_tls_key_file)
		return err_set(err, "sslcert and sslkey belong together: set both");
	return 0;
}

int entry_parse_database(struct database_config *out, const char *name,
    const char *text, struct arena *arena, const struct entry_notes *notes,
    struct err *err)
{
	struct database_config db = {
	    .ports = "5432",
	    .load_balance_hosts = LOAD_BALANCE_ROUND_ROBIN,
	};
	struct params params = {NULL, 0};
	struct entry e = {entry_database_key, LEVEL_DATABASE, &db.own, &db, &params,
	    arena, notes, "syntax error in connection string",
	    "unrecognized connection parameter"};
	int rc = -1;

	if (check_database_name(name, err) == 0 && parse_pairs(&e, text, err) == 0 &&
	    split_hosts(&db, arena, err) == 0 &&
	    set_ports(&db, arena, notes, err) == 0 && set_weights(&db, err) == 0 &&
	    level_check(&db.own, err) == 0)
		rc = check_tls(&db, err);
	if (rc < 0) {
		mem_wipe_text(db.password);
		return -1;
	}
	if (db.host) {
		size_t commas = 0;
		for (const char *p = db.host; *p; p++)
			commas += *p == ',';
		if (commas + 1 != db.host_count)
			note(notes, "empty names in the host list are left out");
	}
	db.params = sort_params(&params, arena);
	db.param_count = params.count;
	db.name = arena_strdup(arena, name);
	db.connstr = arena_strdup(arena, text);
	if (!db.dbname)
		db.dbname = db.name;
	*out = db;
	return 0;
}

static const char *join_texts(
    struct arena *arena, const char *a, const char *between, const char *b)
{
	struct buf text;

	buf_init_sure(&text);
	buf_printf(&text, "%s%s%s", a ? a : "", between, b ? b : "");
	const char *joined = arena_strdup(arena, buf_text(&text));
	/* the text may contain a password */
	buf_wipe_done(&text);
	return joined;
}

/* Prints the ports or weights of all hosts as one list, as if they had been written in
 * one line. */
static const char *list_numbers(
    const struct database_config *db, bool of_weights, struct arena *arena)
{
	struct buf text;

	buf_init_sure(&text);
	for (size_t i = 0; i < db->host_count; i++)
		buf_printf(&text, "%s%d", i ? "," : "",
		    of_weights ? db->hosts[i].weight : db->hosts[i].port);
	const char *list = arena_strdup(arena, buf_text(&text));
	buf_done(&text);
	return list;
}

int entry_join(struct database_config *db, const struct database_config *before,
    struct arena *arena, struct err *err)
{
	size_t count = before->host_count + db->host_count;
	struct host_config *hosts = arena_alloc(arena, count * sizeof(*hosts));

	struct database_config like = *before;
	like.host = db->host;
	like.ports = db->ports;
	like.weight = db->weight;
	if (entry_is_obsoleting(&like, db))
		return err_set(err,
		    "the lines of database \"%.63s\" differ in more than host, port "
		    "and weight",
		    db->name);
	memcpy(hosts, before->hosts, before->host_count * sizeof(*hosts));
	memcpy(hosts + before->host_count, db->hosts, db->host_count * sizeof(*hosts));
	db->hosts = hosts;
	db->host_count = count;
	db->port = hosts[0].port;
	/* joins the texts that a reload compares and SHOW prints, as if they had been
	 * written in one line */
	if (before->host || db->host)
		db->host = join_texts(arena, before->host, ",", db->host);
	db->ports = list_numbers(db, false, arena);
	db->weight = list_numbers(db, true, arena);
	db->connstr = join_texts(arena, before->connstr, " ", db->connstr);
	return 0;
}

int entry_parse_connstr(struct database_config *db, const char *name,
    const char *connstr, struct arena *arena, struct err *err)
{
	return entry_parse_database(db, name, connstr, arena, NULL, err);
}

int entry_parse_user(struct user_config *out, const char *name, const char *text,
    struct arena *arena, const struct entry_notes *notes, struct err *err)
{
	enum { USER_NAME_USED = 63 }; /* a login cuts longer ones, as PostgreSQL does */
	struct user_config user = {.name = NULL};
	size_t len = strlen(name);
	struct entry e = {NULL, LEVEL_USER, &user.own, &user, NULL, arena, notes,
	    "syntax error in user settings", "unrecognized user parameter"};

	if (parse_pairs(&e, text, err) < 0 || level_check(&user.own, err) < 0)
		return -1;
	if (len > USER_NAME_MAX)
		note(notes, "a user name longer than %d bytes can never log in",
		    USER_NAME_MAX);
	else if (len > USER_NAME_USED)
		len = USER_NAME_USED;
	user.name = arena_strndup(arena, name, len);
	*out = user;
	return 0;
}

int entry_parse_peer(struct peer_config *out, const char *name, const char *text,
    struct arena *arena, const struct entry_notes *notes, struct err *err)
{
	struct peer_config peer = {.port = 6432, .pool_size = -1};
	struct entry e = {entry_peer_key, LEVEL_GLOBAL, NULL, &peer, NULL, arena, notes,
	    "syntax error in connection string", "unrecognized connection parameter"};

	if (text_int(name, &peer.id) < 0 || peer.id < 1 || peer.id > PEER_ID_MAX)
		return err_set(err, "ids of peers must be a number larger than 0 and "
				    "at most 65536");
	if (parse_pairs(&e, text, err) < 0)
		return -1;
	if (!peer.host)
		return err_set(err, "host was not provided for peer %d", peer.id);
	*out = peer;
	return 0;
}

/* ---- comparing ---- */

static bool is_same_key(const struct entry_key *key, const struct database_config *a,
    const struct database_config *b)
{
	const void *x = (const char *)a + key->offset;
	const void *y = (const char *)b + key->offset;

	if (key->type != ENTRY_TEXT)
		return *(const int *)x == *(const int *)y;
	const char *s = *(const char *const *)x, *t = *(const char *const *)y;
	return s == t || (s && t && strcmp(s, t) == 0);
}

static bool has_same_params(
    const struct database_config *a, const struct database_config *b)
{
	if (a->param_count != b->param_count)
		return false;
	for (size_t i = 0; i < a->param_count; i++)
		if (strcmp(a->params[i].name, b->params[i].name) != 0 ||
		    strcmp(a->params[i].value, b->params[i].value) != 0)
			return false;
	return true;
}

bool entry_is_obsoleting(
    const struct database_config *a, const struct database_config *b)
{
	const struct entry_key *key;
	const struct setting *row;

	for (size_t i = 0; (key = entry_database_key(i)); i++)
		if ((key->flags & KEY_OBSOLETES) && !is_same_key(key, a, b))
			return true;
	for (size_t i = 0; (row = setting_at(i)); i++)
		if ((row->flags & OBSOLETES_ITS_DB) &&
		    !setting_is_equal_at(row, &a->own, &b->own))
			return true;
	return !has_same_params(a, b);
}
