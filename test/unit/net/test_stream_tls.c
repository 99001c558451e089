/*
 * Streams under TLS: two of them over a socket pair in one loop, or one and a peer that
 * is plain OpenSSL.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "certs.h"
#include "engines.h"
#include "net/stream_parts.h"
#include "pair.h"

struct fixture;

struct side {
	struct stream stream; /* must be first: ops cast the stream to its side */
	struct fixture *fixture;
	size_t got, end_count, secured_count, drained_count;
	size_t to_send, sent; /* bytes of the pattern */
	char end_text[sizeof(((struct err *)NULL)->text)];
	char heard[64]; /* the first bytes that arrived */
	bool checks_pattern, pauses, closes_when_secured, closes_when_received;
	bool starts_tls, starts_directly;
};

struct fixture {
	struct loop *loop;
	struct net net;
	struct mem mem;
	struct later stop;
	struct deadline guard;
	struct tls_context *server_context, *client_context;
	struct side client, server;
	int fds[2];
	size_t most_pending;
};

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 31 >> 5);
}

static void start_server(struct side *side, const uint8_t *p, size_t len)
{
	struct err err;

	assert_int_equal(stream_start_tls(&side->stream, side->fixture->server_context,
			     NULL, p, len, &err),
	    0);
}

static void received(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	struct side *side = (struct side *)s;

	assert_true(p >= block->bytes && p + len <= block->bytes + block->used);
	if (side->starts_tls && !s->tls) {
		if (side->starts_directly) {
			start_server(side, p, len);
		} else {
			stream_write(s, "S", 1);
			start_server(side, NULL, 0);
		}
		return;
	}
	for (size_t i = 0; i < len; i++, side->got++) {
		if (side->got < sizeof(side->heard) - 1)
			side->heard[side->got] = (char)p[i];
		if (side->checks_pattern && p[i] != pattern(side->got))
			fail_msg("wrong byte at %zu", side->got);
	}
	if (side->pauses)
		stream_pause(s);
	if (side->closes_when_received)
		stream_close(s);
}

static void send_more(struct side *side)
{
	uint8_t bytes[30000];

	while (side->sent < side->to_send && !stream_is_above_high(&side->stream)) {
		size_t left = side->to_send - side->sent;
		size_t len = left < sizeof(bytes) ? left : sizeof(bytes);
		for (size_t i = 0; i < len; i++)
			bytes[i] = pattern(side->sent + i);
		assert_int_equal(stream_write(&side->stream, bytes, len), 0);
		side->sent += len;
	}
	if (stream_pending(&side->stream) > side->fixture->most_pending)
		side->fixture->most_pending = stream_pending(&side->stream);
}

static void secured(struct stream *s)
{
	struct side *side = (struct side *)s;

	side->secured_count++;
	assert_int_equal(side->got, 0);
	assert_non_null(stream_tls(s));
	if (side->closes_when_secured)
		stream_close(s);
	else
		send_more(side);
}

static void drained(struct stream *s)
{
	struct side *side = (struct side *)s;

	side->drained_count++;
	send_more(side);
}

static void ended(struct stream *s, const struct err *err)
{
	struct side *side = (struct side *)s;

	side->end_count++;
	if (err)
		snprintf(side->end_text, sizeof(side->end_text), "%s", err->text);
	stream_close(s);
}

static const struct stream_ops ops = {
    .received = received,
    .ended = ended,
    .drained = drained,
    .secured = secured,
};

/* ---- set-up ---- */

static void stop_loop(struct later *l)
{
	loop_stop(container_of(l, struct fixture, stop)->loop);
}

static void guard_expired(struct deadline *d)
{
	(void)d;
	fail_msg("the test takes too long");
}

static void open_sides(struct fixture *w)
{
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, w->fds), 0);
	w->client.fixture = w->server.fixture = w;
	stream_open(&w->server.stream, &w->net, w->fds[1], &ops);
}

