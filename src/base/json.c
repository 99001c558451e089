#include "base/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 8, REPLACEMENT = 0xfffd };

/* Returns how many bytes follow the first byte of a UTF-8 character; 0 if it does not
 * begin a multi-byte character. */
static int followers(unsigned char first)
{
	return first >= 0xf0 && first <= 0xf4 ? 3
	       : first >= 0xe0                ? (first < 0xf0 ? 2 : 0)
	       : first >= 0xc2                ? 1
					      : 0;
}

static bool is_allowed(unsigned code, int follow)
{
	static const unsigned least[] = {0, 0x80, 0x800, 0x10000};

	return code >= least[follow] && code <= 0x10ffff &&
	       (code < 0xd800 || code > 0xdfff);
}

/* Returns the character at s and sets *len to its bytes.  A byte that is not valid
 * UTF-8 gives one replacement character. */
static unsigned decode(const unsigned char *s, size_t *len)
{
	int follow = followers(*s);
	unsigned code = *s & (0x3fu >> follow);

	*len = 1;
	if (*s < 0x80)
		return *s;
	for (int i = 1; i <= follow; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return REPLACEMENT;
		code = code << 6 | (s[i] & 0x3fu);
	}
	if (!follow || !is_allowed(code, follow))
		return REPLACEMENT;
	*len = (size_t)follow + 1;
	return code;
}

/* Control characters, and the characters that some readers take for a line end. */
static bool is_hidden(unsigned code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 ||
	       code == 0x2029;
}

static char short_escape(unsigned code)
{
	switch (code) {
	case '\n':
		return 'n';
	case '\t':
		return 't';
	case '\r':
		return 'r';
	case '"':
	case '\\':
		return (char)code;
	default:
		return '\0';
	}
}

/* Writes the JSON form of the character at s to `out` and returns its length; sets *len
 * to the bytes read. */
static size_t encode(const char *s, size_t *len, char out[PIECE])
{
	unsigned code = decode((const unsigned char *)s, len);
	char escape = short_escape(code);

	if (escape) {
		out[0] = '\\';
		out[1] = escape;
		return 2;
	}
	if (is_hidden(code) || (code == REPLACEMENT && *len == 1))
		return (size_t)snprintf(out, PIECE, "\\u%04x", code);
	memcpy(out, s, *len);
	return *len;
}

void json_put_text(struct buf *b, const char *text, size_t most)
{
	char piece[PIECE];
	size_t len;

	buf_put_u8(b, '"');
	while (*text) {
		/* copy the longest part that needs no escaping at once */
		for (len = 0; len < most && text[len] >= 0x20 && text[len] < 0x7f &&
			      text[len] != '"' && text[len] != '\\';
		     len++)
			;
		buf_put(b, text, len);
		text += len;
		most -= len;
		if (!*text || !most)
			break;
		size_t size = encode(text, &len, piece);
		if (size > most)
			break;
		buf_put(b, piece, size);
		text += len;
		most -= size;
	}
	buf_put_u8(b, '"');
}
