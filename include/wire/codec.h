/*
 * Read and build every message we speak.  Builders append to a struct buf (check
 * buf.failed once at the end); readers take the body (after type byte and length) and
 * return -1 when it is malformed.  Strings read are pointers into the body.
 * PostgreSQL documentation: "Message Formats", "Error and Notice Message Fields".
 */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* ---- framing: `size_t at = codec_begin(b, 'Z'); ...; codec_end(b, at);` ---- */
size_t codec_begin(struct buf *b, uint8_t type); /* type 0: no type byte */
void codec_end(struct buf *b, size_t at);

/* ---- both directions of the startup phase ---- */
struct startup_param {
	const char *name, *value;
};
/* Walk the parameters of a StartupMessage: body starts after length and code.
 * `cursor_init(&c, body, len); while ((r = codec_next_param(&c, &p)) == 1)`; 1 = one
 * read, 0 = ended exactly with the terminating empty name, -1 = malformed. */
int codec_next_param(struct cursor *c, struct startup_param *p);
/* StartupMessage with NULL-terminated name/value pairs added one by one. */
size_t codec_begin_startup(struct buf *b, uint32_t version);
void codec_put_param(struct buf *b, const char *name, const char *value);
void codec_end_startup(struct buf *b, size_t at);
void codec_put_ssl_request(struct buf *b);
void codec_put_cancel_request(struct buf *b, const uint8_t *key, size_t key_len);

/* ---- messages of a client (front) ---- */
void codec_put_query(struct buf *b, const char *sql);
void codec_put_password(struct buf *b, const char *text); /* p with a string */
void codec_put_sasl_initial(
    struct buf *b, const char *mechanism, const uint8_t *data, size_t len);
void codec_put_sasl_response(struct buf *b, const uint8_t *data, size_t len);
void codec_put_terminate(struct buf *b);
void codec_put_parse(struct buf *b, const char *name, const char *sql);
void codec_put_bind_text(struct buf *b, const char *const *values, size_t count);
void codec_put_describe_portal(struct buf *b);
void codec_put_execute(struct buf *b);
void codec_put_sync(struct buf *b);

/* SASLInitialResponse body. */
int codec_read_sasl_initial(const uint8_t *body, size_t len, const char **mechanism,
    const uint8_t **data, size_t *data_len);
/* PasswordMessage body: one string that must end exactly at the end. */
int codec_read_password(const uint8_t *body, size_t len, const char **password);

/* ---- messages of a server (back) ---- */
enum auth_request {
	AUTH_REQ_OK = 0,
	AUTH_REQ_CLEARTEXT = 3,
	AUTH_REQ_MD5 = 5,
	AUTH_REQ_SASL = 10,
	AUTH_REQ_SASL_CONTINUE = 11,
	AUTH_REQ_SASL_FINAL = 12,
};
void codec_put_auth(struct buf *b, uint32_t request, const void *data, size_t len);
/* mechanisms: NULL-terminated list */
void codec_put_auth_sasl(struct buf *b, const char *const *mechanisms);
void codec_put_parameter_status(struct buf *b, const char *name, const char *value);
void codec_put_backend_key(struct buf *b, const uint8_t *key, size_t key_len);
void codec_put_ready(struct buf *b, uint8_t status);
/* ErrorResponse 'E' / NoticeResponse 'N' with fields S, C, M and, when not NULL, D and
 * H. No V field: PgBouncer sends none. */
void codec_put_error(struct buf *b, const char *severity, const char *sqlstate,
    const char *message, const char *detail, const char *hint);
void codec_put_notice(struct buf *b, const char *message, const char *detail);
void codec_put_negotiate(struct buf *b, uint32_t newest_version,
    const char *const *unsupported, size_t count);
void codec_put_command_complete(struct buf *b, const char *tag);
void codec_put_empty(struct buf *b, uint8_t type); /* '1' '2' '3' 'n' 'I' 's' */

/* RowDescription and DataRow, text format: table oid 0, column number 0, typmod -1. */
struct codec_column {
	const char *name;
	uint32_t type_oid;
	int16_t type_len;
};
void codec_put_row_description(
    struct buf *b, const struct codec_column *columns, size_t count);
size_t codec_begin_row(struct buf *b, size_t column_count);
void codec_put_field(struct buf *b, const char *text); /* NULL = SQL NULL */
void codec_end_row(struct buf *b, size_t at);

/* Fields of an ErrorResponse or NoticeResponse; absent ones are "" (C: "XX000").
 * Doubled fields: the first counts.  -1 only when the body is not even a list of
 * fields; the struct is filled all the same. */
struct error_fields {
	const char *severity; /* V if present, else S */
	const char *sqlstate;
	const char *message;
	const char *detail, *hint;
};
int codec_read_error(const uint8_t *body, size_t len, struct error_fields *f);
int codec_read_parameter_status(
    const uint8_t *body, size_t len, const char **name, const char **value);
/* NegotiateProtocolVersion: the newest version that the server speaks. */
int codec_read_negotiate(const uint8_t *body, size_t len, uint32_t *newest_version);
/* request and the rest. */
int codec_read_auth(const uint8_t *body, size_t len, uint32_t *request,
    const uint8_t **data, size_t *data_len);
/* Does an AuthenticationSASL body (data of codec_read_auth) offer this mechanism? */
bool codec_sasl_offers_mechanism(
    const uint8_t *data, size_t len, const char *mechanism);
/* Secret of 4..256 bytes behind the 4-byte process id: key = both (8..260 bytes). */
int codec_read_backend_key(
    const uint8_t *body, size_t len, const uint8_t **key, size_t *key_len);
int codec_read_ready(const uint8_t *body, size_t len, uint8_t *status);
/* Query body: one string ending exactly at the end. */
int codec_read_query(const uint8_t *body, size_t len, const char **sql);
/* DataRow fields one by one: cursor over the body after the count.  *value NULL = SQL
 * NULL (not NUL-terminated otherwise). */
int codec_read_row_count(struct cursor *c, size_t *count);
int codec_next_field(struct cursor *c, const uint8_t **value, size_t *len);
/* Number of columns of a RowDescription. */
int codec_read_row_description(const uint8_t *body, size_t len, size_t *count);

/* PostgreSQL's boolean words (unique prefixes of true/false/yes/no/on/off, 1, 0, any
 * case): 1, 0, or -1 for anything else. */
int codec_bool_word(const char *s);

#endif