static int set_up(void **state)
{
	struct fixture *w = mem_zero(sizeof(*w));
	struct err err;

	mem_init(&w->mem);
	w->loop = loop_new(&w->mem, &err);
	net_init(&w->net, w->loop, &w->mem);
	engine_choose(&w->net);
	w->stop.run = stop_loop;
	deadline_init(&w->guard, guard_expired);
	deadline_set(w->loop, &w->guard, loop_now(w->loop) + 60000000);
	w->server_context = server_context(&(struct tls_config){});
	w->client_context = client_context(&(struct tls_config){});
	open_sides(w);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *w = *state;

	if (!w->client.stream.net && w->client.stream.fd == 0)
		close(w->fds[0]);
	stream_close(&w->client.stream);
	stream_close(&w->server.stream);
	assert_int_equal(w->net.secured->used, 0);
	assert_int_equal(w->net.queues->used, 0);
	tls_context_unref(&w->server_context);
	tls_context_unref(&w->client_context);
	deadline_clear(w->loop, &w->guard);
	later_cancel(w->loop, &w->stop);
	net_done(&w->net);
	loop_free(&w->loop);
	mem_free(w);
	return 0;
}

static void one_turn(struct fixture *w)
{
	loop_later(w->loop, &w->stop);
	loop_run(w->loop);
}

#define turn_until(w, condition)                       \
	for (int turns_ = 0; !(condition); turns_++) { \
		assert_true(turns_ < 100000);          \
		one_turn(w);                           \
	}

static void start_client(struct fixture *w)
{
	struct err err;

	stream_open(&w->client.stream, &w->net, w->fds[0], &ops);
	assert_int_equal(
	    stream_start_tls(&w->client.stream, w->client_context,
		&(struct tls_peer_config){.host = "server.test"}, NULL, 0, &err),
	    0);
}

static void start_both(struct fixture *w)
{
	start_server(&w->server, NULL, 0);
	start_client(w);
}

static void secure(struct fixture *w)
{
	start_both(w);
	turn_until(w, w->client.secured_count && w->server.secured_count);
}

static size_t blocks_in_use(struct fixture *w)
{
	size_t used, free_count, bytes;

	block_pool_usage(w->net.blocks, &used, &free_count, &bytes);
	return used;
}

/* ---- handshake ---- */

static void test_handshake_and_bytes(void **state)
{
	struct fixture *w = *state;
	char out[TLS_TEXT];

	start_both(w);
	assert_null(stream_tls(&w->client.stream));
	/* Output that is written early is sent after the handshake. */
	stream_write(&w->client.stream, "early", 5);
	assert_true(stream_pending(&w->client.stream) > 5);
	turn_until(w, w->server.got == 5);
	assert_string_equal(w->server.heard, "early");
	stream_write(&w->server.stream, "answer", 6);
	turn_until(w, w->client.got == 6);
	assert_string_equal(w->client.heard, "answer");
	assert_int_equal(w->client.secured_count, 1);
	assert_int_equal(w->server.secured_count, 1);
	tls_describe(stream_tls(&w->server.stream), out);
	assert_string_equal(out, "TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519");
	assert_int_equal(stream_pending(&w->server.stream), 0);
	/* An idle connection holds no buffers. */
	assert_true(blocks_in_use(w) <= 1);
	assert_int_equal(w->net.queues->used, 0);
	assert_null(w->server.stream.tls->held);
}

/* "S" unencrypted, then records; the request is answered from inside `received`. */
static void test_start_after_a_request(void **state)
{
	struct fixture *w = *state;
	char byte = 0;

	w->server.starts_tls = true;
	assert_int_equal(write(w->fds[0], "SSLREQ", 6), 6);
	one_turn(w);
	assert_int_equal(read(w->fds[0], &byte, 1), 1);
	assert_int_equal(byte, 'S');
	start_client(w);
	turn_until(w, w->client.secured_count && w->server.secured_count);
	assert_int_equal(w->server.got, 0);
}

