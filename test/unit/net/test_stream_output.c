/*
 * The output of streams: gathered sends, slow peers, failures of sending.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "engines.h"
#include "owner.h"

static size_t fill_kernel(struct owner *o, size_t want)
{
	uint8_t bytes[50000];
	size_t sum = 0;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i % 251);
	while (sum < want) {
		size_t len = want - sum < sizeof(bytes) ? want - sum : sizeof(bytes);
		assert_int_equal(stream_write(&o->stream, bytes, len), 0);
		sum += len;
	}
	return sum;
}

/* Long pieces are sent from where they are. */
static void test_gather(void **state)
{
	static const uint8_t piece[300] = "ab";
	enum { PAIR = sizeof(piece) + 2 };
	struct owner *o = *state;

	for (int i = 0; i < 50; i++) {
		stream_put(&o->stream, NULL, piece, sizeof(piece));
		assert_int_equal(stream_write(&o->stream, "cd", 2), 0);
	}
	assert_int_equal(stream_pending(&o->stream), 50 * PAIR);
	assert_int_equal(loop_counts(o->loop)->send_calls, 0);
	one_turn(o);
	/* With io_uring the second send goes out in the next turn. */
	if (engine_is_ring(&o->net))
		one_turn(o);
	/* The 100 spans need two sends, because one takes 64. */
	assert_int_equal(loop_counts(o->loop)->send_calls, 2);
	struct buf b;
	buf_init(&b, 0);
	assert_int_equal(hear(o, &b), 50 * PAIR);
	for (int i = 0; i < 50; i++) {
		assert_memory_equal(b.bytes + i * PAIR, piece, sizeof(piece));
		assert_memory_equal(b.bytes + (i + 1) * PAIR - 2, "cd", 2);
	}
	buf_done(&b);
	assert_int_equal(o->net.queues->used, 0);
}

/* ---- output that comes while earlier output is being sent ---- */

enum { HEARING_MOST_MS = 20000 };

/* The peer on another thread, so that what it hears does not wake the loop. */
struct hearing {
	struct owner *owner;
	size_t want;
	struct buf heard;
	int done_fd;
};

static void *hear_all(void *arg)
{
	struct hearing *h = arg;
	struct pollfd peer = {.fd = h->owner->peer, .events = POLLIN};

	while (h->heard.len < h->want && poll(&peer, 1, HEARING_MOST_MS) > 0)
		hear(h->owner, &h->heard);
	eventfd_write(h->done_fd, 1);
	return NULL;
}

static void all_heard(void *ctx, int fd)
{
	eventfd_t count;

	eventfd_read(fd, &count);
	loop_stop(ctx);
}

/* Runs the loop until the peer has heard so many bytes; nothing else wakes it. */
static void run_until_heard(struct owner *o, size_t want, struct buf *heard)
{
	struct hearing h = {
	    .owner = o, .want = want, .done_fd = eventfd(0, EFD_NONBLOCK)};
	struct watch *watch =
	    watch_new(o->loop, h.done_fd, WATCH_READ, all_heard, o->loop);
	pthread_t thread;

	buf_init(&h.heard, 0);
	deadline_clear(o->loop, &o->guard);
	assert_int_equal(pthread_create(&thread, NULL, hear_all, &h), 0);
	loop_run(o->loop);
	pthread_join(thread, NULL);
	watch_free(&watch);
	close(h.done_fd);
	*heard = h.heard;
	assert_int_equal(h.heard.len, want);
}

struct more {
	struct owner *owner;
	size_t before;
};

/* Adds output as soon as the first part of what was there has been sent. */
static void add_more(void *ctx)
{
	struct more *more = ctx;

	if (stream_pending(&more->owner->stream) == more->before)
		return;
	loop_on_turn_end(more->owner->loop, NULL, NULL);
	assert_int_equal(stream_write(&more->owner->stream, "more", 4), 0);
}

/* The rest of a long output is being sent when more comes, and then nothing else
 * happens. */
static void test_more_while_sending(void **state)
{
	static const uint8_t piece[300] = "ab";
	struct owner *o = *state;
	struct more more = {.owner = o};
	struct buf heard;

	for (int i = 0; i < 50; i++) {
		stream_put(&o->stream, NULL, piece, sizeof(piece));
		assert_int_equal(stream_write(&o->stream, "cd", 2), 0);
	}
	more.before = stream_pending(&o->stream);
	loop_on_turn_end(o->loop, add_more, &more);
	run_until_heard(o, more.before + 4, &heard);
	assert_memory_equal(heard.bytes + more.before, "more", 4);
	buf_done(&heard);
}

