/*
 * The ring itself: partial sends, sockets closed with requests pending, descriptor
 * numbers that are used again, exhausted buffers, and a ring that breaks under its
 * streams.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "config.h"
#include "engines.h"
#include "net/ring.h"
#include "net/sock.h"
#include "owner.h"

#ifdef HAVE_URING

enum { MANY = 300, TURNS_MOST = 2000, PORTION = 60000 };

struct end {
	struct ring_port *port;
	int fd, peer;
	struct buf got;
	ssize_t result;
	size_t asked;
	int sent_count, readable_count, writable_count, end_count, errnum;
	bool keeps, leaves;
	void (*on_sent)(void *ctx); /* NULL: nothing */
	void *on_sent_ctx;
	struct block *kept[MANY];
	int kept_count;
};

static void received(void *owner, struct block *block, size_t len)
{
	struct end *e = owner;

	buf_put(&e->got, block->bytes, len);
	if (e->keeps && e->kept_count < MANY)
		e->kept[e->kept_count++] = block_ref(block);
	if (e->leaves) {
		ring_port_leave(e->port);
		e->port = NULL;
	}
}

static size_t readable(void *owner)
{
	struct end *e = owner;
	uint8_t *room = buf_room(&e->got, PORTION);
	ssize_t n = read(e->fd, room, PORTION);

	e->readable_count++;
	if (n > 0)
		buf_grow(&e->got, (size_t)n);
	return n > 0 ? (size_t)n : 0;
}

static void ended(void *owner, int errnum)
{
	struct end *e = owner;

	e->end_count++;
	e->errnum = errnum;
}

static void sent(void *owner, ssize_t result, size_t asked)
{
	struct end *e = owner;

	e->sent_count++;
	e->result = result;
	e->asked = asked;
	if (e->on_sent)
		e->on_sent(e->on_sent_ctx);
}

static void writable(void *owner)
{
	((struct end *)owner)->writable_count++;
}

static void lost(void *owner)
{
	((struct end *)owner)->port = NULL;
}

static const struct ring_ops ops = {received, readable, ended, sent, writable, lost};

struct fixture {
	struct mem mem;
	struct ring *ring;
	struct end end;
};