static void test_start_directly(void **state)
{
	struct fixture *w = *state;

	w->server.starts_tls = w->server.starts_directly = true;
	w->client.to_send = 100000;
	w->server.checks_pattern = true;
	start_client(w);
	turn_until(w, w->server.got == 100000);
}

static void test_verification_fails(void **state)
{
	struct fixture *w = *state;
	struct err err;

	start_server(&w->server, NULL, 0);
	tls_context_unref(&w->client_context);
	w->client_context =
	    client_context(&(struct tls_config){.peer_check = TLS_PEER_REQUIRED});
	stream_open(&w->client.stream, &w->net, w->fds[0], &ops);
	assert_int_equal(
	    stream_start_tls(&w->client.stream, w->client_context,
		&(struct tls_peer_config){.host = "other.test", .checks_name = true},
		NULL, 0, &err),
	    0);
	turn_until(w, w->client.end_count && w->server.end_count);
	assert_string_equal(w->client.end_text,
	    "certificate verify failed: name \"other.test\" not present in server "
	    "certificate");
	/* The alert was sent before the socket closed. */
	assert_non_null(strstr(w->server.end_text, "alert"));
	assert_int_equal(w->client.secured_count + w->server.secured_count, 0);
}

static void test_garbage(void **state)
{
	struct fixture *w = *state;
	char bytes[100];

	start_server(&w->server, NULL, 0);
	assert_int_equal(write(w->fds[0], "no hello at all", 15), 15);
	turn_until(w, w->server.end_count);
	assert_string_equal(w->server.end_text, "wrong version number");
	assert_true(read(w->fds[0], bytes, sizeof(bytes)) >= 0);
}

static void test_closes_when_secured(void **state)
{
	struct fixture *w = *state;

	w->server.closes_when_secured = true;
	start_both(w);
	turn_until(w, w->client.end_count);
	assert_string_equal(w->client.end_text, "");
	assert_false(stream_is_open(&w->server.stream));
}

static void test_closes_when_received(void **state)
{
	struct fixture *w = *state;

	w->server.closes_when_received = true;
	w->client.to_send = 50000;
	start_both(w);
	turn_until(w, w->client.end_count);
	assert_false(stream_is_open(&w->server.stream));
	assert_true(w->server.got > 0);
}

/* ---- ends ---- */

static void test_peer_leaves_amid_the_handshake(void **state)
{
	struct fixture *w = *state;

	start_both(w);
	one_turn(w);
	stream_close(&w->client.stream);
	turn_until(w, w->server.end_count);
	assert_string_equal(w->server.end_text, "");
	assert_int_equal(w->server.secured_count, 0);
}

static void test_end_with_close_notify(void **state)
{
	struct fixture *w = *state;

	secure(w);
	stream_write(&w->client.stream, "bye", 3);
	stream_close(&w->client.stream);
	turn_until(w, w->server.end_count);
	assert_string_equal(w->server.heard, "bye");
	assert_string_equal(w->server.end_text, "");
}

static void test_end_without_close_notify(void **state)
{
	struct fixture *w = *state;

	secure(w);
	stream_write(&w->client.stream, "bye", 3);
	stream_flush(&w->client.stream);
	shutdown(w->fds[0], SHUT_RDWR);
	turn_until(w, w->server.end_count);
	assert_string_equal(w->server.heard, "bye");
	assert_string_equal(w->server.end_text, "");
}

/* The peer closes after part of a record: the stream ends without a TLS error. */
static void test_end_amid_a_record(void **state)
{
	struct fixture *w = *state;
	static const uint8_t part[] = {23, 3, 3, 0, 100, 1, 2, 3};

	secure(w);
	assert_int_equal(write(w->fds[0], part, sizeof(part)), sizeof(part));
	shutdown(w->fds[0], SHUT_RDWR);
	turn_until(w, w->server.end_count);
	assert_string_equal(w->server.end_text, "");
}