/* Small pieces are copied behind what was written, whatever block they are in. */
static void test_small_pieces_become_one(void **state)
{
	struct owner *o = *state;
	struct block *b = block_get(o->net.blocks);

	memcpy(b->bytes, "ef", 2);
	assert_int_equal(stream_write(&o->stream, "ab", 2), 0);
	stream_put(&o->stream, NULL, (const uint8_t *)"cd", 2);
	stream_put(&o->stream, b, b->bytes, 2);
	assert_int_equal(stream_write(&o->stream, "gh", 2), 0);
	assert_int_equal(b->refs, 1);
	assert_int_equal(o->net.queues->used, 1);
	memcpy(b->bytes, "xx", 2);
	one_turn(o);
	assert_int_equal(loop_counts(o->loop)->send_calls, 1);
	struct buf heard;
	buf_init(&heard, 0);
	assert_int_equal(hear(o, &heard), 8);
	assert_memory_equal(heard.bytes, "abcdefgh", 8);
	buf_done(&heard);
	block_unref(b);
}

static void test_join(void **state)
{
	struct owner *o = *state;
	struct block *b = block_get(o->net.blocks);

	memset(b->bytes, 'x', 1000);
	for (size_t i = 0; i < 1000; i++)
		stream_put(&o->stream, b, b->bytes + i, 1);
	/* The bytes are one span with one reference. */
	assert_int_equal(b->refs, 2);
	assert_int_equal(o->net.queues->used, 1);
	stream_put(&o->stream, b, b->bytes, 0);
	stream_put(&o->stream, b, b->bytes, 1);
	assert_int_equal(b->refs, 3);
	one_turn(o);
	assert_int_equal(b->refs, 1);
	assert_int_equal(loop_counts(o->loop)->send_calls, 1);
	block_unref(b);
}

static void test_slow_peer(void **state)
{
	struct owner *o = *state;
	size_t sent = fill_kernel(o, 3000000), heard = 0;
	struct buf b;

	buf_init(&b, 0);
	assert_true(stream_is_above_high(&o->stream));
	one_turn(o);
	assert_true(o->stream.blocked);
	assert_int_equal(o->drain_count, 0);
	uint64_t send_calls = loop_counts(o->loop)->send_calls;
	/* While the stream is blocked, more output makes no more calls. */
	sent += fill_kernel(o, 100);
	one_turn(o);
	assert_int_equal(loop_counts(o->loop)->send_calls, send_calls);
	while (heard < sent) {
		size_t got = hear(o, &b);
		heard += got;
		if (heard < sent)
			one_turn(o);
	}
	one_turn(o);
	assert_int_equal(heard, sent);
	assert_int_equal(o->drain_count, 1);
	assert_int_equal(stream_pending(&o->stream), 0);
	assert_false(o->stream.blocked);
	for (size_t i = 0; i < 3000000; i++)
		assert_int_equal(b.bytes[i], i % 50000 % 251);
	buf_done(&b);
	assert_int_equal(o->net.queues->used, 0);
}

static void test_drained_comes_from_the_loop(void **state)
{
	struct owner *o = *state;
	int size = 1 << 20;

	setsockopt(o->stream.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	o->in_call = true;
	fill_kernel(o, STREAM_HIGH + 10000);
	assert_true(stream_is_above_high(&o->stream));
	for (int i = 0; i < 3 && stream_pending(&o->stream); i++) {
		struct buf b;
		stream_flush(&o->stream);
		buf_init(&b, 0);
		hear(o, &b);
		buf_done(&b);
	}
	o->in_call = false;
	if (stream_pending(&o->stream) || o->drain_count == 0)
		loop_run(o->loop);
	assert_int_equal(o->drain_count, 1);
}

static void test_small_rest_pins_no_block(void **state)
{
	struct owner *o = *state;
	struct block *b = block_get(o->net.blocks);
	struct buf heard;
	uint8_t *filling = mem_zero(400000);

	/* The test fills the socket without the stream, then writes something small. */
	while (send(o->stream.fd, filling, 400000, MSG_DONTWAIT) > 0)
		;
	memcpy(b->bytes, "smallremain", 11);
	stream_put(&o->stream, b, b->bytes, 5);
	stream_put(&o->stream, NULL, (const uint8_t *)"-", 1);
	assert_int_equal(b->refs, 2);
	one_turn(o);
	assert_true(o->stream.blocked);
	assert_int_equal(b->refs, 1);
	/* Output that comes while the stream is blocked is copied, too, into the same
	 * block. */
	stream_put(&o->stream, b, b->bytes + 5, 6);
	assert_int_equal(stream_write(&o->stream, "!", 1), 0);
	assert_int_equal(b->refs, 1);
	assert_int_equal(blocks_in_use(o), 1);
	block_unref(b);
	assert_int_equal(stream_pending(&o->stream), 13);
	buf_init(&heard, 0);
	while (stream_pending(&o->stream)) {
		hear(o, &heard);
		one_turn(o);
	}
	hear(o, &heard);
	assert_true(heard.len > 13);
	assert_memory_equal(heard.bytes + heard.len - 13, "small-remain!", 13);
	buf_done(&heard);
	mem_free(filling);
}

static void test_large_write(void **state)
{
	struct owner *o = *state;
	size_t len = 1000000, heard = 0;
	uint8_t *bytes = mem_alloc(len);
	struct buf b;

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(i * 7 >> 3);
	assert_int_equal(stream_write(&o->stream, bytes, len), 0);
	assert_int_equal(blocks_in_use(o), 0);
	buf_init(&b, 0);
	while (heard < len) {
		one_turn(o);
		heard += hear(o, &b);
	}
	assert_memory_equal(b.bytes, bytes, len);
	buf_done(&b);
	mem_free(bytes);
}

struct at_turn_end {
	const struct owner *owner;
	size_t pending;
};

static void note_pending(void *ctx)
{
	struct at_turn_end *noted = ctx;

	noted->pending = stream_pending(&noted->owner->stream);
}

/* The blocks of bulk are free again before the loop waits. */
static void test_bulk_is_sent_within_the_turn(void **state)
{
	struct owner *o = *state;
	const size_t len = 100000;
	uint8_t *bytes = mem_zero(len);
	struct at_turn_end noted = {.owner = o, .pending = len};
	struct buf heard;

	setsockopt(o->stream.fd, SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int));
	loop_on_turn_end(o->loop, note_pending, &noted);
	assert_int_equal(stream_write(&o->stream, bytes, len), 0);
	one_turn(o);
	loop_on_turn_end(o->loop, NULL, NULL);
	assert_int_equal(noted.pending, 0);
	buf_init(&heard, 0);
	assert_int_equal(hear(o, &heard), len);
	buf_done(&heard);
	mem_free(bytes);
}