static void end_open(struct fixture *w, struct end *e)
{
	int fds[2];

	memset(e, 0, sizeof(*e));
	buf_init(&e->got, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	e->fd = fds[0];
	e->peer = fds[1];
	e->port = ring_port_new(w->ring, e->fd, e);
	ring_receive(e->port);
}

static void end_close(struct end *e)
{
	if (e->port)
		ring_port_leave(e->port);
	close(e->peer);
	buf_done(&e->got);
	while (e->kept_count)
		block_unref(e->kept[--e->kept_count]);
}

static int set_up(void **state)
{
	struct fixture *w = mem_zero(sizeof(*w));
	struct err err;

	mem_init(&w->mem);
	w->ring = ring_new(&w->mem, &ops, &err);
	if (!w->ring) {
		print_message("io_uring is not tested here: %s\n", err.text);
		mem_free(w);
		*state = NULL;
		return 0;
	}
	end_open(w, &w->end);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *w = *state;

	if (!w)
		return 0;
	end_close(&w->end);
	ring_free(&w->ring);
	assert_int_equal(w->mem.slabs.count, 0);
	mem_free(w);
	return 0;
}

static void turn(struct fixture *w, int64_t wait_us)
{
	assert_int_equal(ring_wait(w->ring, wait_us), 0);
	ring_deliver(w->ring);
}

static void peer_says(struct end *e, const char *text)
{
	assert_int_equal(write(e->peer, text, strlen(text)), strlen(text));
}

#	define NEED_RING(w)                \
		struct fixture *w = *state; \
		if (!w)                     \
		skip()

static void test_send_is_told_once(void **state)
{
	NEED_RING(w);
	struct end *e = &w->end;
	struct iovec pieces[2] = {{(void *)"one ", 4}, {(void *)"two", 3}};
	char heard[16] = "";

	ring_send(e->port, pieces, 2, false);
	assert_true(ring_is_sending(e->port));
	assert_int_equal(e->sent_count, 0);
	turn(w, 0);
	assert_int_equal(e->sent_count, 1);
	assert_int_equal(e->result, 7);
	assert_int_equal(read(e->peer, heard, sizeof(heard)), 7);
	assert_string_equal(heard, "one two");
	/* A send with a short limit does not wait for others. */
	ring_send(e->port, pieces, 1, true);
	turn(w, RING_FOREVER);
	assert_int_equal(e->sent_count, 2);
	assert_int_equal(e->result, 4);
}

static void test_settle_needs_no_turn(void **state)
{
	NEED_RING(w);
	struct end *e = &w->end;
	struct iovec piece = {(void *)"now", 3};
	char heard[4];

	ring_send(e->port, &piece, 1, false);
	ring_settle(e->port);
	assert_int_equal(e->sent_count, 1);
	assert_false(ring_is_sending(e->port));
	assert_int_equal(read(e->peer, heard, 3), 3);
}

static void test_full_socket(void **state)
{
	NEED_RING(w);
	struct end *e = &w->end;
	size_t len = 4 << 20;
	uint8_t *much = mem_zero(len);
	struct iovec piece = {much, len};

	ring_send(e->port, &piece, 1, false);
	turn(w, RING_FOREVER); /* reported without being asked for */
	assert_true(e->result > 0 && (size_t)e->result < len);
	assert_int_equal(e->asked, len);
	ring_send(e->port, &piece, 1, false);
	turn(w, RING_FOREVER);
	assert_int_equal(e->result, -EAGAIN);
	ring_wait_writable(e->port);
	turn(w, 0);
	assert_int_equal(e->writable_count, 0);
	while (read(e->peer, much, len) > 0)
		;
	turn(w, RING_FOREVER);
	assert_int_equal(e->writable_count, 1);
	mem_free(much);
}

static void test_send_to_nobody(void **state)
{
	NEED_RING(w);
	struct end *e = &w->end;
	struct iovec piece = {(void *)"x", 1};

	turn(w, 0);
	shutdown(e->peer, SHUT_RD);
	ring_send(e->port, &piece, 1, false);
	turn(w, RING_FOREVER);
	assert_int_equal(e->result, -EPIPE);
}

static void test_half_close_and_end(void **state)
{
	NEED_RING(w);
	struct end *e = &w->end;

	peer_says(e, "bye");
	shutdown(e->peer, SHUT_WR);
	for (int i = 0; i < TURNS_MOST && !e->end_count; i++)
		turn(w, RING_FOREVER);
	assert_string_equal(buf_text(&e->got), "bye");
	assert_int_equal(e->errnum, 0);
	turn(w, 0);
	assert_int_equal(e->end_count, 1);
}

/* The kernel gives the number out again while the old request is being cancelled. */
static void test_descriptor_is_used_again(void **state)
{
	NEED_RING(w);
	struct end next[8];
	int reused = 0;

	for (int i = 0; i < 8; i++) {
		int old = w->end.fd;
		turn(w, 0);
		ring_wait_writable(w->end.port);
		peer_says(&w->end, "for the old one");
		end_close(&w->end);
		turn(w, 0);
		end_open(w, &w->end);
		reused += w->end.fd == old || w->end.peer == old;
		end_open(w, &next[i]);
		peer_says(&w->end, "new");
		turn(w, 0);
		assert_string_equal(buf_text(&w->end.got), "new");
		assert_int_equal(w->end.writable_count, 0);
		assert_int_equal(next[i].got.len, 0);
	}
	assert_true(reused > 0);
	for (int i = 0; i < 8; i++)
		end_close(&next[i]);
}

static void test_leaving_while_told(void **state)
{
	NEED_RING(w);
	char rest[8];

	w->end.leaves = true;
	peer_says(&w->end, "first");
	turn(w, RING_FOREVER);
	turn(w, 0);
	assert_null(w->end.port);
	assert_string_equal(buf_text(&w->end.got), "first");
	/* The descriptor has been closed. */
	turn(w, 0);
	assert_int_equal(read(w->end.peer, rest, sizeof(rest)), 0);
}

static void test_stop_and_go(void **state)
{
	NEED_RING(w);
	struct end *e = &w->end;

	turn(w, 0);
	ring_stop_receiving(e->port);
	turn(w, 0);
	peer_says(e, "later");
	turn(w, 0);
	turn(w, 0);
	assert_int_equal(e->got.len, 0);
	ring_receive(e->port);
	turn(w, RING_FOREVER);
	assert_string_equal(buf_text(&e->got), "later");
	/* Stopping and starting in one turn changes nothing. */
	ring_stop_receiving(e->port);
	ring_receive(e->port);
	peer_says(e, " on");
	for (int i = 0; i < TURNS_MOST && e->got.len < 8; i++)
		turn(w, 1000);
	assert_string_equal(buf_text(&e->got), "later on");
}

/* More sockets have input than there are buffers, and no byte is lost. */
static void test_buffers_are_used_up(void **state)
{
	NEED_RING(w);
	struct end *ends = mem_zero(MANY * sizeof(*ends));
	size_t got = 0;

	for (int i = 0; i < MANY; i++) {
		end_open(w, &ends[i]);
		ends[i].keeps = true;
	}
	turn(w, 0);
	for (int i = 0; i < MANY; i++)
		peer_says(&ends[i], "something");
	for (int turns = 0; turns < TURNS_MOST && got < MANY * 9; turns++) {
		turn(w, 1000);
		got = 0;
		for (int i = 0; i < MANY; i++)
			got += ends[i].got.len;
	}
	assert_int_equal(got, MANY * 9);
	for (int i = 0; i < MANY; i++) {
		assert_string_equal(buf_text(&ends[i].got), "something");
		assert_memory_equal(ends[i].kept[0]->bytes, "something", 9);
		end_close(&ends[i]);
	}
	mem_free(ends);
}

static void pour(struct fixture *w, struct end *e, size_t len)
{
	uint8_t *bytes = mem_alloc(len);
	size_t before = e->got.len, written = 0;

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(i % 251);
	for (int i = 0; i < TURNS_MOST && e->got.len < before + len; i++) {
		size_t most = len - written < PORTION ? len - written : PORTION;
		ssize_t n = write(e->peer, bytes + written, most);
		written += n > 0 ? (size_t)n : 0;
		turn(w, 1000);
	}
	assert_int_equal(e->got.len, before + len);
	assert_memory_equal(e->got.bytes + before, bytes, len);
	mem_free(bytes);
}

static void test_much_is_left_to_the_owner(void **state)
{
	NEED_RING(w);
	struct end *e = &w->end;

	setsockopt(e->peer, SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int));
	pour(w, e, 100);
	assert_int_equal(e->readable_count, 0);
	pour(w, e, 5000000);
	assert_true(e->readable_count > 0);
	for (int i = 0; i < 20; i++)
		pour(w, e, 100);
	e->readable_count = 0;
	pour(w, e, 100);
	assert_int_equal(e->readable_count, 0);
	pour(w, e, 5000000);
}

