#include "wire/codec.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/errors.h"
#include "wire/message.h"

enum { LENGTH_LEN = 4, KEY_LEAST = 8, KEY_MOST = 260, SQLSTATE_LEN = 5 };

#define NO_VALUE UINT32_MAX /* the length -1: SQL NULL or an absent response */

/* ---- framing ---- */

size_t codec_begin(struct buf *b, uint8_t type)
{
	if (type)
		buf_put_u8(b, type);
	size_t at = b->len;
	buf_put_u32(b, 0);
	return at;
}

void codec_end(struct buf *b, size_t at)
{
	if (b->failed)
		return;
	assert(b->len >= at && b->len - at >= LENGTH_LEN);
	if (b->len - at > INT32_MAX)
		b->failed = true;
	else
		put_u32(b->bytes + at, (uint32_t)(b->len - at));
}

static void put_count(struct buf *b, size_t count)
{
	if (count > UINT16_MAX)
		b->failed = true;
	buf_put_u16(b, (uint16_t)count);
}

static void put_sized(struct buf *b, const void *data, size_t len)
{
	/* one that is too long makes a message that codec_end refuses */
	buf_put_u32(b, (uint32_t)len);
	buf_put(b, data, len);
}

static void put_message(struct buf *b, uint8_t type, const void *body, size_t len)
{
	size_t at = codec_begin(b, type);

	buf_put(b, body, len);
	codec_end(b, at);
}

/* ---- startup phase ---- */

int codec_next_param(struct cursor *c, struct startup_param *p)
{
	p->name = cursor_str(c);
	if (c->overrun)
		return -1;
	if (!*p->name)
		return cursor_left(c) ? -1 : 0;
	p->value = cursor_str(c);
	return c->overrun ? -1 : 1;
}

size_t codec_begin_startup(struct buf *b, uint32_t version)
{
	size_t at = codec_begin(b, 0);

	buf_put_u32(b, version);
	return at;
}

void codec_put_param(struct buf *b, const char *name, const char *value)
{
	buf_put_str(b, name);
	buf_put_str(b, value);
}

void codec_end_startup(struct buf *b, size_t at)
{
	buf_put_u8(b, 0);
	codec_end(b, at);
}

void codec_put_ssl_request(struct buf *b)
{
	codec_end(b, codec_begin_startup(b, STARTUP_SSL));
}

void codec_put_cancel_request(struct buf *b, const uint8_t *key, size_t key_len)
{
	size_t at = codec_begin_startup(b, STARTUP_CANCEL);

	buf_put(b, key, key_len);
	codec_end(b, at);
}

/* ---- messages of a client ---- */

void codec_put_query(struct buf *b, const char *sql)
{
	put_message(b, 'Q', sql, strlen(sql) + 1);
}

void codec_put_password(struct buf *b, const char *text)
{
	put_message(b, 'p', text, strlen(text) + 1);
}

void codec_put_sasl_initial(
    struct buf *b, const char *mechanism, const uint8_t *data, size_t len)
{
	size_t at = codec_begin(b, 'p');

	buf_put_str(b, mechanism);
	if (data)
		put_sized(b, data, len);
	else
		buf_put_u32(b, NO_VALUE);
	codec_end(b, at);
}

void codec_put_sasl_response(struct buf *b, const uint8_t *data, size_t len)
{
	put_message(b, 'p', data, len);
}

void codec_put_terminate(struct buf *b)
{
	codec_put_empty(b, 'X');
}

void codec_put_parse(struct buf *b, const char *name, const char *sql)
{
	size_t at = codec_begin(b, 'P');

	buf_put_str(b, name);
	buf_put_str(b, sql);
	put_count(b, 0); /* parameter types */
	codec_end(b, at);
}

void codec_put_bind_text(struct buf *b, const char *const *values, size_t count)
{
	size_t at = codec_begin(b, 'B');

	buf_put_str(b, ""); /* portal */
	buf_put_str(b, ""); /* statement */
	put_count(b, 0);    /* parameter formats: none, so all are text */
	put_count(b, count);
	for (size_t i = 0; i < count && !b->failed; i++)
		codec_put_field(b, values[i]);
	put_count(b, 0); /* result formats: none, so all are text */
	codec_end(b, at);
}

void codec_put_describe_portal(struct buf *b)
{
	put_message(b, 'D', "P", 2);
}

void codec_put_close_portal(struct buf *b)
{
	put_message(b, 'C', "P", 2);
}

void codec_put_execute(struct buf *b)
{
	size_t at = codec_begin(b, 'E');

	buf_put_str(b, ""); /* portal */
	buf_put_u32(b, 0);  /* row limit: none */
	codec_end(b, at);
}

void codec_put_sync(struct buf *b)
{
	codec_put_empty(b, 'S');
}

