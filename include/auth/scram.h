/*
 * Both ends of SCRAM-SHA-256 (RFC 5802, 7677; PostgreSQL "SASL Authentication") as pure
 * step functions: bytes of one SASL message in, bytes of the next one out.
 * With channel binding (tls-server-end-point, RFC 5929 section 4) when they are given
 * what to bind to.
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
#include "base/mem.h"

#define SCRAM_MECHANISM      "SCRAM-SHA-256"
#define SCRAM_MECHANISM_PLUS "SCRAM-SHA-256-PLUS"

/* The TLS connection that the exchange is bound to.  All of it is borrowed and outlives
 * the exchange.  No binding at all: NULL instead of this. */
struct scram_binding {
	const uint8_t *hash; /* the hash of the server's certificate; NULL: the
			      * connection has none */
	size_t len;
	bool is_required; /* the exchange is refused without it */
};

enum scram_result {
	SCRAM_MORE,   /* out is to be sent; another message is expected */
	SCRAM_DONE,   /* out is to be sent (may be empty); proven */
	SCRAM_FAIL,   /* err says why, for the log; never send it to the peer */
	SCRAM_DERIVE, /* client only: the slow part is due, see scram_client_due */
};

/* We are the server: a client proves itself to us. */
struct scram_server {
	const struct scram_verifier *verifier; /* borrowed, outlives the exchange */
	const struct scram_binding *binding;   /* borrowed, or NULL */
	struct mem *mem; /* borrowed: its random bytes are used; NULL: the system's */
	bool is_mock;    /* the user does not exist: the exchange
			  * runs to its end, and fails */
	bool has_plus;   /* the client chose SCRAM-SHA-256-PLUS */
	/* owned */
	char *client_first_bare, *server_first, *nonce;
	char gs2_flag; /* 'n', 'y' or 'p' */
	int step;
	/* Valid after SCRAM_DONE, for pass-through. */
	uint8_t client_key[SCRAM_KEY_LEN];
};

void scram_server_init(struct scram_server *s, const struct scram_verifier *verifier,
    bool is_mock, const struct scram_binding *binding);
/* The mechanisms that AuthenticationSASL is to offer, best first, with NULL behind the
 * last.  There is none when binding is required and there is nothing to bind to. */
void scram_server_offer(const struct scram_server *s, const char *mechanisms[3]);
/* The mechanism that the client selected; before the first step.  -1: it is not one
 * that was offered. */
int scram_server_select(struct scram_server *s, const char *mechanism);
/* The first call gets the client-first message, the second one the client-final
 * message.  After a failure every further step fails. */
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
	const char *password;                /* borrowed, or NULL when keys are given */
	const struct scram_keys *keys;       /* borrowed, or NULL */
	struct scram_cache *cache;           /* borrowed, or NULL */
	const struct scram_binding *binding; /* borrowed, or NULL */
	/* owned */
	char *client_first_bare, *nonce;
	struct buf final;   /* client-final without the proof */
	struct buf message; /* what is signed */
	uint8_t salt[SCRAM_SALT_MAX];
	size_t salt_len;
	uint32_t iterations;
	uint8_t server_signature[SCRAM_KEY_LEN];
	char gs2_flag; /* 'n', 'y' or 'p' */
	int step;
};

/* With keys the password is not needed; one of the two must be given. */
void scram_client_init(struct scram_client *c, const char *password,
    const struct scram_keys *keys, struct scram_cache *cache,
    const struct scram_binding *binding);
/* Which mechanism to select of those that the server offers; before the first step.
 * NULL and err when none will do. */
const char *scram_client_select(
    struct scram_client *c, bool is_offered, bool is_plus_offered, struct err *err);
/* step 0: in is ignored, out gets client-first ("n,,n=,r=..."); step 1: server-first
 * in, client-final out; step 2: server-final in.
 * Step 1 never derives keys: it returns SCRAM_DERIVE, and out is untouched, unless keys
 * were given or the cache has them.  The caller derives what scram_client_due says,
 * wherever it likes, and goes on with scram_client_resume. */
enum scram_result scram_client_step(struct scram_client *c, const uint8_t *in,
    size_t len, struct buf *out, struct err *err);
/* Borrowed from c. */
struct scram_due scram_client_due(const struct scram_client *c);
/* The end of step 1: client-final out.  Fills the cache, when there is one: set
 * c->cache to NULL when it may have gone meanwhile. */
enum scram_result scram_client_resume(struct scram_client *c,
    const uint8_t salted[SCRAM_KEY_LEN], struct buf *out, struct err *err);
void scram_client_done(struct scram_client *c);

#endif
