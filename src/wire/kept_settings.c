/*
 * Lists of names and values, which are short: they are searched from their beginning.
 * The names that a text sets are found among its bytes without cutting it into tokens;
 * a name too many costs a little when the server is asked, so what only looks like a
 * SET counts.
 */
#include "wire/kept_settings.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "wire/sql_calls.h"
#include "wire/sql_scan.h"
#include "wire/vars.h"

static const char resetting[] = "-";

/* Behind the word SET; a comment there may be about as long. */
enum { LOOKED_AT_MOST = 1024 };

/* They come last, because what the client has set before may need the rights of the
 * role before; and they are taken back first. */
static const char *const roles[] = {"session_authorization", "role"};
enum { ROLES = sizeof(roles) / sizeof(roles[0]) };

/* Behind a value stands the next name. */
static const char *value_of(const char *name)
{
	return name + strlen(name) + 1;
}

#define FOR_NAMES(name, settings)                                      \
	for (const char *name = (settings) ? (settings)->bytes : NULL; \
	     name && name < (settings)->bytes + (settings)->len;       \
	     name = value_of(value_of(name)))

/* NULL: it is not among them. */
static const char *find(const struct kept_settings *settings, const char *wanted)
{
	FOR_NAMES(name, settings)
	if (strcmp(name, wanted) == 0)
		return value_of(name);
	return NULL;
}

bool kept_settings_has(const struct kept_settings *settings, const char *name)
{
	return find(settings, name) != NULL;
}

bool kept_settings_are_read_apart(const struct kept_settings *settings)
{
	FOR_NAMES(name, settings)
	{
		/* Drivers send one above 0, which are all the same since PostgreSQL 12.
		 * The value is in hexadecimal digits, behind a sign or not. */
		const char *value = value_of(name);
		if (vars_is_silently_read(name, strlen(name)) &&
		    (strcmp(name, "extra_float_digits") != 0 ||
			strncmp(value, "2d", 2) == 0 || strcmp(value, "30") == 0))
			return true;
	}
	return false;
}

bool kept_settings_are_read(const struct kept_settings *settings)
{
	return settings && (kept_settings_has(settings, "search_path") ||
			       kept_settings_are_read_apart(settings));
}

static bool is_role(const char *name)
{
	return strcmp(name, roles[0]) == 0 || strcmp(name, roles[1]) == 0;
}

/* ---- lists ---- */

static bool is_name(const uint8_t *name, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!(name[i] >= 'a' && name[i] <= 'z') &&
		    !(name[i] >= '0' && name[i] <= '9') && !memchr("_.$", name[i], 3))
			return false;
	return len > 0 && len <= KEPT_NAME_MOST;
}

