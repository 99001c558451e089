/*
 * Judges a signed token (JSON Web Token, RFC 7519, in the compact form of RFC 7515) by
 * the keys of its issuer and by what the configuration asks for.  Pure: no I/O.
 */
#ifndef AUTH_OAUTH_TOKEN_H
#define AUTH_OAUTH_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "auth/oauth_keys.h"
#include "base/err.h"

/* By so much the issuer's clock may be wrong. */
enum { OAUTH_SKEW_S = 30 };

struct oauth_demands {
	const char *issuer;   /* its name, which the claim `iss` has to be */
	const char *audience; /* a list, of which `aud` has to have one */
	const char *scope;    /* words, each of which `scope` or `scp` has to have */
	const char *name_claim;
	int64_t now_s;
};

enum oauth_verdict {
	OAUTH_VALID, /* *name is who it is for, for mem_free */
	OAUTH_INVALID,
	OAUTH_UNKNOWN_KEY, /* the issuer may have got another key meanwhile */
};

/* With the last two err says why, for the log; it never shows the token. */
enum oauth_verdict oauth_token_judge(const char *token, size_t len,
    const struct oauth_keys *keys, const struct oauth_demands *demands, char **name,
    struct err *err);

/* Reads a discovery document (RFC 8414, OpenID Connect Discovery) of this issuer, and
 * returns where its keys are, for mem_free.  NULL and err: it is not of this issuer, or
 * names no place with https. */
char *oauth_discovery_parse(
    const char *text, size_t len, const char *issuer, struct err *err);

#endif
