/*
 * What the pooler tells a client after its login: the parameters that are in force for
 * it, the key for cancel requests, and ReadyForQuery.  Clients that ask for the same
 * parameters get the same bytes except for the key, so what was made lately is kept.
 */
#ifndef RELAY_LOGIN_ANSWER_H
#define RELAY_LOGIN_ANSWER_H

#include "session/client.h"
#include "wire/vars.h"

/* The answers that were made lately. */
struct login_answers;

struct login_answers *login_answers_new(void);
/* Call it before vars_schema_free, because answers refer to sets of values. */
void login_answers_free(struct login_answers **all);

/* Tells the client.  Values that it did not ask for become those of its pool, or of the
 * server that it is linked to (a replication client). */
void login_answer_send(struct client *client);

#endif
