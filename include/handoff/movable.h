/*
 * Everything in a process that another process can take over: listening sockets,
 * clients and servers.  One function walks all of them in a fixed order.  SUSPEND stops
 * what the walk visits, SHOW FDS prints it, and an online restart sends it.  Consoles
 * are not included: they give the commands and end with the process.
 */
#ifndef HANDOFF_MOVABLE_H
#define HANDOFF_MOVABLE_H

#include "session/client.h"
#include "session/listener.h"
#include "session/server.h"

enum movable_kind {
	MOVABLE_LISTENER,
	MOVABLE_LOGIN,  /* a client whose login is not complete */
	MOVABLE_CLIENT, /* a client that rests, waits, or is linked to a server */
	MOVABLE_SERVER, /* a server in any state, even during its login */
	MOVABLE_CANCEL, /* a client socket that brought a CancelRequest */
};

/* One object of the walk.  All pointers are borrowed until the visit returns. */
struct movable {
	enum movable_kind kind;
	struct listener *listener; /* for MOVABLE_LISTENER, otherwise NULL */
	struct conn *conn;         /* for all others */
	/* for MOVABLE_LOGIN, MOVABLE_CLIENT and MOVABLE_CANCEL */
	struct client *client;
	struct server *server; /* for MOVABLE_SERVER */
};

/* Is called for each object.  It may stop or doom the object, but must not free
 * anything. */
typedef void movable_visit_fn(void *ctx, const struct movable *thing);

/* Visits, in this order: listeners; clients during their login; the pools by database
 * and user, each with its clients, waiting clients and servers (active, idle, used,
 * tested, logging in, carrying cancel requests, being cancelled); sockets that brought
 * cancel requests.  Objects that are already being closed are skipped. */
void movable_walk(struct site *site, movable_visit_fn *visit, void *ctx);

/* SUSPEND: stops accepting, and stops reading from each connection that is between two
 * messages and has sent all its output.  To be called repeatedly until it returns true:
 * then everything that the walk visits stands still, and our buffers contain only
 * incomplete messages (conn->held).  The pool closes resting servers that need a check
 * before their next use. */
bool movable_stop(struct site *site);
/* Closes everything that does not stand still yet ("suspend_timeout"). */
void movable_drop_rest(struct site *site);
/* RESUME: lets everything continue. */
void movable_start(struct site *site);

#endif
