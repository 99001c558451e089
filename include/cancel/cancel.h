/*
 * Cancel requests: keys to clients, the forwarding connection, answers to clients that
 * queue.  PostgreSQL documentation: "Canceling Requests in Progress".
 */
#ifndef CANCEL_CANCEL_H
#define CANCEL_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cancel/carrier.h"
#include "net/loop.h"
#include "session/server.h"

/* One CancelRequest on its way to a server. */
struct cancel_job {
	struct cancel_aim aim;
	struct carried carried;   /* the client socket that brought it */
	struct server *messenger; /* the connection that carries it; NULL = none yet */
	struct pool *pool;
	struct site *site;
	struct deadline patience; /* cancel_wait_timeout, with or without a carrier */
	struct deadline retry;    /* with is_refused: when it is tried again */
	uint64_t client_id;       /* the id of the client whose query it is */
	uint64_t query_us;        /* the start of that query: no later one is meant */
	bool is_for_left; /* instead: what a client that vanished has left to run */
	bool is_sent;
	bool is_refused; /* the server's unix socket had no room for its messenger */
};

/* The longest key that a CancelRequest may have. */
enum { CANCEL_REQUEST_KEY_MAX = 256 };

/* A CancelRequest packet came on this new connection: takes the client over.  Its key
 * has at most CANCEL_REQUEST_KEY_MAX bytes. */
void cancel_begin(struct client *carrier, const struct message *m);

/* Cancel what the vanished client of this server (is_left) has left to run on it.  When
 * the request is over, conn_ops.review of the server is called. */
void cancel_left(struct server *server);

#endif
