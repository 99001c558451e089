/*
 * The messages of the SASL mechanism OAUTHBEARER (RFC 7628), as PostgreSQL 18 speaks
 * it, and the addresses that follow from the name of an issuer.
 */
#ifndef AUTH_OAUTH_MESSAGE_H
#define AUTH_OAUTH_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define OAUTH_MECHANISM "OAUTHBEARER"

enum oauth_message {
	OAUTH_MESSAGE_TOKEN,     /* *token and *token_len are set */
	OAUTH_MESSAGE_QUESTION,  /* no token: the client wants the status document */
	OAUTH_MESSAGE_NO_TOKEN,  /* something else than a bearer token */
	OAUTH_MESSAGE_MALFORMED, /* it breaks the protocol */
};

/* Reads the first message of a client.  The token is a part of it.  With the last two
 * results err says why, for the log, and shows nothing of the message. */
enum oauth_message oauth_message_read(const uint8_t *data, size_t len,
    const char **token, size_t *token_len, struct err *err);
/* Is it what a client answers to a status document? */
bool oauth_message_is_end(const uint8_t *data, size_t len);
/* Appends the status document for a client whose token is not accepted: where it gets
 * one, and for which scope. */
void oauth_message_put_status(struct buf *b, const char *issuer, const char *scope);

/* Appends the first message of a client with this token.  -1: it is no bearer token. */
int oauth_message_put_token(struct buf *b, const char *token);
/* Appends what a client answers to a status document. */
void oauth_message_put_end(struct buf *b);

/* An issuer is configured by its name, or by the address of its discovery document, in
 * which "/.well-known/" occurs.  These append the other one.  RFC 8414, OpenID Connect
 * Discovery. */
void oauth_issuer_put_name(struct buf *b, const char *issuer);
void oauth_issuer_put_document(struct buf *b, const char *issuer);

#endif