static bool is_value(const uint8_t *hex, size_t len)
{
	if (len == 1 && *hex == (uint8_t)*resetting)
		return true;
	for (size_t i = 0; i < len; i++)
		if (!(hex[i] >= '0' && hex[i] <= '9') &&
		    !(hex[i] >= 'a' && hex[i] <= 'f'))
			return false;
	return len % 2 == 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted by names, so that equal settings are equal bytes. */
struct kept_settings *kept_settings_new(const void *bytes, size_t len)
{
	struct kept_settings *settings;
	const char **names;
	size_t count = 0;
	struct cursor c;

	cursor_init(&c, bytes, len);
	for (; cursor_left(&c); count++) {
		const char *name = cursor_str(&c), *value = cursor_str(&c);
		if (!name || !value || !is_name((const uint8_t *)name, strlen(name)) ||
		    !is_value((const uint8_t *)value, strlen(value)))
			return NULL;
	}
	settings = len ? mem_try(sizeof(*settings) + len) : NULL;
	names = settings ? mem_try(count * sizeof(*names)) : NULL;
	if (!names) {
		mem_free(settings);
		return NULL;
	}
	cursor_init(&c, bytes, len);
	for (size_t i = 0; i < count; i++) {
		names[i] = cursor_str(&c);
		(void)cursor_str(&c);
	}
	qsort(names, count, sizeof(*names), compare);
	settings->len = 0;
	for (size_t i = 0; i < count; i++) {
		if (i && strcmp(names[i], names[i - 1]) == 0)
			continue;
		const char *end = value_of(value_of(names[i]));
		memcpy(settings->bytes + settings->len, names[i],
		    (size_t)(end - names[i]));
		settings->len += (size_t)(end - names[i]);
	}
	mem_free(names);
	return settings;
}

bool kept_settings_is_same(const struct kept_settings *a, const struct kept_settings *b)
{
	return a == b ||
	       (a && b && a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0);
}

bool kept_settings_add(struct buf *out, const uint8_t *name, size_t name_len,
    const uint8_t *hex, size_t len)
{
	if (!is_name(name, name_len) || !is_value(hex, len) ||
	    out->len + name_len + len + 2 > KEPT_SETTINGS_MOST)
		return false;
	buf_put(out, name, name_len);
	buf_put_u8(out, 0);
	buf_put(out, hex, len);
	buf_put_u8(out, 0);
	return !out->failed;
}

bool kept_settings_is_default(const struct buf *defaults, const uint8_t *name,
    size_t name_len, const uint8_t *hex, size_t len)
{
	static const char none[] = "6e6f6e65"; /* what role is without SET ROLE */
	const char *value = NULL;
	char rank = 0;
	struct cursor c;

	cursor_init(&c, defaults->bytes, defaults->len);
	while (cursor_left(&c)) {
		const char *its = cursor_str(&c), *its_value = cursor_str(&c);
		if (strlen(its) != name_len + 1 ||
		    memcmp(its + 1, name, name_len) != 0 || (value && rank < *its))
			continue;
		rank = *its;
		value = its_value;
	}
	if (!value)
		value = memchr(name, '.', name_len) ? "" : none;
	return strlen(value) == len && memcmp(value, hex, len) == 0;
}

static void put_pair(struct buf *out, const char *name, const char *value)
{
	buf_put_str(out, name);
	buf_put_str(out, value);
}

int kept_settings_difference(const struct buf *session, const struct kept_settings *own,
    struct kept_settings **result)
{
	struct kept_settings *all = kept_settings_new(session->bytes, session->len);
	struct buf out;

	*result = NULL;
	if (session->len && !all)
		return -1;
	if (!own) {
		*result = all;
		return 0;
	}
	buf_init(&out, 0);
	FOR_NAMES(name, all)
	{
		const char *ours = find(own, name);
		if (!ours || strcmp(ours, value_of(name)) != 0)
			put_pair(&out, name, value_of(name));
	}
	FOR_NAMES(name, own)
	if (!find(all, name))
		put_pair(&out, name, resetting);
	*result = out.failed ? NULL : kept_settings_new(out.bytes, out.len);
	bool has_failed = out.failed || (out.len && !*result);
	buf_done(&out);
	mem_free(all);
	return has_failed ? -1 : 0;
}

/* The bytes become the settings.  -1: no memory. */
static int become(struct kept_settings **settings, struct buf *bytes, bool has_failed)
{
	struct kept_settings *made = has_failed || bytes->failed
					 ? NULL
					 : kept_settings_new(bytes->bytes, bytes->len);

	if (made) {
		mem_free(*settings);
		*settings = made;
	}
	buf_done(bytes);
	return made ? 0 : -1;
}

int kept_settings_set(
    struct kept_settings **settings, const char *name, const char *value)
{
	struct buf out, lower, hex;

	buf_init(&out, 0);
	buf_init(&lower, 0);
	buf_init(&hex, 0);
	text_put_lower(&lower, name);
	/* PostgreSQL takes the bytes of a startup packet in the encoding of the
	 * database, as settings are kept. */
	for (const char *at = value; *at; at++)
		buf_printf(&hex, "%02x", (uint8_t)*at);
	bool has_failed = lower.failed || hex.failed;
	FOR_NAMES(other, *settings)
	if (!has_failed && strcmp(other, buf_text(&lower)) != 0)
		put_pair(&out, other, value_of(other));
	has_failed = has_failed || !kept_settings_add(&out, lower.bytes, lower.len,
				       hex.bytes, hex.len);
	buf_done(&lower);
	buf_done(&hex);
	return become(settings, &out, has_failed);
}

int kept_settings_take(
    struct kept_settings **settings, const char *name, struct buf *value)
{
	const char *hex = find(*settings, name);
	struct buf out;

	if (!hex)
		return 0;
	for (; value && hex[0] && hex[1]; hex += 2) {
		const char digits[] = {hex[0], hex[1], '\0'};
		buf_put_u8(value, (uint8_t)strtoul(digits, NULL, 16));
	}
	buf_init(&out, 0);
	FOR_NAMES(other, *settings)
	if (strcmp(other, name) != 0)
		put_pair(&out, other, value_of(other));
	if (out.len || out.failed)
		return become(settings, &out, false) < 0 ? -1 : 1;
	mem_free(*settings);
	*settings = NULL;
	return 1;
}

int kept_settings_add_missing(
    struct kept_settings **settings, const struct kept_settings *from)
{
	struct buf out;
	size_t before;

	buf_init(&out, 0);
	if (*settings)
		buf_put(&out, (*settings)->bytes, (*settings)->len);
	before = out.len;
	FOR_NAMES(name, from)
	if (!find(*settings, name))
		put_pair(&out, name, value_of(name));
	if (out.len > before || out.failed)
		return become(settings, &out, false);
	buf_done(&out);
	return 0;
}

void kept_settings_put_names(const struct kept_settings *settings, struct buf *names)
{
	FOR_NAMES(name, settings)
	if (strchr(name, '.'))
		buf_put_str(names, name);
}

/* ---- SQL ---- */

/* value: NULL or "-" resets it */
static void put_row(struct buf *sql, size_t *count, const char *name, const char *value)
{
	buf_put_text(sql, (*count)++ ? ",('" : "SELECT FROM (VALUES ('");
	buf_put_text(sql, name);
	if (!value || strcmp(value, resetting) == 0) {
		buf_put_text(sql, "',NULL)");
		return;
	}
	buf_put_text(sql, "','");
	buf_put_text(sql, value);
	buf_put_text(sql, "')");
}

/* The function returns a value for each row, so that no row is sent. */
static bool end_rows(struct buf *sql, size_t count)
{
	if (count)
		buf_put_text(sql,
		    ") x(n,v) WHERE pg_catalog.set_config(n,pg_catalog.convert_from("
		    "pg_catalog.decode(v,'hex'),pg_catalog.getdatabaseencoding()),"
		    "false) IS NULL;");
	return count > 0;
}

bool kept_settings_put_back(const struct kept_settings *in_force,
    const struct kept_settings *wanted, const struct kept_settings *own,
    struct buf *sql)
{
	size_t count = 0;

	for (size_t i = 0; i < ROLES; i++)
		if (find(in_force, roles[i]))
			put_row(sql, &count, roles[i], find(own, roles[i]));
	FOR_NAMES(name, in_force)
	if (!is_role(name) && !find(wanted, name))
		put_row(sql, &count, name, find(own, name));
	return end_rows(sql, count);
}

bool kept_settings_put(const struct kept_settings *wanted,
    const struct kept_settings *in_force, struct buf *sql)
{
	size_t count = 0;

	FOR_NAMES(name, wanted)
	{
		const char *now = find(in_force, name);
		if (!is_role(name) && (!now || strcmp(now, value_of(name)) != 0))
			put_row(sql, &count, name, value_of(name));
	}
	for (size_t i = 0; i < ROLES; i++) {
		const char *value = find(wanted, roles[i]);
		if (value)
			put_row(sql, &count, roles[i], value);
	}
	return end_rows(sql, count);
}

/* ---- names that a text sets ---- */

/* Behind a comment that may begin here. */
static const char *skip_comment(const char *at, const char *end)
{
	size_t depth = 0;

	if (end - at >= 2 && at[0] == '-' && at[1] == '-') {
		while (at < end && *at != '\n' && *at != '\r')
			at++;
		return at;
	}
	for (; end - at >= 2; at++) {
		if (at[0] == '/' && at[1] == '*')
			depth++;
		else if (depth && at[0] == '*' && at[1] == '/')
			depth--;
		else if (depth)
			continue;
		else
			return at;
		at++;
	}
	return at;
}

/* Comments count as blanks. */
static const char *skip_blanks(const char *at, const char *end)
{
	for (const char *from = NULL; at != from;) {
		from = at;
		while (at < end && (*at == ' ' || (*at >= '\t' && *at <= '\r')))
			at++;
		at = skip_comment(at, end);
	}
	return at;
}

/* Behind a name.  Between its parts may be blanks, which put_name refuses. */
static const char *skip_name(const char *at, const char *end)
{
	for (;;) {
		const char *from = at, *next;
		while (at < end && (sql_is_of_name(*at) || strchr("\".&", *at)))
			at++;
		next = skip_blanks(at, end);
		if (next == at || next == end ||
		    (*next != '.' && (at == from || at[-1] != '.')))
			return at;
		at = next;
	}
}

/* Does this word stand here, as a whole?  Returns what is behind it, or NULL. */
static const char *skip_word(const char *at, const char *end, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(end - at) < len || strncasecmp(at, word, len) != 0 ||
	    (at + len < end && sql_is_of_name(at[len])))
		return NULL;
	return at + len;
}

