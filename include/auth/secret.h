/*
 * Stored passwords: which kind one is, and whether a client's proof matches it.  There
 * are no sockets and no wire messages here; proofs are bytes.
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
	SECRET_NONE, /* empty: the user exists, no password matches */
	SECRET_PLAIN,
	SECRET_MD5,       /* "md5" + 32 lowercase hex digits */
	SECRET_SCRAM,     /* SCRAM-SHA-256$ITER:SALT$STORED:SERVER */
	SECRET_MALFORMED, /* it begins like an md5 or SCRAM secret and is none: nothing
			     matches it, and it is never used as a password */
};

struct secret {
	enum secret_kind kind;
	char *text;                  /* owned, as stored; "" for SECRET_NONE */
	struct scram_verifier scram; /* SECRET_SCRAM only */
};

/* Classifies and copies text; NULL is SECRET_NONE.  secret_done wipes it. */
void secret_init(struct secret *s, const char *text);
void secret_done(struct secret *s);
bool secret_is_equal(const struct secret *a, const struct secret *b);

/* Does a password that a client sent in clear match?  SECRET_NONE and SECRET_MALFORMED
 * never match, nor does an empty password, nor a SCRAM secret with more than
 * SCRAM_ITERATIONS_MAX iterations. */
bool secret_is_password(const struct secret *s, const char *user, const char *password);

/* The same in two parts, for callers that derive keys elsewhere.  1: a derivation is
 * due (due borrows from s and password); its result is for secret_is_salted.  0: no
 * derivation is needed; secret_is_password answers at once. */
int secret_prepare(const struct secret *s, const char *password, struct scram_due *due);
/* Was the salted password derived from the password behind this SCRAM secret?  Not when
 * the secret is of another kind. */
bool secret_is_salted(const struct secret *s, const uint8_t salted[SCRAM_KEY_LEN]);

enum { MD5_TEXT_LEN = 35 }; /* "md5" + 32 */
/* out gets "md5..." + NUL: the hash that PostgreSQL stores; "" where libcrypto
 * has no MD5. */
void secret_md5_of_password(
    const char *password, const char *user, char out[MD5_TEXT_LEN + 1]);
/* The answer to AuthenticationMD5Password with this salt.  -1 when the secret is
 * neither a plain password nor an md5 hash, or libcrypto has no MD5. */
int secret_md5_answer(const struct secret *s, const char *user, const uint8_t salt[4],
    char out[MD5_TEXT_LEN + 1]);
/* Is this the right answer to the md5 challenge? */
bool secret_is_md5_answer(const struct secret *s, const char *user,
    const uint8_t salt[4], const char *answer);

#endif
