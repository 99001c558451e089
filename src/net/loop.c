/*
 * The event loop over libevent: turns, deadlines, what is put off, watches, signals.
 * Not here: what is done with a descriptor that is ready (stream, dns, the listeners).
 *
 * libevent sees one timer only.  Deadlines stand in a heap of ours under heap_us, which
 * is never later than what the owner wants (at_us): one that moved later is put where
 * it belongs when it comes up, so that re-arming a timeout costs two stores.
 */
#include "net/loop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "base/mem.h"

enum {
	POLL_FD_AMONG = 32,
	WAIT_MOST_US = 1000000000, /* longer is waited for in pieces */
};

struct watch {
	struct event event;
	watch_fn *ready;
	/* borrowed */
	struct loop *loop;
	void *ctx;
};

struct signal_watch {
	struct node node;
	struct event *event;
	signal_fn *fn;
	/* borrowed */
	struct loop *loop;
	void *ctx;
};

struct loop {
	struct event_base *base;
	struct slab *watches;
	struct event *timer;
	uint64_t timer_us; /* when the timer will fire; UINT64_MAX: it is not armed */
	uint64_t now_us;
	struct deadline **heap; /* from index 1 */
	uint32_t heap_count, heap_cap;
	uint64_t
	    expiring_to_us; /* deadlines up to here are being called; 0: none are */
	/* Rings without a count, so that an entry can leave without knowing its ring.
	 */
	struct node laters, turn_ends, reaped;
	struct list signals; /* struct signal_watch by .node */
	struct loop_counts counts;
	const struct loop_waiter *waiter; /* borrowed; NULL: libevent waits */
	int poll_fd;                      /* libevent's epoll instance; -1: not known */
	bool is_clock_fresh;
	bool is_stopping;
};

/* ---- rings ---- */

static void ring_init(struct node *ring)
{
	ring->next = ring->prev = ring;
}

static bool ring_is_empty(const struct node *ring)
{
	return ring->next == ring;
}

static void ring_add(struct node *ring, struct later *l)
{
	if (node_is_linked(&l->node))
		return;
	l->node.next = ring;
	l->node.prev = ring->prev;
	ring->prev->next = &l->node;
	ring->prev = &l->node;
}

static void ring_leave(struct node *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->next = n->prev = NULL;
}

/* Entries added meanwhile are run too. */
static void ring_run(struct node *ring)
{
	while (!ring_is_empty(ring)) {
		struct later *l = container_of(ring->next, struct later, node);
		ring_leave(&l->node);
		l->run(l);
	}
}

void loop_later(struct loop *loop, struct later *l)
{
	ring_add(&loop->laters, l);
}

void later_cancel(struct loop *loop, struct later *l)
{
	(void)loop;
	if (node_is_linked(&l->node))
		ring_leave(&l->node);
}

void loop_at_turn_end(struct loop *loop, struct later *l)
{
	ring_add(&loop->turn_ends, l);
}

void loop_reap(struct loop *loop, struct later *l)
{
	ring_add(&loop->reaped, l);
}

/* ---- the clock ---- */

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void loop_touch_clock(struct loop *loop)
{
	loop->now_us = read_clock(CLOCK_MONOTONIC);
	loop->is_clock_fresh = true;
}

uint64_t loop_now(const struct loop *loop)
{
	return loop->now_us;
}

uint64_t loop_wall(const struct loop *loop)
{
	uint64_t since = read_clock(CLOCK_MONOTONIC) - loop->now_us;

	return read_clock(CLOCK_REALTIME) - since;
}

/* The first handler after a wait reads the clock for all of the turn. */
static void woke_up(struct loop *loop)
{
	if (!loop->is_clock_fresh)
		loop_touch_clock(loop);
}

/* ---- deadlines ---- */

static void heap_place(struct loop *loop, uint32_t at, struct deadline *d)
{
	loop->heap[at] = d;
	d->index = at;
}

static void heap_up(struct loop *loop, struct deadline *d)
{
	uint32_t at = d->index;

	while (at > 1 && loop->heap[at / 2]->heap_us > d->heap_us) {
		heap_place(loop, at, loop->heap[at / 2]);
		at /= 2;
	}
	heap_place(loop, at, d);
}

static void heap_down(struct loop *loop, struct deadline *d)
{
	uint32_t at = d->index, child;

	while ((child = at * 2) <= loop->heap_count) {
		if (child < loop->heap_count &&
		    loop->heap[child + 1]->heap_us < loop->heap[child]->heap_us)
			child++;
		if (loop->heap[child]->heap_us >= d->heap_us)
			break;
		heap_place(loop, at, loop->heap[child]);
		at = child;
	}
	heap_place(loop, at, d);
}