int codec_read_sasl_initial(const uint8_t *body, size_t len, const char **mechanism,
    const uint8_t **data, size_t *data_len)
{
	struct cursor c;

	cursor_init(&c, body, len);
	*mechanism = cursor_str(&c);
	uint32_t size = cursor_u32(&c);
	*data = NULL;
	*data_len = 0;
	if (c.overrun)
		return -1;
	if (size == NO_VALUE)
		return cursor_left(&c) ? -1 : 0;
	if (size != cursor_left(&c))
		return -1;
	*data = c.at;
	*data_len = size;
	return 0;
}

/* Reads a body that consists of one string. */
static int read_string(const uint8_t *body, size_t len, const char **s)
{
	struct cursor c;

	cursor_init(&c, body, len);
	*s = cursor_str(&c);
	return c.overrun || cursor_left(&c) ? -1 : 0;
}

int codec_read_password(const uint8_t *body, size_t len, const char **password)
{
	return read_string(body, len, password);
}

int codec_read_query(const uint8_t *body, size_t len, const char **sql)
{
	return read_string(body, len, sql);
}

/* ---- messages of a server, built ---- */

void codec_put_auth(struct buf *b, uint32_t request, const void *data, size_t len)
{
	size_t at = codec_begin(b, 'R');

	buf_put_u32(b, request);
	buf_put(b, data, len);
	codec_end(b, at);
}

void codec_put_auth_sasl(struct buf *b, const char *const *mechanisms)
{
	size_t at = codec_begin(b, 'R');

	buf_put_u32(b, AUTH_REQ_SASL);
	for (; *mechanisms; mechanisms++)
		buf_put_str(b, *mechanisms);
	buf_put_u8(b, 0);
	codec_end(b, at);
}

void codec_put_parameter_status(struct buf *b, const char *name, const char *value)
{
	size_t at = codec_begin(b, 'S');

	codec_put_param(b, name, value);
	codec_end(b, at);
}

void codec_put_backend_key(struct buf *b, const uint8_t *key, size_t key_len)
{
	put_message(b, 'K', key, key_len);
}

void codec_put_ready(struct buf *b, uint8_t status)
{
	put_message(b, 'Z', &status, 1);
}

static void put_error_field(struct buf *b, uint8_t field, const char *text)
{
	if (!text)
		return;
	buf_put_u8(b, field);
	buf_put_str(b, text);
}

static void put_fields(struct buf *b, uint8_t type, const char *severity,
    const char *sqlstate, const char *message, const char *detail, const char *hint)
{
	size_t at = codec_begin(b, type);

	put_error_field(b, 'S', severity);
	put_error_field(b, 'C', sqlstate);
	put_error_field(b, 'M', message);
	put_error_field(b, 'D', detail);
	put_error_field(b, 'H', hint);
	buf_put_u8(b, 0);
	codec_end(b, at);
}

void codec_put_error(struct buf *b, const char *severity, const char *sqlstate,
    const char *message, const char *detail, const char *hint)
{
	put_fields(b, 'E', severity, sqlstate, message, detail, hint);
}

void codec_put_notice(struct buf *b, const char *message, const char *detail)
{
	put_fields(b, 'N', "NOTICE", SQLSTATE_SUCCESS, message, detail, NULL);
}

void codec_put_warning(struct buf *b, const char *message, const char *hint)
{
	put_fields(b, 'N', "WARNING", SQLSTATE_WARNING, message, NULL, hint);
}

void codec_put_negotiate(struct buf *b, uint32_t newest_version,
    const char *const *unsupported, size_t count)
{
	size_t at = codec_begin(b, 'v');

	buf_put_u32(b, newest_version);
	buf_put_u32(b, (uint32_t)count);
	for (size_t i = 0; i < count && !b->failed; i++)
		buf_put_str(b, unsupported[i]);
	codec_end(b, at);
}

void codec_put_command_complete(struct buf *b, const char *tag)
{
	put_message(b, 'C', tag, strlen(tag) + 1);
}

void codec_put_empty(struct buf *b, uint8_t type)
{
	codec_end(b, codec_begin(b, type));
}

void codec_put_row_description(
    struct buf *b, const struct codec_column *columns, size_t count)
{
	size_t at = codec_begin(b, 'T');

	put_count(b, count);
	for (size_t i = 0; i < count && !b->failed; i++) {
		buf_put_str(b, columns[i].name);
		buf_put_u32(b, 0); /* table */
		buf_put_u16(b, 0); /* column number in it */
		buf_put_u32(b, columns[i].type_oid);
		buf_put_u16(b, (uint16_t)columns[i].type_len);
		buf_put_u32(b, UINT32_MAX); /* type modifier: none */
		buf_put_u16(b, 0);          /* text */
	}
	codec_end(b, at);
}

size_t codec_begin_row(struct buf *b, size_t column_count)
{
	size_t at = codec_begin(b, 'D');

	put_count(b, column_count);
	return at;
}

void codec_put_field(struct buf *b, const char *text)
{
	if (text)
		put_sized(b, text, strlen(text));
	else
		buf_put_u32(b, NO_VALUE);
}

void codec_end_row(struct buf *b, size_t at)
{
	codec_end(b, at);
}

