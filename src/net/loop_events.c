#include "net/loop_events.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/mem.h"

enum {
	/* the handlers may defer work inside libevent, which no descriptor would
	 * report */
	ROUNDS = 4,
	CLOCKS_DIFFER_US = 1000, /* libevent reads its own clock */
};

struct events {
	struct event_base *base;
	struct list signals; /* struct signal_watch by .node */
	struct event_watch *watches;
	size_t watch_count, watch_room;
	uint64_t next_us;        /* the first timeout, by the wall clock */
	struct deadline timeout; /* libevent must be called then */
	bool is_running;
	/* borrowed */
	struct loop *loop;
};

struct event_watch {
	struct watch *watch;
	int fd, what;
};

struct signal_watch {
	struct node node;
	struct event *event;
	signal_fn *fn;
	void *ctx;
};

static void run(struct events *e);

static void became_ready(void *ctx, int fd)
{
	(void)fd;
	run(ctx);
}

static void follow_descriptor(struct events *e, int fd, int what)
{
	for (size_t i = 0; i < e->watch_count; i++)
		if (e->watches[i].fd == fd && e->watches[i].what == what)
			return;
	if (e->watch_count == e->watch_room) {
		e->watch_room = e->watch_room * 2 + 8;
		e->watches =
		    mem_resize(e->watches, e->watch_room * sizeof(*e->watches));
	}
	e->watches[e->watch_count++] = (struct event_watch){
	    .watch = watch_new(e->loop, fd, what, became_ready, e),
	    .fd = fd,
	    .what = what,
	};
}

static int follow_event(
    const struct event_base *base, const struct event *event, void *ctx)
{
	struct events *e = ctx;
	struct timeval at;
	int pending = event_pending(event, EV_READ | EV_WRITE | EV_TIMEOUT, &at);

	(void)base;
	if (pending & EV_READ)
		follow_descriptor(e, event_get_fd(event), WATCH_READ);
	if (pending & EV_WRITE)
		follow_descriptor(e, event_get_fd(event), WATCH_WRITE);
	if (pending & EV_TIMEOUT) {
		uint64_t at_us = (uint64_t)at.tv_sec * 1000000 + (uint64_t)at.tv_usec;
		if (at_us < e->next_us)
			e->next_us = at_us;
	}
	return 0;
}

static void leave(struct events *e)
{
	while (e->watch_count)
		watch_free(&e->watches[--e->watch_count].watch);
}

/* All watches are made anew, because a descriptor may have been closed, and its number
 * may be that of another one. */
static void follow(struct events *e)
{
	uint64_t now_us = loop_now(e->loop), wall_us = loop_wall(e->loop);

	leave(e);
	e->next_us = UINT64_MAX;
	event_base_foreach_event(e->base, follow_event, e);
	if (event_base_get_num_events(e->base, EVENT_BASE_COUNT_ACTIVE) > 0)
		deadline_set(e->loop, &e->timeout, now_us); /* in the next turn */
	else if (e->next_us == UINT64_MAX)
		deadline_clear(e->loop, &e->timeout);
	else
		deadline_set(e->loop, &e->timeout,
		    now_us + CLOCKS_DIFFER_US +
			(e->next_us > wall_us ? e->next_us - wall_us : 0));
}

/* Meanwhile nothing is watched, because the handlers may close descriptors. */
static void run(struct events *e)
{
	e->is_running = true;
	leave(e);
	for (int i = 0; i < ROUNDS; i++) {
		event_base_loop(e->base, EVLOOP_NONBLOCK);
		if (event_base_get_num_events(e->base, EVENT_BASE_COUNT_ACTIVE) == 0)
			break;
	}
	e->is_running = false;
	follow(e);
}

static void timed_out(struct deadline *d)
{
	run(container_of(d, struct events, timeout));
}

static void free_events(void *object)
{
	struct events *e = object;
	struct node *n;

	while ((n = list_pop_front(&e->signals))) {
		struct signal_watch *s = container_of(n, struct signal_watch, node);
		event_free(s->event);
		mem_free(s);
	}
	leave(e);
	deadline_clear(e->loop, &e->timeout);
	event_base_free(e->base);
	mem_free(e->watches);
	mem_free(e);
}

static struct events *events_of(struct loop *loop)
{
	struct events *e = loop_kept(loop);

	if (e)
		return e;
	e = mem_zero(sizeof(*e));
	e->base = event_base_new();
	assert(e->base);
	e->loop = loop;
	deadline_init(&e->timeout, timed_out);
	list_init(&e->signals);
	loop_keep(loop, e, free_events);
	return e;
}

struct event_base *loop_events_base(struct loop *loop)
{
	return events_of(loop)->base;
}

void loop_events_follow(struct loop *loop)
{
	struct events *e = events_of(loop);

	if (!e->is_running)
		follow(e);
}

void loop_events_leave(struct loop *loop)
{
	leave(events_of(loop));
}

/* ---- signals ---- */

static void signal_ready(evutil_socket_t signo, short what, void *arg)
{
	struct signal_watch *s = arg;

	(void)what;
	s->fn(s->ctx, signo);
}

int loop_prepare_signals(struct loop *loop, struct err *err)
{
	int fds[4] = {-1, -1, -1, -1};
	/* a base has an epoll descriptor, a timer and a pair for signals */
	bool is_possible = pipe(fds) == 0 && pipe(fds + 2) == 0;

	if (!is_possible)
		err_set(err, "cannot start the event loop: %s", strerror(errno));
	for (size_t i = 0; i < 4; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (!is_possible)
		return -1;
	(void)events_of(loop);
	return 0;
}

void loop_on_signal(struct loop *loop, int signo, signal_fn *fn, void *ctx)
{
	struct events *e = events_of(loop);
	struct signal_watch *s = mem_zero(sizeof(*s));

	s->fn = fn;
	s->ctx = ctx;
	s->event = evsignal_new(e->base, signo, signal_ready, s);
	assert(s->event);
	event_add(s->event, NULL);
	list_push_back(&e->signals, &s->node);
	loop_events_follow(loop);
}

/* ---- for the log ---- */

const char *loop_library_version(void)
{
	return event_get_version();
}

const char *loop_method(struct loop *loop)
{
	return event_base_get_method(loop_events_base(loop));
}
