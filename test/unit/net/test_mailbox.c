/*
 * Messages to a loop: the order of each sender's messages, the wake-up, and messages
 * that are left when the mailbox is freed.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "net/mailbox.h"

enum { POSTERS = 4, LETTERS = 5000, VOLLEYS = 2000, SECOND = 1000000 };

/* The loop of one thread with a mailbox, and the messages that were handled there. */
struct post {
	struct mem mem;
	struct loop *loop;
	struct mailbox *mailbox;
	struct deadline guard;
	char opened[16]; /* the names in the order of opening */
	unsigned last[POSTERS], count;
};

struct note {
	struct thread_message message;
	struct post *at;
	struct note *posts_next; /* opening it posts this one */
	char name;
	unsigned poster, number;
};

static void guard_expired(struct deadline *d)
{
	(void)d;
	fail_msg("the messages did not come in time");
}

static void post_open(struct post *p)
{
	struct err err;

	memset(p, 0, sizeof(*p));
	mem_init(&p->mem);
	p->loop = loop_new(&p->mem, &err);
	assert_non_null(p->loop);
	p->mailbox = mailbox_new(p->loop, &err);
	assert_non_null(p->mailbox);
	deadline_init(&p->guard, guard_expired);
	deadline_set(p->loop, &p->guard, loop_now(p->loop) + 60 * (uint64_t)SECOND);
}

static void post_close(struct post *p)
{
	mailbox_free(&p->mailbox);
	assert_null(p->mailbox);
	deadline_clear(p->loop, &p->guard);
	loop_free(&p->loop);
}

/* ---- one thread ---- */

static void write_name(struct thread_message *message)
{
	struct note *note = container_of(message, struct note, message);
	struct post *p = note->at;

	p->opened[p->count++] = note->name;
	if (note->posts_next)
		mailbox_post(p->mailbox, &note->posts_next->message);
	if (note->name == '.')
		loop_stop(p->loop);
}

static struct note named(struct post *p, char name)
{
	return (struct note){.message.handle = write_name, .at = p, .name = name};
}

static void opens_in_the_order_of_posting(void **state)
{
	(void)state;
	struct post p;
	static const char names[] = "abcde.";
	struct note notes[sizeof(names) - 1];

	post_open(&p);
	for (size_t i = 0; i < sizeof(names) - 1; i++) {
		notes[i] = named(&p, names[i]);
		mailbox_post(p.mailbox, &notes[i].message);
	}
	assert_string_equal(p.opened, "");
	loop_run(p.loop);
	assert_string_equal(p.opened, names);
	post_close(&p);
}

/* A message that is posted while others are handled comes after them. */
static void opens_what_is_posted_meanwhile(void **state)
{
	(void)state;
	struct post p;

	post_open(&p);
	struct note last = named(&p, '.'), b = named(&p, 'b'), a = named(&p, 'a');
	a.posts_next = &last;
	mailbox_post(p.mailbox, &a.message);
	mailbox_post(p.mailbox, &b.message);
	loop_run(p.loop);
	assert_string_equal(p.opened, "ab.");
	post_close(&p);
}

static void opens_all_before_it_is_freed(void **state)
{
	(void)state;
	struct post p;

	post_open(&p);
	struct note c = named(&p, 'c'), b = named(&p, 'b'), a = named(&p, 'a');
	b.posts_next = &c;
	mailbox_post(p.mailbox, &a.message);
	mailbox_post(p.mailbox, &b.message);
	post_close(&p);
	assert_string_equal(p.opened, "abc");
	mailbox_free(&p.mailbox);
}

static void knows_since_when_letters_wait(void **state)
{
	(void)state;
	struct post p;

	post_open(&p);
	struct note a = named(&p, 'a'), last = named(&p, '.'), later = named(&p, '.');
	assert_false(mailbox_is_unread_for(p.mailbox, 0));
	mailbox_post(p.mailbox, &a.message);
	assert_false(mailbox_is_unread_for(p.mailbox, 3600 * (uint64_t)SECOND));
	while (!mailbox_is_unread_for(p.mailbox, 1000))
		;
	/* the oldest message counts */
	mailbox_post(p.mailbox, &last.message);
	assert_true(mailbox_is_unread_for(p.mailbox, 1000));
	loop_run(p.loop);
	assert_false(mailbox_is_unread_for(p.mailbox, 0));
	/* a time of its own for what comes afterwards */
	mailbox_post(p.mailbox, &later.message);
	assert_false(mailbox_is_unread_for(p.mailbox, 3600 * (uint64_t)SECOND));
	loop_run(p.loop);
	post_close(&p);
}

static uint64_t sent_us;

