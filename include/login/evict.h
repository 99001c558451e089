/*
 * Closes clients that have not proven who they are, when there are too many, or when
 * the process has reached its limit of open files: they must not keep the administrator
 * out.
 */
#ifndef LOGIN_EVICT_H
#define LOGIN_EVICT_H

#include "session/client.h"
#include "session/strangers.h"

/* Closes the oldest clients, on all sites, that are in mid-login and have sent nothing
 * for too long although it is their turn.  Clients that wait for the pooler (look-ups,
 * key derivation, the pool's login parameters) stay, and so does the owner of the
 * process on the unix socket.  Returns how many are being closed; their descriptors are
 * free after this turn of the loop. */
unsigned evict_silent(struct site *site);

/* A client is there that was found to be one too many: closes it, or if there are too
 * many of all addresses, the oldest other one of its site that is in mid-login although
 * it is its turn; if it has none, that of the next worker that has one.  Only if nobody
 * has one, the client itself gives way. */
void evict_for(struct client *client, enum strangers_verdict verdict);

#endif
