/*
 * Everything in a process that another process can take over: listening sockets,
 * clients and servers.  One function walks all of them in a fixed order.  SUSPEND stops
 * what the walk visits, SHOW FDS prints it, and an online restart sends it.  Consoles
 * are not included: they give the commands and end with the process.
 */
#ifndef MOVING_HANDOVER_H
#define MOVING_HANDOVER_H

#include "session/client.h"
#include "session/listener.h"
#include "session/server.h"

enum handover_kind {
	HANDOVER_LISTENER,
	HANDOVER_LOGIN,  /* a client whose login is not complete */
	HANDOVER_CLIENT, /* a client that rests, waits, or is linked to a server */
	HANDOVER_SERVER, /* a server in any state, even during its login */
	HANDOVER_CANCEL, /* a client socket that brought a CancelRequest */
};

/* One object of the walk.  All pointers are borrowed until the visit returns. */
struct handover {
	enum handover_kind kind;
	struct listener *listener; /* for HANDOVER_LISTENER, otherwise NULL */
	struct conn *conn;         /* for all others */
	/* for HANDOVER_LOGIN, HANDOVER_CLIENT and HANDOVER_CANCEL */
	struct client *client;
	struct server *server; /* for HANDOVER_SERVER */
};

/* Is called for each object.  It may stop or doom the object, but must not free
 * anything. */
typedef void handover_visit_fn(void *ctx, const struct handover *thing);

/* Visits, in this order: listeners; clients during their login; the pools by database
 * and user, each with its clients, waiting clients and servers (active, idle, used,
 * tested, logging in, carrying cancel requests, being cancelled); sockets that brought
 * cancel requests.  Objects that are already being closed are skipped. */
void handover_walk(struct site *site, handover_visit_fn *visit, void *ctx);

/* SUSPEND: stops accepting, and stops reading from each connection that is between two
 * messages and has sent all its output.  To be called repeatedly until it returns true:
 * then everything that the walk visits stands still, and our buffers contain only
 * incomplete messages (conn->held).  The pool closes resting servers that need a check
 * before their next use. */
bool handover_stop(struct site *site);
/* Closes everything that does not stand still yet ("suspend_timeout"). */
void handover_drop_rest(struct site *site);
/* RESUME: lets everything continue. */
void handover_start(struct site *site);

#endif
