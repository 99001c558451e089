#include "wire/vars.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/codec.h"
#include "wire/reported_names.h"

struct vars_schema {
	char **names;      /* owned, also each string */
	size_t name_count; /* how many of them; the reported ones come behind them */
	size_t count;      /* of both, with places for all that may come */
	struct reported_names *reported; /* one reference */
	size_t named_count;    /* how many of them are built-in or configured */
	int standby;           /* index of in_hot_standby */
	uint64_t read_bits;    /* see vars_schema_read_bits */
	struct map *values;    /* owned: text and encoding -> struct vars_value */
	struct map *sets;      /* owned: values -> struct vars_set */
	uint64_t last_id;      /* the last id that a set got */
	struct vars_set *none; /* the set without values; has one reference */
	/* owned: one per name, borrowed; the values of the set that is looked for */
	struct vars_value **draft;
	struct buf key; /* of the value that is looked for */
};

/* The text and its zero are followed by the name of its encoding, if it has one.  Both
 * together are the key in the map. */
struct vars_value {
	size_t refs, key_len;
	const char *encoding; /* points behind the text; NULL: see vars_encoding */
	char text[];
};

struct vars_set {
	size_t refs;
	uint64_t id;
	struct vars_value *reading; /* a reference; NULL until vars_reading is called */
	/* borrowed */
	struct vars_schema *schema;
	/* One per name, with a reference; NULL: no value.  Also the key in the map. */
	struct vars_value *values[];
};

/* ---- values ---- */

static bool is_ascii(const char *text)
{
	while (*text && !((uint8_t)*text & 0x80))
		text++;
	return !*text;
}

/* Returns a reference, or NULL: no memory. */
static struct vars_value *intern(
    struct vars_schema *s, const char *text, const char *encoding)
{
	const void *key = text;
	size_t len = strlen(text) + 1;
	bool has_encoding = encoding && !is_ascii(text);
	struct vars_value *v;

	if (has_encoding) {
		buf_clear(&s->key);
		buf_put_str(&s->key, text);
		buf_put_str(&s->key, encoding);
		if (s->key.failed)
			return NULL;
		key = s->key.bytes;
		len = s->key.len;
	}
	v = map_get(s->values, key, len);
	if (!v) {
		v = mem_try(sizeof(*v) + len);
		if (!v)
			return NULL;
		v->refs = 0;
		v->key_len = len;
		memcpy(v->text, key, len);
		v->encoding = has_encoding ? v->text + strlen(text) + 1 : NULL;
		map_put(s->values, v->text, len, v);
	}
	v->refs++;
	return v;
}

static void let_go_value(struct vars_schema *s, struct vars_value *v)
{
	if (!v || --v->refs)
		return;
	map_del(s->values, v->text, v->key_len);
	mem_free(v);
}

/* ---- sets ---- */

static size_t values_size(const struct vars_schema *s)
{
	return s->count * sizeof(struct vars_value *);
}

/* Makes the set that s->draft describes, with references to its values. */
static void *make_set(void *ctx, uint32_t hash, const void **key)
{
	struct vars_schema *s = ctx;
	struct vars_set *set = mem_zero(sizeof(*set) + values_size(s));

	(void)hash;
	set->schema = s;
	set->id = ++s->last_id;
	for (size_t i = 0; i < s->count; i++) {
		struct vars_value *v = s->draft[i];
		if (v)
			v->refs++;
		set->values[i] = v;
	}
	*key = set->values;
	return set;
}

/* Returns a reference to the one set with the values in s->draft. */
static struct vars_set *intern_draft(struct vars_schema *s)
{
	struct vars_set *set =
	    map_get_or_put(s->sets, s->draft, values_size(s), make_set, s);

	set->refs++;
	return set;
}

static void let_go_set(struct vars_set *set)
{
	if (--set->refs)
		return;
	map_del(set->schema->sets, set->values, values_size(set->schema));
	for (size_t i = 0; i < set->schema->count; i++)
		let_go_value(set->schema, set->values[i]);
	let_go_value(set->schema, set->reading);
	mem_free(set);
}

