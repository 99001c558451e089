/*
 * Parses connection strings in libpq's two forms.  The text is copied, cut in place,
 * and wiped at the end.
 */
#include "conf/conninfo.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

#define BLANKS " \t\r\n\v\f"

struct reader {
	conninfo_pair_fn *take;
	void *ctx;
	struct err *err;
};

static int give(const struct reader *r, const char *key, const char *value)
{
	return r->take(r->ctx, key, value, r->err);
}

/* ---- key=value ---- */

/* Cuts the value at *at, without its quotes; a backslash takes the next character
 * literally. */
static int cut_value(const struct reader *r, char **at, const char **value)
{
	char *from = *at, *to = *at;
	bool is_quoted = *from == '\'';

	from += is_quoted;
	*value = to;
	for (; *from; from++) {
		if (is_quoted ? *from == '\'' : strchr(BLANKS, *from) != NULL)
			break;
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from;
	}
	if (is_quoted && !*from)
		return err_set(r->err, "a quoted value has no end");
	*at = *from ? from + 1 : from;
	*to = '\0';
	return 0;
}

static int read_pairs(const struct reader *r, char *at)
{
	const char *value;

	for (at += strspn(at, BLANKS); *at; at += strspn(at, BLANKS)) {
		char *key = at, *end = at + strcspn(at, "=" BLANKS);

		at = end + strspn(end, BLANKS);
		if (*at != '=' || end == key)
			return err_set(r->err,
			    "write key=value pairs with blanks between them, or "
			    "postgresql://USER@HOST/DATABASE");
		at++;
		at += strspn(at, BLANKS);
		*end = '\0';
		if (cut_value(r, &at, &value) < 0 || give(r, key, value) < 0)
			return -1;
	}
	return 0;
}

/* ---- URIs ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes %XX in place. */
static int decode(const struct reader *r, char *text)
{
	char *to = text;

	for (; *text; text++) {
		int high, low;

		if (*text != '%') {
			*to++ = *text;
			continue;
		}
		high = hex_digit(text[1]);
		low = high < 0 ? -1 : hex_digit(text[2]);
		if (low < 0 || high + low == 0)
			return err_set(r->err,
			    "%% in a URI must be followed by two hexadecimal digits "
			    "other than 00");
		*to++ = (char)(high * 16 + low);
		text += 2;
	}
	*to = '\0';
	return 0;
}

static int give_decoded(const struct reader *r, const char *key, char *value)
{
	if (!*value)
		return 0;
	return decode(r, value) < 0 ? -1 : give(r, key, value);
}

/* Cuts the text at the first of the characters `stops` and returns what follows it, or
 * NULL. */
static char *cut(char *text, const char *stops)
{
	char *stop = text + strcspn(text, stops);

	if (!*stop)
		return NULL;
	*stop = '\0';
	return stop + 1;
}

/* Appends HOST, HOST:PORT or [ADDRESS]:PORT to the two lists. */
static int add_place(const struct reader *r, char *place, struct buf *hosts,
    struct buf *ports, bool *has_port)
{
	const char *between = ports->len ? "," : "";
	char *port;

	if (*place == '[') {
		char *end = strchr(++place, ']');

		if (!end || (end[1] && end[1] != ':'))
			return err_set(
			    r->err, "write an IPv6 address in a URI as [::1]:5432");
		*end = '\0';
		port = end[1] ? end + 2 : NULL;
	} else {
		port = cut(place, ":");
	}
	if (decode(r, place) < 0)
		return -1;
	buf_printf(hosts, "%s%s", between, place);
	if (port && *port)
		*has_port = true;
	buf_printf(ports, "%s%s", between, port && *port ? port : "5432");
	return 0;
}

static int read_places(const struct reader *r, char *at)
{
	struct buf hosts, ports;
	bool has_port = false;
	int rc = 0;

	buf_init(&hosts, 0);
	buf_init(&ports, 0);
	for (char *next; rc == 0 && at && *at; at = next) {
		next = cut(at, ",");
		rc = add_place(r, at, &hosts, &ports, &has_port);
	}
	if (rc == 0 && hosts.len)
		rc = give(r, "host", buf_text(&hosts));
	if (rc == 0 && has_port)
		rc = give(r, "port", buf_text(&ports));
	buf_done(&hosts);
	buf_done(&ports);
	return rc;
}

/* Parses what follows "postgresql://". */
static int read_uri(const struct reader *r, char *at)
{
	char *options = cut(at, "?");
	char *database, *password, *at_sign;

	/* a password may contain an unescaped slash, although it should not */
	at_sign = strrchr(at, '@');
	if (at_sign) {
		char *user = at;

		*at_sign = '\0';
		at = at_sign + 1;
		password = cut(user, ":");
		if (give_decoded(r, "user", user) < 0 ||
		    (password && give_decoded(r, "password", password) < 0))
			return -1;
	}
	database = cut(at, "/");
	if (read_places(r, at) < 0 ||
	    (database && give_decoded(r, "dbname", database) < 0))
		return -1;
	for (char *next; options && *options; options = next) {
		char *value;

		next = cut(options, "&");
		value = cut(options, "=");
		if (!value)
			return err_set(
			    r->err, "write key=value pairs behind the ? of a URI");
		if (decode(r, options) < 0 || give_decoded(r, options, value) < 0)
			return -1;
	}
	return 0;
}

int conninfo_read(const char *text, conninfo_pair_fn *take, void *ctx, struct err *err)
{
	static const char *const schemes[] = {"postgresql://", "postgres://"};
	const struct reader r = {take, ctx, err};
	char *copy = mem_strdup(text), *uri = NULL;
	int rc;

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (text_has_prefix(copy, schemes[i]))
			uri = copy + strlen(schemes[i]);
	rc = uri ? read_uri(&r, uri) : read_pairs(&r, copy);
	mem_wipe(copy, strlen(text));
	mem_free(copy);
	return rc;
}
