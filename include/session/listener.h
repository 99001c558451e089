/*
 * One listening socket.  Opening sockets and accepting is login/listen's business; this
 * is what the floors below need to know of one: that it can stop, and be handed on.
 */
#ifndef SESSION_LISTENER_H
#define SESSION_LISTENER_H

#include "session/site.h"

struct listener {
	struct node node; /* in site->listeners */
	struct site *site;
	struct watch *watch;
	struct deadline pause; /* accepting goes on at this time */
	int fd;
	bool is_unix;
	bool is_unclaimed; /* another process's; no setting has asked for it yet */
	bool is_stopped;   /* by SUSPEND: nothing is accepted until listener_start */
	char *path; /* owned: socket file to be unlinked at the end; NULL = none */
};

/* Accept nothing; connections wait in the kernel's queue. */
void listener_stop(struct listener *listener);
void listener_start(struct listener *listener);

#endif
