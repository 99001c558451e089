/*
 * Waits for descriptors with libevent, on systems without epoll.  It has a base of its
 * own: nothing but the descriptors of the set may call anybody during the wait.
 */
#include "net/poller.h"

#ifndef NET_HAS_LINUX

#	include <assert.h>
#	include <string.h>

#	include <event2/event.h>

#	include "base/mem.h"

struct poller {
	struct event_base *base;
	struct event *limit;   /* ends a wait */
	struct event **events; /* indexed by descriptor; NULL: never used */
	int event_count;
	struct ready *ready;
	int ready_count, ready_room;
};

static void limit_reached(evutil_socket_t fd, short what, void *ctx)
{
	(void)fd, (void)what, (void)ctx;
}

struct poller *poller_new(struct err *err)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config) {
		event_config_set_flag(
		    config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_PRECISE_TIMER);
		base = event_base_new_with_config(config);
		event_config_free(config);
	}
	if (!base) {
		err_set(err, "libevent cannot start");
		return NULL;
	}
	struct poller *p = mem_zero(sizeof(*p));
	p->base = base;
	p->limit = evtimer_new(base, limit_reached, NULL);
	assert(p->limit);
	return p;
}

void poller_free(struct poller **pp)
{
	struct poller *p = *pp;

	if (!p)
		return;
	for (int fd = 0; fd < p->event_count; fd++)
		if (p->events[fd])
			event_free(p->events[fd]);
	event_free(p->limit);
	event_base_free(p->base);
	mem_free(p->events);
	mem_free(p->ready);
	mem_free(p);
	*pp = NULL;
}

static void became_ready(evutil_socket_t fd, short what, void *ctx)
{
	struct poller *p = ctx;

	if (p->ready_count == p->ready_room) {
		p->ready_room = p->ready_room * 2 + 64;
		p->ready =
		    mem_resize(p->ready, (size_t)p->ready_room * sizeof(*p->ready));
	}
	p->ready[p->ready_count++] = (struct ready){
	    .fd = fd,
	    .what = (what & EV_READ ? READY_READS : 0u) |
		    (what & EV_WRITE ? READY_WRITES : 0u),
	};
}

int poller_set(struct poller *p, int fd, unsigned before, unsigned after)
{
	int count = p->event_count;
	if (fd >= count) {
		p->event_count = fd + 1 > count * 2 ? fd + 1 : count * 2;
		p->events = mem_resize(
		    p->events, (size_t)p->event_count * sizeof(struct event *));
		memset(p->events + count, 0,
		    (size_t)(p->event_count - count) * sizeof(struct event *));
	}
	struct event **place = &p->events[fd];
	short what = (short)(EV_PERSIST | (after & POLLER_READ ? EV_READ : 0) |
			     (after & POLLER_WRITE ? EV_WRITE : 0));

	if (*place)
		event_free(*place);
	*place = NULL;
	(void)before;
	if (!after)
		return 0;
	*place = event_new(p->base, fd, what, became_ready, p);
	assert(*place);
	return event_add(*place, NULL) < 0 ? -1 : 0;
}

int poller_wait(struct poller *p, int64_t wait_us, const struct ready **ready)
{
	const struct timeval most = {
	    .tv_sec = (time_t)(wait_us / 1000000),
	    .tv_usec = (suseconds_t)(wait_us % 1000000),
	};

	p->ready_count = 0;
	if (wait_us > 0)
		event_add(p->limit, &most);
	event_base_loop(p->base,
	    EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY | (wait_us ? 0 : EVLOOP_NONBLOCK));
	if (wait_us > 0)
		event_del(p->limit);
	*ready = p->ready;
	return p->ready_count;
}

int poller_fd(const struct poller *p)
{
	(void)p;
	return -1;
}

#endif
