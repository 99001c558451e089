/*
 * With client_disconnect=cancel: cleans up servers whose client has vanished in the
 * middle of its work.  The query is cancelled, owed answers are read and dropped, the
 * transaction is rolled back, and the server goes back to its pool.
 */
#ifndef CANCEL_DRAIN_H
#define CANCEL_DRAIN_H

#include <stdbool.h>

struct server;

/* Whether client_disconnect asks for it and the server can be cleaned up.  It must have
 * received whole messages only. */
bool drain_is_wanted(const struct server *server);
/* Begins the clean-up after the client has vanished and the link has ended.  The pool
 * unlinks the two.  The server goes back to its pool by broker_give when all is done,
 * or is closed when that takes longer than cancel_wait_timeout. */
void drain_begin(struct server *server);

#endif
