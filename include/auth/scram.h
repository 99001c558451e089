/*
 * Both ends of SCRAM-SHA-256 (RFC 5802, 7677; PostgreSQL "SASL Authentication") as pure
 * step functions: bytes of one SASL message in, bytes of the next one out.  No
 * channel binding: a client that insists on it is refused.
 */
#ifndef AUTH_SCRAM_H
#define AUTH_SCRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/scram_keys.h"
#include "auth/secret.h"
#include "base/buf.h"
#include "base/err.h"

enum scram_result {
	SCRAM_MORE, /* out is to be sent; another message is expected */
	SCRAM_DONE, /* out is to be sent (may be empty); proven */
	SCRAM_FAIL, /* err says why, for the log; never send it to the peer */
};

/* We are the server: a client proves itself to us. */
struct scram_server {
	const struct scram_verifier *verifier; /* borrowed, outlives the exchange */
	bool is_mock;                          /* go through everything, then fail */
	/* owned */
	char *client_first_bare, *server_first, *nonce;
	char gs2_flag; /* 'n' or 'y' */
	int step;
	/* Valid after SCRAM_DONE, for pass-through. */
	uint8_t client_key[SCRAM_KEY_LEN];
};

void scram_server_init(
    struct scram_server *s, const struct scram_verifier *verifier, bool is_mock);
/* First call: client-first message; second: client-final message.  Nothing is let in
 * after a failure: every further step fails. */
enum scram_result scram_server_step(struct scram_server *s, const uint8_t *in,
    size_t len, struct buf *out, struct err *err);
void scram_server_done(struct scram_server *s);

/* We are the client: we log in to a server. */
struct scram_keys {
	uint8_t client_key[SCRAM_KEY_LEN];
	uint8_t server_key[SCRAM_KEY_LEN];
};

/* Keys derived once for (password, salt, iterations); the owner keeps it beside the
 * password so that the next login costs nothing.  Zeroed = empty. */
struct scram_cache {
	struct scram_keys keys;
	uint8_t *salt; /* owned */
	size_t salt_len;
	uint32_t iterations; /* 0 = empty */
};
void scram_cache_done(struct scram_cache *c); /* wipes and frees; empty again */

struct scram_client {
	const char *password;          /* borrowed, or NULL when keys are given */
	const struct scram_keys *keys; /* borrowed, or NULL */
	struct scram_cache *cache;     /* borrowed, or NULL */
	/* owned */
	char *client_first_bare, *nonce;
	uint8_t server_signature[SCRAM_KEY_LEN];
	int step;
};

/* With keys the password is not needed; one of the two must be given. */
void scram_client_init(struct scram_client *c, const char *password,
    const struct scram_keys *keys, struct scram_cache *cache);
/* step 0: in is ignored, out gets client-first ("n,,n=,r=..."); step 1: server-first
 * in, client-final out; step 2: server-final in. */
enum scram_result scram_client_step(struct scram_client *c, const uint8_t *in,
    size_t len, struct buf *out, struct err *err);
void scram_client_done(struct scram_client *c);

#endif