static void test_peer_leaves_while_paused(void **state)
{
	struct fixture *w = *state;

	secure(w);
	stream_pause(&w->server.stream);
	stream_close(&w->client.stream);
	turn_until(w, w->server.end_count);
	assert_string_equal(w->server.end_text, "");
}

static void test_unread_words_while_paused(void **state)
{
	struct fixture *w = *state;

	secure(w);
	stream_pause(&w->server.stream);
	stream_write(&w->client.stream, "unread", 6);
	one_turn(w);
	stream_close(&w->client.stream);
	for (int i = 0; i < 5; i++)
		one_turn(w);
	assert_int_equal(w->server.end_count, 0);
	assert_int_equal(w->server.got, 0);
	stream_resume(&w->server.stream);
	assert_int_equal(w->server.got, 0); /* no callback inside the call */
	turn_until(w, w->server.end_count);
	assert_string_equal(w->server.heard, "unread");
}

/* Two messages and the end come in one segment; the owner takes one message at a
 * time. */
static void test_end_behind_what_is_delivered(void **state)
{
	struct fixture *w = *state;

	secure(w);
	w->server.pauses = true;
	stream_write(&w->client.stream, "last", 4);
	stream_close(&w->client.stream);
	turn_until(w, w->server.end_count);
	assert_string_equal(w->server.heard, "last");
}

/* ---- large transfers ---- */

enum { MUCH = 10 * 1024 * 1024 };

static void test_much_both_ways(void **state)
{
	struct fixture *w = *state;

	w->client.to_send = w->server.to_send = MUCH;
	w->client.checks_pattern = w->server.checks_pattern = true;
	start_both(w);
	turn_until(w, w->client.got == MUCH && w->server.got == MUCH);
	assert_true(w->most_pending < STREAM_HIGH + 64 * 1024);
	turn_until(w, !w->client.stream.pending && !w->server.stream.pending);
	assert_true(blocks_in_use(w) <= 1);
}

static void test_much_with_pauses(void **state)
{
	struct fixture *w = *state;

	w->client.to_send = MUCH;
	w->server.checks_pattern = w->server.pauses = true;
	start_both(w);
	for (int turns = 0; w->server.got < MUCH; turns++) {
		size_t got = w->server.got;
		one_turn(w);
		one_turn(w);
		assert_true(w->server.got - got <= BLOCK_SIZE);
		assert_true(blocks_in_use(w) < 16);
		stream_resume(&w->server.stream);
	}
	assert_true(w->most_pending < STREAM_HIGH + 64 * 1024);
}

static void test_nobody_listens(void **state)
{
	struct fixture *w = *state;

	secure(w);
	stream_pause(&w->server.stream);
	w->client.to_send = MUCH;
	send_more(&w->client);
	for (int i = 0; i < 50; i++)
		one_turn(w);
	/* The sender was stopped after a small part. */
	assert_true(w->client.sent < MUCH / 10);
	assert_int_equal(w->server.got, 0);
	assert_true(w->server.stream.tls->held->cap <= BLOCK_SIZE);
	w->server.checks_pattern = true;
	stream_resume(&w->server.stream);
	turn_until(w, w->server.got == MUCH);
}

static void test_one_send_for_many_records(void **state)
{
	struct fixture *w = *state;
	static const uint8_t zeros[100000];

	secure(w);
	one_turn(w);
	uint64_t calls = loop_counts(w->loop)->send_calls;
	for (int i = 0; i < 100; i++)
		stream_write(&w->server.stream, "small", 5);
	stream_put(&w->server.stream, NULL, zeros, sizeof(zeros));
	one_turn(w);
	assert_int_equal(loop_counts(w->loop)->send_calls - calls, 1);
	turn_until(w, w->client.got == 100500);
	/* The small writes shared a record. */
	assert_int_equal(stream_pending(&w->server.stream), 0);
}

