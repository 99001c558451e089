/*
 * Cancel requests: finds the client by its key, and forwards the request to the
 * client's server over a separate connection; clients that wait for a server are
 * answered here.  PostgreSQL documentation: "Canceling Requests in Progress".
 */
#ifndef CANCEL_CANCEL_H
#define CANCEL_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cancel/carrier.h"
#include "net/loop.h"
#include "session/server.h"

/* One CancelRequest that is being forwarded to a server. */
struct cancel_job {
	struct cancel_aim aim;
	struct carried carried; /* the client socket that brought it */
	/* the connection that carries it to the server; NULL: none yet */
	struct server *messenger;
	struct pool *pool;
	struct site *site;
	/* cancel_wait_timeout; runs even when the client socket has closed */
	struct deadline patience;
	struct deadline retry; /* if is_refused: when the next attempt follows */
	uint64_t client_id;    /* id of the client whose query it is for */
	/* start of the query that it is for; a later query is not meant */
	uint64_t query_us;
	/* it is for what a vanished client has left running instead */
	bool is_for_left;
	bool is_sent;
	bool is_refused; /* the server's Unix socket had no room for the connection */
};

/* The longest key that a CancelRequest may have, in bytes. */
enum { CANCEL_REQUEST_KEY_MAX = 256 };

/* Makes the key of a client that has logged in, which no other client has.  is_long: as
 * in protocol 3.2. */
void cancel_give_key(struct client *client, bool is_long);

/* A CancelRequest came on this new connection; takes the client over.  Its key has at
 * most CANCEL_REQUEST_KEY_MAX bytes. */
void cancel_begin(struct client *carrier, const struct message *m);

/* Cancels what the vanished client of this server (is_left) has left running.  When the
 * request is over, conn_ops.review of the server is called. */
void cancel_left(struct server *server);

#endif
