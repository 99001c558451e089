/*
 * Streams over socket pairs and loopback: delivery, pausing, connecting, all kinds of
 * ends, and the system calls of a turn.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "engines.h"
#include "owner.h"

static void test_echo(void **state)
{
	struct owner *o = *state;
	struct loop_counts *counts = loop_counts(o->loop);

	o->echoes = true;
	one_turn(o);
	uint64_t ctl_calls = counts->ctl_calls;
	for (int i = 0; i < 100; i++) {
		say(o, "hello");
		one_turn(o);
		expect_heard(o, "hello");
	}
	assert_int_equal(o->receive_count, 100);
	assert_int_equal(o->got.len, 500);
	/* Each message costs one receive, one send and nothing else. */
	assert_int_equal(counts->recv_calls, 100);
	assert_int_equal(counts->send_calls, 100);
	assert_int_equal(counts->ctl_calls, ctl_calls);
	/* All messages used the same bytes of the same block. */
	if (!engine_is_ring(&o->net)) {
		assert_int_equal(blocks_in_use(o), 1);
		assert_int_equal(o->net.current->used, 5);
	}
	assert_null(o->stream.out);
	assert_int_equal(o->net.queues->used, 0);
}

/* Bytes that are there at the start need no extra turn, and the end needs no epoll
 * call. */
