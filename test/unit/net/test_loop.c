/*
 * The loop: the order within a turn, deadlines, deferred work, watches, signals.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "net/loop.h"
#include "net/poller.h"

enum { NAMES_MOST = 64 };

/* One letter for each callback that ran. */
struct scene {
	struct loop *loop;
	struct mem mem;
	char ran[NAMES_MOST];
	size_t count;
	struct deadline guard;
	int fds[2], extra;
};

/* Deferred work that writes its letter and may queue another. */
struct act {
	struct later later;
	struct scene *scene;
	char letter;
	void (*then)(struct loop *loop, struct later *l);
	struct act *next;
	bool is_last;
};

struct due {
	struct deadline deadline;
	struct scene *scene;
	char letter;
	uint64_t again_us;
	struct due *clears;
};

static void note(struct scene *s, char letter)
{
	assert_true(s->count < NAMES_MOST - 1);
	s->ran[s->count++] = letter;
	s->ran[s->count] = '\0';
}

static void guard_expired(struct deadline *d)
{
	(void)d;
	fail_msg("the loop did not stop in time");
}

static int set_up(void **state)
{
	struct scene *s = mem_zero(sizeof(*s));
	struct err err;

	mem_init(&s->mem);
	s->loop = loop_new(&s->mem, &err);
	assert_non_null(s->loop);
	deadline_init(&s->guard, guard_expired);
	deadline_set(s->loop, &s->guard, loop_now(s->loop) + 10000000);
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s->fds), 0);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	deadline_clear(s->loop, &s->guard);
	close(s->fds[0]);
	close(s->fds[1]);
	loop_free(&s->loop);
	assert_null(s->loop);
	loop_free(&s->loop);
	mem_free(s);
	return 0;
}

static void run_act(struct later *l)
{
	struct act *a = container_of(l, struct act, later);

	note(a->scene, a->letter);
	if (a->next)
		a->then(a->scene->loop, &a->next->later);
	if (a->is_last)
		loop_stop(a->scene->loop);
}

static struct act act(struct scene *s, char letter)
{
	return (struct act){.later.run = run_act, .scene = s, .letter = letter};
}

static void write_once(void *ctx)
{
	note(ctx, 'w');
}

static void test_order_of_a_turn(void **state)
{
	struct scene *s = *state;
	struct act reap = act(s, 'r'), reap2 = act(s, 'R'), end = act(s, 'e'),
		   end2 = act(s, 'E'), later = act(s, 'l'), later2 = act(s, 'L');

	reap.then = loop_reap;
	reap.next = &reap2;
	end.then = loop_at_turn_end;
	end.next = &end2;
	later.then = loop_later;
	later.next = &later2;
	loop_reap(s->loop, &reap.later);
	loop_at_turn_end(s->loop, &end.later);
	loop_later(s->loop, &later.later);
	loop_later(s->loop, &later.later);
	reap2.is_last = true;
	loop_on_turn_end(s->loop, write_once, s);
	loop_run(s->loop);
	assert_string_equal(s->ran, "lLweErRw");
	assert_int_equal(loop_counts(s->loop)->turns, 1);
}

static void test_later_of_turn_end_does_not_wait(void **state)
{
	struct scene *s = *state;
	struct act end = act(s, 'e'), later = act(s, 'l');

	end.then = loop_later;
	end.next = &later;
	later.is_last = true;
	loop_at_turn_end(s->loop, &end.later);
	loop_run(s->loop);
	assert_string_equal(s->ran, "el");
	assert_int_equal(loop_counts(s->loop)->turns, 2);
}

static void test_cancel(void **state)
{
	struct scene *s = *state;
	struct act a = act(s, 'a'), b = act(s, 'b'), c = act(s, 'c'), d = act(s, 'd');

	loop_later(s->loop, &a.later);
	loop_at_turn_end(s->loop, &b.later);
	loop_reap(s->loop, &c.later);
	loop_later(s->loop, &d.later);
	later_cancel(s->loop, &a.later);
	later_cancel(s->loop, &b.later);
	later_cancel(s->loop, &c.later);
	later_cancel(s->loop, &c.later);
	d.is_last = true;
	loop_run(s->loop);
	assert_string_equal(s->ran, "d");
}