static void test_write_without_memory(void **state)
{
	struct owner *o = *state;

	o->in_call = true;
	assert_int_equal(stream_write(&o->stream, "", (size_t)1 << 40), -1);
	o->in_call = false;
	loop_run(o->loop);
	assert_int_equal(o->end_count, 1);
	assert_string_equal(o->end_text, "out of memory");
}

static void test_writes_and_receives_share_a_block(void **state)
{
	struct owner *o = *state;

	o->echoes = true;
	say(o, "ping");
	assert_int_equal(stream_write(&o->stream, "one ", 4), 0);
	assert_int_equal(stream_write(&o->stream, "two ", 4), 0);
	one_turn(o);
	expect_heard(o, "one two ping");
	assert_int_equal(loop_counts(o->loop)->send_calls, 1);
	assert_int_equal(blocks_in_use(o), 1);
}

static void test_write_to_nobody(void **state)
{
	struct owner *o = *state;

	say(o, "last words");
	close(o->peer);
	o->peer = -1;
	o->in_call = true;
	assert_int_equal(stream_write(&o->stream, "x", 1), 0);
	stream_flush(&o->stream);
	assert_int_equal(stream_pending(&o->stream), 0);
	assert_int_equal(stream_write(&o->stream, "y", 1), 0);
	stream_put(&o->stream, NULL, (const uint8_t *)"z", 1);
	assert_int_equal(stream_pending(&o->stream), 0);
	o->in_call = false;
	loop_run(o->loop);
	one_turn(o);
	assert_int_equal(o->end_count, 1);
	/* Bytes that the peer sent before it closed are delivered. */
	assert_string_equal(buf_text(&o->got), "last words");
	assert_int_equal(loop_counts(o->loop)->send_calls, 1);
}

static void test_write_failure_while_paused(void **state)
{
	struct owner *o = *state;

	stream_pause(&o->stream);
	say(o, "unread"); /* so that reading would not show that the peer left */
	close(o->peer);
	o->peer = -1;
	assert_int_equal(stream_write(&o->stream, "x", 1), 0);
	loop_run(o->loop);
	assert_int_equal(o->end_count, 1);
	assert_string_equal(o->end_text, strerror(EPIPE));
}

#define OPEN_TEST(test) \
	cmocka_unit_test_setup_teardown(test, owner_set_up, owner_tear_down)

static int run(const char *name)
{
	const struct CMUnitTest tests[] = {
	    OPEN_TEST(test_gather),
	    OPEN_TEST(test_more_while_sending),
	    OPEN_TEST(test_small_pieces_become_one),
	    OPEN_TEST(test_join),
	    OPEN_TEST(test_slow_peer),
	    OPEN_TEST(test_drained_comes_from_the_loop),
	    OPEN_TEST(test_small_rest_pins_no_block),
	    OPEN_TEST(test_large_write),
	    OPEN_TEST(test_bulk_is_sent_within_the_turn),
	    OPEN_TEST(test_write_without_memory),
	    OPEN_TEST(test_writes_and_receives_share_a_block),
	    OPEN_TEST(test_write_to_nobody),
	    OPEN_TEST(test_write_failure_while_paused),
	};

	return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void)
{
	return engines_run(run, "stream_output");
}