/* Appends a name with a dot, unless it is there.  False: PostgreSQL may take it, but it
 * cannot be asked for. */
static bool put_name(const char *name, size_t len, struct buf *names)
{
	size_t from = names->len;

	if (!len || len > KEPT_NAME_MOST)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = name[i];
		if (c == '"')
			continue;
		if ((!sql_is_of_name(c) && c != '.') || (c & 0x80)) {
			names->len = from;
			return false;
		}
		buf_put_u8(names, (uint8_t)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c));
	}
	buf_put_u8(names, 0);
	if (names->failed) {
		names->len = from; /* no part of a name */
		return false;
	}
	const char *last = (const char *)names->bytes + from;
	for (const char *at = (const char *)names->bytes; at < last;
	     at += strlen(at) + 1)
		if (strcmp(at, last) == 0) {
			names->len = from;
			break;
		}
	return true;
}

/* Behind set_config.  Within a string its quotes are doubled. */
static void look_at_call(
    const char *at, const char *end, struct setting_names *found, struct buf *names)
{
	at = skip_blanks(at + (at < end && *at == '"'), end);
	if (at == end || *at != '(')
		return;
	at = skip_blanks(at + 1, end);
	if (at < end && *at == '$' && at + 1 < end && at[1] >= '0' && at[1] <= '9') {
		for (at++; at < end && *at >= '0' && *at <= '9';)
			at++;
		at = skip_blanks(at, end);
		found->has_params = true;
		/* a cast may follow, and no operator */
		found->is_unknown |= at < end && *at != ',' && *at != ':';
		return;
	}
	const char *name = at;
	while (name < end && *name == '\'')
		name++;
	const char *last = name;
	while (last < end && *last != '\'')
		last++;
	if (name == at || last == end) {
		found->is_unknown = true;
	} else if (memchr(name, '.', (size_t)(last - name)) ||
		   memchr(name, '\\', (size_t)(last - name))) {
		found->count++;
		found->is_unknown |= !put_name(name, (size_t)(last - name), names);
	}
	/* a cast, or a part of the name */
	while (last < end && *last == '\'')
		last++;
	last = skip_blanks(last, end);
	found->is_unknown |= last < end && *last != ',' && *last != ':';
}

