/*
 * Streams that go from one loop to another: between all pairs of engines, in clear and
 * with TLS, with bytes on their way in both directions, and between threads.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "certs.h"
#include "net/mailbox.h"
#include "net/stream_parts.h"
#include "pair.h"

enum { STEPS = 300, SEEDS = 6, TURNS_MOST = 20000, MUCH = 3000000 };

/* A loop and its engine; there are two that a stream goes between, and the peer's. */
struct place {
	struct mem mem;
	struct loop *loop;
	struct net net;
	struct later stop;
	struct mailbox *mailbox; /* this and what follows: only between threads */
	struct thread_message last;
	pthread_t thread;
	sem_t is_open;
	bool is_ring, has_stream;
};

struct party {
	struct stream stream; /* must be first: ops cast the stream to its end */
	size_t sent, got, end_count, drained_count, secured_count, connected_count;
	uint8_t sends, hears; /* numbers of the patterns */
	bool echoes;
	char end_text[sizeof(((struct err *)NULL)->text)];
	size_t moves_until, move_count;
	struct later move;
	struct thread_message message;
	struct place *at, *other;
};

struct fixture {
	struct place
	    places[3]; /* the last one is the peer's, unless there are threads */
	struct party moving, peer;
	struct tls_context *server_context, *client_context;
	unsigned random;
};

static struct fixture *fixture;

static uint8_t pattern(size_t i, uint8_t which)
{
	return (uint8_t)((i * 31 >> 5) + which);
}

static void send_bytes(struct party *end, size_t len)
{
	uint8_t *bytes = mem_alloc(len);

	for (size_t i = 0; i < len; i++)
		bytes[i] = pattern(end->sent + i, end->sends);
	assert_int_equal(stream_write(&end->stream, bytes, len), 0);
	end->sent += len;
	mem_free(bytes);
}

static void received(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	struct party *end = (struct party *)s;

	assert_false(s->paused);
	for (size_t i = 0; i < len; i++, end->got++)
		if (p[i] != pattern(end->got, end->hears))
			fail_msg("wrong byte at %zu", end->got);
	if (end->echoes)
		stream_put(s, block, p, len);
	if (end->got < end->moves_until)
		loop_later(end->at->loop, &end->move);
}

static void connected(struct stream *s)
{
	((struct party *)s)->connected_count++;
}

static void secured(struct stream *s)
{
	((struct party *)s)->secured_count++;
}

static void drained(struct stream *s)
{
	((struct party *)s)->drained_count++;
}

static void ended(struct stream *s, const struct err *err)
{
	struct party *end = (struct party *)s;

	end->end_count++;
	snprintf(
	    end->end_text, sizeof(end->end_text), "%s", err ? err->text : "closed");
}

static const struct stream_ops ops = {
    .received = received,
    .connected = connected,
    .secured = secured,
    .drained = drained,
    .ended = ended,
};

/* ---- places ---- */

static void stop_loop(struct later *l)
{
	loop_stop(container_of(l, struct place, stop)->loop);
}

static void place_open(struct place *place, bool is_ring)
{
	struct err err;

	mem_init(&place->mem);
	place->loop = loop_new(&place->mem, &err);
	assert_non_null(place->loop);
	net_init(&place->net, place->loop, &place->mem);
	if (is_ring && net_start_ring(&place->net, NULL, NULL, &err) < 0)
		fail_msg("%s", err.text);
	place->stop.run = stop_loop;
}

static void place_close(struct place *place)
{
	net_done(&place->net);
	loop_free(&place->loop);
}

static void turn(struct place *place)
{
	loop_later(place->loop, &place->stop);
	loop_run(place->loop);
}

static void turn_all(struct fixture *w)
{
	for (int i = 0; i < 3; i++)
		turn(&w->places[i]);
}

static bool is_ring_here(void)
{
	struct place place;
	struct err err;

	place_open(&place, false);
	bool is_here = net_start_ring(&place.net, NULL, NULL, &err) == 0;
	place_close(&place);
	if (!is_here)
		print_message("io_uring is not tested here: %s\n", err.text);
	return is_here;
}

static void open_pair(struct fixture *w)
{
	struct net *of_peer = w->places[2].loop ? &w->places[2].net : &w->places[0].net;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	w->moving = (struct party){.sends = 1, .hears = 2, .at = &w->places[0]};
	w->peer = (struct party){.sends = 2, .hears = 1, .at = &w->places[2]};
	w->moving.other = &w->places[1];
	stream_open(&w->moving.stream, &w->places[0].net, fds[0], &ops);
	stream_open(&w->peer.stream, of_peer, fds[1], &ops);
}

