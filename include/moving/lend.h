/*
 * Servers that go from one site of the process to another.
 */
#ifndef MOVING_LEND_H
#define MOVING_LEND_H

struct server;

/* Sends a server, which has left its pool, to another site.  For crew_ops. */
void lend_hand(struct server *server, unsigned site);

#endif