static void read_clock_later(struct thread_message *message)
{
	struct note *note = container_of(message, struct note, message);
	struct timespec now;

	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sent_us = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec / 1000;
	} while (sent_us <= loop_now(note->at->loop));
}

static void compare_clocks(struct thread_message *message)
{
	struct note *note = container_of(message, struct note, message);

	assert_true(loop_now(note->at->loop) >= sent_us);
	loop_stop(note->at->loop);
}

/* The sender's loop has read its clock behind the beginning of this loop's turn. */
static void clock_is_not_behind_that_of_a_sender(void **state)
{
	(void)state;
	struct post p;
	struct err err;

	post_open(&p);
	struct mailbox *before = p.mailbox, *second = mailbox_new(p.loop, &err);
	struct note first = {.message.handle = read_clock_later, .at = &p};
	struct note last = {.message.handle = compare_clocks, .at = &p};
	p.mailbox = second;
	mailbox_post(before, &first.message);
	mailbox_post(second, &last.message);
	loop_run(p.loop);
	mailbox_free(&before);
	post_close(&p);
}

/* ---- several threads ---- */

struct poster {
	pthread_t thread;
	struct post *to;
	struct note notes[LETTERS];
};

static void check_number(struct thread_message *message)
{
	struct note *note = container_of(message, struct note, message);
	struct post *p = note->at;

	assert_int_equal(note->number, p->last[note->poster] + 1);
	p->last[note->poster] = note->number;
	if (++p->count == POSTERS * LETTERS)
		loop_stop(p->loop);
}

static void *post_many(void *arg)
{
	struct poster *poster = arg;

	for (size_t i = 0; i < LETTERS; i++)
		mailbox_post(poster->to->mailbox, &poster->notes[i].message);
	return NULL;
}

static void keeps_the_order_of_each_poster(void **state)
{
	(void)state;
	struct post p;
	struct poster *posters = calloc(POSTERS, sizeof(*posters));

	post_open(&p);
	for (unsigned n = 0; n < POSTERS; n++) {
		posters[n].to = &p;
		for (unsigned i = 0; i < LETTERS; i++)
			posters[n].notes[i] = (struct note){
			    .message.handle = check_number,
			    .at = &p,
			    .poster = n,
			    .number = i + 1,
			};
	}
	for (unsigned n = 0; n < POSTERS; n++)
		assert_int_equal(
		    pthread_create(&posters[n].thread, NULL, post_many, &posters[n]),
		    0);
	loop_run(p.loop);
	for (unsigned n = 0; n < POSTERS; n++) {
		pthread_join(posters[n].thread, NULL);
		assert_int_equal(p.last[n], LETTERS);
	}
	post_close(&p);
	free(posters);
}

/* Two loops that only wait for one message, which goes back and forth. */
struct court {
	struct post *sides;
	struct note ball;
	unsigned volleys;
};

static void hit(struct thread_message *message)
{
	struct court *court = container_of(message, struct court, ball.message);
	struct post *from = court->ball.at;
	struct post *to = &court->sides[from == court->sides];

	/* the last message ends the other loop as well */
	if (++court->volleys > VOLLEYS)
		loop_stop(from->loop);
	if (court->volleys > VOLLEYS + 1)
		return;
	court->ball.at = to;
	mailbox_post(to->mailbox, message);
}

static void *play(void *arg)
{
	struct post *side = arg;

	loop_run(side->loop);
	return NULL;
}

static void wakes_a_loop_that_waits(void **state)
{
	(void)state;
	struct post sides[2];
	struct court court = {.sides = sides, .ball.message.handle = hit};
	pthread_t thread;

	post_open(&sides[0]);
	post_open(&sides[1]);
	assert_int_equal(pthread_create(&thread, NULL, play, &sides[1]), 0);
	court.ball.at = &sides[0];
	mailbox_post(sides[0].mailbox, &court.ball.message);
	loop_run(sides[0].loop);
	pthread_join(thread, NULL);
	assert_int_equal(court.volleys, VOLLEYS + 2);
	post_close(&sides[0]);
	post_close(&sides[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(opens_in_the_order_of_posting),
	    cmocka_unit_test(opens_what_is_posted_meanwhile),
	    cmocka_unit_test(opens_all_before_it_is_freed),
	    cmocka_unit_test(knows_since_when_letters_wait),
	    cmocka_unit_test(clock_is_not_behind_that_of_a_sender),
	    cmocka_unit_test(keeps_the_order_of_each_poster),
	    cmocka_unit_test(wakes_a_loop_that_waits),
	};

	return cmocka_run_group_tests_name("mailbox", tests, NULL, NULL);
}
