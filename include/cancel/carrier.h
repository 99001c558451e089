/*
 * The client socket that brought a CancelRequest: nothing more is expected of it, and
 * it is closed when the request is over.
 */
#ifndef CANCEL_CARRIER_H
#define CANCEL_CARRIER_H

struct client;
struct pool;

/* Part of a request on its way: who brought it. */
struct carried {
	struct client *carrier; /* NULL: it has gone */
	struct pool *pool;      /* of the query; NULL: another process knows */
};

/* A CancelRequest packet came on this new connection. */
void carrier_begin(struct client *client);
/* It waits for this request to be over. */
void carrier_bind(struct client *carrier, struct carried *carried, struct pool *pool);
/* The request is over: the socket, if it is still there, closes. */
void carrier_release(struct carried *carried, const char *reason);

#endif