static void test_reaped_when_freed(void **state)
{
	struct scene *s = *state;
	struct act a = act(s, 'a');
	struct err err;
	struct loop *other = loop_new(&s->mem, &err);

	loop_reap(other, &a.later);
	loop_free(&other);
	assert_string_equal(s->ran, "a");
}

static void alarm_expired(struct deadline *d)
{
	struct due *a = container_of(d, struct due, deadline);

	assert_true(d->at_us == UINT64_MAX);
	note(a->scene, a->letter);
	if (a->clears)
		deadline_clear(a->scene->loop, &a->clears->deadline);
	if (a->again_us) {
		uint64_t at_us = a->again_us;
		a->again_us = 0;
		deadline_set(a->scene->loop, d, at_us);
		return;
	}
	if (a->letter == 'z')
		loop_stop(a->scene->loop);
}

static void set_alarm(struct scene *s, struct due *a, char letter, uint64_t in_us)
{
	*a = (struct due){.scene = s, .letter = letter};
	deadline_init(&a->deadline, alarm_expired);
	deadline_set(s->loop, &a->deadline, loop_now(s->loop) + in_us);
}

static void test_deadlines_in_order(void **state)
{
	struct scene *s = *state;
	struct due a, b, c, d, z;
	uint64_t from_us = loop_now(s->loop);

	set_alarm(s, &z, 'z', 30000);
	set_alarm(s, &a, 'a', 1000);
	set_alarm(s, &c, 'c', 20000);
	set_alarm(s, &b, 'b', 500);
	set_alarm(s, &d, 'd', 100);
	deadline_set(s->loop, &b.deadline, from_us + 10000); /* moved to later */
	deadline_set(s->loop, &c.deadline, from_us + 5000);  /* moved to earlier */
	deadline_clear(s->loop, &d.deadline);
	deadline_clear(s->loop, &d.deadline);
	loop_run(s->loop);
	assert_string_equal(s->ran, "acbz");
	assert_true(loop_now(s->loop) >= from_us + 30000);
	/* The loop neither spins nor wakes up once per change. */
	assert_true(loop_counts(s->loop)->turns < 20);
}

static void test_deadline_switched_off(void **state)
{
	struct scene *s = *state;
	struct due a, z;

	set_alarm(s, &a, 'a', 100);
	set_alarm(s, &z, 'z', 3000);
	deadline_set(s->loop, &a.deadline, UINT64_MAX);
	loop_run(s->loop);
	assert_string_equal(s->ran, "z");
	assert_int_equal(a.deadline.index, 0);
	deadline_set(s->loop, &a.deadline, UINT64_MAX);
	assert_int_equal(a.deadline.index, 0);
}

static void test_deadline_set_while_called(void **state)
{
	struct scene *s = *state;
	struct due a, b, z;

	set_alarm(s, &a, 'a', 0);
	set_alarm(s, &b, 'b', 1);
	set_alarm(s, &z, 'z', 50000);
	/* One deadline is set in the past; its callback clears another that is due
	 * already. */
	a.again_us = 1;
	a.clears = &b;
	loop_run(s->loop);
	assert_string_equal(s->ran, "aaz");
}

static void stop_reading(void *ctx, int fd)
{
	struct scene *s = ctx;
	char byte;

	note(s, 'w');
	assert_int_equal(read(fd, &byte, 1), 1);
	loop_stop(s->loop);
}

