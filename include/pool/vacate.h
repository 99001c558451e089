/*
 * Servers at rest of a database that nobody uses, and that PostgreSQL has to be without
 * for DROP DATABASE and the like.
 */
#ifndef POOL_VACATE_H
#define POOL_VACATE_H

#include "pool/pool.h"

/* A client of the entry `from` wants the server's database `name` to have no other
 * connection than its own.  is_there: it is connected to that one itself.  RETIRE:
 * close this slot, and call again.  NONE: no server is at rest there; or other clients
 * use the database, so that it could not be had without the pooler either. */
struct verdict vacate_next(
    struct catalog *c, const char *name, const char *from, bool is_there);

#endif
