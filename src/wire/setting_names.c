/*
 * Looks at the bytes of a text without cutting it into tokens.  A name too many costs a
 * little when the server is asked, so what only looks like a SET counts.
 */
#include "wire/setting_names.h"

#include <string.h>
#include <strings.h>

#include "wire/kept_settings.h"

static bool is_of_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '$' || (c & 0x80);
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || (*at >= '\t' && *at <= '\r')))
		at++;
	return at;
}

/* Does this word stand here, as a whole?  Returns what is behind it, or NULL. */
static const char *skip_word(const char *at, const char *end, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(end - at) < len || strncasecmp(at, word, len) != 0 ||
	    (at + len < end && is_of_name(at[len])))
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
		if ((!is_of_name(c) && c != '.') || (c & 0x80)) {
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
	} else if (memchr(name, '.', (size_t)(last - name))) {
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

	for (const char *at = text; at < end; at++) {
		if ((*at | 0x20) != 's' || (at > text && is_of_name(at[-1])))
			continue;
		if ((behind = skip_word(at, end, "set_config")))
			look_at_call(behind, end, &found, names);
		if (behind || !(behind = skip_word(at, end, "set")))
			continue;
		const char *name = skip_blanks(behind, end), *last;
		if ((behind = skip_word(name, end, "session")))
			name = skip_blanks(behind, end);
		for (last = name;
		     last < end && (is_of_name(*last) || strchr("\".", *last));)
			last++;
		behind = skip_blanks(last, end);
		if (!memchr(name, '.', (size_t)(last - name)) || behind == end ||
		    (*behind != '=' && !skip_word(behind, end, "to")))
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
			may_be = is_of_name(value[i]) || value[i] == '.';
		is_known = (!may_be || put_name(value, len, names)) && is_known;
	}
	return is_known && !c.overrun;
}
