/*
 * Stored passwords: finds out their kind, and whether a client's proof matches.  There
 * are no sockets and no messages here.
 */
#ifndef AUTH_SECRET_H
#define AUTH_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/scram_keys.h"
#include "auth/userlist.h"
#include "base/err.h"

enum secret_kind {
	SECRET_NONE, /* empty: the user exists, but no password matches */
	SECRET_PLAIN,
	SECRET_MD5,   /* "md5" and 32 lower-case hexadecimal digits */
	SECRET_SCRAM, /* SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY */
	/* it begins like an md5 or SCRAM secret, but is malformed: nothing matches it,
	 * and it is never used as a password */
	SECRET_MALFORMED,
};

struct secret {
	enum secret_kind kind;
	char *text;                  /* owned, as it was stored; "" for SECRET_NONE */
	struct scram_verifier scram; /* only for SECRET_SCRAM */
};

/* Copies text and finds out its kind; NULL is SECRET_NONE.  secret_done wipes it. */
void secret_init(struct secret *s, const char *text);
void secret_done(struct secret *s);
bool secret_is_equal(const struct secret *a, const struct secret *b);

/* Whether a password that a client sent as plain text matches.  An empty password never
 * matches; neither does anything match SECRET_NONE, SECRET_MALFORMED, or a SCRAM secret
 * with more than SCRAM_ITERATIONS_MAX iterations. */
bool secret_is_password(const struct secret *s, const char *user, const char *password);

/* secret_is_password in two parts, for callers that derive on another thread.  Returns
 * 1 when a derivation is needed: *due borrows from s and password, and its result goes
 * to secret_is_salted.  Returns 0 when secret_is_password is quick. */
int secret_prepare(const struct secret *s, const char *password, struct scram_due *due);
/* Whether the salted password belongs to this SCRAM secret.  False for other kinds. */
bool secret_is_salted(const struct secret *s, const uint8_t salted[SCRAM_KEY_LEN]);

enum { MD5_TEXT_LEN = 35 }; /* "md5" and 32 digits */
/* Writes "md5..." and a NUL to out: the hash that PostgreSQL stores.  "" where
 * libcrypto has no MD5. */
void secret_md5_of_password(
    const char *password, const char *user, char out[MD5_TEXT_LEN + 1]);
/* Makes the answer to AuthenticationMD5Password with this salt.  -1: the secret is
 * neither a plain password nor an md5 hash, or libcrypto has no MD5. */
int secret_md5_answer(const struct secret *s, const char *user, const uint8_t salt[4],
    char out[MD5_TEXT_LEN + 1]);
/* Whether this is the right answer to AuthenticationMD5Password.  kept: an MD5 that is
 * looked up already; NULL: it is looked up now. */
bool secret_is_md5_answer(struct digest *kept, const struct secret *s, const char *user,
    const uint8_t salt[4], const char *answer);

/* ---- numbers of rounds ---- */

/* How many SCRAM secrets have how many rounds.  Users who do not exist are asked for
 * proofs with the rounds that those who exist have: others would tell that there is
 * no such user. */

/* Secrets with more different numbers of rounds are not counted. */
enum { ROUNDS_KINDS = 8 };

/* Zeroed = nothing is counted. */
struct rounds {
	struct {
		uint32_t rounds, count;
	} kinds[ROUNDS_KINDS];
};

/* One secret with these rounds more (change 1), or less (-1). */
void rounds_count(struct rounds *r, uint32_t rounds, int change);
/* The number of rounds that most secrets have, and in *count how many; 0: there are no
 * secrets. */
uint32_t rounds_usual(const struct rounds *r, uint32_t *count);
/* Rounds for one of many names that do not exist: over all values of `pick` they are
 * distributed as those of the secrets, of which others_count more have others_rounds.
 * A few secrets more or less change the answer for few values. */
uint32_t rounds_like(const struct rounds *r, uint32_t others_count,
    uint32_t others_rounds, uint32_t pick);

#endif
