/*
 * Reads and builds the bodies of all messages that the pooler speaks.  Builders append
 * to a struct buf; check buf.failed once at the end.  Readers take the body (without
 * type byte and length), return -1 when it is malformed, and give strings as pointers
 * into the body.  PostgreSQL documentation: "Message Formats", "Error and Notice
 * Message Fields".
 */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* ---- framing: `size_t at = codec_begin(b, 'Z'); ...; codec_end(b, at);` ---- */
/* type 0: a message without a type byte */
size_t codec_begin(struct buf *b, uint8_t type);
void codec_end(struct buf *b, size_t at);

/* ---- both directions of the startup phase ---- */
struct startup_param {
	const char *name, *value;
};
/* Reads the parameters of a StartupMessage one by one; the body begins behind length
 * and protocol version.  `cursor_init(&c, body, len); while ((r = codec_next_param(&c,
 * &p)) == 1)`: 1 = *p is filled, 0 = the body ended properly with an empty name, -1 =
 * it is malformed. */
int codec_next_param(struct cursor *c, struct startup_param *p);
/* StartupMessage: codec_begin_startup, then one call for each pair of name and value,
 * then the end. */
size_t codec_begin_startup(struct buf *b, uint32_t version);
void codec_put_param(struct buf *b, const char *name, const char *value);
void codec_end_startup(struct buf *b, size_t at);
void codec_put_ssl_request(struct buf *b);
void codec_put_cancel_request(struct buf *b, const uint8_t *key, size_t key_len);

/* ---- messages of a client (front) ---- */
void codec_put_query(struct buf *b, const char *sql);
void codec_put_password(struct buf *b, const char *text); /* a PasswordMessage */
void codec_put_sasl_initial(
    struct buf *b, const char *mechanism, const uint8_t *data, size_t len);
void codec_put_sasl_response(struct buf *b, const uint8_t *data, size_t len);
void codec_put_terminate(struct buf *b);
void codec_put_parse(struct buf *b, const char *name, const char *sql);
void codec_put_bind_text(struct buf *b, const char *const *values, size_t count);
void codec_put_describe_portal(struct buf *b);
void codec_put_close_portal(struct buf *b);
void codec_put_execute(struct buf *b);
void codec_put_sync(struct buf *b);

/* Reads the body of a SASLInitialResponse. */
int codec_read_sasl_initial(const uint8_t *body, size_t len, const char **mechanism,
    const uint8_t **data, size_t *data_len);
/* Reads the body of a PasswordMessage: one string and nothing behind it. */
int codec_read_password(const uint8_t *body, size_t len, const char **password);

/* ---- messages of a server (back) ---- */
enum auth_request {
	AUTH_REQ_OK = 0,
	AUTH_REQ_CLEARTEXT = 3,
	AUTH_REQ_MD5 = 5,
	AUTH_REQ_GSS = 7,
	AUTH_REQ_GSS_CONTINUE = 8,
	AUTH_REQ_SASL = 10,
	AUTH_REQ_SASL_CONTINUE = 11,
	AUTH_REQ_SASL_FINAL = 12,
};
void codec_put_auth(struct buf *b, uint32_t request, const void *data, size_t len);
/* mechanisms ends with NULL */
void codec_put_auth_sasl(struct buf *b, const char *const *mechanisms);
void codec_put_parameter_status(struct buf *b, const char *name, const char *value);
void codec_put_backend_key(struct buf *b, const uint8_t *key, size_t key_len);
void codec_put_ready(struct buf *b, uint8_t status);
/* Appends an ErrorResponse 'E' or NoticeResponse 'N' with the fields S, C and M, and
 * with D and H when they are not NULL.  There is no V field, because PgBouncer sends
 * none. */
void codec_put_error(struct buf *b, const char *severity, const char *sqlstate,
    const char *message, const char *detail, const char *hint);
void codec_put_notice(struct buf *b, const char *message, const char *detail);
void codec_put_warning(struct buf *b, const char *message, const char *hint);
void codec_put_negotiate(struct buf *b, uint32_t newest_version,
    const char *const *unsupported, size_t count);
void codec_put_command_complete(struct buf *b, const char *tag);
/* for the types '1' '2' '3' 'n' 'I' 's' */
void codec_put_empty(struct buf *b, uint8_t type);

/* RowDescription and DataRow in text format; table oid and column number are 0, and the
 * type modifier is -1. */
struct codec_column {
	const char *name;
	uint32_t type_oid;
	int16_t type_len;
};
void codec_put_row_description(
    struct buf *b, const struct codec_column *columns, size_t count);
size_t codec_begin_row(struct buf *b, size_t column_count);
void codec_put_field(struct buf *b, const char *text); /* NULL is an SQL NULL */
void codec_end_row(struct buf *b, size_t at);

/* Fields of an ErrorResponse or NoticeResponse.  Missing ones are "" (the SQLSTATE:
 * "XX000"); of repeated ones the first counts.  -1 means that the body is no list of
 * fields; the struct is filled even then. */
struct error_fields {
	const char *severity; /* V if present, else S */
	const char *sqlstate;
	const char *message;
	const char *detail, *hint;
};
int codec_read_error(const uint8_t *body, size_t len, struct error_fields *f);
int codec_read_parameter_status(
    const uint8_t *body, size_t len, const char **name, const char **value);
/* Reads a NegotiateProtocolVersion; *newest_version is the newest version that the
 * server speaks. */
int codec_read_negotiate(const uint8_t *body, size_t len, uint32_t *newest_version);
/* Reads an Authentication message: the request code and the data behind it. */
int codec_read_auth(const uint8_t *body, size_t len, uint32_t *request,
    const uint8_t **data, size_t *data_len);
/* Whether the data of an AuthenticationSASL (from codec_read_auth) offers this
 * mechanism. */
bool codec_sasl_offers_mechanism(
    const uint8_t *data, size_t len, const char *mechanism);
/* Reads BackendKeyData.  The key is the process id (4 bytes) and the secret (4 to 256
 * bytes) together, so it has 8 to 260 bytes. */
int codec_read_backend_key(
    const uint8_t *body, size_t len, const uint8_t **key, size_t *key_len);
int codec_read_ready(const uint8_t *body, size_t len, uint8_t *status);
/* Reads the body of a Query: one string and nothing behind it. */
int codec_read_query(const uint8_t *body, size_t len, const char **sql);
/* Reads the fields of a DataRow one by one; the cursor stands behind the count.  *value
 * is NULL for SQL NULL, otherwise it is not NUL-terminated. */
int codec_read_row_count(struct cursor *c, size_t *count);
int codec_next_field(struct cursor *c, const uint8_t **value, size_t *len);
/* Reads the number of columns of a RowDescription. */
int codec_read_row_description(const uint8_t *body, size_t len, size_t *count);

/* Parses a boolean as PostgreSQL does (1, 0, or a unique prefix of true, false, yes,
 * no, on, off, in any case).  Returns 1, 0, or -1 for anything else. */
int codec_bool_word(const char *s);

#endif
