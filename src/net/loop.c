/*
 * The event loop: turns, deferred calls, watches, signals.  net/deadlines has the order
 * of deadlines; streams, dns and listeners handle ready descriptors.
 *
 * Sockets are watched in an epoll instance of the loop itself, because libevent needs
 * 190 bytes for each socket and queues each event before reporting it.  libevent
 * handles signals; its own epoll instance is one of the watched descriptors.
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

#include "base/cpu_time.h"
#include "base/mem.h"
#include "net/alarm.h"

enum {
	POLL_FD_AMONG = 32,
	LIBEVENT_ROUNDS = 4,
	WAIT_MOST_US = 1000000000, /* a longer wait is split */
	/* how often libevent is asked when its descriptor is unknown */
	SIGNALS_US = 50000,
	SHORT_US = 10000, /* shorter waits are ended by the alarm */
	EVENTS = 512,     /* the most events of one wait */
	/* of a socket whose peer has closed, or that has failed */
	END_EVENTS = EPOLLRDHUP | EPOLLHUP | EPOLLERR,
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
	/* handle of the waiter; NULL: watched by epoll, or not at all */
	void *elsewhere;
};

/* The watches of one descriptor; borrowed, NULL: none. */
struct interest {
	struct watch *reader, *writer;
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
	int epoll_fd;
	int interest_count;
	struct interest *interests; /* indexed by descriptor */
	struct epoll_event *events; /* events of the last wait */
	int event_count;            /* of those of this turn */
	uint16_t wait_number;
	uint64_t now_us;
	struct deadlines deadlines;
	/* Circular lists without a head that counts, so that an entry can be removed
	 * without knowing its list. */
	struct node laters, turn_ends, reaped;
	struct list signals;   /* struct signal_watch by .node */
	struct list listening; /* struct listening by .node */
	struct loop_counts counts;
	struct cpu_time cpu_time;
	void (*on_turn_end)(void *ctx);   /* may be NULL */
	void *on_turn_end_ctx;            /* borrowed */
	const struct loop_waiter *waiter; /* borrowed; NULL: wait with epoll */
	/* of libevent's epoll instance; NULL: its descriptor is unknown */
	struct watch *libevent;
	struct alarm alarm;
	struct watch *alarm_watch;
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

static uint32_t events_of(const struct interest *i)
{
	uint32_t edge = is_level(i->reader) || is_level(i->writer) ? 0u : EPOLLET;

	return (i->reader ? EPOLLIN | EPOLLRDHUP | edge : 0u) |
	       (i->writer ? EPOLLOUT | edge : 0u);
}

/* Tells epoll which events of a descriptor are wanted.  A closed descriptor may still
 * be known to epoll if a copy of it is open, and one that was closed and opened again
 * may be unknown; both cases are corrected. */
static void tell_epoll(struct loop *loop, int fd, uint32_t before, uint32_t after)
{
	struct epoll_event event = {.events = after, .data.fd = fd};
	int op = !before ? EPOLL_CTL_ADD : after ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	loop->counts.ctl_calls++;
	if (epoll_ctl(loop->epoll_fd, op, fd, &event) == 0)
		return;
	if (op == EPOLL_CTL_ADD && errno == EEXIST)
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &event);
	else if (op == EPOLL_CTL_MOD && errno == ENOENT)
		epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event);
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
	uint32_t before = events_of(interest_in(w->loop, w->fd));

	note_interest(w, now);
	tell_epoll(w->loop, w->fd, before, events_of(interest_in(w->loop, w->fd)));
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
	uint32_t events = events_of(interest_in(w->loop, w->fd));

	if (w->is_on && w->what & WATCH_EDGE)
		tell_epoll(w->loop, w->fd, events, events);
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

	if (w && w->is_on && !w->loop->has_shared && !listening_of(w)) {
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
static void deliver_events(struct loop *loop, int count)
{
	loop->event_count = count;
	for (int i = 0; i < count; i++) {
		uint32_t events = loop->events[i].events;
		int fd = loop->events[i].data.fd;

		if (events & (EPOLLIN | END_EVENTS))
			tell_watch(loop, loop->interests[fd].reader);
		if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
			tell_watch(loop, loop->interests[fd].writer);
	}
}

/* After a peer has closed, its socket does not become readable again: the handler may
 * have read the peer's last bytes, but not the end.  This is the last thing in a turn,
 * because most sockets with an end are closed in it. */
static void tell_readers_of_ends(struct loop *loop)
{
	for (int i = 0; i < loop->event_count; i++) {
		int fd = loop->events[i].data.fd;
		const struct watch *w = loop->interests[fd].reader;

		if (w && loop->events[i].events & END_EVENTS)
			watch_again(w);
	}
	loop->event_count = 0;
}

/* wait_us: -1: without limit. */
static int wait_in_epoll(struct loop *loop, int64_t wait_us)
{
	int wait_ms = wait_us < 0 ? -1 : (int)((wait_us + 999) / 1000);

	loop->wait_number++;
	return epoll_wait(loop->epoll_fd, loop->events, EVENTS, wait_ms);
}

/* The wait has ended, and that is all. */
static void alarm_rang(void *ctx, int fd)
{
	struct loop *loop = ctx;

	(void)fd;
	loop->alarm.at_us = 0;
}

/* ---- signals ---- */

/* The handlers may defer work inside libevent, which no descriptor would report. */
void loop_ask_libevent(struct loop *loop)
{
	for (int i = 0; i < LIBEVENT_ROUNDS; i++) {
		event_base_loop(loop->base, EVLOOP_NONBLOCK);
		if (event_base_get_num_events(loop->base, EVENT_BASE_COUNT_ACTIVE) == 0)
			return;
	}
}

static void ask_libevent(void *ctx, int fd)
{
	(void)fd;
	loop_ask_libevent(ctx);
}

struct event_base *loop_libevent(const struct loop *loop)
{
	return loop->base;
}

static void signal_ready(evutil_socket_t signo, short what, void *arg)
{
	struct signal_watch *s = arg;

	(void)what;
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

/* Makes libevent's base and finds the descriptor of its epoll instance, which libevent
 * does not tell.  It is among the first descriptors that were free before, and it is
 * the only epoll instance among them: an epoll instance answers ENOENT when asked to
 * remove an unknown descriptor. */
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
	int poll_fd, epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct alarm alarm;
	struct event_base *base =
	    alarm_init(&alarm) < 0 || epoll_fd < 0 ? NULL : new_base_with_fd(&poll_fd);

	if (!base) {
		err_set(err, "cannot start the event loop: %s", strerror(errno));
		alarm_done(&alarm);
		if (epoll_fd >= 0)
			close(epoll_fd);
		return NULL;
	}
	struct loop *loop = mem_zero(sizeof(*loop));
	loop->base = base;
	loop->epoll_fd = epoll_fd;
	loop->events = mem_alloc(EVENTS * sizeof(*loop->events));
	loop->watches = slab_new(mem, "watch_cache", sizeof(struct watch));
	if (poll_fd >= 0)
		loop->libevent =
		    watch_new(loop, poll_fd, WATCH_READ, ask_libevent, loop);
	loop->alarm = alarm;
	loop->alarm_watch =
	    watch_new(loop, alarm.fd, WATCH_READ | WATCH_EDGE, alarm_rang, loop);
	loop->counts.ctl_calls = 0;
	cpu_time_open(&loop->cpu_time);
	ring_init(&loop->laters);
	ring_init(&loop->turn_ends);
	ring_init(&loop->reaped);
	list_init(&loop->signals);
	list_init(&loop->listening);
	loop_touch_clock(loop);
	return loop;
}

void loop_free(struct loop **lp)
{
	struct loop *loop = *lp;
	struct node *n;

	if (!loop)
		return;
	/* objects closed last still wait for their memory to be freed */
	ring_run(&loop->reaped);
	while ((n = list_pop_front(&loop->signals))) {
		struct signal_watch *s = container_of(n, struct signal_watch, node);
		event_free(s->event);
		mem_free(s);
	}
	watch_free(&loop->libevent);
	watch_free(&loop->alarm_watch);
	alarm_done(&loop->alarm);
	cpu_time_close(&loop->cpu_time);
	event_base_free(loop->base);
	close(loop->epoll_fd);
	slab_free(&loop->watches);
	mem_free(loop->interests);
	mem_free(loop->events);
	deadlines_done(&loop->deadlines);
	mem_free(loop);
	*lp = NULL;
}

static bool has_work(const struct loop *loop)
{
	return !ring_is_empty(&loop->laters) || !ring_is_empty(&loop->turn_ends) ||
	       !ring_is_empty(&loop->reaped);
}

/* Time until the next deadline; -1: no limit, perhaps because the alarm is set. */
static int64_t wait_us(struct loop *loop)
{
	uint64_t most_us = loop->libevent ? WAIT_MOST_US : SIGNALS_US;

	if (has_work(loop))
		return 0;
	uint64_t at_us = deadlines_next(&loop->deadlines);
	uint64_t us = at_us > loop->now_us ? at_us - loop->now_us : 0;
	if (us > 0 && us < SHORT_US)
		alarm_set(&loop->alarm, at_us, loop->now_us);
	if ((us > 0 && us < SHORT_US) || at_us == UINT64_MAX)
		return loop->libevent ? -1 : SIGNALS_US;
	return (int64_t)(us < most_us ? us : most_us);
}

static void wait_here(struct loop *loop)
{
	int count = wait_in_epoll(loop, wait_us(loop));

	loop_touch_clock(loop);
	loop_counts_begin(&loop->counts, loop->now_us);
	deliver_events(loop, count);
}

/* The waiter is broken: epoll watches the listening sockets that it watched. */
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
		/* it may still have to report clients, which epoll reports as well */
		w->unlisten(w->ctx, l->elsewhere);
		l->elsewhere = NULL;
		set_interest(&l->watch, &l->watch);
	}
}

