/*
 * The event loop: turns, deferred calls, watches.  net/deadlines has the order of
 * deadlines, net/poller waits; streams, dns and listeners handle ready descriptors, and
 * net/loop_events has what libevent waits for.
 */
#include "net/loop.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/cpu_time.h"
#include "base/mem.h"
#include "net/deadlines.h"
#include "net/poller.h"

enum {
	REFUSED_US = 50000,        /* until the poller is asked again */
	WAIT_MOST_US = 1000000000, /* a longer wait is split */
	SHORT_US = 10000,          /* shorter waits are ended by the alarm */
};

struct watch {
	watch_fn *ready;
	/* borrowed */
	struct loop *loop;
	void *ctx;
	int fd;
	/* Number of the wait after which it was switched on.  Events of that wait may
	 * not be for it: they may belong to an older descriptor with the same number.
	 * The numbers repeat themselves, so such an event is asked for again. */
	uint16_t since;
	uint8_t what;
	bool is_on;
};

enum { WATCH_LISTENING = 4 }; /* or-ed with WATCH_READ: part of a struct listening */

/* A watch of a listening socket. */
struct listening {
	struct watch watch; /* must be the first member */
	struct node node;   /* in loop.listening */
	/* handle of the waiter; NULL: watched by the poller, or not at all */
	void *elsewhere;
};

/* The watches of one descriptor; borrowed, NULL: none. */
struct interest {
	struct watch *reader, *writer;
	bool is_refused; /* the poller had no room for it, and is asked again */
};

