/*
 * A request for a server.  Its owner keeps it as long as it may need a server.  The
 * pool decides about `in_pool`; the broker carries the decision out and calls the
 * request's operations.
 */
#ifndef SESSION_REQUEST_H
#define SESSION_REQUEST_H

#include "pool/pool.h"

struct conn;
struct request;

/* All are called from the loop, never from inside broker_ask. */
struct request_ops {
	/* The request has got a server: request->in_pool.slot is linked. */
	void (*granted)(struct request *request);
	/* REQUEST_PARAMS: the pool's login parameters are known. */
	void (*admitted)(struct request *request);
	/* REQUEST_REPLICATION: the attempt to open its connection has ended, but
	 * another attempt may succeed: the client may ask again. */
	void (*retried)(struct request *request);
	void (*refused)(
	    struct request *request, const char *sqlstate, const char *text);
	/* The pool is being killed. */
	void (*killed)(struct request *request, const char *reason);
	/* The connection that log lines about the request name. */
	const struct conn *(*conn)(const struct request *request);
};

struct request {
	struct pool_request in_pool;
	const struct request_ops *ops;
};

static inline struct request *request_of(const struct pool_request *in_pool)
{
	return container_of(in_pool, struct request, in_pool);
}

#endif
