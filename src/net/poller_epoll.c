/*
 * Waits for descriptors with epoll.  libevent needs 190 bytes for each socket, and
 * queues each event before reporting it.
 */
#include "net/poller.h"

#ifdef NET_HAS_LINUX

#	include <errno.h>
#	include <string.h>
#	include <unistd.h>

#	include "base/mem.h"

enum { EVENTS = 512 }; /* the most events of one wait */

struct poller {
	int fd;
	struct ready ready[EVENTS];
};

struct poller *poller_new(struct err *err)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	struct poller *p;

	if (fd < 0) {
		err_set(err, "epoll_create1: %s", strerror(errno));
		return NULL;
	}
	p = mem_alloc(sizeof(*p));
	p->fd = fd;
	return p;
}

void poller_free(struct poller **pp)
{
	if (!*pp)
		return;
	close((*pp)->fd);
	mem_free(*pp);
	*pp = NULL;
}

/* A closed descriptor may still be known to epoll if a copy of it is open, and one that
 * was closed and opened again may be unknown; both cases are corrected. */
int poller_set(struct poller *p, int fd, unsigned before, unsigned after)
{
	struct epoll_event event = {
	    .events = (after & POLLER_READ ? EPOLLIN | EPOLLRDHUP : 0u) |
		      (after & POLLER_WRITE ? EPOLLOUT : 0u) |
		      (after & POLLER_EDGE ? EPOLLET : 0u),
	    .data.fd = fd};
	int op = !before ? EPOLL_CTL_ADD : after ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	int failed = epoll_ctl(p->fd, op, fd, &event);

	if (failed && op == EPOLL_CTL_ADD && errno == EEXIST)
		failed = epoll_ctl(p->fd, EPOLL_CTL_MOD, fd, &event);
	else if (failed && op == EPOLL_CTL_MOD && errno == ENOENT)
		failed = epoll_ctl(p->fd, EPOLL_CTL_ADD, fd, &event);
	/* memory, or the account's limit of watches (epoll(7), max_user_watches) */
	return failed && after && (errno == ENOMEM || errno == ENOSPC) ? -1 : 0;
}

int poller_wait(struct poller *p, int64_t wait_us, const struct ready **ready)
{
	int wait_ms = wait_us < 0 ? -1 : (int)((wait_us + 999) / 1000);

	*ready = p->ready;
	return epoll_wait(p->fd, (struct epoll_event *)p->ready, EVENTS, wait_ms);
}

int poller_fd(const struct poller *p)
{
	return p->fd;
}

#endif