struct loop {
	struct poller *poller;
	struct slab *watches;
	int interest_count;
	struct interest *interests; /* indexed by descriptor */
	const struct ready *ready;  /* what this turn's wait has found */
	int ready_count;
	uint16_t wait_number;
	uint64_t now_us;
	struct deadlines deadlines;
	struct deadline refused_due;
	/* Circular lists without a head that counts, so that an entry can be removed
	 * without knowing its list. */
	struct node laters, turn_ends, reaped;
	struct list listening; /* struct listening by .node */
	struct loop_counts counts;
	struct cpu_time cpu_time;
	void (*on_turn_end)(void *ctx);   /* may be NULL */
	void *on_turn_end_ctx;            /* borrowed */
	const struct loop_waiter *waiter; /* borrowed; NULL: the poller waits */
	void *kept;                       /* see loop_keep */
	void (*free_kept)(void *object);
	struct alarm alarm;
	struct watch *alarm_watch; /* NULL: there is no alarm on this system */
	bool is_stopping;
	bool has_shared; /* see loop_note_shared */
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

/* Runs all entries, also those added meanwhile. */
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

void loop_on_turn_end(struct loop *loop, void (*fn)(void *ctx), void *ctx)
{
	loop->on_turn_end = fn;
	loop->on_turn_end_ctx = ctx;
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

/* ---- deadlines ---- */

struct deadlines *loop_deadlines(struct loop *loop)
{
	return &loop->deadlines;
}

/* ---- descriptors ---- */

static struct interest *interest_in(struct loop *loop, int fd)
{
	int count = loop->interest_count;

	if (fd >= count) {
		loop->interest_count = fd + 1 > count * 2 ? fd + 1 : count * 2;
		loop->interests = mem_resize(loop->interests,
		    (size_t)loop->interest_count * sizeof(struct interest));
		memset(loop->interests + count, 0,
		    (size_t)(loop->interest_count - count) * sizeof(struct interest));
	}
	return &loop->interests[fd];
}

static bool is_level(const struct watch *w)
{
	return w && !(w->what & WATCH_EDGE);
}

static unsigned wanted(const struct interest *i)
{
	unsigned edge = is_level(i->reader) || is_level(i->writer) ? 0u : POLLER_EDGE;

	return (i->reader ? POLLER_READ | edge : 0u) |
	       (i->writer ? POLLER_WRITE | edge : 0u);
}

static void tell_poller(struct loop *loop, int fd, unsigned before, unsigned after)
{
	struct interest *i = interest_in(loop, fd);

	loop->counts.ctl_calls++;
	i->is_refused = poller_set(loop->poller, fd, before, after) < 0;
	if (i->is_refused)
		deadline_set(loop, &loop->refused_due, loop->now_us + REFUSED_US);
}

/* A descriptor that nobody watches would never be heard of again. */
static void ask_poller_again(struct deadline *due)
{
	struct loop *loop = container_of(due, struct loop, refused_due);

	for (int fd = 0; fd < loop->interest_count; fd++) {
		struct interest *i = &loop->interests[fd];
		bool was_refused = i->is_refused;
		i->is_refused = false;
		if (was_refused && wanted(i))
			tell_poller(loop, fd, 0, wanted(i));
	}
}

static void note_interest(const struct watch *w, struct watch *now)
{
	struct interest *i = interest_in(w->loop, w->fd);
	struct watch **place = w->what & WATCH_READ ? &i->reader : &i->writer;

	assert(!*place || *place == w);
	*place = now;
}

static void set_interest(const struct watch *w, struct watch *now)
{
	unsigned before = wanted(interest_in(w->loop, w->fd));

	note_interest(w, now);
	tell_poller(w->loop, w->fd, before, wanted(interest_in(w->loop, w->fd)));
}

static void begin_watch(
    struct watch *w, struct loop *loop, int fd, int what, watch_fn *ready, void *ctx)
{
	w->loop = loop;
	w->ready = ready;
	w->ctx = ctx;
	w->fd = fd;
	w->what = (uint8_t)what;
	watch_on(w);
}

struct watch *watch_new(struct loop *loop, int fd, int what, watch_fn *ready, void *ctx)
{
	struct watch *w = slab_get(loop->watches);

	begin_watch(w, loop, fd, what, ready, ctx);
	return w;
}

static struct listening *listening_of(struct watch *w)
{
	return w->what & WATCH_LISTENING ? container_of(w, struct listening, watch)
					 : NULL;
}

struct watch *watch_new_listener(struct loop *loop, int fd, watch_fn *ready, void *ctx)
{
	struct listening *l = mem_zero(sizeof(*l));

	list_push_back(&loop->listening, &l->node);
	begin_watch(&l->watch, loop, fd, WATCH_READ | WATCH_LISTENING, ready, ctx);
	return &l->watch;
}

static void listening_ready(void *arg)
{
	struct watch *w = arg;

	w->ready(w->ctx, w->fd);
}

void watch_on(struct watch *w)
{
	const struct loop_waiter *waiter = w->loop->waiter;
	struct listening *l = listening_of(w);

	if (w->is_on)
		return;
	w->is_on = true;
	w->since = w->loop->wait_number;
	if (l && waiter)
		l->elsewhere = waiter->listen(waiter->ctx, w->fd, listening_ready, w);
	else
		set_interest(w, w);
}

void watch_off(struct watch *w)
{
	const struct loop_waiter *waiter = w->loop->waiter;
	struct listening *l = listening_of(w);

	if (!w->is_on)
		return;
	w->is_on = false;
	if (!l || !l->elsewhere) {
		set_interest(w, NULL);
		return;
	}
	waiter->unlisten(waiter->ctx, l->elsewhere);
	l->elsewhere = NULL;
}

void watch_again(const struct watch *w)
{
	unsigned what = wanted(interest_in(w->loop, w->fd));

	if (w->is_on && w->what & WATCH_EDGE && POLLER_HAS_EDGES)
		tell_poller(w->loop, w->fd, what, what);
}

void watch_free(struct watch **wp)
{
	struct watch *w = *wp;

	if (!w)
		return;
	*wp = NULL;
	watch_off(w);
	if (listening_of(w)) {
		list_remove(&w->loop->listening, &listening_of(w)->node);
		mem_free(listening_of(w));
	} else {
		slab_put(w->loop->watches, w);
	}
}

void watch_free_closing(struct watch **wp)
{
	struct watch *w = *wp;

	if (w && w->is_on && !w->loop->has_shared && !listening_of(w) &&
	    POLLER_NOTICES_CLOSE) {
		w->is_on = false;
		note_interest(w, NULL);
	}
	watch_free(wp);
}

void loop_note_shared(struct loop *loop, bool is_shared)
{
	loop->has_shared = is_shared;
}

static void tell_watch(const struct loop *loop, const struct watch *w)
{
	if (w && w->since != loop->wait_number)
		w->ready(w->ctx, w->fd);
	else if (w)
		watch_again(w);
}

/* Each handler may switch watches on and off, and free them.  A failed or closed socket
 * counts as readable and writable, so that its handler finds the error. */
static void deliver_events(struct loop *loop)
{
	for (int i = 0; i < loop->ready_count; i++) {
		unsigned what = ready_what(&loop->ready[i]);
		int fd = ready_fd(&loop->ready[i]);

		if (what & READY_READS)
			tell_watch(loop, loop->interests[fd].reader);
		if (what & READY_WRITES)
			tell_watch(loop, loop->interests[fd].writer);
	}
}

/* wait_us: -1: without limit. */
static void wait_in_poller(struct loop *loop, int64_t wait_us)
{
	loop->wait_number++;
	loop->ready_count = poller_wait(loop->poller, wait_us, &loop->ready);
}

/* The wait has ended, and that is all. */
static void alarm_rang(void *ctx, int fd)
{
	struct loop *loop = ctx;

	(void)fd;
	loop->alarm.at_us = 0;
}

/* ---- turns ---- */

struct loop *loop_new(struct mem *mem, struct err *err)
{
	struct poller *poller = poller_new(err);
	struct alarm alarm;

	if (poller && alarm_init(&alarm) < 0) {
		err_set(err, "timerfd_create: %s", strerror(errno));
		poller_free(&poller);
	}
	if (!poller) {
		err_prefix(err, "cannot start the event loop: ");
		return NULL;
	}
	struct loop *loop = mem_zero(sizeof(*loop));
	loop->poller = poller;
	loop->watches = slab_new(mem, "watch_cache", sizeof(struct watch));
	loop->alarm = alarm;
	deadline_init(&loop->refused_due, ask_poller_again);
	if (alarm.fd >= 0)
		loop->alarm_watch = watch_new(
		    loop, alarm.fd, WATCH_READ | WATCH_EDGE, alarm_rang, loop);
	loop->counts.ctl_calls = 0;
	cpu_time_open(&loop->cpu_time);
	ring_init(&loop->laters);
	ring_init(&loop->turn_ends);
	ring_init(&loop->reaped);
	list_init(&loop->listening);
	loop_touch_clock(loop);
	return loop;
}

void loop_free(struct loop **lp)
{
	struct loop *loop = *lp;

	if (!loop)
		return;
	/* objects closed last still wait for their memory to be freed */
	ring_run(&loop->reaped);
	if (loop->kept)
		loop->free_kept(loop->kept);
	watch_free(&loop->alarm_watch);
	deadline_clear(loop, &loop->refused_due);
	alarm_done(&loop->alarm);
	cpu_time_close(&loop->cpu_time);
	poller_free(&loop->poller);
	slab_free(&loop->watches);
	mem_free(loop->interests);
	deadlines_done(&loop->deadlines);
	mem_free(loop);
	*lp = NULL;
}

void loop_keep(struct loop *loop, void *object, void (*free_kept)(void *object))
{
	assert(!loop->kept);
	loop->kept = object;
	loop->free_kept = free_kept;
}

void *loop_kept(const struct loop *loop)
{
	return loop->kept;
}

/* Time until the next deadline; -1: no limit, perhaps because the alarm is set. */
static int64_t wait_us(struct loop *loop)
{
	if (!ring_is_empty(&loop->laters) || !ring_is_empty(&loop->turn_ends) ||
	    !ring_is_empty(&loop->reaped))
		return 0;
	uint64_t at_us = deadlines_next(&loop->deadlines);
	uint64_t us = at_us > loop->now_us ? at_us - loop->now_us : 0;
	bool is_short = us > 0 && us < SHORT_US && loop->alarm_watch;
	if (is_short)
		alarm_set(&loop->alarm, at_us, loop->now_us);
	if (is_short || at_us == UINT64_MAX)
		return -1;
	return (int64_t)(us < WAIT_MOST_US ? us : WAIT_MOST_US);
}

/* The waiter is broken: the poller watches the listening sockets that it watched. */
static void lose_waiter(struct loop *loop)
{
	const struct loop_waiter *w = loop->waiter;
	struct node *n;

	loop->waiter = NULL;
	/* requests that it has not ended may still hold descriptors */
	loop->has_shared = true;
	for (n = list_first(&loop->listening); n; n = list_next(&loop->listening, n)) {
		struct listening *l = container_of(n, struct listening, node);
		if (!l->elsewhere)
			continue;
		/* it may still have to report clients, which the poller reports as well
		 */
		w->unlisten(w->ctx, l->elsewhere);
		l->elsewhere = NULL;
		set_interest(&l->watch, &l->watch);
	}
}

static void wait_for_events(struct loop *loop)
{
	if (loop->waiter) {
		const struct loop_waiter *w = loop->waiter;
		int result = w->wait(w->ctx, wait_us(loop));
		loop_touch_clock(loop);
		loop_counts_begin(&loop->counts, loop->now_us);
		if (result < 0) {
			lose_waiter(loop);
			w->lost(w->ctx);
		} else if (w->may_deliver(w->ctx)) {
			wait_in_poller(loop, 0);
			deliver_events(loop);
		}
	} else {
		wait_in_poller(loop, wait_us(loop));
		loop_touch_clock(loop);
		loop_counts_begin(&loop->counts, loop->now_us);
		deliver_events(loop);
	}
}

static void call_turn_end(const struct loop *loop)
{
	if (loop->on_turn_end)
		loop->on_turn_end(loop->on_turn_end_ctx);
}

static void turn(struct loop *loop)
{
	wait_for_events(loop);
	deadlines_call(&loop->deadlines, loop->now_us);
	ring_run(&loop->laters);
	/* what is written once per turn, such as the log, is written before anything is
	 * sent */
	call_turn_end(loop);
	ring_run(&loop->turn_ends);
	ring_run(&loop->reaped);
	/* After a peer has closed, its socket does not become readable again: the
	 * handler may have read the peer's last bytes, but not the end.  This is the
	 * last thing in a turn, because most sockets with an end are closed in it. */
	for (int i = 0; i < loop->ready_count; i++) {
		const struct ready *r = &loop->ready[i];

		if (ready_what(r) & READY_IS_OVER &&
		    loop->interests[ready_fd(r)].reader)
			watch_again(loop->interests[ready_fd(r)].reader);
	}
	loop->ready_count = 0;
	call_turn_end(loop);
	loop_counts_end(&loop->counts, read_clock(CLOCK_MONOTONIC));
}

void loop_run(struct loop *loop)
{
	if (!loop->counts.started_us)
		loop_counts_start(
		    &loop->counts, read_clock(CLOCK_MONOTONIC), loop_busy_us(loop));
	while (!loop->is_stopping)
		turn(loop);
	loop->is_stopping = false;
	if (loop->waiter)
		loop->waiter->settle(loop->waiter->ctx);
}

int loop_wait_elsewhere(struct loop *loop, const struct loop_waiter *waiter)
{
	struct node *n;

	for (n = list_first(&loop->listening); n; n = list_next(&loop->listening, n)) {
		struct watch *w = &container_of(n, struct listening, node)->watch;
		const struct loop_waiter *from = w->loop->waiter;
		if (!w->is_on)
			continue;
		watch_off(w);
		w->loop->waiter = waiter;
		watch_on(w);
		w->loop->waiter = from;
	}
	loop->waiter = waiter;
	return poller_fd(loop->poller);
}

void loop_stop(struct loop *loop)
{
	loop->is_stopping = true;
}

struct loop_counts *loop_counts(struct loop *loop)
{
	return &loop->counts;
}

uint64_t loop_busy_us(struct loop *loop)
{
	return cpu_time_busy_us(&loop->cpu_time);
}
