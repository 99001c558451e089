/*
 * Schema of tracked parameters, interned values, sets of them and their difference.
 * When a SET is sent and what becomes of its answer is not known here.
 */
#include "wire/vars.h"

#include <assert.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/codec.h"

struct vars_schema {
	char **names; /* owned, each one too */
	size_t count;
	size_t named_count; /* of them built-in or configured */
	struct map *values; /* owned: text -> struct vars_value */
};

struct vars_value {
	size_t refs;
	char text[]; /* also its key in the map */
};

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
	s->names = mem_resize(s->names, (s->count + 1) * sizeof(*s->names));
	s->names[s->count++] = copy;
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
	/* what servers of some version report besides and clients may change */
	static const char *const reported[] = {"IntervalStyle",
	    "default_transaction_read_only", "search_path", "scram_iterations"};
	struct vars_schema *s = mem_zero(sizeof(*s));
	const char *item;
	size_t len;

	s->values = map_new();
	for (size_t i = 0; i < VAR_BUILTIN_COUNT; i++)
		add_name(s, builtin[i], strlen(builtin[i]));
	while (extra && text_list_next(&extra, &item, &len))
		add_name(s, item, len);
	s->named_count = s->count;
	for (size_t i = 0; i < sizeof(reported) / sizeof(reported[0]); i++)
		add_name(s, reported[i], strlen(reported[i]));
	return s;
}

void vars_schema_free(struct vars_schema **sp)
{
	struct vars_schema *s = *sp;

	if (!s)
		return;
	assert(map_count(s->values) == 0);
	map_free(&s->values);
	for (size_t i = 0; i < s->count; i++)
		mem_free(s->names[i]);
	mem_free(s->names);
	mem_free(s);
	*sp = NULL;
}

bool vars_schema_is_named(const struct vars_schema *s, size_t i)
{
	return i < s->named_count;
}

size_t vars_schema_count(const struct vars_schema *s)
{
	return s->count;
}

const char *vars_schema_name(const struct vars_schema *s, size_t i)
{
	assert(i < s->count);
	return s->names[i];
}

int vars_schema_find(const struct vars_schema *s, const char *name)
{
	for (size_t i = 0; i < s->count; i++)
		if (text_equal_nocase(s->names[i], name))
			return (int)i;
	return -1;
}

/* ---- values ---- */

static struct vars_value *intern(struct vars_schema *s, const char *text)
{
	struct vars_value *v = map_get_str(s->values, text);

	if (!v) {
		size_t size = strlen(text) + 1;
		v = try_alloc(sizeof(*v) + size);
		if (!v)
			return NULL;
		v->refs = 0;
		memcpy(v->text, text, size);
		map_put_str(s->values, v->text, v);
	}
	v->refs++;
	return v;
}

static void let_go(struct vars_schema *s, struct vars_value *v)
{
	if (!v || --v->refs)
		return;
	map_del_str(s->values, v->text);
	mem_free(v);
}

static struct vars_value *value_at(const struct vars *v, size_t i)
{
	return v->values ? v->values[i] : NULL;
}

/* The set takes over the caller's reference. */
static void put_value(struct vars *v, size_t i, struct vars_value *value)
{
	if (!v->values)
		v->values = mem_zero(v->schema->count * sizeof(struct vars_value *));
	let_go(v->schema, v->values[i]);
	v->values[i] = value;
}

/* ---- sets ---- */

void vars_init(struct vars *v, struct vars_schema *schema)
{
	v->schema = schema;
	v->values = NULL;
}

void vars_done(struct vars *v)
{
	if (!v->values)
		return;
	for (size_t i = 0; i < v->schema->count; i++)
		let_go(v->schema, v->values[i]);
	mem_free(v->values);
	v->values = NULL;
}

int vars_set(struct vars *v, size_t i, const char *text)
{
	struct vars_value *value = NULL;

	assert(i < v->schema->count);
	if (!text && !v->values)
		return 0;
	if (text && !(value = intern(v->schema, text)))
		return -1;
	put_value(v, i, value);
	return 0;
}

