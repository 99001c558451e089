/*
 * Texts as JSON has them.
 */
#include "base/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 8, REPLACEMENT = 0xfffd };

/* How many bytes follow the first one of a character; 0: it begins none of several. */
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

/* The character at s and how many bytes it has; a byte that is no UTF-8 is a
 * replacement character of one byte. */
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

/* Control characters, and what some readers take for the end of a line. */
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

/* Gives how many bytes the character at s becomes in `out`; *len: how many it has. */
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

static bool is_plain(char c)
{
	return (unsigned char)c >= 0x20 && (unsigned char)c < 0x7f && c != '"' &&
	       c != '\\';
}

void json_put_text(struct buf *b, const char *text, size_t most)
{
	char piece[PIECE];
	size_t len;

	buf_put_u8(b, '"');
	while (*text) {
		/* most of a text needs no second look */
		for (len = 0; len < most && is_plain(text[len]); len++)
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