static void test_watch(void **state)
{
	struct scene *s = *state;
	struct watch *w = watch_new(s->loop, s->fds[0], WATCH_READ, stop_reading, s);
	struct act later = act(s, 'l');
	struct due z;

	assert_int_equal(write(s->fds[1], "xy", 2), 2);
	loop_later(s->loop, &later.later);
	loop_run(s->loop);
	assert_string_equal(s->ran, "wl");
	watch_off(w);
	watch_off(w);
	set_alarm(s, &z, 'z', 2000);
	loop_run(s->loop);
	assert_string_equal(s->ran, "wlz");
	watch_on(w);
	watch_on(w);
	loop_run(s->loop);
	assert_string_equal(s->ran, "wlzw");
	assert_int_equal(loop_counts(s->loop)->ctl_calls, 3);
	watch_free(&w);
	assert_null(w);
	watch_free(&w);
}

/* Closing a descriptor is enough, unless another process may hold it. */
static void test_watch_freed_before_closing(void **state)
{
	struct scene *s = *state;
	uint64_t *calls = &loop_counts(s->loop)->ctl_calls;

	for (int is_shared = 0; is_shared < 2; is_shared++) {
		struct watch *reader, *writer;
		struct due z;
		int fds[2], held = -1;
		loop_note_shared(s->loop, is_shared);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		if (is_shared)
			held = dup(fds[0]);
		reader = watch_new(s->loop, fds[0], WATCH_READ, stop_reading, s);
		writer = watch_new(s->loop, fds[0], WATCH_WRITE, stop_reading, s);
		uint64_t before = *calls;
		watch_free_closing(&reader);
		watch_free_closing(&writer);
		watch_free_closing(&writer);
		assert_null(reader);
		assert_null(writer);
		assert_int_equal(
		    *calls, before + (is_shared || !POLLER_NOTICES_CLOSE ? 2 : 0));
		close(fds[0]);
		assert_int_equal(
		    send(fds[1], "x", 1, MSG_NOSIGNAL), is_shared ? 1 : -1);
		set_alarm(s, &z, 'z', 1000);
		loop_run(s->loop);
		close(fds[1]);
		close(held);
	}
	assert_string_equal(s->ran, "zz");
}

struct own {
	struct scene *scene;
	struct watch *watch;
};

static void free_own_watch(void *ctx, int fd)
{
	struct own *own = ctx;

	(void)fd;
	note(own->scene, 'f');
	watch_free(&own->watch);
	loop_stop(own->scene->loop);
}

static void test_watch_freed_by_itself(void **state)
{
	struct scene *s = *state;
	struct own own = {.scene = s};

	own.watch = watch_new(s->loop, s->fds[0], WATCH_WRITE, free_own_watch, &own);
	loop_run(s->loop);
	assert_string_equal(s->ran, "f");
	assert_null(own.watch);
}

static void note_reader(void *ctx, int fd)
{
	(void)fd;
	note(ctx, 'r');
}

static void note_writer(void *ctx, int fd)
{
	struct scene *s = ctx;

	(void)fd;
	note(s, 'w');
	loop_stop(s->loop);
}

/* Two watches of one descriptor are registered with the system once. */
static void test_both_directions(void **state)
{
	struct scene *s = *state;
	struct watch *r, *w;

	r = watch_new(s->loop, s->fds[0], WATCH_READ, note_reader, s);
	w = watch_new(s->loop, s->fds[0], WATCH_WRITE, note_writer, s);
	loop_run(s->loop);
	assert_string_equal(s->ran, "w");
	assert_int_equal(write(s->fds[1], "x", 1), 1);
	loop_run(s->loop);
	assert_string_equal(s->ran, "wrw");
	watch_off(r);
	loop_run(s->loop);
	assert_string_equal(s->ran, "wrww");
	watch_free(&r);
	watch_free(&w);
	assert_int_equal(loop_counts(s->loop)->ctl_calls, 4);
}

/* Lets the loop run for some turns that do not wait. */
struct turns {
	struct later begin, end;
	struct scene *scene;
	int left;
};

static void turn_begins(struct later *l)
{
	struct turns *t = container_of(l, struct turns, begin);

	loop_at_turn_end(t->scene->loop, &t->end);
}

