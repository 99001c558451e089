/*
 * Servers whose client has vanished in the middle of its work, with
 * client_disconnect=cancel: the query is cancelled, what is owed is read and dropped,
 * the transaction is rolled back, and the server goes back to its pool.
 */
#ifndef CANCEL_DRAIN_H
#define CANCEL_DRAIN_H

#include <stdbool.h>

struct server;

/* Can this server be tidied up, and does client_disconnect ask for it?  It must have
 * got whole messages only. */
bool drain_is_wanted(const struct server *server);
/* Its client has vanished and the link is ended: the pool takes them apart, and the
 * server goes back by broker_give when it has come to rest, or is closed when that
 * takes longer than cancel_wait_timeout. */
void drain_begin(struct server *server);

#endif
