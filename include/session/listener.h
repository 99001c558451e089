/*
 * One listening socket, as floors below login need it: to stop it and to hand it over.
 * login/listen.c opens sockets and accepts connections.
 */
#ifndef SESSION_LISTENER_H
#define SESSION_LISTENER_H

#include <sys/types.h>

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
	struct listener *successor; /* the one that will replace it; or NULL */
	char *path;  /* owned: socket file to be removed at the end; NULL: none */
	ino_t inode; /* of the file: another process may have put its own there */
};

/* Stops accepting, until listener_start.  Meanwhile connections wait in the kernel's
 * queue. */
static inline void listener_stop(struct listener *listener)
{
	listener->is_stopped = true;
	watch_off(listener->watch);
}

static inline void listener_start(struct listener *listener)
{
	if (!listener->is_stopped)
		return;
	listener->is_stopped = false;
	/* a pause after a failed accept() ends by its own deadline */
	if (listener->pause.at_us == UINT64_MAX)
		watch_on(listener->watch);
}

#endif