static void turn_ends(struct later *l)
{
	struct turns *t = container_of(l, struct turns, end);

	if (--t->left == 0)
		loop_stop(t->scene->loop);
	else
		loop_later(t->scene->loop, &t->begin);
}

static void run_turns(struct scene *s, int count)
{
	struct turns t = {
	    .begin.run = turn_begins, .end.run = turn_ends, .scene = s, .left = count};

	loop_later(s->loop, &t.begin);
	loop_run(s->loop);
}

/* What becomes ready is told once, until it becomes ready again, somebody asks, or the
 * watch is switched on; but that a peer is gone is told until it is read. */
static void test_edge(void **state)
{
	struct scene *s = *state;
	struct watch *w;

	if (!POLLER_HAS_EDGES)
		skip();
	assert_int_equal(write(s->fds[1], "x", 1), 1);
	w = watch_new(s->loop, s->fds[0], WATCH_READ | WATCH_EDGE, note_reader, s);
	run_turns(s, 3);
	assert_string_equal(s->ran, "r");
	assert_int_equal(write(s->fds[1], "x", 1), 1);
	run_turns(s, 3);
	assert_string_equal(s->ran, "rr");
	watch_again(w);
	run_turns(s, 3);
	assert_string_equal(s->ran, "rrr");
	watch_off(w);
	watch_again(w);
	run_turns(s, 3);
	assert_string_equal(s->ran, "rrr");
	watch_on(w);
	run_turns(s, 3);
	assert_string_equal(s->ran, "rrrr");
	assert_int_equal(shutdown(s->fds[1], SHUT_WR), 0);
	run_turns(s, 3);
	assert_string_equal(s->ran, "rrrrrrr");
	watch_free(&w);
}

/* The watch is freed later in the turn in which the peer's end is reported: epoll is
 * not told once more before that. */
struct leaver {
	struct later leave;
	struct scene *scene;
	struct watch *watch;
};

static void leave(struct later *l)
{
	watch_free(&container_of(l, struct leaver, leave)->watch);
}

static void leave_soon(void *ctx, int fd)
{
	struct leaver *leaver = ctx;

	(void)fd;
	loop_at_turn_end(leaver->scene->loop, &leaver->leave);
}

static void test_end_of_who_leaves(void **state)
{
	struct scene *s = *state;
	struct leaver leaver = {.leave.run = leave, .scene = s};
	const uint64_t *calls = &loop_counts(s->loop)->ctl_calls;
	uint64_t before = *calls;

	leaver.watch =
	    watch_new(s->loop, s->fds[0], WATCH_READ | WATCH_EDGE, leave_soon, &leaver);
	assert_int_equal(shutdown(s->fds[1], SHUT_WR), 0);
	run_turns(s, 3);
	assert_null(leaver.watch);
	assert_int_equal(*calls - before, 2);
}

static void take_byte(void *ctx, int fd)
{
	int *count = ctx;
	char byte;

	assert_int_equal(read(fd, &byte, 1), 1);
	++*count;
}

/* The numbers of waits repeat themselves after 65,536 of them.  An event that comes
 * exactly then is reported nevertheless. */
static void test_edge_long_after(void **state)
{
	struct scene *s = *state;
	struct watch *w;
	int count = 0;

	w = watch_new(s->loop, s->fds[0], WATCH_READ | WATCH_EDGE, take_byte, &count);
	run_turns(s, 65536 - 10);
	for (int i = 1; i <= 20; i++) {
		assert_int_equal(write(s->fds[1], "x", 1), 1);
		run_turns(s, 1);
		if (count < i)
			run_turns(s, 1);
		assert_int_equal(count, i);
	}
	watch_free(&w);
}

/* Watches two sockets; the first that is reported replaces the other. */
struct pair {
	struct scene *scene;
	struct watch *watches[2];
	bool is_replaced;
};