static void start_tls(struct fixture *w)
{
	const struct tls_peer_config peer = {.host = "server.test"};
	struct err err;

	assert_int_equal(
	    stream_start_tls(&w->moving.stream, w->server_context, NULL, NULL, 0, &err),
	    0);
	assert_int_equal(
	    stream_start_tls(&w->peer.stream, w->client_context, &peer, NULL, 0, &err),
	    0);
}

static void swap_places(struct party *end)
{
	struct place *at = end->at;

	end->at = end->other;
	end->other = at;
}

static void move(struct fixture *w)
{
	struct stream *s = &w->moving.stream;

	assert_int_equal(stream_detach(s), 0);
	assert_false(stream_is_open(s));
	/* nothing of the old place is left behind */
	assert_int_equal(w->moving.at->net.queues->used, 0);
	assert_int_equal(w->moving.at->net.secured->used, 0);
	swap_places(&w->moving);
	stream_attach(s, &w->moving.at->net);
	assert_true(stream_is_open(s));
}

static void close_pair(struct fixture *w)
{
	stream_close(&w->moving.stream);
	stream_close(&w->peer.stream);
}

/* Runs a test between all engines, in clear and with TLS. */
static void each_way(void (*test)(struct fixture *w, bool has_tls))
{
	bool has_ring = is_ring_here();

	for (int way = 0; way < 8; way++) {
		struct fixture w = {.random = 1};
		if (way & 3 && !has_ring)
			continue;
		place_open(&w.places[0], way & 1);
		place_open(&w.places[1], way & 2);
		place_open(&w.places[2], false);
		w.server_context = server_context(&(struct tls_config){});
		w.client_context = client_context(&(struct tls_config){});
		fixture = &w;
		test(&w, way & 4);
		for (int i = 0; i < 3; i++)
			place_close(&w.places[i]);
		tls_context_unref(&w.server_context);
		tls_context_unref(&w.client_context);
	}
}

static void run_until_heard(struct fixture *w)
{
	for (int i = 0; w->peer.got < w->moving.sent || w->moving.got < w->peer.sent;
	     i++) {
		assert_true(i < TURNS_MOST);
		turn_all(w);
	}
}

static void run_until_secured(struct fixture *w)
{
	for (int i = 0; w->peer.secured_count + w->moving.secured_count < 2; i++) {
		assert_true(i < TURNS_MOST);
		turn_all(w);
	}
}

/* ---- bytes on their way ---- */

static void both_directions(struct fixture *w, bool has_tls)
{
	open_pair(w);
	if (has_tls) {
		start_tls(w);
		run_until_secured(w);
	}
	/* more than the socket takes, so that output is blocked */
	stream_pause(&w->peer.stream);
	stream_pause(&w->moving.stream);
	send_bytes(&w->moving, MUCH);
	send_bytes(&w->peer, 50000);
	for (int i = 0; i < 5; i++)
		turn_all(w);
	assert_true(stream_pending(&w->moving.stream) > STREAM_HIGH);
	size_t pending = stream_pending(&w->moving.stream);
	move(w);
	assert_int_equal(stream_pending(&w->moving.stream), pending);
	for (int i = 0; i < 5; i++)
		turn_all(w);
	assert_int_equal(w->moving.got, 0);
	send_bytes(&w->moving, 1000);
	stream_resume(&w->moving.stream);
	stream_resume(&w->peer.stream);
	run_until_heard(w);
	for (int i = 0; i < 5; i++)
		turn_all(w);
	assert_int_equal(w->moving.drained_count, 1);
	assert_int_equal(stream_pending(&w->moving.stream), 0);
	close_pair(w);
}

static void test_both_directions(void **state)
{
	(void)state;
	each_way(both_directions);
}

/* ---- an end, a failure, connecting, handshakes ---- */

static void ends(struct fixture *w, bool has_tls)
{
	for (int i = 0; i < 4; i++) {
		bool is_paused = i & 1, is_seen = i & 2;
		open_pair(w);
		if (has_tls) {
			start_tls(w);
			run_until_secured(w);
		}
		if (is_paused)
			stream_pause(&w->moving.stream);
		send_bytes(&w->peer, 100);
		turn(&w->places[2]);
		stream_close(&w->peer.stream);
		if (is_seen && is_paused)
			turn(w->moving.at);
		move(w);
		for (int j = 0; j < 5; j++)
			turn_all(w);
		assert_int_equal(w->moving.got, is_paused ? 0 : 100);
		assert_int_equal(w->moving.end_count, is_paused ? 0 : 1);
		stream_resume(&w->moving.stream);
		for (int j = 0; j < 5; j++)
			turn_all(w);
		assert_int_equal(w->moving.got, 100);
		assert_int_equal(w->moving.end_count, 1);
		assert_string_equal(w->moving.end_text, "closed");
		stream_close(&w->moving.stream);
	}
}

static void test_ends(void **state)
{
	(void)state;
	each_way(ends);
}

