/*
 * The exchange of OAUTHBEARER with a client (RFC 7628; PostgreSQL 18 "OAuth
 * Authorization and Authentication").
 */
#ifndef LOGIN_PROOF_OAUTH_H
#define LOGIN_PROOF_OAUTH_H

#include "login/proof.h"

/* Offers the mechanism, if the connection is encrypted. */
enum proof proof_oauth_begin(struct client *client);
/* A whole message of type 'p'. */
enum proof proof_oauth_message(struct client *client, const struct message *m);

/* Who issues the tokens and for which scope: by the rule, or, if it is NULL, by the
 * settings. */
const char *proof_oauth_issuer(
    const struct hba_rule *rule, const struct settings *settings);
const char *proof_oauth_scope(
    const struct hba_rule *rule, const struct settings *settings);

#endif
