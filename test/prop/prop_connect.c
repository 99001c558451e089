/* links: net base */
/*
 * Short connections like those of a cancel request: connect, write a few bytes, and
 * wait for the peer to close.  Many run at once, over TCP and over a unix socket, so
 * that connects, writes and closes of both sides come in one turn of the loop: the peer
 * accepts late and in bursts, reads or does not, answers or does not, closes or resets;
 * a connection that has ended is opened again at once in the same memory, mostly with
 * the same descriptor.  Each one is told that it is connected, and then, once, that it
 * has ended; a peer that reads to the end has got every byte.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/sock.h"
#include "net/stream.h"
#include "prop.h"

enum { ATTEMPTS = 40, TIMES = 60, NOTE = 16, TICK_US = 300, BACKLOG = 64 };

struct fixture;

struct attempt {
	struct stream stream;
	struct later again;
	struct fixture *fixture;
	unsigned times;
	bool is_connected, has_ended;
};

/* The peer's end of an attempt's connection. */
struct host {
	struct stream stream;
	struct node node;
	struct later reap;
	struct fixture *fixture;
	size_t got;
	bool is_rude; /* closes before it has read all */
};

struct fixture {
	struct loop *loop;
	struct mem mem;
	struct net net;
	struct deadline guard, tick;
	struct sock_target target;
	int listener;
	uint64_t random;
	int running;
	unsigned connected, ended, whole;
	struct list hosts; /* struct host by .node */
	struct attempt attempts[ATTEMPTS];
};

static unsigned draw(struct fixture *w, unsigned below)
{
	return (unsigned)(random_next(&w->random) >> 20) % below;
}

/* ---- the peer ---- */

static void host_reap(struct later *l)
{
	mem_free(container_of(l, struct host, reap));
}

