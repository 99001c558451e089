/*
 * The SCRAM exchange with a client (protocol.md 4; PostgreSQL "SASL Authentication").
 */
#ifndef LOGIN_PROOF_SASL_H
#define LOGIN_PROOF_SASL_H

#include "login/proof.h"

/* Offers the client the mechanisms that its connection allows. */
enum proof proof_sasl_begin(struct client *client);
/* A whole message of type 'p'. */
enum proof proof_sasl_message(struct client *client, const struct message *m);

/* Is a login refused on this connection without channel binding? */
bool proof_requires_binding(const struct client *client);

/* Sends an Authentication message; request is its code. */
void proof_send_auth(
    struct client *client, uint32_t request, const void *data, size_t len);
/* The proof is wrong.  Derives keys that nobody needs first, so that the time of the
 * answer does not tell which users exist: returns PROOF_LATER, and the caller gets
 * PROOF_FAILED when it passes the message again.  PROOF_FAILED at once if the helper
 * threads are busy. */
enum proof proof_fail_slowly(struct client *client);

#endif
