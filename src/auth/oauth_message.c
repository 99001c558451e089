/*
 * Reads and writes the messages of OAUTHBEARER.  A client's message is
 * "n,,^Aauth=Bearer TOKEN^A^A", where ^A is the byte 1; other pairs may stand beside
 * auth.
 */
#include "auth/oauth_message.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/text.h"

#define WELL_KNOWN "/.well-known/"

/* Between and behind the pairs. */
enum { SEPARATOR = 1 };

/* ---- of clients ---- */

/* RFC 6750: letters, digits and some signs, then any number of "=". */
static bool is_bearer(const char *token, size_t len)
{
	static const char signs[] = "-._~+/0123456789";

	while (len && token[len - 1] == '=')
		len--;
	for (size_t i = 0; i < len; i++)
		if (!text_is_letter(token[i]) &&
		    !memchr(signs, token[i], sizeof(signs) - 1))
			return false;
	return len > 0;
}

/* Finds the value of the key "auth", behind the header of GSS-API: without channel
 * binding, and without another name to log in as.  Returns what is wrong; NULL:
 * nothing. */
static const char *find_auth(struct cursor *c, const uint8_t **auth, size_t *len)
{
	uint8_t flag = cursor_u8(c);

	if (flag == 'p')
		return "channel binding, which the mechanism does not have";
	if (flag != 'n' && flag != 'y')
		return "unexpected channel binding flag";
	if (cursor_u8(c) != ',')
		return "a comma is missing";
	if (cursor_left(c) && *c->at == 'a')
		return "another name to log in as is not supported";
	if (cursor_u8(c) != ',')
		return "a comma is missing";
	if (cursor_u8(c) != SEPARATOR)
		return "a separator is missing";
	for (*auth = NULL;;) {
		size_t left = cursor_left(c), key = 0;
		const uint8_t *end = left ? memchr(c->at, SEPARATOR, left) : NULL;

		if (!end)
			return "the last separator is missing";
		const uint8_t *pair = c->at;
		size_t size = (size_t)(end - pair);
		c->at = end + 1;
		if (!size)
			break;
		while (key < size && text_is_letter(pair[key]))
			key++;
		if (!key || key == size || pair[key] != '=')
			return "a pair has no key or no value";
		/* RFC 7628: visible characters, blanks, ends of lines */
		for (size_t i = key + 1; i < size; i++)
			if ((pair[i] < 0x21 || pair[i] > 0x7e) &&
			    !memchr(" \t\r\n", pair[i], 4))
				return "invalid characters in a value";
		if (key != 4 || memcmp(pair, "auth", 4) != 0)
			continue;
		if (*auth)
			return "several auth values";
		*auth = pair + 5;
		*len = size - 5;
	}
	if (!*auth)
		return "no auth value";
	return cursor_left(c) ? "more data behind the last separator" : NULL;
}

enum oauth_message oauth_message_read(const uint8_t *data, size_t len,
    const char **token, size_t *token_len, struct err *err)
{
	static const char scheme[] = "Bearer ";
	const uint8_t *auth;
	const char *wrong;
	struct cursor c;

	cursor_init(&c, data, len);
	wrong = find_auth(&c, &auth, token_len);
	if (wrong) {
		err_set(err, "malformed OAUTHBEARER message: %s", wrong);
		return OAUTH_MESSAGE_MALFORMED;
	}
	*token = (const char *)auth;
	if (!*token_len)
		return OAUTH_MESSAGE_QUESTION;
	if (*token_len < sizeof(scheme) - 1 ||
	    strncasecmp(*token, scheme, sizeof(scheme) - 1) != 0) {
		err_set(err, "the client does not send a bearer token");
		return OAUTH_MESSAGE_NO_TOKEN;
	}
	*token += sizeof(scheme) - 1;
	*token_len -= sizeof(scheme) - 1;
	while (*token_len && **token == ' ') {
		++*token;
		--*token_len;
	}
	if (is_bearer(*token, *token_len))
		return OAUTH_MESSAGE_TOKEN;
	err_set(err, "the client's token is empty or has characters that none has");
	return OAUTH_MESSAGE_NO_TOKEN;
}

bool oauth_message_is_end(const uint8_t *data, size_t len)
{
	return len == 1 && *data == SEPARATOR;
}

void oauth_message_put_status(struct buf *b, const char *issuer, const char *scope)
{
	struct buf url;

	/* libpq derives the issuer's name from the address, so that nothing of it may
	 * be left out, not even a "/" at its end */
	buf_init(&url, 0);
	buf_put_text(&url, issuer);
	if (!strstr(issuer, WELL_KNOWN))
		buf_put_text(&url, WELL_KNOWN "openid-configuration");
	buf_put_text(b, "{ \"status\": \"invalid_token\", \"openid-configuration\": ");
	json_put_text(b, buf_text(&url), SIZE_MAX);
	buf_put_text(b, ", \"scope\": ");
	json_put_text(b, scope, SIZE_MAX);
	buf_put_text(b, " }");
	buf_done(&url);
}

/* ---- to servers ---- */

int oauth_message_put_token(struct buf *b, const char *token)
{
	if (!is_bearer(token, strlen(token)))
		return -1;
	buf_put_text(b, "n,,\x01"
			"auth=Bearer ");
	buf_put_text(b, token);
	buf_put_text(b, "\x01\x01");
	return 0;
}

void oauth_message_put_end(struct buf *b)
{
	buf_put_u8(b, SEPARATOR);
}

/* ---- issuers ---- */

void oauth_issuer_put_name(struct buf *b, const char *issuer)
{
	const char *known = strstr(issuer, WELL_KNOWN);
	const char *rest = known ? strchr(known + strlen(WELL_KNOWN), '/') : NULL;

	buf_put(b, issuer, known ? (size_t)(known - issuer) : strlen(issuer));
	if (rest)
		buf_put_text(b, rest);
}

void oauth_issuer_put_document(struct buf *b, const char *issuer)
{
	size_t len = strlen(issuer);

	if (strstr(issuer, WELL_KNOWN)) {
		buf_put_text(b, issuer);
		return;
	}
	if (len && issuer[len - 1] == '/')
		len--;
	buf_put(b, issuer, len);
	buf_put_text(b, WELL_KNOWN "openid-configuration");
}
