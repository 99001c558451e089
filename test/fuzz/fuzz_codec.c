/* links: wire base */
/*
 * Every reader of message bodies reads any bytes: the first byte chooses the reader,
 * the rest is the body.  What was read must lie inside the body.
 */
#include <stdlib.h>
#include <string.h>

#include "../unit/wire/put_sets.h"
#include "wire/codec.h"
#include "wire/vars.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct span {
	const uint8_t *at;
	size_t len;
};

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_inside(const struct span *body, const void *p, size_t len)
{
	const uint8_t *at = p;

	check(at >= body->at && at <= body->at + body->len &&
	      len <= (size_t)(body->at + body->len - at));
}

static void check_text(const struct span *body, const char *s)
{
	if (*s && strcmp(s, "XX000") != 0)
		check_inside(body, s, strlen(s) + 1);
}

static void read_params(const struct span *body)
{
	struct startup_param p;
	struct cursor c;

	cursor_init(&c, body->at, body->len);
	while (codec_next_param(&c, &p) == 1) {
		check_text(body, p.name);
		check_text(body, p.value);
	}
}

static void read_error(const struct span *body)
{
	struct error_fields f;

	codec_read_error(body->at, body->len, &f);
	check_text(body, f.severity);
	check_text(body, f.message);
	check_text(body, f.detail);
	check_text(body, f.hint);
	check(strlen(f.sqlstate) == 5);
}

static void read_row(const struct span *body)
{
	const uint8_t *value;
	struct cursor c;
	size_t count, n;

	codec_read_row_description(body->at, body->len, &count);
	cursor_init(&c, body->at, body->len);
	if (codec_read_row_count(&c, &count))
		return;
	for (; count && !codec_next_field(&c, &value, &n); count--)
		if (value)
			check_inside(body, value, n);
}

static void read_login(const struct span *body)
{
	const char *name;
	const uint8_t *data;
	uint32_t request;
	uint8_t status;
	size_t n;

	if (!codec_read_sasl_initial(body->at, body->len, &name, &data, &n) && data)
		check_inside(body, data, n);
	if (!codec_read_password(body->at, body->len, &name))
		check_inside(body, name, body->len);
	if (!codec_read_auth(body->at, body->len, &request, &data, &n)) {
		check_inside(body, data, n);
		codec_sasl_offers_mechanism(data, n, "SCRAM-SHA-256");
	}
	if (!codec_read_backend_key(body->at, body->len, &data, &n))
		check_inside(body, data, n);
	if (!codec_read_ready(body->at, body->len, &status))
		check(status == 'I' || status == 'T' || status == 'E');
}

static void read_text(const struct span *body)
{
	const char *name, *value;

	if (!codec_read_parameter_status(body->at, body->len, &name, &value))
		check_inside(body, value, strlen(value) + 1);
	if (!codec_read_query(body->at, body->len, &name)) {
		check_inside(body, name, body->len);
		codec_bool_word(name);
	}
}

/* A client's search_path must not become SQL of its own: outside of quotes only the
 * last character is a semicolon. */
static void put_set(const struct span *body)
{
	struct vars_schema *schema = vars_schema_new("search_path");
	struct vars client, server;
	const char *text;
	struct buf sql;

	vars_init(&client, schema);
	vars_init(&server, schema);
	buf_init(&sql, 0);
	if (!codec_read_query(body->at, body->len, &text)) {
		check(!vars_set(&client, VAR_BUILTIN_COUNT, text));
		check(!vars_set(&server, VAR_BUILTIN_COUNT, "public"));
		if (put_sets(&client, &server, &sql)) {
			char quote = 0;
			const char *s = buf_text(&sql);
			for (size_t i = 0; i + 1 < sql.len; i++) {
				if (!quote && (s[i] == '"' || s[i] == '\''))
					quote = s[i];
				else if (quote == s[i])
					quote = 0;
				check(quote || s[i] != ';');
				if (quote == '\'' && s[i] == '\\')
					i++;
			}
			check(!quote);
		}
	}
	buf_done(&sql);
	vars_done(&client);
	vars_done(&server);
	vars_schema_free(&schema);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void (*const readers[])(const struct span *) = {
	    read_params, read_error, read_row, read_login, read_text, put_set};

	if (!len)
		return 0;
	struct span body = {data + 1, len - 1};
	readers[data[0] % (sizeof(readers) / sizeof(readers[0]))](&body);
	return 0;
}