static void replace_set(struct vars *v, struct vars_set *set)
{
	let_go_set(v->set);
	v->set = set;
}

void vars_init(struct vars *v, struct vars_schema *schema)
{
	v->set = schema->none;
	v->set->refs++;
}

void vars_done(struct vars *v)
{
	if (v->set)
		let_go_set(v->set);
	v->set = NULL;
}

void vars_share(struct vars *to, const struct vars *from)
{
	from->set->refs++;
	if (to->set)
		let_go_set(to->set);
	to->set = from->set;
}

const struct vars_schema *vars_schema(const struct vars *v)
{
	return v->set->schema;
}

static void replace_value(struct vars *v, size_t i, struct vars_value *value)
{
	struct vars_schema *s = v->set->schema;

	if (value == v->set->values[i])
		return;
	memcpy(s->draft, v->set->values, values_size(s));
	s->draft[i] = value;
	replace_set(v, intern_draft(s));
}

int vars_set_in(struct vars *v, size_t i, const char *text, const char *encoding)
{
	struct vars_schema *s = v->set->schema;
	struct vars_value *value = NULL;

	assert(i < s->count);
	if (text && !(value = intern(s, text, encoding)))
		return -1;
	replace_value(v, i, value);
	/* the set has a reference of its own */
	let_go_value(s, value);
	return 0;
}

int vars_set(struct vars *v, size_t i, const char *text)
{
	return vars_set_in(v, i, text, vars_get(v, VAR_CLIENT_ENCODING));
}

void vars_copy(struct vars *to, const struct vars *from, size_t i)
{
	assert(to->set->schema == from->set->schema && i < to->set->schema->count);
	replace_value(to, i, from->set->values[i]);
}

int vars_set_encoding(struct vars *v, uint64_t parameters)
{
	const char *encoding = vars_get(v, VAR_CLIENT_ENCODING);

	for (size_t i = 0; i < v->set->schema->count && i < 64; i++) {
		struct vars_value *value = v->set->values[i];
		if (!(parameters >> i & 1) || !value || is_ascii(value->text))
			continue;
		if (vars_set_in(v, i, value->text, encoding) < 0)
			return -1;
	}
	return 0;
}

bool vars_is_outside_ascii(const struct vars *v, size_t i)
{
	const char *text = vars_get(v, i);

	return text && !is_ascii(text);
}

const char *vars_encoding(const struct vars *v, size_t i)
{
	assert(i < v->set->schema->count);
	struct vars_value *value = v->set->values[i];
	return value ? value->encoding : NULL;
}

bool vars_may_be_told(const struct vars *client, const struct vars *v, size_t i)
{
	static const char any[] = "SQL_ASCII";
	const char *from = vars_encoding(v, i);
	const char *to = vars_get(client, VAR_CLIENT_ENCODING);

	return !from || !to || strcmp(from, to) == 0 || strcmp(from, any) == 0 ||
	       strcmp(to, any) == 0;
}

const char *vars_get(const struct vars *v, size_t i)
{
	assert(i < v->set->schema->count);
	struct vars_value *value = v->set->values[i];
	return value ? value->text : NULL;
}

/* ---- between threads ---- */

/* What stands before each value. */
enum { VALUE_NONE, VALUE, VALUE_ENCODED };

void vars_put_all(const struct vars *v, struct buf *out)
{
	for (size_t i = 0; i < v->set->schema->count; i++) {
		const struct vars_value *value = v->set->values[i];
		buf_put_u8(out, !value            ? VALUE_NONE
				: value->encoding ? VALUE_ENCODED
						  : VALUE);
		if (value)
			buf_put(out, value->text, value->key_len);
	}
}

static const char *take_string(const uint8_t **at, bool is_there)
{
	const char *string = is_there ? (const char *)*at : NULL;

	*at += string ? strlen(string) + 1 : 0;
	return string;
}

