/*
 * The keys of SCRAM-SHA-256 (RFC 5802 section 3) and what a server stores of them.
 * Derivation is slow on purpose and touches nothing shared: any thread may do it.
 */
#ifndef AUTH_SCRAM_KEYS_H
#define AUTH_SCRAM_KEYS_H

#include <stddef.h>
#include <stdint.h>

enum { SCRAM_KEY_LEN = 32, SCRAM_SALT_MAX = 1024 };
enum { SCRAM_SALT_LEN = 16 }; /* the length of salts that we make */

/* The largest iteration count that is computed: with more, a hostile server or a stored
 * secret could keep the process busy for ever. */
enum { SCRAM_ITERATIONS_MAX = 1000000 };

/* A derivation that is due: what scram_salted_password needs.  Borrowed. */
struct scram_due {
	const char *password;
	const uint8_t *salt;
	size_t salt_len;
	uint32_t iterations;
};

/* What the server side of SCRAM needs to know of a password. */
struct scram_verifier {
	uint32_t iterations;
	uint8_t *salt; /* owned */
	size_t salt_len;
	uint8_t stored_key[SCRAM_KEY_LEN];
	uint8_t server_key[SCRAM_KEY_LEN];
};

void scram_verifier_done(struct scram_verifier *v); /* wipes and frees */
/* Verifier for a plain password with a fresh random 16-byte salt. */
void scram_verifier_from_password(
    struct scram_verifier *v, const char *password, uint32_t iterations);
/* The same in two parts, for those who derive elsewhere: `due` with a fresh salt
 * (mem_random, SCRAM_SALT_LEN), then the verifier from what came out.  Copies the salt.
 */
void scram_verifier_from_salted(struct scram_verifier *v, const struct scram_due *due,
    const uint8_t salted[SCRAM_KEY_LEN]);
/* A salt that is the same for the same user and password (NULL: none) wherever it is
 * made, and that tells nothing to whoever does not know the secret. */
void scram_steady_salt(const char *user, const char *password, const uint8_t secret[32],
    uint8_t salt[SCRAM_SALT_LEN]);
/* A verifier that no password satisfies, for users that do not exist.  It has a salt of
 * that kind, as users with plain passwords have. */
void scram_verifier_mock(struct scram_verifier *v, const char *user,
    const uint8_t secret[32], uint32_t iterations);

/* PBKDF2 of a SASLprep'd password (raw when preparation fails): the slow part. */
void scram_salted_password(const char *password, const uint8_t *salt, size_t salt_len,
    uint32_t iterations, uint8_t out[SCRAM_KEY_LEN]);
void scram_derive(const struct scram_due *due, uint8_t out[SCRAM_KEY_LEN]);
void scram_client_key(const uint8_t salted[SCRAM_KEY_LEN], uint8_t out[SCRAM_KEY_LEN]);
void scram_server_key(const uint8_t salted[SCRAM_KEY_LEN], uint8_t out[SCRAM_KEY_LEN]);
void scram_stored_key(
    const uint8_t client_key[SCRAM_KEY_LEN], uint8_t out[SCRAM_KEY_LEN]);
/* HMAC-SHA-256 of a text: every signature of the exchange. */
void scram_sign(const uint8_t key[SCRAM_KEY_LEN], const void *text, size_t len,
    uint8_t out[SCRAM_KEY_LEN]);

#endif
