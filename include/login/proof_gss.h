/*
 * The GSSAPI exchange with a client (protocol.md 4; PostgreSQL "GSSAPI Authentication"
 * and "Start-up").
 */
#ifndef LOGIN_PROOF_GSS_H
#define LOGIN_PROOF_GSS_H

#include "login/proof.h"

/* A whole message of type 'p'. */
enum proof proof_gss_message(struct client *client, const struct message *m);

#endif
