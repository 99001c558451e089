/*
 * Letters between the sites of one process: servers that go from one site to another,
 * and the wishes of pool/wishes.h.
 */
#ifndef MOVING_LEND_H
#define MOVING_LEND_H

#include "pool/wishes.h"
#include "session/crew.h"

struct server;

/* Callbacks for crew_ops. */
void lend_hand(struct server *server, unsigned site);
void lend_wish(struct site *from, unsigned to, const struct wish *wish);
void lend_welcome(struct pool *pool);

#endif