/* The owner stops while the socket is being watched, and goes on. */
static void test_stop_while_watched(void **state)
{
	NEED_RING(w);
	struct end *e = &w->end;

	setsockopt(e->peer, SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int));
	pour(w, e, 5000000);
	assert_true(e->readable_count > 0);
	ring_stop_receiving(e->port);
	for (int i = 0; i < TURNS_MOST && ring_is_receiving(e->port); i++)
		turn(w, 0);
	e->readable_count = 0;
	peer_says(e, "later");
	turn(w, 0);
	turn(w, 0);
	assert_int_equal(e->readable_count, 0);
	assert_int_equal(e->got.len, 5000000);
	ring_receive(e->port);
	turn(w, RING_FOREVER);
	assert_int_equal(e->got.len, 5000005);
}

static void test_wait_ends_in_time(void **state)
{
	NEED_RING(w);

	turn(w, 1000);
	turn(w, 0);
	assert_int_equal(w->end.end_count, 0);
}

/* ---- listening sockets ---- */

/* A listening socket, and the clients that connect to it. */
struct listener {
	struct ring_listener *listener;
	struct sock_target target;
	int fd, open_count;
	bool closes; /* closes the listener at the first client */
	int guests[8], guest_count;
};

static void listener_ready(void *owner)
{
	struct listener *d = owner;
	struct sock_addr peer;
	int fd = sock_accept(d->fd, &peer);

	assert_true(fd >= 0);
	close(fd);
	d->open_count++;
	if (d->closes)
		ring_listener_free(&d->listener);
}

