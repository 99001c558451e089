/*
 * The SCRAM exchange with a client (protocol.md 4; PostgreSQL "SASL Authentication").
 */
#ifndef LOGIN_PROOF_SASL_H
#define LOGIN_PROOF_SASL_H

#include "login/proof.h"

/* Offer the mechanisms. */
enum proof proof_sasl_begin(struct client *client);
/* A whole message of type 'p'. */
enum proof proof_sasl_message(struct client *client, const struct message *m);

/* Is a login refused on this connection without channel binding? */
bool proof_requires_binding(const struct client *client);

/* An Authentication message with this request. */
void proof_send_auth(
    struct client *client, uint32_t request, const void *data, size_t len);
/* The proof has failed, and it takes as long to say so as if keys had been derived for
 * it: PROOF_LATER, and PROOF_FAILED when the message comes again. */
enum proof proof_fail_slowly(struct client *client);

#endif