static void test_rounds(void **state)
{
	struct fixture *w = *state;
	int size = 4 << 20;

	/* With io_uring the kernel continues with the next receive by itself. */
	uint64_t most = engine_is_ring(&w->net) ? 72 : 2;
	w->net.rounds = 2;
	setsockopt(w->fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	secure(w);
	w->client.to_send = MUCH;
	w->server.checks_pattern = true;
	send_more(&w->client);
	while (w->server.got < MUCH) {
		uint64_t calls = loop_counts(w->loop)->recv_calls;
		one_turn(w);
		assert_true(loop_counts(w->loop)->recv_calls - calls <= most);
	}
}

enum { CROWD = 40, STEPS_PER_TURN = 8 };

struct crowd {
	SSL_CTX *context;
	SSL *peers[CROWD];
	struct side sides[CROWD];
	int fds[CROWD];
};

/* The first bytes of a handshake have arrived on each connection. */
static void crowd_open(struct crowd *crowd, struct fixture *w, bool directly)
{
	crowd->context = SSL_CTX_new(TLS_client_method());
	for (int i = 0; i < CROWD; i++) {
		int fds[2];
		assert_int_equal(
		    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
		crowd->fds[i] = fds[0];
		crowd->peers[i] = SSL_new(crowd->context);
		SSL_set_fd(crowd->peers[i], fds[0]);
		SSL_set_connect_state(crowd->peers[i]);
		SSL_do_handshake(crowd->peers[i]);
		crowd->sides[i] = (struct side){
		    .fixture = w, .starts_tls = directly, .starts_directly = directly};
		stream_open(&crowd->sides[i].stream, &w->net, fds[1], &ops);
		if (!directly)
			start_server(&crowd->sides[i], NULL, 0);
	}
}

static void crowd_close(struct crowd *crowd)
{
	for (int i = 0; i < CROWD; i++) {
		stream_close(&crowd->sides[i].stream);
		SSL_free(crowd->peers[i]);
		close(crowd->fds[i]);
	}
	SSL_CTX_free(crowd->context);
}

static int crowd_answered(const struct crowd *crowd)
{
	int count = 0;
	char byte;

	for (int i = 0; i < CROWD; i++)
		count += recv(crowd->fds[i], &byte, 1, MSG_PEEK) == 1;
	return count;
}

/* Clients that are logged in need not wait until all handshakes are done. */
static void check_crowd(struct fixture *w, bool directly)
{
	struct crowd *crowd = mem_zero(sizeof(*crowd));

	crowd_open(crowd, w, directly);
	for (int answered = 0, before = 0, turns = 0; answered < CROWD; turns++) {
		assert_true(turns < CROWD);
		one_turn(w);
		answered = crowd_answered(crowd);
		assert_true(answered <= before + STEPS_PER_TURN);
		before = answered;
	}
	for (int i = 0; i < CROWD; i++)
		turn_until(w, SSL_do_handshake(crowd->peers[i]) == 1 &&
				  crowd->sides[i].secured_count == 1);
	crowd_close(crowd);
	mem_free(crowd);
}

static void test_many_handshakes_take_many_turns(void **state)
{
	check_crowd(*state, false);
}

static void test_many_direct_handshakes_take_many_turns(void **state)
{
	check_crowd(*state, true);
}

/* ---- a peer that is plain OpenSSL ---- */

static SSL *raw_client(struct fixture *w, SSL_CTX **ctx)
{
	*ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(*ctx);
	SSL_set_fd(ssl, w->fds[0]);
	SSL_set_connect_state(ssl);
	start_server(&w->server, NULL, 0);
	while (SSL_do_handshake(ssl) != 1)
		one_turn(w);
	turn_until(w, w->server.secured_count);
	return ssl;
}

static void test_key_update(void **state)
{
	struct fixture *w = *state;
	SSL_CTX *ctx;
	SSL *ssl = raw_client(w, &ctx);
	char room[16];

	for (int i = 0; i < 3; i++) {
		SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
		assert_int_equal(SSL_write(ssl, "ask", 3), 3);
		stream_write(&w->server.stream, "answer", 6);
		one_turn(w);
		one_turn(w);
		assert_int_equal(SSL_read(ssl, room, sizeof(room)), 6);
	}
	assert_int_equal(w->server.got, 9);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

/* TLS answers a record by itself while others of the same receive are decrypted. */
static void test_key_update_between_data(void **state)
{
	struct fixture *w = *state;
	SSL_CTX *ctx;
	SSL *ssl = raw_client(w, &ctx);

	assert_int_equal(SSL_write(ssl, "one ", 4), 4);
	for (int i = 0; i < 2; i++) {
		SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
		assert_int_equal(SSL_write(ssl, "two ", 4), 4);
	}
	turn_until(w, w->server.got == 12);
	assert_string_equal(w->server.heard, "one two two ");
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

/* What came in good records is delivered as it was, before the failure is reported. */
static void test_garbage_behind_data(void **state)
{
	struct fixture *w = *state;
	SSL_CTX *ctx;
	SSL *ssl = raw_client(w, &ctx);

	assert_int_equal(SSL_write(ssl, "words", 5), 5);
	assert_int_equal(write(w->fds[0], "clear and no record", 19), 19);
	turn_until(w, w->server.end_count);
	assert_string_equal(w->server.heard, "words");
	assert_string_equal(w->server.end_text, "wrong version number");
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

/* Answers that TLS itself makes do not pile up for a peer that does not read. */
static void test_key_update_flood(void **state)
{
	struct fixture *w = *state;
	SSL_CTX *ctx;
	SSL *ssl = raw_client(w, &ctx);

	w->server.to_send = MUCH;
	send_more(&w->server);
	turn_until(w, w->server.stream.blocked);
	for (int i = 0; i < 200000 && !w->server.end_count; i++) {
		SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
		SSL_do_handshake(ssl);
		if (i % 100 == 99) {
			assert_true(
			    stream_pending(&w->server.stream) < 2 * STREAM_HIGH);
			one_turn(w);
		}
	}
	assert_int_equal(w->server.end_count, 1);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

static void test_failing_context(void **state)
{
	struct fixture *w = *state;
	char host[400];
	struct err err;

	memset(host, 'h', sizeof(host) - 1);
	host[sizeof(host) - 1] = '\0';
	stream_open(&w->client.stream, &w->net, w->fds[0], &ops);
	assert_int_equal(stream_start_tls(&w->client.stream, w->client_context,
			     &(struct tls_peer_config){.host = host}, NULL, 0, &err),
	    -1);
	/* The connection continues without TLS. */
	stream_write(&w->client.stream, "clear", 5);
	turn_until(w, w->server.got == 5);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static int run(const char *name)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_handshake_and_bytes),
	    TEST(test_start_after_a_request),
	    TEST(test_start_directly),
	    TEST(test_verification_fails),
	    TEST(test_garbage),
	    TEST(test_closes_when_secured),
	    TEST(test_closes_when_received),
	    TEST(test_peer_leaves_amid_the_handshake),
	    TEST(test_end_with_close_notify),
	    TEST(test_end_without_close_notify),
	    TEST(test_end_amid_a_record),
	    TEST(test_peer_leaves_while_paused),
	    TEST(test_unread_words_while_paused),
	    TEST(test_end_behind_what_is_delivered),
	    TEST(test_much_both_ways),
	    TEST(test_much_with_pauses),
	    TEST(test_nobody_listens),
	    TEST(test_one_send_for_many_records),
	    TEST(test_rounds),
	    TEST(test_many_handshakes_take_many_turns),
	    TEST(test_many_direct_handshakes_take_many_turns),
	    TEST(test_key_update),
	    TEST(test_key_update_between_data),
	    TEST(test_garbage_behind_data),
	    TEST(test_key_update_flood),
	    TEST(test_failing_context),
	};

	return cmocka_run_group_tests_name(name, tests, make_usual_certs, drop_certs);
}

int main(void)
{
	return engines_run(run, "stream_tls");
}