static void wait_elsewhere(struct loop *loop)
{
	const struct loop_waiter *w = loop->waiter;
	int result = w->wait(w->ctx, wait_us(loop));

	loop_touch_clock(loop);
	loop_counts_begin(&loop->counts, loop->now_us);
	if (result < 0) {
		lose_waiter(loop);
		w->lost(w->ctx);
	} else if (w->may_deliver(w->ctx)) {
		deliver_events(loop, wait_in_epoll(loop, 0));
	}
}

static void wait_for_events(struct loop *loop)
{
	if (loop->waiter)
		wait_elsewhere(loop);
	else
		wait_here(loop);
	if (!loop->libevent)
		ask_libevent(loop, -1);
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
	tell_readers_of_ends(loop);
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

static void move_listening(struct watch *w, const struct loop_waiter *to)
{
	const struct loop_waiter *from = w->loop->waiter;

	if (!w->is_on)
		return;
	watch_off(w);
	w->loop->waiter = to;
	watch_on(w);
	w->loop->waiter = from;
}

int loop_wait_elsewhere(struct loop *loop, const struct loop_waiter *waiter)
{
	struct node *n;

	for (n = list_first(&loop->listening); n; n = list_next(&loop->listening, n))
		move_listening(&container_of(n, struct listening, node)->watch, waiter);
	loop->waiter = waiter;
	return loop->epoll_fd;
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

uint64_t loop_busy_us(struct loop *loop)
{
	return cpu_time_busy_us(&loop->cpu_time);
}