static void heap_add(struct loop *loop, struct deadline *d)
{
	if (loop->heap_count + 1 >= loop->heap_cap) {
		loop->heap_cap = loop->heap_cap ? loop->heap_cap * 2 : 64;
		loop->heap =
		    mem_resize(loop->heap, loop->heap_cap * sizeof(struct deadline *));
	}
	heap_place(loop, ++loop->heap_count, d);
	heap_up(loop, d);
}

static void heap_remove(struct loop *loop, struct deadline *d)
{
	struct deadline *last = loop->heap[loop->heap_count--];

	if (last != d) {
		heap_place(loop, d->index, last);
		heap_up(loop, last);
		heap_down(loop, last);
	}
	d->index = 0;
}

void deadline_set(struct loop *loop, struct deadline *d, uint64_t at_us)
{
	/* One that is set while others are called waits for the next turn. */
	if (at_us <= loop->expiring_to_us)
		at_us = loop->expiring_to_us + 1;
	d->at_us = at_us;
	if (d->index && at_us >= d->heap_us)
		return;
	if (!d->index && at_us == UINT64_MAX)
		return;
	d->heap_us = at_us;
	if (d->index)
		heap_up(loop, d);
	else
		heap_add(loop, d);
}

void deadline_clear(struct loop *loop, struct deadline *d)
{
	d->at_us = UINT64_MAX;
	if (d->index)
		heap_remove(loop, d);
}

static void call_expired(struct loop *loop)
{
	loop->expiring_to_us = loop->now_us;
	while (loop->heap_count && loop->heap[1]->heap_us <= loop->expiring_to_us) {
		struct deadline *d = loop->heap[1];
		if (d->at_us == d->heap_us) {
			deadline_clear(loop, d);
			d->expired(d);
		} else if (d->at_us == UINT64_MAX) {
			heap_remove(loop, d);
		} else {
			d->heap_us = d->at_us;
			heap_down(loop, d);
		}
	}
	loop->expiring_to_us = 0;
}

static void timer_fired(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd, (void)what;
	loop->timer_us = UINT64_MAX;
}

/* The timer is moved only to something earlier; when it fires too early it is set
 * again, which is cheaper than to follow every change. */
static void arm_timer(struct loop *loop)
{
	if (!loop->heap_count || loop->heap[1]->heap_us >= loop->timer_us)
		return;
	uint64_t at_us = loop->heap[1]->heap_us;
	uint64_t wait_us = at_us > loop->now_us ? at_us - loop->now_us : 0;
	struct timeval wait = {
	    .tv_sec = (time_t)(wait_us / 1000000),
	    .tv_usec = (suseconds_t)(wait_us % 1000000),
	};
	/* Far ahead is as good as never; libevent should not have to add it up. */
	if (wait.tv_sec > 86400)
		wait.tv_sec = 86400;
	event_add(loop->timer, &wait);
	loop->timer_us = at_us;
}

/* ---- descriptors ---- */

static void watch_ready(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;

	(void)what;
	woke_up(w->loop);
	w->ready(w->ctx, fd);
}

static bool is_on(const struct watch *w)
{
	return event_pending(&w->event, EV_READ | EV_WRITE, NULL);
}

struct watch *watch_new(struct loop *loop, int fd, int what, watch_fn *ready, void *ctx)
{
	struct watch *w = slab_get(loop->watches);

	w->loop = loop;
	w->ready = ready;
	w->ctx = ctx;
	event_assign(&w->event, loop->base, fd,
	    (what == WATCH_READ ? EV_READ : EV_WRITE) | EV_PERSIST, watch_ready, w);
	watch_on(w);
	return w;
}

void watch_on(struct watch *w)
{
	if (is_on(w))
		return;
	w->loop->counts.ctl_calls++;
	event_add(&w->event, NULL);
}

void watch_off(struct watch *w)
{
	if (!is_on(w))
		return;
	w->loop->counts.ctl_calls++;
	event_del(&w->event);
}

void watch_free(struct watch **wp)
{
	struct watch *w = *wp;

	if (!w)
		return;
	watch_off(w);
	slab_put(w->loop->watches, w);
	*wp = NULL;
}

/* ---- signals ---- */

static void signal_ready(evutil_socket_t signo, short what, void *arg)
{
	struct signal_watch *s = arg;

	(void)what;
	woke_up(s->loop);
	s->fn(s->ctx, signo);
}

void loop_on_signal(struct loop *loop, int signo, signal_fn *fn, void *ctx)
{
	struct signal_watch *s = mem_zero(sizeof(*s));

	s->fn = fn;
	s->loop = loop;
	s->ctx = ctx;
	s->event = evsignal_new(loop->base, signo, signal_ready, s);
	assert(s->event);
	event_add(s->event, NULL);
	list_push_back(&loop->signals, &s->node);
}

/* ---- turns ---- */

static struct event_base *new_base(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config) {
		event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
		base = event_base_new_with_config(config);
		event_config_free(config);
	}
	return base;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* libevent does not tell the descriptor of its epoll instance.  It is one of the first
 * that are free when it starts, and the only epoll instance among those it opened: an
 * epoll instance says ENOENT when asked to remove what it does not have. */