static void host_close(struct host *h)
{
	static const struct linger reset = {.l_onoff = 1};

	if (h->is_rude && draw(h->fixture, 2))
		setsockopt(h->stream.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	if (draw(h->fixture, 3) == 0)
		stream_write(&h->stream, "some answer", 11);
	stream_close(&h->stream);
	list_remove(&h->fixture->hosts, &h->node);
	h->reap.run = host_reap;
	loop_reap(h->fixture->loop, &h->reap);
}

static void host_received(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	struct host *h = container_of(s, struct host, stream);

	(void)block;
	for (size_t i = 0; i < len; i++)
		CHECK(p[i] == 'a' + h->got + i);
	h->got += len;
	if (h->got < NOTE)
		return;
	h->fixture->whole++;
	host_close(h);
}

static void host_ended(struct stream *s, const struct err *err)
{
	(void)err;
	host_close(container_of(s, struct host, stream));
}

static const struct stream_ops host_ops = {
    .received = host_received, .ended = host_ended};

static void accept_some(struct fixture *w)
{
	struct sock_addr from;

	for (unsigned n = 1 + draw(w, ATTEMPTS); n; n--) {
		int fd = sock_accept(w->listener, &from);
		if (fd < 0)
			return;
		struct host *h = mem_zero(sizeof(*h));
		h->fixture = w;
		list_push_back(&w->hosts, &h->node);
		h->is_rude = draw(w, 4) == 0;
		stream_open(&h->stream, &w->net, fd, &host_ops);
		if (h->is_rude)
			host_close(h);
	}
}

static void tick(struct deadline *d)
{
	struct fixture *w = container_of(d, struct fixture, tick);

	if (draw(w, 4))
		accept_some(w);
	deadline_set(w->loop, d, loop_now(w->loop) + draw(w, TICK_US));
}

/* ---- the attempt ---- */

static void attempt_connected(struct stream *s)
{
	struct attempt *e = container_of(s, struct attempt, stream);
	uint8_t note[NOTE];

	CHECK(!e->is_connected && !e->has_ended);
	e->is_connected = true;
	e->fixture->connected++;
	for (size_t i = 0; i < NOTE; i++)
		note[i] = (uint8_t)('a' + i);
	if (draw(e->fixture, 8) == 0) { /* the bytes are written in two turns */
		CHECK(stream_write(s, note, 3) == 0);
		stream_flush(s);
		CHECK(stream_write(s, note + 3, NOTE - 3) == 0);
	} else {
		CHECK(stream_write(s, note, NOTE) == 0);
	}
}

static void attempt_received(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	(void)s, (void)block, (void)p, (void)len;
}

static void attempt_over(struct attempt *e)
{
	struct fixture *w = e->fixture;

	stream_close(&e->stream);
	if (--e->times > 0)
		loop_later(w->loop, &e->again);
	else if (--w->running == 0)
		loop_stop(w->loop);
}

static void attempt_ended(struct stream *s, const struct err *err)
{
	struct attempt *e = container_of(s, struct attempt, stream);

	(void)err;
	CHECK(!e->has_ended);
	e->has_ended = true;
	e->fixture->ended++;
	attempt_over(e);
}

static void attempt_drained(struct stream *s)
{
	(void)s;
}

static const struct stream_ops attempt_ops = {.connected = attempt_connected,
    .received = attempt_received,
    .ended = attempt_ended,
    .drained = attempt_drained};

static void attempt_begin(struct later *l)
{
	struct attempt *e = container_of(l, struct attempt, again);
	struct fixture *w = e->fixture;
	struct sock_options options = {.unix_mode = -1};
	struct err err;

	e->is_connected = e->has_ended = false;
	if (stream_connect(
		&e->stream, &w->net, &w->target, &options, &attempt_ops, &err) == 0)
		return;
	/* the queue of the unix socket is full */
	accept_some(w);
	loop_later(w->loop, &e->again);
}

/* ---- the run ---- */

static void guard_expired(struct deadline *d)
{
	struct fixture *w = container_of(d, struct fixture, guard);

	for (int i = 0; i < ATTEMPTS; i++) {
		const struct attempt *e = &w->attempts[i];
		if (stream_is_open(&e->stream))
			fprintf(stderr, "attempt %d: fd %d connected %d pending %zu\n",
			    i, e->stream.fd, e->is_connected,
			    stream_pending(&e->stream));
	}
	fprintf(stderr, "some attempts never ended\n");
	exit(1);
}

static void listen_at(struct fixture *w, bool is_tcp)
{
	struct sock_options options = {.unix_mode = -1, .backlog = BACKLOG};
	struct sock_addr addr;
	char name[32];
	struct err err;

	if (is_tcp) {
		CHECK(sock_resolve_listen("127.0.0.1", 0, &addr, 1, &err) == 1);
		sock_target_ip(&w->target, &addr);
	} else {
		snprintf(name, sizeof(name), "@connect-%d", (int)getpid());
		CHECK(sock_target_unix(&w->target, name, 5432, &err) == 0);
	}
	w->listener = sock_listen(&w->target, &options, &err);
	CHECK(w->listener >= 0);
	if (is_tcp) {
		CHECK(sock_local(w->listener, &addr) == 0);
		sock_target_ip(&w->target, &addr);
	}
}

static void run(uint64_t seed, bool is_tcp)
{
	struct fixture *w = mem_zero(sizeof(*w));
	struct node *n;
	struct err err;

	w->random = seed * 2 + 88172645463325253u;
	mem_init(&w->mem);
	w->loop = loop_new(&w->mem, &err);
	CHECK(w->loop);
	net_init(&w->net, w->loop, &w->mem);
	list_init(&w->hosts);
	listen_at(w, is_tcp);
	deadline_init(&w->guard, guard_expired);
	deadline_init(&w->tick, tick);
	deadline_set(w->loop, &w->guard, loop_now(w->loop) + 60000000);
	deadline_set(w->loop, &w->tick, 0);
	for (int i = 0; i < ATTEMPTS; i++) {
		struct attempt *e = &w->attempts[i];
		e->fixture = w;
		e->times = TIMES;
		e->again.run = attempt_begin;
		loop_later(w->loop, &e->again);
		w->running++;
	}
	loop_run(w->loop);
	printf("%s: %u connected, %u ended, %u read to the end\n",
	    is_tcp ? "tcp" : "unix", w->connected, w->ended, w->whole);
	CHECK(w->ended == ATTEMPTS * TIMES && w->whole > w->ended / 4);
	deadline_clear(w->loop, &w->guard);
	deadline_clear(w->loop, &w->tick);
	while ((n = list_first(&w->hosts)))
		host_close(container_of(n, struct host, node));
	close(w->listener);
	net_done(&w->net);
	loop_free(&w->loop);
	mem_free(w);
}

int main(int argc, char **argv)
{
	uint64_t seed = seed_of_run(argc, argv);

	run(seed, true);
	run(seed, false);
	return 0;
}