static void listener_make(struct listener *d)
{
	const struct sock_options options = {.backlog = 16, .unix_mode = -1};
	struct sockaddr_in own;
	socklen_t len = sizeof(own);
	struct sock_addr addr;
	struct err err;

	memset(d, 0, sizeof(*d));
	assert_int_equal(sock_addr_parse("127.0.0.1", 0, &addr), 0);
	sock_target_ip(&d->target, &addr);
	d->fd = sock_listen(&d->target, &options, &err);
	assert_true(d->fd >= 0);
	assert_int_equal(getsockname(d->fd, (struct sockaddr *)&own, &len), 0);
	d->target.addr.port = ntohs(own.sin_port);
}

static void listener_connect(struct listener *d)
{
	struct sock_options options = {.unix_mode = -1};
	struct err err;

	assert_true(sock_connect(
			&d->target, &options, &d->guests[d->guest_count++], &err) >= 0);
}

static void listener_done(struct listener *d)
{
	ring_listener_free(&d->listener);
	close(d->fd);
	while (d->guest_count)
		close(d->guests[--d->guest_count]);
}

/* A waiting client is reported once in each turn, until none is left. */
static void test_listener(void **state)
{
	NEED_RING(w);
	struct listener d;

	listener_make(&d);
	for (int i = 0; i < 3; i++)
		listener_connect(&d);
	d.listener = ring_listener_new(w->ring, d.fd, listener_ready, &d);
	for (int i = 1; i <= 3; i++) {
		turn(w, RING_FOREVER);
		assert_int_equal(d.open_count, i);
	}
	turn(w, 0);
	turn(w, 0);
	assert_int_equal(d.open_count, 3);
	listener_connect(&d);
	turn(w, RING_FOREVER);
	assert_int_equal(d.open_count, 4);
	listener_done(&d);
}

/* After a stop no client is reported, and once the socket is closed nothing listens on
 * its address, not even the kernel. */
static void test_listener_is_freed(void **state)
{
	NEED_RING(w);
	struct sock_options options = {.unix_mode = -1};
	struct err err;
	struct listener d;
	int fd, result;

	listener_make(&d);
	d.listener = ring_listener_new(w->ring, d.fd, listener_ready, &d);
	turn(w, 0);
	listener_connect(&d);
	ring_listener_free(&d.listener);
	assert_null(d.listener);
	turn(w, 0);
	assert_int_equal(d.open_count, 0);
	listener_ready(&d);
	d.listener = ring_listener_new(w->ring, d.fd, listener_ready, &d);
	turn(w, 0);
	ring_listener_free(&d.listener);
	close(d.fd);
	result = sock_connect(&d.target, &options, &fd, &err);
	if (result > 0) {
		struct pollfd ready = {.fd = fd, .events = POLLOUT};
		assert_int_equal(poll(&ready, 1, 30000), 1);
		result = sock_error(fd) ? -1 : 0;
		close(fd);
	}
	assert_int_equal(result, -1);
	d.fd = -1;
	listener_done(&d);
}

static void test_listener_is_freed_while_told(void **state)
{
	NEED_RING(w);
	struct listener d;

	listener_make(&d);
	d.closes = true;
	listener_connect(&d);
	listener_connect(&d);
	d.listener = ring_listener_new(w->ring, d.fd, listener_ready, &d);
	turn(w, RING_FOREVER);
	turn(w, 0);
	turn(w, 0);
	assert_int_equal(d.open_count, 1);
	listener_done(&d);
}

/* ---- a full queue of requests ---- */

enum { REQUESTS_MOST = 1024 };

/* Sends more than the socket takes, and then queues so many other requests that the
 * kernel gets the first ones. */
struct crowd {
	struct fixture *fixture;
	struct iovec much;
	struct listener listener;
	struct ring_listener *others[REQUESTS_MOST + 1];
};

static void send_in_a_crowd(void *ctx)
{
	struct crowd *c = ctx;

	c->fixture->end.on_sent = NULL;
	ring_send(c->fixture->end.port, &c->much, 1, false);
	for (int i = 0; i <= REQUESTS_MOST; i++)
		c->others[i] = ring_listener_new(
		    c->fixture->ring, c->listener.fd, listener_ready, &c->listener);
}