static struct event_base *new_base_with_fd(int *poll_fd)
{
	int mark = eventfd(0, EFD_CLOEXEC);
	bool was_open[POLL_FD_AMONG];

	*poll_fd = -1;
	for (int i = 0; i < POLL_FD_AMONG; i++)
		was_open[i] = is_open(mark + i);
	struct event_base *base = new_base();
	for (int i = 0; mark >= 0 && base && i < POLL_FD_AMONG; i++) {
		int fd = mark + i;
		if (!was_open[i] && epoll_ctl(fd, EPOLL_CTL_DEL, mark, NULL) < 0 &&
		    errno == ENOENT)
			*poll_fd = fd;
	}
	if (mark >= 0)
		close(mark);
	return base;
}

struct loop *loop_new(struct mem *mem, struct err *err)
{
	int poll_fd;
	struct event_base *base = new_base_with_fd(&poll_fd);

	if (!base) {
		err_set(err, "cannot start the event loop: %s", strerror(errno));
		return NULL;
	}
	struct loop *loop = mem_zero(sizeof(*loop));
	loop->base = base;
	loop->poll_fd = poll_fd;
	loop->watches = slab_new(mem, "watch_cache", sizeof(struct watch));
	loop->timer = evtimer_new(base, timer_fired, loop);
	assert(loop->timer);
	loop->timer_us = UINT64_MAX;
	ring_init(&loop->laters);
	ring_init(&loop->turn_ends);
	ring_init(&loop->reaped);
	list_init(&loop->signals);
	loop_touch_clock(loop);
	return loop;
}

void loop_free(struct loop **lp)
{
	struct loop *loop = *lp;
	struct node *n;

	if (!loop)
		return;
	/* What was closed last still waits for its memory to go. */
	ring_run(&loop->reaped);
	while ((n = list_pop_front(&loop->signals))) {
		struct signal_watch *s = container_of(n, struct signal_watch, node);
		event_free(s->event);
		mem_free(s);
	}
	event_free(loop->timer);
	event_base_free(loop->base);
	slab_free(&loop->watches);
	mem_free(loop->heap);
	mem_free(loop);
	*lp = NULL;
}

static bool has_work(const struct loop *loop)
{
	return !ring_is_empty(&loop->laters) || !ring_is_empty(&loop->turn_ends) ||
	       !ring_is_empty(&loop->reaped);
}

static void wait_in_libevent(struct loop *loop)
{
	int flags = EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY;

	arm_timer(loop);
	if (has_work(loop))
		flags |= EVLOOP_NONBLOCK;
	loop->is_clock_fresh = false;
	event_base_loop(loop->base, flags);
	woke_up(loop);
}

/* Until the next deadline; -1: for as long as it takes. */
static int64_t wait_us(const struct loop *loop)
{
	if (has_work(loop))
		return 0;
	if (!loop->heap_count || loop->heap[1]->heap_us == UINT64_MAX)
		return -1;
	uint64_t at_us = loop->heap[1]->heap_us;
	uint64_t us = at_us > loop->now_us ? at_us - loop->now_us : 0;
	return us < WAIT_MOST_US ? (int64_t)us : WAIT_MOST_US;
}

static void wait_elsewhere(struct loop *loop)
{
	const struct loop_waiter *w = loop->waiter;
	int result = w->wait(w->ctx, wait_us(loop));

	loop_touch_clock(loop);
	if (result < 0) {
		loop->waiter = NULL;
		w->lost(w->ctx);
	} else if (w->may_deliver(w->ctx)) {
		event_base_loop(loop->base, EVLOOP_NONBLOCK);
	}
}

static void wait_for_events(struct loop *loop)
{
	if (loop->waiter)
		wait_elsewhere(loop);
	else
		wait_in_libevent(loop);
}

static void turn(struct loop *loop)
{
	wait_for_events(loop);
	call_expired(loop);
	ring_run(&loop->laters);
	ring_run(&loop->turn_ends);
	ring_run(&loop->reaped);
	loop->counts.turns++;
}

void loop_run(struct loop *loop)
{
	while (!loop->is_stopping)
		turn(loop);
	loop->is_stopping = false;
	if (loop->waiter)
		loop->waiter->settle(loop->waiter->ctx);
}

int loop_wait_elsewhere(struct loop *loop, const struct loop_waiter *waiter)
{
	loop->waiter = waiter;
	return loop->poll_fd;
}

void loop_stop(struct loop *loop)
{
	loop->is_stopping = true;
}

const char *loop_library_version(void)
{
	return event_get_version();
}

const char *loop_method(const struct loop *loop)
{
	return event_base_get_method(loop->base);
}

struct loop_counts *loop_counts(struct loop *loop)
{
	return &loop->counts;
}