struct setting_names setting_names_of_text(
    const char *text, size_t len, struct buf *names)
{
	struct setting_names found = {0};
	const char *end = text + strnlen(text, len), *behind;

	/* it may be set_config */
	len = (size_t)(end - text);
	found.is_unknown =
	    memchr(text, '(', len) && sql_calls_has_escaped_name(text, len);
	for (const char *at = text; at < end; at++) {
		if ((*at | 0x20) != 's' || (at > text && sql_is_of_name(at[-1])))
			continue;
		const char *near =
		    end - at > LOOKED_AT_MOST ? at + LOOKED_AT_MOST : end;
		if ((behind = skip_word(at, end, "set_config")))
			look_at_call(behind, near, &found, names);
		if (behind || !(behind = skip_word(at, end, "set")))
			continue;
		const char *name = skip_blanks(behind, near), *last;
		if ((behind = skip_word(name, near, "session")))
			name = skip_blanks(behind, near);
		last = skip_name(name, near);
		behind = skip_blanks(last, near);
		if (!memchr(name, '.', (size_t)(last - name)) || behind == near ||
		    (*behind != '=' && !skip_word(behind, near, "to")))
			continue;
		found.count++;
		found.is_unknown |= !put_name(name, (size_t)(last - name), names);
	}
	found.is_unknown |= names->failed;
	return found;
}

bool setting_names_of_bind(const uint8_t *bind, size_t size, struct buf *names)
{
	bool is_known = true;
	struct cursor c;

	cursor_init(&c, bind + 5, size - 5);
	(void)cursor_str(&c);
	(void)cursor_str(&c);
	for (int formats = cursor_u16(&c); formats > 0; formats--)
		(void)cursor_u16(&c);
	for (int values = cursor_u16(&c); values > 0 && !c.overrun; values--) {
		uint32_t len = cursor_u32(&c);
		if (len == UINT32_MAX)
			continue;
		const char *value = (const char *)cursor_bytes(&c, len);
		/* a dot within, and letters at both sides */
		const char *dot = value && len ? memchr(value, '.', len) : NULL;
		bool may_be = dot && dot != value && dot != value + len - 1 &&
			      !(*value >= '0' && *value <= '9');
		for (size_t i = 0; may_be && i < len; i++)
			may_be = sql_is_of_name(value[i]) || value[i] == '.';
		is_known = (!may_be || put_name(value, len, names)) && is_known;
	}
	return is_known && !c.overrun;
}