const char *vars_get(const struct vars *v, size_t i)
{
	assert(i < v->schema->count);
	struct vars_value *value = value_at(v, i);
	return value ? value->text : NULL;
}

void vars_take(struct vars *to, const struct vars *from)
{
	assert(to->schema == from->schema);
	if (!from->values)
		return;
	for (size_t i = 0; i < from->schema->count; i++) {
		struct vars_value *value = from->values[i];
		if (value && value != value_at(to, i)) {
			value->refs++;
			put_value(to, i, value);
		}
	}
}

/* ---- differences ---- */

static bool is_to_set(const struct vars *client, const struct vars *server, size_t i)
{
	const struct vars_value *a = client->values[i], *b = server->values[i];

	return a != b && a && b && !text_equal_nocase(a->text, b->text);
}

static bool may_differ(const struct vars *client, const struct vars *server)
{
	assert(client->schema == server->schema);
	return client->values && server->values;
}

bool vars_is_different(const struct vars *client, const struct vars *server)
{
	if (!may_differ(client, server))
		return false;
	for (size_t i = 0; i < client->schema->count; i++)
		if (is_to_set(client, server, i))
			return true;
	return false;
}

static bool is_name_byte(char c, bool is_first)
{
	if ((uint8_t)c >= 0x80 || c == '_' || (c >= 'a' && c <= 'z') ||
	    (c >= 'A' && c <= 'Z'))
		return true;
	return !is_first && (c == '$' || (c >= '0' && c <= '9'));
}

/* Length of the identifier, bare or in double quotes, at the start of s; 0 if none. */
static size_t identifier_len(const char *s)
{
	const char *at = s;

	if (*at != '"') {
		while (is_name_byte(*at, at == s))
			at++;
		return (size_t)(at - s);
	}
	do {
		at = strchr(at + 1, '"');
		if (!at)
			return 0;
	} while (*++at == '"');
	return (size_t)(at - s);
}

/* The reported list of identifiers as SET takes it: SET knows no empty identifier in
 * double quotes.  -1 when the value is no such list; sql is then untouched. */
static int put_path(struct buf *sql, const char *value)
{
	size_t before = sql->len;
	const char *at = value;

	for (;;) {
		size_t blanks = strspn(at, " ");
		size_t len = identifier_len(at + blanks);
		if (!len)
			break;
		buf_put(sql, at, blanks);
		at += blanks;
		if (len == 2 && *at == '"')
			buf_put_text(sql, "''");
		else
			buf_put(sql, at, len);
		at += len;
		at += strspn(at, " ");
		if (!*at)
			return 0;
		if (*at++ != ',')
			break;
		buf_put_u8(sql, ',');
	}
	sql->len = before;
	return -1;
}

static void put_set(
    struct buf *sql, const char *word, const char *name, const char *value)
{
	bool is_path = text_equal_nocase(name, "search_path");

	buf_put_text(sql, "SET ");
	buf_put_text(sql, word);
	buf_put_text(sql, name);
	buf_put_text(sql, "=");
	/* Anything else than a list, were it sent as it is, would be SQL of the
	 * client's. */
	if (!is_path || put_path(sql, value))
		text_put_literal(sql, value);
}

bool vars_is_put_set(const struct vars *client, const struct vars *server, size_t i,
    const char *word, struct buf *sql)
{
	if (!may_differ(client, server) || !is_to_set(client, server, i))
		return false;
	put_set(sql, word, client->schema->names[i], client->values[i]->text);
	return true;
}

size_t vars_put_set(
    const struct vars *client, const struct vars *server, struct buf *sql)
{
	size_t count = 0;

	for (size_t i = 0; i < client->schema->count; i++) {
		if (!vars_is_put_set(client, server, i, "", sql))
			continue;
		buf_put_text(sql, ";");
		count++;
	}
	return count;
}

void vars_put_status(
    const struct vars *wanted, const struct vars *server, struct buf *out)
{
	assert(wanted->schema == server->schema);
	for (size_t i = 0; i < wanted->schema->count; i++) {
		const char *value = vars_get(wanted, i);
		if (!value)
			value = vars_get(server, i);
		if (value)
			codec_put_parameter_status(
			    out, wanted->schema->names[i], value);
	}
}
