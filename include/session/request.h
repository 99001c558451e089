/*
 * Whoever wants a server has a request, and keeps it as long as it may want one.  The
 * pool decides about the ask in it, and whoever carries the decision out calls its
 * operations.
 */
#ifndef SESSION_REQUEST_H
#define SESSION_REQUEST_H

#include "pool/pool.h"

struct conn;
struct request;

/* Called from the loop, never from inside broker_ask. */
struct request_ops {
	/* request->ask.seat is linked now. */
	void (*granted)(struct request *request);
	/* ASK_WELCOME: the pool's welcome is known. */
	void (*admitted)(struct request *request);
	/* ASK_REPLICATION: the attempt to open its connection has ended without a
	 * failure, and it may ask again. */
	void (*retried)(struct request *request);
	void (*refused)(
	    struct request *request, const char *sqlstate, const char *text);
	/* The pool is being killed. */
	void (*killed)(struct request *request, const char *reason);
	/* On whose behalf log lines about it are written. */
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