static void replace_other(void *ctx, int fd)
{
	struct pair *p = ctx;
	struct scene *s = p->scene;
	int other = fd == s->fds[0], fresh[2];

	loop_stop(s->loop);
	note(s, 'p');
	if (p->is_replaced)
		return;
	p->is_replaced = true;
	watch_free(&p->watches[other]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fresh), 0);
	assert_int_equal(dup2(fresh[0], s->fds[other]), s->fds[other]);
	close(fresh[0]);
	s->extra = fresh[1];
	p->watches[other] =
	    watch_new(s->loop, s->fds[other], WATCH_READ, note_reader, s);
}

/* An event that was reported for a closed descriptor does not reach the watch of a new
 * descriptor with the same number. */
static void test_number_used_again(void **state)
{
	struct scene *s = *state;
	struct pair p = {.scene = s};

	for (int i = 0; i < 2; i++) {
		assert_int_equal(write(s->fds[!i], "x", 1), 1);
		p.watches[i] =
		    watch_new(s->loop, s->fds[i], WATCH_READ, replace_other, &p);
	}
	loop_run(s->loop);
	assert_string_equal(s->ran, "p");
	close(s->extra);
	for (int i = 0; i < 2; i++)
		watch_free(&p.watches[i]);
}

static void note_signal(void *ctx, int signo)
{
	struct scene *s = ctx;

	assert_int_equal(signo, SIGUSR1);
	note(s, 's');
	loop_stop(s->loop);
}

static void test_signal(void **state)
{
	struct scene *s = *state;

	loop_on_signal(s->loop, SIGUSR1, note_signal, s);
	raise(SIGUSR1);
	loop_run(s->loop);
	assert_string_equal(s->ran, "s");
}

/* Whatever libevent waits with, the loop knows for what. */
static void test_signal_where_libevent_has_no_epoll(void **state)
{
	struct scene *s = *state;
	struct loop *usual = s->loop;
	struct err err;

	setenv("EVENT_NOEPOLL", "1", 1);
	s->loop = loop_new(&s->mem, &err);
	assert_non_null(s->loop);
	assert_string_not_equal(loop_method(s->loop), "epoll");
	unsetenv("EVENT_NOEPOLL");
	loop_on_signal(s->loop, SIGUSR1, note_signal, s);
	raise(SIGUSR1);
	loop_run(s->loop);
	assert_string_equal(s->ran, "s");
	loop_free(&s->loop);
	s->loop = usual;
}

static void test_clock(void **state)
{
	struct scene *s = *state;
	struct due z;
	uint64_t now_us = loop_now(s->loop), wall_us = loop_wall(s->loop);

	/* The date lies between 2020 and 2200. */
	assert_true(wall_us > 1577836800ull * 1000000);
	assert_true(wall_us < 7258118400ull * 1000000);
	set_alarm(s, &z, 'z', 2000);
	loop_run(s->loop);
	assert_true(loop_now(s->loop) >= now_us + 2000);
	now_us = loop_now(s->loop);
	while (loop_now(s->loop) == now_us)
		loop_touch_clock(s->loop);
	assert_non_null(loop_library_version());
	assert_string_not_equal(loop_method(s->loop), "");
}

static void long_turn(struct deadline *d)
{
	struct due *a = container_of(d, struct due, deadline);
	uint64_t from_us = loop_now(a->scene->loop);

	/* The wall clock may be set meanwhile. */
	while (loop_now(a->scene->loop) < from_us + 3000)
		loop_touch_clock(a->scene->loop);
	loop_stop(a->scene->loop);
}

static void test_longest_turn(void **state)
{
	struct scene *s = *state;
	struct loop_counts *counts = loop_counts(s->loop);
	struct due a = {.scene = s};

	deadline_init(&a.deadline, long_turn);
	deadline_set(s->loop, &a.deadline, loop_now(s->loop));
	loop_run(s->loop);
	uint64_t longest_us = counts->longest_us;
	assert_true(longest_us >= 3000);
	assert_true(counts->period_longest_us == longest_us);
	loop_counts_end_period(counts, 0, 0);
	assert_true(counts->last_longest_us == longest_us);
	assert_true(loop_counts_recent_us(counts) == longest_us);
	assert_true(counts->period_longest_us == 0);
	loop_counts_end_period(counts, 0, 0);
	assert_true(loop_counts_recent_us(counts) == 0);
	assert_true(counts->longest_us == longest_us);
}

