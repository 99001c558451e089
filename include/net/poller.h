/*
 * The set of descriptors that a loop waits for: the kernel's epoll, or what libevent
 * uses on other systems.  Private to net/loop.
 */
#ifndef NET_POLLER_H
#define NET_POLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What Linux alone has.  NET_PORTABLE tests on Linux what other systems get. */
#if defined(__linux__) && !defined(NET_PORTABLE)
#	define NET_HAS_LINUX 1
#endif

#ifdef NET_HAS_LINUX

#	include <sys/epoll.h>

enum {
	READY_READS = EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR,
	READY_WRITES = EPOLLOUT | EPOLLHUP | EPOLLERR,
	READY_IS_OVER = EPOLLRDHUP | EPOLLHUP | EPOLLERR,
	POLLER_HAS_EDGES = true,
	POLLER_NOTICES_CLOSE = true,
};

struct ready {
	struct epoll_event event;
};

static inline int ready_fd(const struct ready *r)
{
	return r->event.data.fd;
}

static inline unsigned ready_what(const struct ready *r)
{
	return r->event.events;
}

#else

/* What is ready of a descriptor.  A failed or closed one can be read and written, so
 * that its reader or writer finds the error. */
enum {
	READY_READS = 1,
	READY_WRITES = 2,
	/* the peer has closed, or the socket has failed; as far as the system tells */
	READY_IS_OVER = 0,
	/* whether POLLER_EDGE means anything */
	POLLER_HAS_EDGES = false,
	/* whether closing a descriptor that no other process has takes it out of the
	 * set */
	POLLER_NOTICES_CLOSE = false,
};

struct ready {
	int fd;
	unsigned what;
};

static inline int ready_fd(const struct ready *r)
{
	return r->fd;
}

static inline unsigned ready_what(const struct ready *r)
{
	return r->what;
}

#endif

enum {
	POLLER_READ = 1,
	POLLER_WRITE = 2,
	/* reported once when it becomes ready, instead of while it is ready */
	POLLER_EDGE = 4,
};

struct poller;

/* NULL and err: there is no descriptor left. */
struct poller *poller_new(struct err *err);
void poller_free(struct poller **p);
/* Changes what is wanted of a descriptor; 0: nothing.  If nothing changes, an edge that
 * was reported is reported again if it is still so.  -1: the system has no room for it
 * now; it may be tried again with before = 0. */
int poller_set(struct poller *p, int fd, unsigned before, unsigned after);
/* Waits at most wait_us (-1: without limit).  Returns the number of ready descriptors,
 * which `ready` borrows until the next wait. */
int poller_wait(struct poller *p, int64_t wait_us, const struct ready **ready);
/* A descriptor that is readable while one of the set is ready; -1: there is none. */
int poller_fd(const struct poller *p);

#endif