static void test_send_before_a_full_queue(void **state)
{
	NEED_RING(w);
	struct iovec little = {(void *)"x", 1};
	struct crowd c = {.fixture = w};

	c.much.iov_len = 4 << 20;
	c.much.iov_base = mem_zero(c.much.iov_len);
	listener_make(&c.listener);
	w->end.on_sent = send_in_a_crowd;
	w->end.on_sent_ctx = &c;
	ring_send(w->end.port, &little, 1, false);
	for (int i = 0; i < TURNS_MOST && w->end.sent_count < 2; i++)
		turn(w, 0);
	assert_int_equal(w->end.asked, c.much.iov_len);
	assert_true(w->end.result > 0 && (size_t)w->end.result < w->end.asked);
	for (int i = 0; i <= REQUESTS_MOST; i++)
		ring_listener_free(&c.others[i]);
	listener_done(&c.listener);
	mem_free(c.much.iov_base);
}

/* ---- a ring that breaks ---- */

/* From now on this process may not use rings. */
static void forbid_rings(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

#	define CHECK(condition)                                                    \
		do {                                                                \
			if (!(condition)) {                                         \
				fprintf(                                            \
				    stderr, "line %d: %s\n", __LINE__, #condition); \
				_exit(1);                                           \
			}                                                           \
		} while (0)

static void note_loss(void *ctx, int errnum)
{
	*(int *)ctx = errnum;
}

struct moving_listener {
	struct listener listener;
	struct watch *watch;
	struct moving_listener *rival; /* its watch is freed at the first client */
};

static void moving_ready(void *ctx, int fd)
{
	struct moving_listener *h = ctx;

	CHECK(fd == h->listener.fd);
	listener_ready(&h->listener);
	if (h->rival)
		watch_free(&h->rival->watch);
}

/* The listener is made before the ring is, moves to it, and moves back. */
static void moving_open(struct moving_listener *h, struct loop *loop)
{
	listener_make(&h->listener);
	h->rival = NULL;
	h->watch = watch_new_listener(loop, h->listener.fd, moving_ready, h);
}

static void moving_close(struct moving_listener *h)
{
	watch_free(&h->watch);
	listener_done(&h->listener);
}

/* More bytes than the socket takes are on their way in both directions. */
static void break_under_a_stream(void)
{
	void *state;
	int errnum = 0;
	struct err err;
	struct buf heard;

	owner_set_up_closed(&state);
	struct owner *o = state;
	int fds[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	o->peer = fds[1];
	struct moving_listener moving;
	moving_open(&moving, o->loop);
	CHECK(net_start_ring(&o->net, note_loss, &errnum, &err) == 0);
	listener_connect(&moving.listener);
	one_turn(o);
	CHECK(moving.listener.open_count == 1);
	stream_open(&o->stream, &o->net, fds[0], &owner_ops);
	say(o, "before ");
	one_turn(o);
	CHECK(strcmp(buf_text(&o->got), "before ") == 0);
	size_t len = 3000000;
	char *much = mem_alloc(len);
	memset(much, 'm', len);
	CHECK(stream_write(&o->stream, much, len) == 0);
	one_turn(o);
	CHECK(stream_pending(&o->stream) > 0);
	say(o, "meanwhile ");
	forbid_rings();
	one_turn(o);
	one_turn(o);
	CHECK(errnum == EPERM);
	CHECK(strcmp(net_engine_name(&o->net), "epoll") == 0);
	CHECK(strcmp(buf_text(&o->got), "before meanwhile ") == 0);
	buf_init(&heard, 0);
	for (int i = 0; i < TURNS_MOST && heard.len < len; i++) {
		hear(o, &heard);
		one_turn(o);
	}
	hear(o, &heard);
	CHECK(heard.len == len && memcmp(heard.bytes, much, len) == 0);
	o->echoes = true;
	say(o, "after");
	one_turn(o);
	buf_clear(&heard);
	hear(o, &heard);
	CHECK(strcmp(buf_text(&heard), "after") == 0);
	listener_connect(&moving.listener);
	one_turn(o);
	CHECK(moving.listener.open_count == 2);
	moving_close(&moving);
	buf_done(&heard);
	mem_free(much);
	owner_tear_down(&state);
}

/* Clients wait at two listeners when the ring breaks, and the first one that is told
 * frees the other. */
static void break_under_listeners(void)
{
	struct moving_listener first, second, third;
	void *state;
	struct err err;

	owner_set_up_closed(&state);
	struct owner *o = state;
	CHECK(net_start_ring(&o->net, NULL, NULL, &err) == 0);
	moving_open(&first, o->loop);
	moving_open(&second, o->loop);
	moving_open(&third, o->loop);
	first.rival = &second;
	one_turn(o);
	listener_connect(&first.listener);
	listener_connect(&second.listener);
	/* this asks the ring what has happened */
	moving_close(&third);
	forbid_rings();
	one_turn(o);
	one_turn(o);
	CHECK(strcmp(net_engine_name(&o->net), "epoll") == 0);
	CHECK(first.listener.open_count == 1);
	CHECK(second.listener.open_count == 0 && !second.watch);
	moving_close(&first);
	moving_close(&second);
	owner_tear_down(&state);
}

/* What was received waits at its owner, who goes on without the ring. */
static void test_bytes_outlive_a_broken_ring(void **state)
{
	NEED_RING(w);

	w->end.keeps = true;
	peer_says(&w->end, "first ");
	turn(w, RING_FOREVER);
	peer_says(&w->end, "last");
	turn(w, RING_FOREVER);
	assert_int_equal(w->end.kept_count, 2);
	ring_abandon(w->ring);
	ring_free(&w->ring);
	assert_null(w->end.port);
	close(w->end.fd);
	assert_memory_equal(w->end.kept[0]->bytes, "first ", 6);
	assert_memory_equal(w->end.kept[1]->bytes, "last", 4);
}

static void check_in_a_child(void (*check)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		check();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_streams_go_on_when_it_breaks(void **state)
{
	NEED_RING(w);

	(void)w;
	check_in_a_child(break_under_a_stream);
}

static void test_listeners_go_on_when_it_breaks(void **state)
{
	NEED_RING(w);

	(void)w;
	check_in_a_child(break_under_listeners);
}

/* Where rings are forbidden from the start, the reason is given and epoll is used. */
static void make_where_forbidden(void)
{
	struct mem mem;
	struct err err;

	mem_init(&mem);
	forbid_rings();
	struct ring *ring = ring_new(&mem, &ops, &err);
	CHECK(!ring);
	CHECK(strstr(err.text, strerror(EPERM)));
	CHECK(mem.slabs.count == 0);
}

static void test_forbidden_from_the_start(void **state)
{
	NEED_RING(w);

	(void)w;
	check_in_a_child(make_where_forbidden);
}

/* The queues of other rings may have used up most of the memory that a user may lock.
 */
static void make_with_little_memory(void)
{
	const struct rlimit limit = {100 * 1024, 100 * 1024};
	struct mem mem;
	struct err err;
	struct fixture w = {.ring = NULL};

	/* root has no limit */
	CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	mem_init(&mem);
	w.ring = ring_new(&mem, &ops, &err);
	CHECK(w.ring);
	end_open(&w, &w.end);
	peer_says(&w.end, "enough");
	turn(&w, RING_FOREVER);
	CHECK(strcmp(buf_text(&w.end.got), "enough") == 0);
	end_close(&w.end);
	ring_free(&w.ring);
}

static void test_little_memory_may_be_locked(void **state)
{
	NEED_RING(w);

	(void)w;
	if (geteuid() != 0)
		skip();
	check_in_a_child(make_with_little_memory);
}

#	define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_listener),
	    TEST(test_listener_is_freed),
	    TEST(test_listener_is_freed_while_told),
	    TEST(test_send_is_told_once),
	    TEST(test_settle_needs_no_turn),
	    TEST(test_full_socket),
	    TEST(test_send_to_nobody),
	    TEST(test_half_close_and_end),
	    TEST(test_descriptor_is_used_again),
	    TEST(test_leaving_while_told),
	    TEST(test_stop_and_go),
	    TEST(test_buffers_are_used_up),
	    TEST(test_much_is_left_to_the_owner),
	    TEST(test_stop_while_watched),
	    TEST(test_wait_ends_in_time),
	    TEST(test_send_before_a_full_queue),
	    TEST(test_bytes_outlive_a_broken_ring),
	    TEST(test_streams_go_on_when_it_breaks),
	    TEST(test_listeners_go_on_when_it_breaks),
	    TEST(test_forbidden_from_the_start),
	    TEST(test_little_memory_may_be_locked),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}

#else

int main(void)
{
	print_message("io_uring is not built in, so it is not tested\n");
	return 0;
}

#endif
