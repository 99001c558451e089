/*
 * The bytes of Parse, Bind, Describe and Close: finding the statement's name and
 * replacing it, also in errors, and the formats of a Bind. What the name stands for is
 * not known here, and the server checks the values.
 */
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "wire/codec.h"
#include "wire/prepared.h"

enum { HEADER_LEN = 5 };

/* Offsets in a message. */
struct place {
	size_t name, rest; /* of the statement's name, and of what follows its NUL */
};

/* Returns the offset behind the NUL of the string at `from`; 0 when the NUL is
 * missing. */
static size_t string_end(const uint8_t *bytes, size_t from, size_t have)
{
	/* the usual case: an empty string */
	if (from < have && !bytes[from])
		return from + 1;
	const uint8_t *nul = from < have ? memchr(bytes + from, 0, have - from) : NULL;

	return nul ? (size_t)(nul - bytes) + 1 : 0;
}

/* The result for a message with an unfinished string: it is incomplete or malformed. */
static enum prepared_target unended(size_t have, uint64_t size)
{
	return have < size ? PREPARED_PARTIAL : PREPARED_BROKEN;
}

/* Requires have <= size. */
static enum prepared_target find_name(
    const uint8_t *bytes, size_t have, uint64_t size, struct place *place)
{
	size_t at = HEADER_LEN;

	if (have <= HEADER_LEN)
		return unended(have, size);
	switch (bytes[0]) {
	case 'P':
		break;
	case 'B':
		at = string_end(bytes, at, have);
		if (!at)
			return unended(have, size);
		break;
	case 'D':
	case 'C':
		if (bytes[at] == 'P')
			return PREPARED_PORTAL;
		if (bytes[at++] != 'S')
			return PREPARED_BROKEN;
		break;
	default:
		return PREPARED_BROKEN;
	}
	place->name = at;
	place->rest = string_end(bytes, at, have);
	if (!place->rest)
		return unended(have, size);
	return bytes[at] ? PREPARED_NAMED : PREPARED_UNNAMED;
}

/* Checks the query text and types of a Parse: everything behind the name. */
static bool is_key_sound(const uint8_t *key, size_t len)
{
	struct cursor c;

	cursor_init(&c, key, len);
	cursor_str(&c);
	size_t types = cursor_u16(&c);
	return !c.overrun && cursor_left(&c) == types * sizeof(uint32_t);
}

/* Checks what follows the name, as far as it is there.  The values of a Bind are left
 * to the server. */
static bool is_rest_sound(const uint8_t *bytes, size_t have, uint64_t size, size_t rest)
{
	if (bytes[0] == 'P')
		return have < size || is_key_sound(bytes + rest, have - rest);
	return bytes[0] == 'B' || rest == size;
}

static size_t within(size_t have, uint64_t size)
{
	return have < size ? have : (size_t)size;
}

enum prepared_target prepared_look(
    const uint8_t *bytes, size_t have, uint64_t size, const char **name, size_t *rest)
{
	struct place place = {0};
	enum prepared_target target;

	have = within(have, size);
	target = find_name(bytes, have, size, &place);
	if (target == PREPARED_NAMED && !is_rest_sound(bytes, have, size, place.rest))
		target = PREPARED_BROKEN;
	*name = target == PREPARED_NAMED ? (const char *)bytes + place.name : "";
	if (rest)
		*rest = place.rest;
	return target;
}

void prepared_rename(const uint8_t *bytes, size_t have, uint64_t size, const char *name,
    struct buf *out, size_t *rest)
{
	struct place place = {0};
	enum prepared_target target =
	    find_name(bytes, within(have, size), size, &place);
	/* The length counts the name's NUL, but not the type byte. */
	uint64_t len = place.name + strlen(name) + (size - place.rest);

	*rest = place.rest;
	if ((target != PREPARED_NAMED && target != PREPARED_UNNAMED) ||
	    len > INT32_MAX) {
		out->failed = true;
		return;
	}
	buf_put_u8(out, bytes[0]);
	buf_put_u32(out, (uint32_t)len);
	buf_put(out, bytes + HEADER_LEN, place.name - HEADER_LEN);
	buf_put_str(out, name);
}

static bool is_word_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z') || c == '_' || c == '$';
}

/* Finds the first `word` in text that is not a part of a longer word, or NULL.  Only
 * ASCII letters and the like make a word longer, because localized messages use various
 * quotation marks around a name, even «. */
static const char *find_word(const char *text, const char *word)
{
	size_t len = strlen(word);
	const char *at = text;

	while (len && (at = strstr(at, word))) {
		bool is_whole =
		    (at == text || !is_word_char(at[-1])) && !is_word_char(at[len]);
		if (is_whole)
			return at;
		at++;
	}
	return NULL;
}

static void put_text_renamed(
    const char *text, const char *ours, const char *theirs, struct buf *out)
{
	const char *at = find_word(text, ours);

	if (at) {
		buf_put(out, text, (size_t)(at - text));
		buf_put_text(out, theirs);
		text = at + strlen(ours);
	}
	buf_put_str(out, text);
}

void prepared_put_error_renamed(const uint8_t *body, size_t len, const char *ours,
    const char *theirs, struct buf *out)
{
	size_t begin = codec_begin(out, 'E'), at = 0, end;

	while (at < len && body[at] && (end = string_end(body, at + 1, len))) {
		if (body[at] == 'M') {
			buf_put_u8(out, 'M');
			put_text_renamed(
			    (const char *)body + at + 1, ours, theirs, out);
		} else {
			buf_put(out, body + at, end - at);
		}
		at = end;
	}
	/* what is behind the list of fields, or could not be read, is copied
	 * unchanged */
	if (at < len)
		buf_put(out, body + at, len - at);
	codec_end(out, begin);
}

/* ---- Bind ---- */

/* Reads a list of format codes with its count.  False: one of them is not text. */
static bool is_text(struct cursor *c)
{
	bool all_text = true;

	for (size_t left = cursor_u16(c); left > 0 && !c->overrun; left--)
		if (cursor_u16(c) != 0)
			all_text = false;
	return all_text;
}

static bool is_typed(const struct prepared_text *text, size_t count)
{
	if (prepared_type_count(text) < count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (prepared_type(text, i) == 0)
			return false;
	return true;
}

bool prepared_may_bind_again(const uint8_t *bytes, size_t size,
    const struct prepared_text *text, bool is_described)
{
	struct cursor c;

	if (size < HEADER_LEN)
		return false;
	cursor_init(&c, bytes + HEADER_LEN, size - HEADER_LEN);
	cursor_str(&c);
	cursor_str(&c);
	bool params_are_text = is_text(&c);
	/* skips the parameter values */
	size_t params = cursor_u16(&c);
	for (size_t left = params; left > 0 && !c.overrun; left--) {
		uint32_t len = cursor_u32(&c);
		if (len <= INT32_MAX)
			cursor_bytes(&c, len);
	}
	bool results_are_text = is_text(&c);
	return !c.overrun && (params_are_text || is_typed(text, params)) &&
	       (results_are_text || is_described);
}
