/*
 * The alarm of a loop: it rings in time, an earlier time stays, and it can be set again
 * without having been read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/deadlines.h"

enum { MS = 1000, NEVER = 600 * 1000 * MS };

static uint64_t clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The alarm, watched as the loop does. */
struct scene {
	struct alarm alarm;
	int epoll_fd;
};

static void scene_begin(struct scene *s)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	assert_int_equal(alarm_init(&s->alarm), 0);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_int_equal(epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->alarm.fd, &event), 0);
}

static void scene_end(struct scene *s)
{
	alarm_done(&s->alarm);
	assert_int_equal(s->alarm.fd, -1);
	close(s->epoll_fd);
}

static void wait_until_it_rings(const struct scene *s)
{
	struct epoll_event event;

	assert_int_equal(epoll_wait(s->epoll_fd, &event, 1, 60 * MS), 1);
}

static void test_rings_in_time(void **state)
{
	struct scene s;
	(void)state;

	scene_begin(&s);
	for (int i = 0; i < 3; i++) {
		uint64_t from_us = clock_us();
		alarm_set(&s.alarm, from_us + 2 * MS, from_us);
		wait_until_it_rings(&s);
		assert_true(clock_us() >= from_us + 2 * MS);
	}
	scene_end(&s);
}

static void test_earlier_time_stays(void **state)
{
	struct scene s;
	uint64_t from_us = clock_us();
	(void)state;

	scene_begin(&s);
	alarm_set(&s.alarm, from_us + 2 * MS, from_us);
	alarm_set(&s.alarm, from_us + NEVER, from_us + 1);
	assert_int_equal(s.alarm.at_us, from_us + 2 * MS);
	wait_until_it_rings(&s);
	scene_end(&s);
}

static void test_earlier_time_replaces_a_later_one(void **state)
{
	struct scene s;
	uint64_t from_us = clock_us();
	(void)state;

	scene_begin(&s);
	alarm_set(&s.alarm, from_us + NEVER, from_us);
	alarm_set(&s.alarm, from_us + 2 * MS, from_us);
	wait_until_it_rings(&s);
	scene_end(&s);
}

/* It has rung while the loop did something else, and nobody has taken notice. */
static void test_set_again_after_its_time(void **state)
{
	struct scene s;
	uint64_t from_us = clock_us();
	(void)state;

	scene_begin(&s);
	alarm_set(&s.alarm, from_us + 1, from_us);
	wait_until_it_rings(&s);
	uint64_t again_us = clock_us();
	alarm_set(&s.alarm, again_us + 2 * MS, again_us);
	assert_int_equal(s.alarm.at_us, again_us + 2 * MS);
	wait_until_it_rings(&s);
	assert_true(clock_us() >= again_us + 2 * MS);
	scene_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rings_in_time),
	    cmocka_unit_test(test_earlier_time_stays),
	    cmocka_unit_test(test_earlier_time_replaces_a_later_one),
	    cmocka_unit_test(test_set_again_after_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
