/*
 * What the pooler tells a client after its login: the parameters that are in force for
 * it, the key for cancel requests, and ReadyForQuery.  Clients that ask for the same
 * parameters get the same bytes except for the key, so what was made lately is kept.
 */
#ifndef RELAY_OPENING_H
#define RELAY_OPENING_H

#include "session/client.h"
#include "wire/vars.h"

/* The openings that were made lately. */
struct openings;

struct openings *openings_new(void);
/* Call it before vars_schema_free, because openings refer to sets of values. */
void openings_free(struct openings **all);

/* Tells the client.  Values that it did not ask for become those of its pool, or of the
 * server that it is linked to (a replication client). */
void opening_send(struct client *client);

#endif
