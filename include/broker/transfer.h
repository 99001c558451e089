/*
 * Servers that go to another worker, as the same object: it is detached from one loop,
 * posted, and attached to the other.  It counts all the time.  Whoever waits for it
 * there gets it from its own pool.
 */
#ifndef BROKER_TRANSFER_H
#define BROKER_TRANSFER_H

struct server;

/* Sends a server at rest, about which the pool has said VERDICT_HAND, to this worker;
 * it leaves later in the turn. */
void transfer_begin(struct server *server, unsigned worker);

#endif
