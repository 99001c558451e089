/*
 * One CancelRequest, from its arrival to its end.  If its client is at another worker,
 * it goes there as a message, and comes back when it is over: the socket that brought
 * it stays with the worker that has it ("home"), is not read meanwhile, and is closed
 * then.  A worker that stands still keeps nobody for ever: after cancel_wait_timeout
 * the socket is closed, and the request has no effect any more.
 */
#ifndef CANCEL_CANCEL_REQUEST_H
#define CANCEL_CANCEL_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "session/client.h"
#include "session/workers.h"

enum cancel_state {
	CANCEL_NEW,      /* nobody has taken it yet (by an exchange of this state) */
	CANCEL_GIVEN_UP, /* home has closed the socket; nobody may take it */
	CANCEL_TAKEN,    /* the worker of its client, or the peers, have it */
	CANCEL_WAITING,  /* it waits for a connection to the server */
	CANCEL_ACTIVE,   /* it has one */
	CANCEL_AGAIN,    /* home looks for the client again a little later */
};

struct cancel_request {
	struct thread_message message; /* to the worker of its client, and back */
	struct worker *to;             /* where it is sent */
	struct site *home;
	/* The socket; used by home alone.  NULL: it has closed, and the request goes on
	 * without it. */
	struct client *client;
	const struct conn_ops *before; /* how the socket was served until then */
	atomic_uint refs;
	_Atomic(enum cancel_state) state;
	char *database; /* owned: where the query runs; valid from CANCEL_WAITING on */
	char *reason;   /* owned: why it is over; of one that comes back */
	size_t len;
	uint8_t key[CANCEL_KEY_LONG];
};

/* The first packet of this client is a CancelRequest with this key: from now on the
 * client serves it only.  The caller parks the packet. */
struct cancel_request *cancel_request_new(
    struct client *client, const uint8_t *key, size_t len);

/* Sends it to this worker, whose thread calls open.  If nobody takes it, its client is
 * shown the packet again in the phase of before. */
void cancel_request_send(struct cancel_request *request, struct worker *to,
    void (*open)(struct thread_message *message));
/* It is over, at this site: closes the socket with this reason.  NULL: nobody has taken
 * it, and home is to look again. */
void cancel_request_end(
    struct cancel_request *request, struct site *site, const char *reason);

#endif
