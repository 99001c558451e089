/*
 * Entries by their key tables.  What a key means for pools and servers is not known
 * here; a number that is none counts as 0, as ever, but not without a remark.
 */
#include "conf/entry.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "conf/connstr.h"

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

/* The weights are added up by who uses them: keep the sum far from overflow. */
enum { WEIGHT_MAX = 1000000 };

static const struct entry_key database_keys[] = {
#define DATABASE_KEY(key, member, type, flags, help) \
	{#key, ENTRY_##type, offsetof(struct database_config, member), flags, help},
#include "conf/database_keys.def"
#undef DATABASE_KEY
};

static const struct entry_key user_keys[] = {
#define USER_KEY(key, member, type, flags, help) \
	{#key, ENTRY_##type, offsetof(struct user_config, member), flags, help},
#include "conf/user_keys.def"
#undef USER_KEY
};

static const struct entry_key peer_keys[] = {
#define PEER_KEY(key, member, type, flags, help) \
	{#key, ENTRY_##type, offsetof(struct peer_config, member), flags, help},
#include "conf/peer_keys.def"
#undef PEER_KEY
};

const struct entry_key *database_key_at(size_t i)
{
	return i < COUNT_OF(database_keys) ? &database_keys[i] : NULL;
}

const struct entry_key *user_key_at(size_t i)
{
	return i < COUNT_OF(user_keys) ? &user_keys[i] : NULL;
}

const struct entry_key *peer_key_at(size_t i)
{
	return i < COUNT_OF(peer_keys) ? &peer_keys[i] : NULL;
}

/* One entry on its way into a struct. */
struct entry {
	const struct entry_key *(*key_at)(size_t i);
	void *out;
	struct arena *arena;
	const struct entry_notes *notes;
	const char *syntax_error; /* whole text */
	const char *unknown_key;  /* text before the key */
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

/* C's atoi, with an end to too large numbers. */
static int leading_int(const char *s)
{
	long v = strtol(s, NULL, 10);

	return v > INT_MAX ? INT_MAX : v < INT_MIN ? INT_MIN : (int)v;
}

static int noted_int(const struct entry *e, const char *key, const char *value)
{
	char *stop;
	int v = leading_int(value);

	strtol(value, &stop, 10);
	if (stop == value || *stop)
		note(e->notes, "\"%.60s\" is not a whole number, %s is taken as %d",
		    value, key, v);
	return v;
}

static int set_port(int *out, const char *value, struct err *err)
{
	int port = leading_int(value);

	if (port < 1 || port > 65535)
		return err_set(err, "invalid port: %.100s", value);
	*out = port;
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
		return set_port(member, value, err);
	case ENTRY_POOL_MODE:
		return set_word(member, pool_mode_name, "pool mode", value, err);
	case ENTRY_SESSION_STATE:
		return set_word(member, session_state_name, key->key, value, err);
	case ENTRY_LOAD_BALANCE:
		return set_word(member, load_balance_name, key->key, value, err);
	case ENTRY_TLS_MODE:
		return set_word(member, tls_mode_name, key->key, value, err);
	case ENTRY_TLS_START:
		return set_word(member, tls_start_name, key->key, value, err);
	case ENTRY_CHANNEL_BINDING:
		return set_word(member, channel_binding_name, key->key, value, err);
	case ENTRY_SIZE:
		n = noted_int(e, key->key, value);
		*(int *)member = n < 0 ? -1 : n;
		return 0;
	case ENTRY_LIMIT:
		n = noted_int(e, key->key, value);
		*(int *)member = n > 0 ? n : -1;
		return 0;
	case ENTRY_DURATION:
		n = noted_int(e, key->key, value);
		*(uint64_t *)member = n > 0 ? (uint64_t)n * 1000000 : 0;
		return 0;
	case ENTRY_WAIT:
		n = noted_int(e, key->key, value);
		*(int64_t *)member = n > 0 ? (int64_t)n * 1000000 : 0;
		return 0;
	}
	return -1;
}

static const struct entry_key *find_key(const struct entry *e, const char *name)
{
	const struct entry_key *key;

	for (size_t i = 0; (key = e->key_at(i)); i++)
		if (strcmp(key->key, name) == 0)
			return key;
	return NULL;
}

static int take_pair(
    const struct entry *e, const char *name, const char *value, struct err *err)
{
	const struct entry_key *key = find_key(e, name);

	if (!key)
		return err_set(err, "%s: %.100s", e->unknown_key, name);
	return set_member(e, key, value, err);
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
		mem_wipe(
		    copy, strlen(text)); /* nobody else knows of a password in it */
	return rc;
}

static size_t count_hosts(const char *list)
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

	db->host_count = at ? count_hosts(at) : 1;
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

/* One weight for all hosts, or one for each. */
static int set_weights(
    struct database_config *db, const struct entry_notes *notes, struct err *err)
{
	const char *at = db->weight, *item;
	bool differ = false;
	size_t len, n = 0;
	int weight;

	if (!at)
		return 0;
	for (; text_list_next(&at, &item, &len); n++) {
		if (take_weight(item, len, &weight) < 0 || n >= db->host_count)
			return err_set(err, "invalid weight: %.100s", db->weight);
		db->hosts[n].weight = weight;
		differ = differ || weight != db->hosts[0].weight;
	}
	if (n != 1 && n != db->host_count)
		return err_set(err, "invalid weight: %.100s", db->weight);
	for (; n < db->host_count; n++)
		db->hosts[n].weight = db->hosts[0].weight;
	if (differ)
		note(notes, "setting \"weight\" has no effect in this version");
	return 0;
}

static void note_odd_hosts(
    const struct database_config *db, const struct entry_notes *notes)
{
	size_t commas = 0;

	if (!db->host)
		return;
	for (const char *p = db->host; *p; p++)
		commas += *p == ',';
	if (commas + 1 != db->host_count)
		note(notes, "empty names in the host list are left out");
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
	if (db->sslnegotiation == TLS_START_DIRECT && db->sslmode != -1 &&
	    db->sslmode < TLS_REQUIRE)
		return err_set(err, "sslnegotiation=direct needs sslmode=require, "
				    "verify-ca or verify-full");
	if (!db->sslcert != !db->sslkey)
		return err_set(err, "sslcert and sslkey belong together: set both");
	return 0;
}

int database_entry_parse(struct database_config *out, const char *name,
    const char *text, struct arena *arena, const struct entry_notes *notes,
    struct err *err)
{
	struct database_config db = {
	    .port = 5432,
	    .pool_size = -1,
	    .min_pool_size = -1,
	    .reserve_pool_size = -1,
	    .max_db_connections = -1,
	    .max_db_client_connections = -1,
	    .query_wait_timeout = -1,
	    .auth_query_cache_time = -1,
	    .pool_mode = -1,
	    .session_state = -1,
	    .sslmode = -1,
	    .channel_binding = -1,
	    .load_balance_hosts = LOAD_BALANCE_ROUND_ROBIN,
	};
	struct entry e = {database_key_at, &db, arena, notes,
	    "syntax error in connection string", "unrecognized connection parameter"};

	if (check_database_name(name, err) < 0 || parse_pairs(&e, text, err) < 0 ||
	    split_hosts(&db, arena, err) < 0 || set_weights(&db, notes, err) < 0 ||
	    check_tls(&db, err) < 0) {
		if (db.password)
			mem_wipe((char *)(uintptr_t)db.password, strlen(db.password));
		return -1;
	}
	note_odd_hosts(&db, notes);
	db.name = arena_strdup(arena, name);
	db.connstr = arena_strdup(arena, text);
	if (!db.dbname)
		db.dbname = db.name;
	*out = db;
	return 0;
}

int database_config_parse(struct database_config *db, const char *name,
    const char *connstr, struct arena *arena, struct err *err)
{
	return database_entry_parse(db, name, connstr, arena, NULL, err);
}

int user_entry_parse(struct user_config *out, const char *name, const char *text,
    struct arena *arena, const struct entry_notes *notes, struct err *err)
{
	struct user_config user = {
	    .pool_mode = -1,
	    .session_state = -1,
	    .pool_size = -1,
	    .reserve_pool_size = -1,
	    .max_user_connections = -1,
	    .max_user_client_connections = -1,
	    .query_wait_timeout = -1,
	};
	struct entry e = {user_key_at, &user, arena, notes,
	    "syntax error in user settings", "unrecognized user parameter"};

	if (parse_pairs(&e, text, err) < 0)
		return -1;
	if (strlen(name) > USER_NAME_MAX)
		note(notes, "a user name longer than %d bytes can never log in",
		    USER_NAME_MAX);
	user.name = arena_strdup(arena, name);
	*out = user;
	return 0;
}

int peer_entry_parse(struct peer_config *out, const char *name, const char *text,
    struct arena *arena, const struct entry_notes *notes, struct err *err)
{
	struct peer_config peer = {.port = 6432, .pool_size = -1};
	struct entry e = {peer_key_at, &peer, arena, notes,
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

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool database_config_is_obsoleting(
    const struct database_config *a, const struct database_config *b)
{
	const struct entry_key *key;

	for (size_t i = 0; (key = database_key_at(i)); i++) {
		const void *x = (const char *)a + key->offset;
		const void *y = (const char *)b + key->offset;

		if (!(key->flags & OBSOLETES))
			continue;
		if (key->type == ENTRY_TEXT) {
			if (!is_same_text(
				*(const char *const *)x, *(const char *const *)y))
				return true;
		} else {
			/* words and numbers that are kept as int */
			assert(key->type != ENTRY_DURATION && key->type != ENTRY_WAIT);
			if (*(const int *)x != *(const int *)y)
				return true;
		}
	}
	return false;
}
