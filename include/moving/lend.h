/*
 * Servers that change hands between the sites of one process, and what sites ask each
 * other for (pool/wishes.h), as letters.
 */
#ifndef MOVING_LEND_H
#define MOVING_LEND_H

#include "pool/wishes.h"
#include "session/crew.h"

struct server;

/* For crew_ops. */
void lend_hand(struct server *server, unsigned site);
void lend_wish(struct site *from, unsigned to, const struct wish *wish);
void lend_welcome(struct pool *pool);

/* The site is taken apart. */
void lend_done(struct site *site);

#endif