int vars_take_all(struct vars *v, const uint8_t **at)
{
	struct vars_schema *s = v->set->schema;
	bool has_failed = false;

	for (size_t i = 0; i < s->count; i++) {
		uint8_t kind = *(*at)++;
		const char *text = take_string(at, kind != VALUE_NONE);
		const char *encoding = take_string(at, kind == VALUE_ENCODED);
		s->draft[i] = text ? intern(s, text, encoding) : NULL;
		has_failed = has_failed || (text && !s->draft[i]);
	}
	struct vars_set *set = has_failed ? NULL : intern_draft(s);
	/* the set has references of its own */
	for (size_t i = 0; i < s->count; i++)
		let_go_value(s, s->draft[i]);
	if (!set)
		return -1;
	replace_set(v, set);
	return 0;
}

/* ---- readings ---- */

/* Whether the parameter influences how PostgreSQL understands a text in Parse.  These
 * names do not; of any other parameter, also an unknown one, it is safer to assume
 * it. */
static bool is_read(const struct vars_schema *s, size_t i)
{
	static const char *const others[] = {"application_name",
	    "default_transaction_read_only", "default_transaction_isolation",
	    "default_transaction_deferrable", "in_hot_standby", "is_superuser",
	    "extra_float_digits", "scram_iterations", "statement_timeout",
	    "lock_timeout", "idle_in_transaction_session_timeout",
	    "client_min_messages"};

	for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
		if (i < s->name_count && text_equal_nocase(s->names[i], others[k]))
			return false;
	return true;
}

bool vars_is_silently_read(const char *name, size_t len)
{
	static const char *const names[] = {"array_nulls", "backslash_quote",
	    "bytea_output", "escape_string_warning", "extra_float_digits",
	    "lc_monetary", "role", "row_security", "timezone_abbreviations",
	    "transform_null_equals", "xmlbinary", "xmloption"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == len && strncasecmp(names[i], name, len) == 0)
			return true;
	return false;
}

uint64_t vars_schema_read_bits(const struct vars_schema *s)
{
	return s->read_bits;
}

const char *vars_reading(const struct vars *v)
{
	struct vars_set *set = v->set;
	struct buf text;

	if (set->reading)
		return set->reading->text;
	buf_init(&text, 0);
	for (size_t i = 0; i < set->schema->count; i++) {
		if (!is_read(set->schema, i))
			continue;
		if (set->values[i])
			text_put_literal(&text, set->values[i]->text);
		buf_put_text(&text, ",");
	}
	buf_put_u8(&text, 0);
	if (!text.failed)
		set->reading = intern(set->schema, (const char *)text.bytes, NULL);
	buf_done(&text);
	return set->reading ? set->reading->text : NULL;
}

/* Returns the set with the values of first, and with those of second where first has
 * none. */
static struct vars_set *merge(
    const struct vars_set *first, const struct vars_set *second)
{
	struct vars_schema *s = first->schema;

	assert(s == second->schema);
	for (size_t i = 0; i < s->count; i++)
		s->draft[i] = first->values[i] ? first->values[i] : second->values[i];
	return intern_draft(s);
}

void vars_take(struct vars *to, const struct vars *from)
{
	if (from->set != to->set)
		replace_set(to, merge(from->set, to->set));
}

void vars_fill(struct vars *to, const struct vars *from)
{
	if (from->set != to->set)
		replace_set(to, merge(to->set, from->set));
}

/* ---- schema ---- */

static void add_name(struct vars_schema *s, const char *name, size_t len)
{
	char *copy = mem_alloc(len + 1);

	memcpy(copy, name, len);
	copy[len] = '\0';
	if (vars_schema_find(s, copy) >= 0) {
		mem_free(copy);
		return;
	}
	s->names = mem_resize(s->names, (s->name_count + 1) * sizeof(*s->names));
	s->names[s->name_count++] = copy;
}

struct vars_schema *vars_schema_new(const char *extra)
{
	static const char *const builtin[VAR_BUILTIN_COUNT] = {
	    [VAR_DATESTYLE] = "DateStyle",
	    [VAR_CLIENT_ENCODING] = "client_encoding",
	    [VAR_TIMEZONE] = "TimeZone",
	    [VAR_STD_STRINGS] = "standard_conforming_strings",
	    [VAR_APPLICATION_NAME] = "application_name",
	};
	/* clients may change these, and servers of some versions report them */
	static const char *const reported[] = {"IntervalStyle",
	    "default_transaction_read_only", "search_path", "scram_iterations"};
	static const char standby[] = "in_hot_standby";
	struct vars_schema *s = mem_zero(sizeof(*s));
	const char *item;
	size_t len;

