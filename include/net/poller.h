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
#	include <sys/epoll.h>
#endif

enum {
	POLLER_READ = 1,
	POLLER_WRITE = 2,
	/* reported once when it becomes ready, instead of while it is ready */
	POLLER_EDGE = 4,
};

/* A descriptor that is ready.  A failed or closed one can be read and written, so that
 * its reader or writer finds the error. */
#ifdef NET_HAS_LINUX

struct ready {
	struct epoll_event event;
};

enum { READY_END = EPOLLRDHUP | EPOLLHUP | EPOLLERR };

static inline int ready_fd(const struct ready *r)
{
	return r->event.data.fd;
}

static inline bool ready_reads(const struct ready *r)
{
	return r->event.events & (EPOLLIN | READY_END);
}

static inline bool ready_writes(const struct ready *r)
{
	return r->event.events & (EPOLLOUT | EPOLLHUP | EPOLLERR);
}

/* The peer has closed, or the socket has failed. */
static inline bool ready_is_over(const struct ready *r)
{
	return r->event.events & READY_END;
}

#else

struct ready {
	int fd;
	bool reads, writes;
};

static inline int ready_fd(const struct ready *r)
{
	return r->fd;
}

static inline bool ready_reads(const struct ready *r)
{
	return r->reads;
}

static inline bool ready_writes(const struct ready *r)
{
	return r->writes;
}

static inline bool ready_is_over(const struct ready *r)
{
	(void)r;
	return false;
}

#endif

struct poller;

/* NULL and err: there is no descriptor left. */
struct poller *poller_new(struct err *err);
void poller_free(struct poller **p);
/* Changes what is wanted of a descriptor; 0: nothing.  The same as before: an edge that
 * was reported is reported again if it is still so. */
void poller_set(struct poller *p, int fd, unsigned before, unsigned after);
/* Whether closing a descriptor that no other process has takes it out of the set. */
bool poller_notices_close(void);
/* Whether POLLER_EDGE means anything. */
bool poller_has_edges(void);
/* Waits at most wait_us (-1: without limit).  Returns the number of ready descriptors,
 * which `ready` borrows until the next wait. */
int poller_wait(struct poller *p, int64_t wait_us, const struct ready **ready);
/* A descriptor that is readable while one of the set is ready; -1: there is none. */
int poller_fd(const struct poller *p);

#endif