static void test_open_hearing(void **state)
{
	struct owner *o = *state;
	uint64_t *ctl_calls = &loop_counts(o->loop)->ctl_calls;

	for (int i = 0; i < 3; i++) {
		int fds[2];
		stream_close(&o->stream);
		one_turn(o);
		close(o->peer);
		assert_int_equal(
		    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
		o->peer = fds[1];
		buf_clear(&o->got);
		/* something, nothing, and the end */
		if (i == 0)
			say(o, "there");
		if (i == 2)
			shutdown(o->peer, SHUT_WR);
		stream_open_recv_now(&o->stream, &o->net, fds[0], &owner_ops);
		assert_string_equal(buf_text(&o->got), i == 0 ? "there" : "");
		assert_int_equal(o->end_count, i == 2);
		if (i == 2)
			break;
		say(o, "more");
		one_turn(o);
		assert_string_equal(buf_text(&o->got), i == 0 ? "theremore" : "more");
	}
	uint64_t before = *ctl_calls;
	stream_close(&o->stream);
	assert_int_equal(*ctl_calls, before);
}

static void test_short_receive_ends_the_round(void **state)
{
	struct owner *o = *state;
	char large[200000];
	int size = 1 << 20;

	setsockopt(o->peer, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	memset(large, 'l', sizeof(large));
	size_t sent = 0;
	while (sent < sizeof(large)) {
		ssize_t n = write(o->peer, large + sent, sizeof(large) - sent);
		if (n > 0)
			sent += (size_t)n;
		else
			one_turn(o);
	}
	o->stop_at = sizeof(large);
	if (o->got.len < sizeof(large))
		loop_run(o->loop);
	assert_int_equal(o->got.len, sizeof(large));
	/* No receive call returned without bytes. */
	assert_int_equal(loop_counts(o->loop)->recv_calls, (uint64_t)o->receive_count);
}

/* io_uring receives bulk by system calls, but only once it knows that it is bulk. */
static void begin_bulk(struct owner *o)
{
	const size_t len = 20000;

	say_much(o, len);
	while (o->got.len < len)
		one_turn(o);
	one_turn(o);
	buf_clear(&o->got);
}

static void test_bulk_is_received_at_once(void **state)
{
	struct owner *o = *state;
	const size_t len = 3 * BLOCK_SIZE + 1000;

	begin_bulk(o);
	say_much(o, len);
	one_turn(o);
	assert_int_equal(o->got.len, len);
}

static void test_rounds_are_bounded(void **state)
{
	struct owner *o = *state;
	const size_t len = 150000;

	begin_bulk(o);
	say_much(o, len);
	o->net.rounds = 1;
	one_turn(o);
	assert_int_equal(o->got.len, BLOCK_SIZE);
	one_turn(o);
	assert_int_equal(o->got.len, 2 * BLOCK_SIZE);
	o->net.rounds = 0;
	one_turn(o);
	assert_int_equal(o->got.len, len);
}

static void test_kept_blocks_are_not_reused(void **state)
{
	struct owner *o = *state;

	o->keeps = true;
	say(o, "first");
	one_turn(o);
	say(o, "second");
	one_turn(o);
	assert_non_null(o->kept);
	assert_memory_equal(o->kept->bytes, "first", 5);
	if (engine_is_ring(&o->net))
		return;
	assert_memory_equal(o->kept->bytes, "firstsecond", 11);
	/* The room in a block is used up before another block is taken. */
	assert_int_equal(blocks_in_use(o), 1);
	o->kept->used = BLOCK_SIZE - BLOCK_MIN_ROOM + 1;
	say(o, "third");
	one_turn(o);
	assert_int_equal(blocks_in_use(o), 2);
	assert_memory_equal(o->net.current->bytes, "third", 5);
}

static void test_pause(void **state)
{
	struct owner *o = *state;
	struct loop_counts *counts = loop_counts(o->loop);
	uint64_t ctl_calls = counts->ctl_calls;

	/* Pausing a stream without input makes no system calls. */
	stream_pause(&o->stream);
	one_turn(o);
	stream_resume(&o->stream);
	assert_int_equal(counts->ctl_calls, ctl_calls);
	stream_pause(&o->stream);
	say(o, "later");
	one_turn(o);
	one_turn(o);
	assert_int_equal(o->receive_count, 0);
	/* checks whether the peer has closed */
	assert_int_equal(counts->recv_calls, 1);
	if (!engine_is_ring(&o->net))
		assert_int_equal(counts->ctl_calls, ctl_calls + 1);
	assert_true(o->stream.reader_off);
	o->in_call = true;
	stream_resume(&o->stream);
	o->in_call = false;
	one_turn(o);
	assert_string_equal(buf_text(&o->got), "later");
	if (!engine_is_ring(&o->net))
		assert_int_equal(counts->ctl_calls, ctl_calls + 2);
}

static void test_peer_leaves_while_paused(void **state)
{
	struct owner *o = *state;

	stream_pause(&o->stream);
	shutdown(o->peer, SHUT_WR);
	one_turn(o);
	assert_int_equal(o->end_count, 1);
	assert_string_equal(o->end_text, "");
}

/* The connection outlives the stream where somebody else has the socket, and the engine
 * takes nothing from it any more. */
static void test_socket_handed_on(void **state)
{
	struct owner *o = *state;
	char got[8];
	int taken = dup(o->stream.fd);

	stream_quiesce(&o->stream);
	for (int i = 0; !stream_is_silent(&o->stream); i++) {
		assert_true(i < 100);
		one_turn(o);
	}
	stream_close(&o->stream);
	say(o, "later");
	one_turn(o);
	one_turn(o);
	assert_int_equal(o->receive_count + o->end_count, 0);
	assert_int_equal(recv(taken, got, sizeof(got), 0), 5);
	assert_memory_equal(got, "later", 5);
	assert_int_equal(send(taken, "on", 2, 0), 2);
	expect_heard(o, "on");
	close(taken);
}

static void test_pause_inside_received(void **state)
{
	struct owner *o = *state;
	const size_t len = 150000;

	say_much(o, len);
	o->pauses = true;
	for (int i = 1; o->got.len < len; i++) {
		assert_true(i <= 100);
		one_turn(o);
		one_turn(o);
		assert_int_equal(o->receive_count, i);
		stream_resume(&o->stream);
	}
	assert_int_equal(o->got.len, len);
}

static void test_close_inside_received(void **state)
{
	struct owner *o = *state;
	const size_t len = 150000;

	say_much(o, len);
	o->closes = o->echoes = true;
	one_turn(o);
	assert_int_equal(o->receive_count, 1);
	assert_int_equal(o->end_count, 0);
	assert_false(stream_is_open(&o->stream));
	/* The stream tried to send once more before it closed. */
	struct buf b;
	buf_init(&b, 0);
	assert_int_equal(hear(o, &b), o->got.len);
	assert_true(o->got.len > 0);
	buf_done(&b);
}

static void test_peer_closes(void **state)
{
	struct owner *o = *state;

	say(o, "bye");
	close(o->peer);
	o->peer = -1;
	loop_run(o->loop);
	one_turn(o);
	one_turn(o);
	assert_string_equal(buf_text(&o->got), "bye");
	assert_int_equal(o->end_count, 1);
	assert_string_equal(o->end_text, "");
	/* the loop does not spin although the owner has not closed the stream yet */
	assert_true(stream_is_open(&o->stream));
}

static void test_half_close_is_the_end(void **state)
{
	struct owner *o = *state;

	o->closes_at_end = true;
	stream_put(&o->stream, NULL, (const uint8_t *)"answer", 6);
	shutdown(o->peer, SHUT_WR);
	loop_run(o->loop);
	assert_int_equal(o->end_count, 1);
	expect_heard(o, "answer");
}

static const struct sock_options options = {.unix_mode = -1, .backlog = 5};

static int listen_on_loopback(struct sock_target *t)
{
	struct sock_addr addr;
	struct err err;

	assert_int_equal(sock_addr_parse("127.0.0.1", 0, &addr), 0);
	sock_target_ip(t, &addr);
	int fd = sock_listen(t, &options, &err);
	assert_true(fd >= 0);
	assert_int_equal(sock_local(fd, &t->addr), 0);
	return fd;
}

static void test_connect(void **state)
{
	struct owner *o = *state;
	struct sock_target target;
	struct sock_addr peer;
	struct err err;
	int listener = listen_on_loopback(&target);

	o->in_call = true;
	assert_int_equal(
	    stream_connect(&o->stream, &o->net, &target, &options, &owner_ops, &err),
	    0);
	/* Output may be written before the connection is established. */
	assert_int_equal(stream_write(&o->stream, "hi", 2), 0);
	stream_flush(&o->stream);
	o->in_call = false;
	loop_run(o->loop);
	assert_int_equal(o->connect_count, 1);
	o->peer = sock_accept(listener, &peer);
	assert_true(o->peer >= 0);
	struct pollfd wait = {.fd = o->peer, .events = POLLIN};
	assert_int_equal(poll(&wait, 1, 5000), 1);
	expect_heard(o, "hi");
	o->stop_at = 3;
	say(o, "yes");
	loop_run(o->loop);
	assert_string_equal(buf_text(&o->got), "yes");
	close(listener);
}

static void test_connect_refused(void **state)
{
	struct owner *o = *state;
	struct sock_target target;
	struct err err;

	close(listen_on_loopback(&target));
	o->in_call = true;
	int result =
	    stream_connect(&o->stream, &o->net, &target, &options, &owner_ops, &err);
	o->in_call = false;
	assert_int_equal(result, 0);
	assert_int_equal(stream_write(&o->stream, "hi", 2), 0);
	loop_run(o->loop);
	assert_int_equal(o->end_count, 1);
	assert_string_equal(o->end_text, strerror(ECONNREFUSED));
	assert_int_equal(o->connect_count, 0);
}

static void test_connect_fails_at_once(void **state)
{
	struct owner *o = *state;
	struct sock_target target;
	struct err err;

	assert_int_equal(sock_target_unix(&target, "/nonexistent", 1, &err), 0);
	assert_int_equal(
	    stream_connect(&o->stream, &o->net, &target, &options, &owner_ops, &err),
	    -1);
	assert_string_equal(err.text, "connect(): No such file or directory");
	assert_false(stream_is_open(&o->stream));
}

static void test_connect_unix(void **state)
{
	struct owner *o = *state;
	struct sock_target target;
	struct err err;
	char name[64];

	snprintf(name, sizeof(name), "@net-test-%d", (int)getpid());
	assert_int_equal(sock_target_unix(&target, name, 6432, &err), 0);
	int listener = sock_listen(&target, &options, &err);
	assert_true(listener >= 0);
	o->in_call = true;
	assert_int_equal(
	    stream_connect(&o->stream, &o->net, &target, &options, &owner_ops, &err),
	    0);
	o->in_call = false;
	loop_run(o->loop);
	assert_int_equal(o->connect_count, 1);
	close(listener);
}

#define OPEN_TEST(test) \
	cmocka_unit_test_setup_teardown(test, owner_set_up, owner_tear_down)
#define CLOSED_TEST(test) \
	cmocka_unit_test_setup_teardown(test, owner_set_up_closed, owner_tear_down)

static int run(const char *name)
{
	const struct CMUnitTest tests[] = {
	    OPEN_TEST(test_echo),
	    OPEN_TEST(test_open_hearing),
	    OPEN_TEST(test_short_receive_ends_the_round),
	    OPEN_TEST(test_bulk_is_received_at_once),
	    OPEN_TEST(test_rounds_are_bounded),
	    OPEN_TEST(test_kept_blocks_are_not_reused),
	    OPEN_TEST(test_pause),
	    OPEN_TEST(test_peer_leaves_while_paused),
	    OPEN_TEST(test_socket_handed_on),
	    OPEN_TEST(test_pause_inside_received),
	    OPEN_TEST(test_close_inside_received),
	    OPEN_TEST(test_peer_closes),
	    OPEN_TEST(test_half_close_is_the_end),
	    CLOSED_TEST(test_connect),
	    CLOSED_TEST(test_connect_refused),
	    CLOSED_TEST(test_connect_fails_at_once),
	    CLOSED_TEST(test_connect_unix),
	};

	return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void)
{
	return engines_run(run, "stream");
}
