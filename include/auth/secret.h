/*
 * What a stored password is, and what proves that a client knows it.  No sockets, no
 * wire messages: proofs go in and out as bytes.
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
	SECRET_MD5,   /* "md5" + 32 lowercase hex digits */
	SECRET_SCRAM, /* SCRAM-SHA-256$ITER:SALT$STORED:SERVER */
};

struct secret {
	enum secret_kind kind;
	char *text;                  /* owned, as stored; "" for SECRET_NONE */
	struct scram_verifier scram; /* SECRET_SCRAM only */
};

/* Classify text and copy it; NULL is SECRET_NONE.  secret_done wipes it. */
void secret_init(struct secret *s, const char *text);
void secret_done(struct secret *s);
bool secret_is_equal(const struct secret *a, const struct secret *b);

/* The client sent this password in clear.  SECRET_NONE never matches, an empty password
 * never matches, nor does a SCRAM secret of more than SCRAM_ITERATIONS_MAX. */
bool secret_is_password(const struct secret *s, const char *user, const char *password);

/* The same in two parts, for those who derive elsewhere.  1: a derivation is due (due
 * borrows from s and password), and what comes out is for secret_is_salted.  0: no
 * derivation is needed, secret_is_password answers at once. */
int secret_prepare(const struct secret *s, const char *password, struct scram_due *due);
/* Was the salted password derived from the password behind this SCRAM secret?  Not when
 * the secret is of another kind. */
bool secret_is_salted(const struct secret *s, const uint8_t salted[SCRAM_KEY_LEN]);

enum { MD5_TEXT_LEN = 35 }; /* "md5" + 32 */
/* out gets "md5..." + NUL: the hash that PostgreSQL stores; "" where libcrypto
 * has no MD5. */
void md5_of_password(
    const char *password, const char *user, char out[MD5_TEXT_LEN + 1]);
/* The answer to AuthenticationMD5Password with this salt: -1 when the secret cannot
 * give it (SCRAM, none) or libcrypto has no MD5. */
int secret_md5_answer(const struct secret *s, const char *user, const uint8_t salt[4],
    char out[MD5_TEXT_LEN + 1]);
/* Did the client answer the md5 challenge right? */
bool secret_is_md5_answer(const struct secret *s, const char *user,
    const uint8_t salt[4], const char *answer);

#endif