	s->values = map_new();
	s->sets = map_new();
	s->reported = reported_names_new();
	for (size_t i = 0; i < VAR_BUILTIN_COUNT; i++)
		add_name(s, builtin[i], strlen(builtin[i]));
	while (extra && text_list_next(&extra, &item, &len))
		add_name(s, item, len);
	s->named_count = s->name_count;
	for (size_t i = 0; i < sizeof(reported) / sizeof(reported[0]); i++)
		add_name(s, reported[i], strlen(reported[i]));
	add_name(s, standby, strlen(standby));
	s->standby = vars_schema_find(s, standby);
	s->count = s->name_count + REPORTED_NAMES_MOST;
	for (size_t i = 0; i < s->count && i < 64; i++)
		s->read_bits |= is_read(s, i) ? UINT64_C(1) << i : 0;
	s->draft = mem_zero(values_size(s));
	buf_init(&s->key, 0);
	s->none = intern_draft(s);
	return s;
}

void vars_schema_free(struct vars_schema **sp)
{
	struct vars_schema *s = *sp;

	if (!s)
		return;
	let_go_set(s->none);
	assert(map_count(s->sets) == 0 && map_count(s->values) == 0);
	map_free(&s->sets);
	map_free(&s->values);
	for (size_t i = 0; i < s->name_count; i++)
		mem_free(s->names[i]);
	reported_names_unref(&s->reported);
	mem_free(s->names);
	mem_free(s->draft);
	buf_done(&s->key);
	mem_free(s);
	*sp = NULL;
}

bool vars_schema_is_named(const struct vars_schema *s, size_t i)
{
	return i < s->named_count;
}

bool vars_schema_may_be_set(const struct vars_schema *s, size_t i)
{
	return (int)i != s->standby;
}

size_t vars_schema_count(const struct vars_schema *s)
{
	return s->count;
}

const char *vars_schema_name(const struct vars_schema *s, size_t i)
{
	assert(i < s->count);
	return i < s->name_count ? s->names[i]
				 : reported_names_get(s->reported, i - s->name_count);
}

int vars_schema_find(const struct vars_schema *s, const char *name)
{
	for (size_t i = 0; i < s->name_count; i++)
		if (text_equal_nocase(s->names[i], name))
			return (int)i;
	int place = reported_names_find(s->reported, name);
	return place < 0 ? -1 : (int)s->name_count + place;
}

int vars_schema_learn(struct vars_schema *s, const char *name)
{
	int i = vars_schema_find(s, name);

	if (i >= 0)
		return i;
	i = reported_names_add(s->reported, name);
	return i < 0 ? -1 : (int)s->name_count + i;
}

void vars_schema_share(struct vars_schema *s, struct reported_names *reported)
{
	reported_names_unref(&s->reported);
	s->reported = reported_names_ref(reported);
}

bool vars_schema_is_learned(const struct vars_schema *s, size_t i)
{
	return i >= s->name_count;
}

/* ---- differences ---- */

static bool is_to_set(const struct vars *client, const struct vars *server, size_t i)
{
	const struct vars_value *a = client->set->values[i];
	const struct vars_value *b = server->set->values[i];

	return a != b && a && b;
}

static bool may_differ(const struct vars *client, const struct vars *server)
{
	assert(client->set->schema == server->set->schema);
	return client->set != server->set;
}

bool vars_is_same(const struct vars *a, const struct vars *b, size_t i)
{
	assert(a->set->schema == b->set->schema && i < a->set->schema->count);
	return a->set->values[i] == b->set->values[i];
}

bool vars_is_equal(const struct vars *a, const struct vars *b)
{
	return a->set == b->set;
}

uint64_t vars_id(const struct vars *v)
{
	return v->set->id;
}

bool vars_is_different(const struct vars *client, const struct vars *server)
{
	if (!may_differ(client, server))
		return false;
	for (size_t i = 0; i < client->set->schema->count; i++)
		if (is_to_set(client, server, i))
			return true;
	return false;
}