/* A paused stream without unread bytes hears of the end in the new place. */
static void ends_paused(struct fixture *w, bool has_tls)
{
	open_pair(w);
	if (has_tls) {
		start_tls(w);
		run_until_secured(w);
	}
	stream_pause(&w->moving.stream);
	move(w);
	turn_all(w);
	stream_close(&w->peer.stream);
	for (int i = 0; i < 5; i++)
		turn_all(w);
	assert_int_equal(w->moving.end_count, 1);
	stream_close(&w->moving.stream);
}

static void test_ends_paused(void **state)
{
	(void)state;
	each_way(ends_paused);
}

static void failure_due(struct fixture *w, bool has_tls)
{
	open_pair(w);
	if (has_tls) {
		start_tls(w);
		run_until_secured(w);
	}
	stream_fail(&w->moving.stream, ETIMEDOUT);
	move(w);
	for (int i = 0; i < 5; i++)
		turn_all(w);
	assert_int_equal(w->moving.end_count, 1);
	assert_string_equal(w->moving.end_text, strerror(ETIMEDOUT));
	close_pair(w);
}

static void test_failure_due(void **state)
{
	(void)state;
	each_way(failure_due);
}

static void handshake_in_steps(struct fixture *w, bool has_tls)
{
	if (!has_tls)
		return;
	open_pair(w);
	start_tls(w);
	/* output waits for the handshake */
	send_bytes(&w->moving, 40000);
	send_bytes(&w->peer, 40000);
	for (int i = 0; w->peer.secured_count + w->moving.secured_count < 2; i++) {
		assert_true(i < 100);
		turn_all(w);
		move(w);
	}
	run_until_heard(w);
	close_pair(w);
}

static void test_handshake_in_steps(void **state)
{
	(void)state;
	each_way(handshake_in_steps);
}

static void connecting(struct fixture *w, bool has_tls)
{
	const struct sock_options options = {.backlog = 1};
	struct sock_target target;
	struct sock_addr address;
	struct err err;

	if (has_tls)
		return;
	assert_int_equal(sock_addr_parse("127.0.0.1", 0, &address), 0);
	sock_target_ip(&target, &address);
	int listener = sock_listen(&target, &options, &err);
	assert_true(listener >= 0);
	assert_int_equal(sock_local(listener, &target.addr), 0);
	w->moving = (struct party){.sends = 1, .at = &w->places[0]};
	w->moving.other = &w->places[1];
	w->peer = (struct party){.hears = 1, .at = &w->places[2]};
	assert_int_equal(stream_connect(&w->moving.stream, &w->places[0].net, &target,
			     &options, &ops, &err),
	    0);
	send_bytes(&w->moving, 5000);
	move(w);
	assert_int_equal(w->moving.connected_count, 0);
	for (int i = 0; !w->moving.connected_count; i++) {
		assert_true(i < TURNS_MOST);
		turn(w->moving.at);
	}
	int fd = sock_accept(listener, &address);
	stream_open(&w->peer.stream, &w->places[2].net, fd, &ops);
	move(w);
	run_until_heard(w);
	assert_int_equal(w->moving.connected_count, 1);
	close(listener);
	close_pair(w);
}

static void test_connecting(void **state)
{
	(void)state;
	each_way(connecting);
}

static void closed_between(struct fixture *w, bool has_tls)
{
	open_pair(w);
	if (has_tls) {
		start_tls(w);
		run_until_secured(w);
	}
	stream_pause(&w->peer.stream);
	stream_pause(&w->moving.stream);
	send_bytes(&w->moving, MUCH);
	send_bytes(&w->peer, 50000);
	for (int i = 0; i < 5; i++)
		turn_all(w);
	assert_int_equal(stream_detach(&w->moving.stream), 0);
	stream_close(&w->moving.stream);
	stream_resume(&w->peer.stream);
	for (int i = 0; !w->peer.end_count; i++) {
		assert_true(i < TURNS_MOST);
		turn_all(w);
	}
	stream_close(&w->peer.stream);
}

static void test_closed_between(void **state)
{
	(void)state;
	each_way(closed_between);
}

/* ---- any order ---- */

static unsigned any(struct fixture *w, unsigned most)
{
	w->random = w->random * 1664525 + 1013904223;
	return (w->random >> 8) % most;
}

static void one_step(struct fixture *w)
{
	switch (any(w, 10)) {
	case 0:
	case 1:
		send_bytes(&w->moving, 1 + any(w, 100000));
		break;
	case 2:
	case 3:
		send_bytes(&w->peer, 1 + any(w, 100000));
		break;
	case 4:
		stream_pause(&w->moving.stream);
		break;
	case 5:
		stream_resume(&w->moving.stream);
		break;
	case 6:
		stream_flush(any(w, 2) ? &w->moving.stream : &w->peer.stream);
		break;
	case 7:
		if (any(w, 2))
			stream_pause(&w->peer.stream);
		else
			stream_resume(&w->peer.stream);
		break;
	case 8:
		turn(&w->places[any(w, 3)]);
		break;
	default:
		move(w);
	}
}

