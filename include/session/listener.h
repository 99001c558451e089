/*
 * One listening socket, as floors below login need it: to stop it and to hand it over.
 * login/listen.c opens sockets and accepts connections.
 */
#ifndef SESSION_LISTENER_H
#define SESSION_LISTENER_H

#include "session/site.h"

struct listener {
	struct node node; /* in site->listeners */
	struct site *site;
	struct watch *watch;
	struct deadline pause; /* accepting continues at this time */
	int fd;
	bool is_unix;
	bool is_unclaimed; /* taken over from another process; not yet claimed by a
			      setting */
	bool is_stopped;   /* by SUSPEND: nothing is accepted until listener_start */
	bool is_shared;    /* the process from which it was taken may still go on */
	char *path;        /* owned: socket file to be removed at the end; NULL: none */
};

/* Stop and start accepting.  Meanwhile connections wait in the kernel's queue. */
void listener_stop(struct listener *listener);
void listener_start(struct listener *listener);

#endif
