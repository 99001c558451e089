/*
 * Streams in which much arrives in a row rest between receives: when that begins, what
 * happens meanwhile, and what ends it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "engines.h"
#include "owner.h"

enum { PIECE = 8192, AFTER = 65536, PIECES_MOST = 100000, HOUR_S = 3600 };

/* The rest lasts until the test ends it. */
static void prolong(struct owner *o)
{
	deadline_set(o->loop, &o->net.resting.over,
	    loop_now(o->loop) + (uint64_t)HOUR_S * 1000000);
}

static void end_rest(struct owner *o)
{
	deadline_set(o->loop, &o->net.resting.over, loop_now(o->loop));
	one_turn(o);
}

static size_t receive_until(struct owner *o, size_t len)
{
	while (o->got.len < len)
		one_turn(o);
	return o->got.len;
}

/* The peer sends piece after piece, each of which is received at once, until the stream
 * rests.  A slow machine may need many. */
static void come_to_rest(struct owner *o)
{
	for (int i = 0; i < PIECES_MOST && !o->stream.resting; i++) {
		buf_clear(&o->got);
		say_much(o, PIECE);
		receive_until(o, PIECE);
	}
	assert_true(o->stream.resting);
	buf_clear(&o->got);
	prolong(o);
}

static void test_little_is_never_put_off(void **state)
{
	struct owner *o = *state;

	while (o->got.len + PIECE < AFTER) {
		say_much(o, PIECE);
		receive_until(o, o->got.len + PIECE);
		assert_false(o->stream.resting);
	}
}

static void test_pieces_are_gathered(void **state)
{
	struct owner *o = *state;

	come_to_rest(o);
	for (int i = 0; i < 3; i++) {
		int before = o->receive_count;
		uint64_t ctl_calls = loop_counts(o->loop)->ctl_calls;
		for (int n = 0; n < 4; n++) {
			say_much(o, PIECE);
			one_turn(o);
			assert_int_equal(o->got.len, (size_t)i * 4 * PIECE);
		}
		end_rest(o);
		assert_int_equal(
		    receive_until(o, (size_t)(i + 1) * 4 * PIECE), (i + 1) * 4 * PIECE);
		assert_int_equal(o->receive_count, before + 1);
		/* four at once is enough for another rest, for which epoll is not told
		 * anything */
		assert_true(o->stream.resting);
		assert_int_equal(loop_counts(o->loop)->ctl_calls, ctl_calls);
		prolong(o);
	}
}

static void test_a_rest_that_brings_little_is_the_last(void **state)
{
	struct owner *o = *state;

	for (size_t len = 0; len <= PIECE; len += PIECE) {
		come_to_rest(o);
		if (len > 0)
			say_much(o, len);
		end_rest(o);
		assert_int_equal(receive_until(o, len), len);
		assert_false(o->stream.resting);
		say(o, "row");
		assert_int_equal(receive_until(o, len + 3), len + 3);
		assert_false(o->stream.resting);
	}
}

static void test_output_begins_a_new_count(void **state)
{
	struct owner *o = *state;
	struct buf heard;

	buf_init(&heard, 0);
	o->echoes = true;
	for (int i = 0; i < 3 * AFTER / PIECE; i++) {
		say_much(o, PIECE);
		receive_until(o, o->got.len + PIECE);
		assert_false(o->stream.resting);
		hear(o, &heard);
		buf_clear(&heard);
	}
	buf_done(&heard);
}

/* Waits for the clock only: what arrives after a time without bytes does not arrive in
 * a row. */
static void test_slow_bytes_are_not_put_off(void **state)
{
	struct owner *o = *state;

	for (int i = 0; i < 2 * AFTER / PIECE; i++) {
		uint64_t after = loop_now(o->loop) + 5000;
		while (loop_now(o->loop) < after)
			one_turn(o);
		say_much(o, PIECE);
		receive_until(o, o->got.len + PIECE);
		assert_false(o->stream.resting);
	}
}

static void test_the_end_comes_after_the_rest(void **state)
{
	struct owner *o = *state;

	come_to_rest(o);
	say(o, "last");
	shutdown(o->peer, SHUT_WR);
	one_turn(o);
	assert_int_equal(o->end_count, 0);
	end_rest(o);
	receive_until(o, 4);
	for (int i = 0; i < 100 && o->end_count == 0; i++)
		one_turn(o);
	assert_int_equal(o->end_count, 1);
	assert_string_equal(o->end_text, "");
}

