/*
 * The keys of SCRAM-SHA-256 (RFC 5802 section 3) and the verifier that a server
 * stores.  The derivation is slow on purpose; it uses no shared data, so any thread may
 * do it.
 */
#ifndef AUTH_SCRAM_KEYS_H
#define AUTH_SCRAM_KEYS_H

#include <stddef.h>
#include <stdint.h>

struct digest;

enum { SCRAM_KEY_LEN = 32, SCRAM_SALT_MAX = 1024 };
enum { SCRAM_SALT_LEN = 16 }; /* length of salts that the pooler makes */

/* The largest iteration count that is accepted.  With more, a hostile server or a
 * stored secret could keep the process busy for a very long time. */
enum { SCRAM_ITERATIONS_MAX = 1000000 };

/* The arguments of scram_salted_password.  Borrowed. */
struct scram_due {
	const char *password;
	const uint8_t *salt;
	size_t salt_len;
	uint32_t iterations;
};

/* What the server's side needs to know of a password. */
struct scram_verifier {
	uint32_t iterations;
	uint8_t *salt; /* owned */
	size_t salt_len;
	uint8_t stored_key[SCRAM_KEY_LEN];
	uint8_t server_key[SCRAM_KEY_LEN];
};

void scram_verifier_done(struct scram_verifier *v); /* wipes and frees */
/* Makes a verifier for a plain password with a random salt of 16 bytes. */
void scram_verifier_from_password(
    struct scram_verifier *v, const char *password, uint32_t iterations);
/* The second half of scram_verifier_from_password, for callers that derive elsewhere:
 * they fill `due` with a random salt (mem_random, SCRAM_SALT_LEN), derive, and call
 * this with the result.  Copies the salt. */
void scram_verifier_from_salted(struct scram_verifier *v, const struct scram_due *due,
    const uint8_t salted[SCRAM_KEY_LEN]);
/* Makes a salt that is always the same for a user and password (NULL: none), and that
 * reveals nothing to those who do not know the secret. */
void scram_steady_salt(const char *user, const char *password, const uint8_t secret[32],
    uint8_t salt[SCRAM_SALT_LEN]);
/* Makes a verifier that no password satisfies, for users that do not exist.  Its salt
 * is made like those of users with plain passwords, so that clients cannot tell them
 * apart. */
void scram_verifier_mock(struct scram_verifier *v, const char *user,
    const uint8_t secret[32], uint32_t iterations);

/* The slow derivation: PBKDF2 of the password after SASLprep (unchanged if it cannot be
 * prepared).  -1: no memory. */
int scram_salted_password(const char *password, const uint8_t *salt, size_t salt_len,
    uint32_t iterations, uint8_t out[SCRAM_KEY_LEN]);
int scram_derive(const struct scram_due *due, uint8_t out[SCRAM_KEY_LEN]);
void scram_client_key(const uint8_t salted[SCRAM_KEY_LEN], uint8_t out[SCRAM_KEY_LEN]);
void scram_server_key(const uint8_t salted[SCRAM_KEY_LEN], uint8_t out[SCRAM_KEY_LEN]);
void scram_stored_key(
    const uint8_t client_key[SCRAM_KEY_LEN], uint8_t out[SCRAM_KEY_LEN]);
/* HMAC-SHA-256 of a text, which is every signature of the exchange. */
void scram_sign(const uint8_t key[SCRAM_KEY_LEN], const void *text, size_t len,
    uint8_t out[SCRAM_KEY_LEN]);
/* scram_stored_key and scram_sign with a SHA-256 that is looked up already; NULL: it is
 * looked up now. */
void scram_stored_key_with(struct digest *kept, const uint8_t client_key[SCRAM_KEY_LEN],
    uint8_t out[SCRAM_KEY_LEN]);
void scram_sign_with(struct digest *kept, const uint8_t key[SCRAM_KEY_LEN],
    const void *text, size_t len, uint8_t out[SCRAM_KEY_LEN]);

#endif
