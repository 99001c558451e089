/*
 * Everything of a process that another process could take over: listening sockets,
 * clients and servers.  One walk names them all, in one order.  SUSPEND stops what the
 * walk names, SHOW FDS prints it, and a takeover sends it.
 *
 * Consoles are not part of it: they give the commands, and end with the process.
 */
#ifndef MOVING_HANDOVER_H
#define MOVING_HANDOVER_H

#include "session/client.h"
#include "session/listener.h"
#include "session/server.h"

enum handover_kind {
	HANDOVER_LISTENER,
	HANDOVER_LOGIN,  /* a client that has not finished its login */
	HANDOVER_CLIENT, /* at rest, waiting, or linked to a server */
	HANDOVER_SERVER, /* in any state, also while it logs in */
	HANDOVER_CANCEL, /* a client socket that brought a CancelRequest */
};

/* One of them; all borrowed until the visit returns. */
struct handover {
	enum handover_kind kind;
	struct listener *listener; /* of HANDOVER_LISTENER, else NULL */
	struct conn *conn;         /* of all others */
	struct client *client;     /* of HANDOVER_LOGIN, _CLIENT, _CANCEL */
	struct server *server;     /* of HANDOVER_SERVER */
};

/* The visit may stop and doom what it is shown, and must not free anything. */
typedef void handover_visit_fn(void *ctx, const struct handover *thing);

/* In this order: listeners, clients in their login, then the pools by database and
 * user, each with its clients, those that wait, and its servers (active, idle, used,
 * tested, logging in, carrying cancels, being cancelled); at the end those that brought
 * cancel requests.  What is being closed already is left out. */
void handover_walk(struct site *site, handover_visit_fn *visit, void *ctx);

/* SUSPEND.  Stops accepting, and stops reading from each connection that stands between
 * two messages and has sent all its output.  To be called again, from time to time,
 * until it returns true: then everything that the walk names stands still, and no byte
 * is in our buffers but unfinished messages (conn->held).  Resting servers that would
 * need a check before their next use are the pool's to close. */
bool handover_stop(struct site *site);
/* Closes all that does not stand still yet: "suspend_timeout". */
void handover_drop_rest(struct site *site);
/* RESUME: everything goes on. */
void handover_start(struct site *site);

#endif