static void any_order(struct fixture *w, bool has_tls)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		w->random = seed;
		open_pair(w);
		if (has_tls)
			start_tls(w);
		for (int i = 0; i < STEPS; i++)
			one_step(w);
		stream_resume(&w->moving.stream);
		stream_resume(&w->peer.stream);
		run_until_heard(w);
		assert_int_equal(w->moving.end_count + w->peer.end_count, 0);
		close_pair(w);
	}
}

static void test_any_order(void **state)
{
	(void)state;
	each_way(any_order);
}

/* ---- between threads ---- */

enum { CARRIED = 1000000 };

static void attach_here(struct thread_message *message)
{
	struct party *end = container_of(message, struct party, message);

	end->at->has_stream = true;
	stream_attach(&end->stream, &end->at->net);
}

static void move_away(struct later *l)
{
	struct party *end = container_of(l, struct party, move);

	assert_int_equal(stream_detach(&end->stream), 0);
	end->at->has_stream = false;
	end->move_count++;
	swap_places(end);
	mailbox_post(end->at->mailbox, &end->message);
}

/* The last message of the second thread. */
static void stop_place(struct thread_message *message)
{
	struct place *place = container_of(message, struct place, last);

	if (place->has_stream)
		stream_close(&fixture->moving.stream);
	loop_stop(place->loop);
}

static void place_open_mailbox(struct place *place, bool is_ring)
{
	struct err err;

	place_open(place, is_ring);
	place->mailbox = mailbox_new(place->loop, &err);
	place->last.handle = stop_place;
}

static void place_close_mailbox(struct place *place)
{
	mailbox_free(&place->mailbox);
	place_close(place);
}

/* A ring belongs to the thread that made it. */
static void *second_thread(void *arg)
{
	struct place *place = arg;

	place_open_mailbox(place, place->is_ring);
	sem_post(&place->is_open);
	loop_run(place->loop);
	place_close_mailbox(place);
	return NULL;
}

/* The stream goes to the other thread whenever it has received something, and echoes
 * what it receives; its peer stays in the first thread. */
static void between_threads(struct fixture *w, bool has_tls)
{
	struct place *here = &w->places[0], *there = &w->places[1];

	sem_init(&there->is_open, 0, 0);
	assert_int_equal(pthread_create(&there->thread, NULL, second_thread, there), 0);
	sem_wait(&there->is_open);
	here->has_stream = true;
	open_pair(w);
	w->moving.hears = w->peer.hears = w->peer.sends;
	w->moving.echoes = true;
	w->moving.moves_until = CARRIED;
	w->moving.move.run = move_away;
	w->moving.message.handle = attach_here;
	if (has_tls)
		start_tls(w);
	while (w->peer.got < CARRIED) {
		if (w->peer.sent < CARRIED && !stream_is_above_high(&w->peer.stream))
			send_bytes(&w->peer, 10000);
		turn(here);
	}
	mailbox_post(there->mailbox, &there->last);
	pthread_join(there->thread, NULL);
	sem_destroy(&there->is_open);
	/* the stream may be on its way here */
	mailbox_free(&here->mailbox);
	assert_int_equal(w->moving.end_count + w->peer.end_count, 0);
	assert_true(w->moving.move_count > 3);
	close_pair(w);
}

static void test_between_threads(void **state)
{
	bool has_ring = is_ring_here();

	(void)state;
	for (int way = 0; way < 8; way++) {
		struct fixture w = {.random = 1};
		if (way & 3 && !has_ring)
			continue;
		fixture = &w;
		w.places[1].is_ring = way & 2;
		place_open_mailbox(&w.places[0], way & 1);
		w.server_context = server_context(&(struct tls_config){});
		w.client_context = client_context(&(struct tls_config){});
		between_threads(&w, way & 4);
		place_close(&w.places[0]);
		tls_context_unref(&w.server_context);
		tls_context_unref(&w.client_context);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_both_directions),
	    cmocka_unit_test(test_ends),
	    cmocka_unit_test(test_ends_paused),
	    cmocka_unit_test(test_failure_due),
	    cmocka_unit_test(test_handshake_in_steps),
	    cmocka_unit_test(test_connecting),
	    cmocka_unit_test(test_closed_between),
	    cmocka_unit_test(test_any_order),
	    cmocka_unit_test(test_between_threads),
	};

	return cmocka_run_group_tests_name(
	    "stream_detach", tests, make_usual_certs, drop_certs);
}
