/*
 * Attributes of SCRAM messages: `k=value`, separated by commas (RFC 5802 section 7).
 * Messages are parsed in place; what is needed later is copied.  Private to auth/scram.
 */
#ifndef AUTH_SCRAM_MESSAGE_H
#define AUTH_SCRAM_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/scram_keys.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

/* The GS2 header (RFC 5802 section 7) of an exchange with channel binding. */
#define SCRAM_BINDING_TYPE "tls-server-end-point"
#define SCRAM_BOUND_HEADER "p=" SCRAM_BINDING_TYPE ",,"

struct scram_reader {
	const char *at; /* the next attribute; NULL at the end */
	const char *end;
};

struct scram_field {
	const char *text;
	size_t len;
};

/* Both fill err and return -1. */
int scram_malformed(struct err *err, const char *what);
int scram_no_memory(struct err *err);

/* Begins reading a peer's message; -1 when it is empty or contains a NUL. */
int scram_reader_init(
    struct scram_reader *r, const uint8_t *in, size_t len, struct err *err);
/* Returns the letter of the next attribute; NUL at the end, or when no attribute
 * follows. */
char scram_next_letter(const struct scram_reader *r);
/* Reads the next attribute, which must have this letter, and the comma behind it. */
int scram_read_field(
    struct scram_reader *r, char letter, struct scram_field *f, struct err *err);
/* Skips optional extensions up to the attribute `last`, or to the end when that is
 * NUL. */
int scram_skip_extensions(struct scram_reader *r, char last, struct err *err);

/* Whether it is one or more printable ASCII characters (a field cannot contain a
 * comma). */
bool scram_is_printable(const struct scram_field *f);
bool scram_is_text(const struct scram_field *f, const char *text, size_t len);
/* Decodes a key or signature in base64. */
int scram_read_key(
    const struct scram_field *f, uint8_t out[SCRAM_KEY_LEN], struct err *err);
void scram_put_key(struct buf *out, const uint8_t key[SCRAM_KEY_LEN]);

/* Copies bytes of a peer as a string; NULL: no memory. */
char *scram_copy_text(const char *text, size_t len);
/* Makes a nonce: `first`, then 18 random bytes in base64.  mem NULL: the bytes come
 * from the system.  NULL: no memory. */
char *scram_make_nonce(const struct scram_field *first, struct mem *mem);

/* Appends the value of `c=`: base64 of the GS2 header and, with flag 'p', of the
 * hash. */
void scram_put_binding(struct buf *out, char gs2_flag, const uint8_t *hash, size_t len);

/* The texts that both sides sign (RFC 5802 section 3). */
struct scram_transcript {
	const char *client_first_bare;
	const char *server_first;
	size_t server_first_len;
	const char *client_final; /* without its proof */
	size_t client_final_len;
};

/* Initializes message and writes the AuthMessage to it; the caller ends it with
 * buf_done. */
int scram_auth_message(
    struct buf *message, const struct scram_transcript *t, struct err *err);

#endif
