/*
 * The client socket that brought a CancelRequest ("carrier").  Nothing more is read
 * from it, and it is closed when the request is over.
 */
#ifndef CANCEL_CARRIER_H
#define CANCEL_CARRIER_H

struct client;
struct pool;

/* The part of a request that refers to its carrier. */
struct carried {
	struct client *carrier; /* NULL: the socket has closed */
	struct pool *pool;      /* pool of the query; NULL: another process knows it */
};

/* A CancelRequest came on this new connection. */
void carrier_begin(struct client *client);
/* The carrier waits until this request is over. */
void carrier_bind(struct client *carrier, struct carried *carried, struct pool *pool);
/* The request is over: closes the carrier if it still exists. */
void carrier_release(struct carried *carried, const char *reason);

#endif
