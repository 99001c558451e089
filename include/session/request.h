/*
 * A request for a server.  Its owner keeps it as long as it may need a server.  The
 * pool decides about the ask in it; the broker carries the decision out and calls the
 * request's operations.
 */
#ifndef SESSION_REQUEST_H
#define SESSION_REQUEST_H

#include "pool/pool.h"

struct conn;
struct request;

/* All are called from the loop, never from inside broker_ask. */
struct request_ops {
	/* The request has got a server: request->ask.seat is linked. */
	void (*granted)(struct request *request);
	/* ASK_WELCOME: the pool's welcome is known. */
	void (*admitted)(struct request *request);
	/* ASK_REPLICATION: the attempt to open its connection has ended, but another
	 * attempt may succeed: the client may ask again. */
	void (*retried)(struct request *request);
	void (*refused)(
	    struct request *request, const char *sqlstate, const char *text);
	/* The pool is being killed. */
	void (*killed)(struct request *request, const char *reason);
	/* The connection that log lines about the request name. */
	const struct conn *(*conn)(const struct request *request);
};

struct request {
	struct ask ask;
	const struct request_ops *ops;
};

static inline struct request *ask_request(const struct ask *ask)
{
	return container_of(ask, struct request, ask);
}

#endif
