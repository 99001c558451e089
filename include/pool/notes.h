/*
 * What a worker does when another one tells it something.
 */
#ifndef POOL_NOTES_H
#define POOL_NOTES_H

#include "pool/pool.h"

/* Does what another worker has asked for.  RETIRE: close this slot.  NONE: nothing is
 * left to do. */
struct verdict notes_hear(
    struct catalog *c, const struct central_note *note, uint64_t now_us);
/* The pool of this worker for a server that was sent to it, made if needed; NULL: its
 * database does not exist here. */
struct pool *notes_pool(struct catalog *c, const struct central_pool *whole);
/* A server that was sent to this worker cannot be used here: it no longer counts.
 * *was: its slot when it left. */
void notes_lost(struct catalog *c, struct central_pool *whole, struct slot *was);

#endif
