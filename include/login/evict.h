/*
 * Room at the descriptor limit: clients that hold a descriptor without having proven
 * who they are must not keep the administrator out.
 */
#ifndef LOGIN_EVICT_H
#define LOGIN_EVICT_H

#include "session/site.h"

/* Closes the oldest clients of all sites in mid-login from which the pooler has waited
 * for a message for too long.  Clients that wait for the pooler (look-ups, key
 * derivation, the pool's welcome) stay, and so does the owner of the process on the
 * unix socket.  Returns how many are being closed; their descriptors are free after
 * this turn of the loop. */
unsigned evict_silent(struct site *site);

#endif