/* ---- messages of a server, read ---- */

static bool is_sqlstate(const char *s)
{
	size_t n = 0;

	while ((s[n] >= '0' && s[n] <= '9') || (s[n] >= 'A' && s[n] <= 'Z'))
		n++;
	return n == SQLSTATE_LEN && !s[n];
}

static void take_field(const char **field, const char *text)
{
	if (!*field)
		*field = text;
}

int codec_read_error(const uint8_t *body, size_t len, struct error_fields *f)
{
	const char *fields[UINT8_MAX + 1] = {NULL};
	struct cursor c;
	uint8_t type;

	cursor_init(&c, body, len);
	while ((type = cursor_u8(&c)) && !c.overrun) {
		const char *text = cursor_str(&c);
		if (!c.overrun)
			take_field(&fields[type], text);
	}
	take_field(&fields['V'], fields['S']);
	f->severity = fields['V'] ? fields['V'] : "";
	f->sqlstate = fields['C'] && is_sqlstate(fields['C']) ? fields['C']
							      : SQLSTATE_INTERNAL_ERROR;
	f->message = fields['M'] ? fields['M'] : "";
	f->detail = fields['D'] ? fields['D'] : "";
	f->hint = fields['H'] ? fields['H'] : "";
	return c.overrun || cursor_left(&c) ? -1 : 0;
}

int codec_read_parameter_status(
    const uint8_t *body, size_t len, const char **name, const char **value)
{
	struct cursor c;

	cursor_init(&c, body, len);
	*name = cursor_str(&c);
	*value = cursor_str(&c);
	return c.overrun || cursor_left(&c) ? -1 : 0;
}

int codec_read_auth(const uint8_t *body, size_t len, uint32_t *request,
    const uint8_t **data, size_t *data_len)
{
	struct cursor c;

	cursor_init(&c, body, len);
	*request = cursor_u32(&c);
	*data = c.at;
	*data_len = cursor_left(&c);
	return c.overrun ? -1 : 0;
}

bool codec_sasl_offers_mechanism(const uint8_t *data, size_t len, const char *mechanism)
{
	struct cursor c;

	cursor_init(&c, data, len);
	for (;;) {
		const char *name = cursor_str(&c);
		if (c.overrun || !*name)
			return false;
		if (strcmp(name, mechanism) == 0)
			return true;
	}
}

int codec_read_negotiate(const uint8_t *body, size_t len, uint32_t *newest_version)
{
	struct cursor c;
	uint32_t count;

	cursor_init(&c, body, len);
	*newest_version = cursor_u32(&c);
	count = cursor_u32(&c);
	while (count > 0 && !c.overrun) {
		cursor_str(&c);
		count--;
	}
	return c.overrun || cursor_left(&c) > 0 ? -1 : 0;
}

int codec_read_backend_key(
    const uint8_t *body, size_t len, const uint8_t **key, size_t *key_len)
{
	if (len < KEY_LEAST || len > KEY_MOST)
		return -1;
	*key = body;
	*key_len = len;
	return 0;
}

int codec_read_ready(const uint8_t *body, size_t len, uint8_t *status)
{
	if (len != 1 || (body[0] != 'I' && body[0] != 'T' && body[0] != 'E'))
		return -1;
	*status = body[0];
	return 0;
}

int codec_read_row_count(struct cursor *c, size_t *count)
{
	*count = cursor_u16(c);
	return c->overrun ? -1 : 0;
}

int codec_next_field(struct cursor *c, const uint8_t **value, size_t *len)
{
	uint32_t size = cursor_u32(c);

	*value = NULL;
	*len = 0;
	if (c->overrun)
		return -1;
	if (size == NO_VALUE)
		return 0;
	*value = cursor_bytes(c, size);
	if (!*value)
		return -1;
	*len = size;
	return 0;
}

int codec_read_row_description(const uint8_t *body, size_t len, size_t *count)
{
	enum { COLUMN_LEN = 4 + 2 + 4 + 2 + 4 + 2 };
	struct cursor c;

	cursor_init(&c, body, len);
	*count = cursor_u16(&c);
	for (size_t i = 0; i < *count && !c.overrun; i++) {
		cursor_str(&c);
		cursor_bytes(&c, COLUMN_LEN);
	}
	return c.overrun || cursor_left(&c) ? -1 : 0;
}

int codec_bool_word(const char *s)
{
	static const struct {
		const char *word;
		size_t least; /* length of the shortest unique prefix */
		int value;
	} words[] = {
	    {"true", 1, 1},
	    {"yes", 1, 1},
	    {"on", 2, 1},
	    {"1", 1, 1},
	    {"false", 1, 0},
	    {"no", 1, 0},
	    {"off", 2, 0},
	    {"0", 1, 0},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *word = words[i].word;
		size_t least = words[i].least;
		size_t len = strlen(s);
		if (len >= least && len <= strlen(word) &&
		    strncasecmp(word, s, len) == 0)
			return words[i].value;
	}
	return -1;
}
