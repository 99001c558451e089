/*
 * Both sides of SCRAM-SHA-256 (RFC 5802, RFC 7677; PostgreSQL documentation: "SASL
 * Authentication") as functions for one step each: the bytes of one SASL message in,
 * the bytes of the next one out.  Channel binding (tls-server-end-point, RFC 5929
 * section 4) is used when there is a struct scram_binding.
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

/* The TLS connection that the exchange is bound to.  All of it is borrowed and must
 * outlive the exchange.  NULL instead of this struct: no channel binding. */
struct scram_binding {
	/* hash of the server's certificate; NULL: the connection has no such hash */
	const uint8_t *hash;
	size_t len;
	bool is_required; /* an exchange without binding is refused */
};

enum scram_result {
	SCRAM_MORE,   /* send out; another message is expected */
	SCRAM_DONE,   /* send out (it may be empty); the proof was correct */
	SCRAM_FAIL,   /* err says why, for the log; never send it to the peer */
	SCRAM_DERIVE, /* client only: derive what scram_client_due says */
};

/* The server's side: a client proves itself to the pooler. */
struct scram_server {
	const struct scram_verifier *verifier; /* borrowed; must outlive the exchange */
	const struct scram_binding *binding;   /* borrowed, or NULL */
	struct mem *mem; /* borrowed, source of random bytes; NULL: the system */
	/* borrowed; NULL: it is looked up for each use */
	struct digest *sha256;
	/* the user does not exist: the exchange runs to its end and then fails */
	bool is_mock;
	bool has_plus; /* the client chose SCRAM-SHA-256-PLUS */
	/* owned */
	char *client_first_bare, *server_first, *nonce;
	char gs2_flag; /* 'n', 'y' or 'p' */
	int step;
	/* Valid after SCRAM_DONE; for logging in to servers with the client's keys. */
	uint8_t client_key[SCRAM_KEY_LEN];
};

void scram_server_init(struct scram_server *s, const struct scram_verifier *verifier,
    bool is_mock, const struct scram_binding *binding);
/* Fills the mechanisms to offer in AuthenticationSASL, best first, with NULL behind the
 * last.  There is none when binding is required but impossible. */
void scram_server_offer(const struct scram_server *s, const char *mechanisms[3]);
/* Must be called before the first step with the mechanism that the client selected.
 * -1: it was not offered. */
int scram_server_select(struct scram_server *s, const char *mechanism);
/* The first call gets the client-first message, the second one the client-final
 * message.  After a failure every further step fails. */
enum scram_result scram_server_step(struct scram_server *s, const uint8_t *in,
    size_t len, struct buf *out, struct err *err);
void scram_server_done(struct scram_server *s);

/* The client's side: the pooler logs in to a server. */
struct scram_keys {
	uint8_t client_key[SCRAM_KEY_LEN];
	uint8_t server_key[SCRAM_KEY_LEN];
};

/* The keys derived last for a password.  Its owner keeps it beside the password, so
 * that the next login needs no derivation.  Zeroed = empty. */
struct scram_cache {
	struct scram_keys keys;
	uint8_t *salt; /* owned */
	size_t salt_len;
	uint32_t iterations; /* 0: the cache is empty */
};
/* wipes and frees; the cache is empty again */
void scram_cache_done(struct scram_cache *c);

struct scram_client {
	const char *password;                /* borrowed; NULL when keys are given */
	const struct scram_keys *keys;       /* borrowed, or NULL */
	struct scram_cache *cache;           /* borrowed, or NULL */
	const struct scram_binding *binding; /* borrowed, or NULL */
	/* owned */
	char *client_first_bare, *nonce;
	struct buf final;   /* the client-final message without its proof */
	struct buf message; /* the text that is signed */
	uint8_t salt[SCRAM_SALT_MAX];
	size_t salt_len;
	uint32_t iterations;
	uint8_t server_signature[SCRAM_KEY_LEN];
	char gs2_flag; /* 'n', 'y' or 'p' */
	int step;
};

/* Either keys or a password must be given; with keys the password is not used. */
void scram_client_init(struct scram_client *c, const char *password,
    const struct scram_keys *keys, struct scram_cache *cache,
    const struct scram_binding *binding);
/* Returns the mechanism to select from those that the server offers; to be called
 * before the first step.  NULL and err: none can be used. */
const char *scram_client_select(
    struct scram_client *c, bool is_offered, bool is_plus_offered, struct err *err);
/*
 * Step 0 ignores `in` and writes client-first ("n,,n=,r=..."); step 1 gets server-first
 * and writes client-final; step 2 gets server-final.
 *
 * Step 1 never derives keys itself.  Unless keys were given or the cache has them, it
 * returns SCRAM_DERIVE and writes nothing; the caller then derives what
 * scram_client_due says, on any thread, and calls scram_client_resume.
 */
enum scram_result scram_client_step(struct scram_client *c, const uint8_t *in,
    size_t len, struct buf *out, struct err *err);
/* What has to be derived; borrowed from c. */
struct scram_due scram_client_due(const struct scram_client *c);
/* Ends step 1 and writes client-final.  Fills the cache if there is one: set c->cache
 * to NULL before if its owner may be gone. */
enum scram_result scram_client_resume(struct scram_client *c,
    const uint8_t salted[SCRAM_KEY_LEN], struct buf *out, struct err *err);
void scram_client_done(struct scram_client *c);

#endif