/* Sending fails while the stream rests: what the peer has said before comes first. */
static void test_last_words_within_a_rest(void **state)
{
	struct owner *o = *state;

	come_to_rest(o);
	say(o, "the reason");
	close(o->peer);
	o->peer = -1;
	assert_int_equal(stream_write(&o->stream, "x", 1), 0);
	for (int i = 0; i < 100 && o->end_count == 0; i++)
		one_turn(o);
	assert_int_equal(o->end_count, 1);
	assert_string_equal(buf_text(&o->got), "the reason");
}

/* A peer that sends much before it is accepted: nothing is put off yet. */
static void test_much_in_the_first_turn(void **state)
{
	struct owner *o = *state;
	int fds[2];

	stream_close(&o->stream);
	close(o->peer);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	o->peer = fds[1];
	say_much(o, AFTER + PIECE);
	stream_open_recv_now(&o->stream, &o->net, fds[0], &owner_ops);
	assert_int_equal(o->got.len, AFTER + PIECE);
	assert_false(o->stream.resting);
	say(o, "more");
	assert_int_equal(receive_until(o, AFTER + PIECE + 4), AFTER + PIECE + 4);
}

static void test_pause_within_a_rest(void **state)
{
	struct owner *o = *state;

	for (int is_longer = 0; is_longer < 2; is_longer++) {
		come_to_rest(o);
		stream_pause(&o->stream);
		say(o, "held");
		if (is_longer)
			end_rest(o);
		one_turn(o);
		assert_int_equal(o->got.len, 0);
		stream_resume(&o->stream);
		if (!is_longer)
			end_rest(o);
		assert_int_equal(receive_until(o, 4), 4);
		say(o, "more");
		assert_int_equal(receive_until(o, 8), 8);
		assert_false(o->stream.resting);
	}
}

/* The peer's end is noticed as in every paused stream. */
static void test_end_while_paused_after_a_rest(void **state)
{
	struct owner *o = *state;

	come_to_rest(o);
	stream_pause(&o->stream);
	end_rest(o);
	shutdown(o->peer, SHUT_WR);
	for (int i = 0; i < 100 && o->end_count == 0; i++)
		one_turn(o);
	assert_int_equal(o->end_count, 1);
}

static void test_hush_within_a_rest(void **state)
{
	struct owner *o = *state;

	come_to_rest(o);
	stream_quiesce(&o->stream);
	assert_false(o->stream.resting);
	say(o, "later");
	end_rest(o);
	one_turn(o);
	assert_int_equal(o->got.len, 0);
	assert_true(stream_is_silent(&o->stream));
	stream_resume(&o->stream);
	assert_int_equal(receive_until(o, 5), 5);
}

static void test_close_within_a_rest(void **state)
{
	struct owner *o = *state;

	come_to_rest(o);
	stream_close(&o->stream);
	end_rest(o);
	assert_int_equal(o->got.len, 0);
	assert_int_equal(o->net.resting.count, 0);
}

static void test_close_when_the_rest_ends(void **state)
{
	struct owner *o = *state;

	come_to_rest(o);
	o->closes = true;
	say_much(o, 4 * PIECE);
	end_rest(o);
	receive_until(o, 1);
	one_turn(o);
	assert_false(stream_is_open(&o->stream));
	assert_int_equal(o->net.resting.count, 0);
}

#define OPEN_TEST(test) \
	cmocka_unit_test_setup_teardown(test, owner_set_up, owner_tear_down)

static int run(const char *name)
{
	const struct CMUnitTest tests[] = {
	    OPEN_TEST(test_little_is_never_put_off),
	    OPEN_TEST(test_pieces_are_gathered),
	    OPEN_TEST(test_a_rest_that_brings_little_is_the_last),
	    OPEN_TEST(test_output_begins_a_new_count),
	    OPEN_TEST(test_slow_bytes_are_not_put_off),
	    OPEN_TEST(test_the_end_comes_after_the_rest),
	    OPEN_TEST(test_last_words_within_a_rest),
	    OPEN_TEST(test_much_in_the_first_turn),
	    OPEN_TEST(test_pause_within_a_rest),
	    OPEN_TEST(test_end_while_paused_after_a_rest),
	    OPEN_TEST(test_hush_within_a_rest),
	    OPEN_TEST(test_close_within_a_rest),
	    OPEN_TEST(test_close_when_the_rest_ends),
	};

	return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void)
{
	return engines_run(run, "stream_rest");
}