static void test_busy(void **state)
{
	struct loop_counts counts = {0};

	(void)state;
	assert_int_equal(loop_counts_busy(&counts, 0, 0), 0);
	/* what the thread did before does not count */
	loop_counts_start(&counts, 1000, 70);
	assert_int_equal(loop_counts_busy(&counts, 1000, 70), 0);
	assert_int_equal(loop_counts_busy(&counts, 2000, 370), 30);
	loop_counts_end_period(&counts, 2000, 370);
	/* both periods */
	assert_int_equal(loop_counts_busy(&counts, 3000, 470), 20);
	loop_counts_end_period(&counts, 3000, 470);
	/* the first one is forgotten */
	assert_int_equal(loop_counts_busy(&counts, 3000, 470), 10);
	/* a turn that goes on */
	assert_int_equal(loop_counts_busy(&counts, 3000, 6000), 100);
}

/* A waiter that works during its wait, as the kernel does for io_uring. */
struct thread {
	struct loop *loop;
	unsigned wait_count;
};

static uint64_t thread_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

enum { WORK_US = 20000 };

static int work(void *ctx, int64_t wait_us)
{
	struct thread *worker = ctx;
	uint64_t end_us = thread_us() + WORK_US;

	(void)wait_us;
	while (thread_us() < end_us)
		;
	if (++worker->wait_count == 3)
		loop_stop(worker->loop);
	return 0;
}

static bool has_nothing(void *ctx)
{
	(void)ctx;
	return false;
}

static void settle_nothing(void *ctx)
{
	(void)ctx;
}

static void test_busy_while_a_turn_waits(void **state)
{
	struct scene *s = *state;
	struct thread worker = {.loop = s->loop};
	const struct loop_waiter waiter = {.ctx = &worker,
	    .wait = work,
	    .may_deliver = has_nothing,
	    .settle = settle_nothing};

	loop_wait_elsewhere(s->loop, &waiter);
	loop_run(s->loop);
	loop_wait_elsewhere(s->loop, NULL);
	uint64_t busy_us = loop_busy_us(s->loop);
	assert_true(busy_us - loop_counts(s->loop)->last_busy_from_us >= 3 * WORK_US);
	/* The machine may do other things meanwhile, but not this loop. */
	loop_touch_clock(s->loop);
	assert_in_range(
	    loop_counts_busy(loop_counts(s->loop), loop_now(s->loop), busy_us), 1, 100);
}

#define SCENE_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    SCENE_TEST(test_order_of_a_turn),
	    SCENE_TEST(test_later_of_turn_end_does_not_wait),
	    SCENE_TEST(test_cancel),
	    SCENE_TEST(test_reaped_when_freed),
	    SCENE_TEST(test_deadlines_in_order),
	    SCENE_TEST(test_deadline_switched_off),
	    SCENE_TEST(test_deadline_set_while_called),
	    SCENE_TEST(test_watch),
	    SCENE_TEST(test_watch_freed_before_closing),
	    SCENE_TEST(test_watch_freed_by_itself),
	    SCENE_TEST(test_both_directions),
	    SCENE_TEST(test_edge),
	    SCENE_TEST(test_end_of_who_leaves),
	    SCENE_TEST(test_edge_long_after),
	    SCENE_TEST(test_number_used_again),
	    SCENE_TEST(test_signal),
	    SCENE_TEST(test_signal_where_libevent_has_no_epoll),
	    SCENE_TEST(test_clock),
	    SCENE_TEST(test_longest_turn),
	    cmocka_unit_test(test_busy),
	    SCENE_TEST(test_busy_while_a_turn_waits),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