static void put_set(
    const struct vars *v, size_t i, const char *word, bool is_raw, struct buf *sql)
{
	const char *name = vars_schema_name(v->set->schema, i);
	const struct vars_value *value = v->set->values[i];
	bool is_converted = value->encoding && !is_raw;
	bool is_function = !word || is_converted ||
			   vars_schema_is_learned(v->set->schema, i) ||
			   text_equal_nocase(name, "search_path");

	buf_put_text(sql, is_function ? "SELECT pg_catalog.set_config('" : "SET ");
	buf_put_text(sql, is_function ? "" : word);
	buf_put_text(sql, name);
	buf_put_text(sql, is_function ? "'," : "=");
	if (is_converted) {
		/* an expression that PostgreSQL reads alike under every client_encoding
		 */
		buf_put_text(sql, "pg_catalog.convert_from(pg_catalog.decode('");
		for (const char *at = value->text; *at; at++)
			buf_printf(sql, "%02x", (uint8_t)*at);
		buf_put_text(sql, "','hex'),");
		text_put_literal(sql, value->encoding);
		buf_put_text(sql, ")");
	} else if (is_raw)
		text_put_ascii_literal(sql, value->text);
	else
		text_put_literal(sql, value->text);
	if (is_function)
		buf_put_text(sql, word && *word ? ",true)" : ",false)");
	/* the result would be sent in the client_encoding, which may not have it */
	if (is_converted)
		buf_put_text(sql, " IS NULL");
}

bool vars_is_put_set(const struct vars *client, const struct vars *server, size_t i,
    const char *word, struct buf *sql)
{
	if (!may_differ(client, server) || !is_to_set(client, server, i))
		return false;
	put_set(client, i, word, false, sql);
	return true;
}

void vars_put_set_raw(const struct vars *asked, size_t i, struct buf *sql)
{
	put_set(asked, i, "", true, sql);
}

void vars_put_reset(const struct vars_schema *s, size_t i, struct buf *sql)
{
	buf_printf(sql, "RESET %s", vars_schema_name(s, i));
}

struct status {
	const struct vars *wanted, *server;
	const struct vars *clients; /* the one that has the client_encoding */
	uint64_t seen;              /* bits of those of the first 64 that were put */
};

static void put_one(struct status *st, size_t i, struct buf *out)
{
	const struct vars *from = vars_get(st->wanted, i) ? st->wanted : st->server;
	const char *value = vars_get(from, i);

	if (!value || !vars_may_be_told(st->clients, from, i) ||
	    (i < 64 && st->seen & UINT64_C(1) << i))
		return;
	st->seen |= i < 64 ? UINT64_C(1) << i : 0;
	codec_put_parameter_status(
	    out, vars_schema_name(st->wanted->set->schema, i), value);
}

/* Those that the server reports, but that are not named. */
static void put_reported(struct status *st, const struct buf *reported, struct buf *out)
{
	enum { HEADER_LEN = 5 };
	const struct vars_schema *s = st->wanted->set->schema;
	const uint8_t *p = reported->bytes, *end = p + reported->len;

	while (end - p > HEADER_LEN) {
		size_t size = (size_t)get_u32(p + 1) + 1;
		if (size <= HEADER_LEN || size > (size_t)(end - p) || p[size - 1])
			return;
		int i = vars_schema_find(s, (const char *)p + HEADER_LEN);
		if (i < 0)
			buf_put(out, p, size);
		else if (!vars_schema_is_named(s, (size_t)i))
			put_one(st, (size_t)i, out);
		p += size;
	}
}

void vars_put_status(const struct vars *wanted, const struct vars *server,
    const struct buf *reported, struct buf *out)
{
	const struct vars_schema *s = wanted->set->schema;
	struct status st = {.wanted = wanted, .server = server};

	st.clients = vars_get(wanted, VAR_CLIENT_ENCODING) ? wanted : server;
	assert(s == server->set->schema);
	if (reported->len)
		put_reported(&st, reported, out);
	for (size_t i = 0; i < s->count; i++)
		put_one(&st, i, out);
}
