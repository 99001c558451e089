#include "net/deadlines.h"

#include <stddef.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/poller.h" /* NET_HAS_LINUX */
#ifdef NET_HAS_LINUX
#	include <sys/timerfd.h>
#endif

void deadlines_done(struct deadlines *all)
{
	mem_free(all->heap);
	*all = (struct deadlines){.heap = NULL};
}

static void place(struct deadlines *all, uint32_t at, struct deadline *d)
{
	all->heap[at] = d;
	d->index = at;
}

static void move_up(struct deadlines *all, struct deadline *d)
{
	uint32_t at = d->index;

	while (at > 1 && all->heap[at / 2]->heap_us > d->heap_us) {
		place(all, at, all->heap[at / 2]);
		at /= 2;
	}
	place(all, at, d);
}

static void move_down(struct deadlines *all, struct deadline *d)
{
	uint32_t at = d->index, child;

	while ((child = at * 2) <= all->count) {
		if (child < all->count &&
		    all->heap[child + 1]->heap_us < all->heap[child]->heap_us)
			child++;
		if (all->heap[child]->heap_us >= d->heap_us)
			break;
		place(all, at, all->heap[child]);
		at = child;
	}
	place(all, at, d);
}

static void take_out(struct deadlines *all, struct deadline *d)
{
	struct deadline *last = all->heap[all->count--];

	if (last != d) {
		place(all, d->index, last);
		move_up(all, last);
		move_down(all, last);
	}
	d->index = 0;
}

void deadlines_set(struct deadlines *all, struct deadline *d, uint64_t at_us)
{
	/* a deadline set while others are called waits for the next turn */
	if (at_us <= all->calling_to_us)
		at_us = all->calling_to_us + 1;
	d->at_us = at_us;
	if (d->index && at_us >= d->heap_us)
		return;
	if (!d->index && at_us == UINT64_MAX)
		return;
	d->heap_us = at_us;
	if (d->index) {
		move_up(all, d);
	} else {
		if (all->count + 1 >= all->cap) {
			all->cap = all->cap ? all->cap * 2 : 64;
			all->heap =
			    mem_resize(all->heap, all->cap * sizeof(struct deadline *));
		}
		place(all, ++all->count, d);
		move_up(all, d);
	}
}

void deadlines_clear(struct deadlines *all, struct deadline *d)
{
	d->at_us = UINT64_MAX;
	if (d->index)
		take_out(all, d);
}

void deadlines_call(struct deadlines *all, uint64_t now_us)
{
	all->calling_to_us = now_us;
	while (all->count && all->heap[1]->heap_us <= all->calling_to_us) {
		struct deadline *d = all->heap[1];
		if (d->at_us == d->heap_us) {
			deadlines_clear(all, d);
			d->expired(d);
		} else if (d->at_us == UINT64_MAX) {
			take_out(all, d);
		} else {
			d->heap_us = d->at_us;
			move_down(all, d);
		}
	}
	all->calling_to_us = 0;
}

uint64_t deadlines_next(const struct deadlines *all)
{
	return all->count ? all->heap[1]->heap_us : UINT64_MAX;
}

/* ---- a timer of the kernel ---- */

int alarm_init(struct alarm *a)
{
	*a = (struct alarm){.fd = -1};
#ifdef NET_HAS_LINUX
	a->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	return a->fd < 0 ? -1 : 0;
#else
	return 0;
#endif
}

void alarm_done(struct alarm *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
}

void alarm_set(struct alarm *a, uint64_t at_us, uint64_t now_us)
{
#ifdef NET_HAS_LINUX
	uint64_t in_us = at_us - now_us;
	const struct itimerspec when = {
	    .it_value.tv_sec = (time_t)(in_us / 1000000),
	    .it_value.tv_nsec = (long)(in_us % 1000000 * 1000),
	};

	if (a->at_us > now_us && a->at_us <= at_us)
		return;
	a->at_us = at_us;
	timerfd_settime(a->fd, 0, &when, NULL);
#else
	(void)a, (void)at_us, (void)now_us;
#endif
}
