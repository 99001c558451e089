/* links: net base */
/*
 * Many lines source -> relay -> sink over socket pairs, with random sizes, pauses,
 * small socket buffers and sudden closes.  The bytes that arrive are those sent, in
 * order; all of them when the source closed after its output was gone.  The relay never
 * holds more than the high mark and one delivery.  Once with each engine.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "net/stream.h"
#include "prop.h"

enum { LINES = 24, TICK_US = 700, TOTAL_MOST = 1500000, PATTERN = 65536 + 251 };

struct fixture;

struct line {
	struct stream source, in, out, sink;
	struct deadline tick;
	struct fixture *fixture;
	size_t total, sent, arrived;
	bool is_sudden; /* the source closes while it has pending output */
	bool is_relay_ending, is_over;
};

struct fixture {
	struct loop *loop;
	struct mem mem;
	struct net net;
	struct deadline guard;
	uint64_t random;
	int running;
	uint8_t pattern[PATTERN]; /* byte at position p is pattern[p % 251], repeated */
	struct line lines[LINES];
};

static unsigned draw(struct fixture *w, unsigned below)
{
	return (unsigned)(random_next(&w->random) >> 20) % below;
}

/* ---- the sink ---- */

static void sink_received(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	struct line *l = container_of(s, struct line, sink);

	(void)block;
	CHECK(!s->paused);
	CHECK(memcmp(p, l->fixture->pattern + l->arrived % 251, len) == 0);
	l->arrived += len;
	CHECK(l->arrived <= l->sent);
	if (draw(l->fixture, 8) == 0)
		stream_pause(s);
}

static void sink_ended(struct stream *s, const struct err *err)
{
	struct line *l = container_of(s, struct line, sink);
	struct fixture *w = l->fixture;

	CHECK(!err);
	CHECK(!l->is_over);
	CHECK(l->is_sudden || l->arrived == l->total);
	l->is_over = true;
	stream_close(s);
	stream_close(&l->source);
	deadline_clear(w->loop, &l->tick);
	if (--w->running == 0)
		loop_stop(w->loop);
}

static const struct stream_ops sink_ops = {
    .received = sink_received, .ended = sink_ended};

/* ---- the relay ---- */

static void in_received(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	struct line *l = container_of(s, struct line, in);
	size_t cut = draw(l->fixture, (unsigned)len + 1);

	CHECK(!s->paused);
	stream_put(&l->out, block, p, cut);
	if (draw(l->fixture, 4) == 0)
		CHECK(stream_write(&l->out, p + cut, len - cut) == 0);
	else
		stream_put(&l->out, block, p + cut, len - cut);
	if (stream_is_above_high(&l->out))
		stream_flush(&l->out);
	if (stream_is_above_high(&l->out))
		stream_pause(s);
	CHECK(stream_pending(&l->out) <= STREAM_HIGH + BLOCK_SIZE);
}

static void in_ended(struct stream *s, const struct err *err)
{
	struct line *l = container_of(s, struct line, in);

	CHECK(!err);
	l->is_relay_ending = true;
	stream_close(s);
}

static void out_drained(struct stream *s)
{
	struct line *l = container_of(s, struct line, out);

	if (stream_is_open(&l->in))
		stream_resume(&l->in);
}

static void not_expected(struct stream *s, const struct err *err)
{
	(void)s;
	fprintf(stderr, "ended: %s\n", err ? err->text : "by the peer");
	exit(1);
}

static void nothing_comes(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	(void)s, (void)block, (void)p, (void)len;
	CHECK(!"bytes in the wrong direction");
}

static const struct stream_ops in_ops = {.received = in_received, .ended = in_ended};
static const struct stream_ops out_ops = {
    .received = nothing_comes, .ended = not_expected, .drained = out_drained};
static const struct stream_ops source_ops = {
    .received = nothing_comes, .ended = not_expected};

/* ---- the source, and the clock ---- */

static void put_block(struct line *l, const uint8_t *from, size_t len)
{
	struct block *b = block_get(l->fixture->net.blocks);

	memcpy(b->bytes, from, len);
	b->used = (uint32_t)len;
	stream_put(&l->source, b, b->bytes, len);
	block_unref(b);
}

static void send_some(struct line *l)
{
	struct fixture *w = l->fixture;
	const uint8_t *from = w->pattern + l->sent % 251;
	size_t len = 1 + draw(w, draw(w, 3) ? 300 : BLOCK_SIZE);

	if (len > l->total - l->sent)
		len = l->total - l->sent;
	switch (draw(w, 3)) {
	case 0:
		stream_put(&l->source, NULL, from, len);
		break;
	case 1:
		put_block(l, from, len);
		break;
	default:
		CHECK(stream_write(&l->source, from, len) == 0);
	}
	l->sent += len;
}

static void tick_source(struct line *l)
{
	struct fixture *w = l->fixture;

	for (unsigned n = draw(w, 60); n && l->sent < l->total; n--)
		send_some(l);
	if (draw(w, 8) == 0)
		stream_flush(&l->source);
	if (l->is_sudden ? draw(w, 30) == 0
			 : l->sent == l->total && !stream_pending(&l->source))
		stream_close(&l->source);
}

static void tick(struct deadline *d)
{
	struct line *l = container_of(d, struct line, tick);
	struct fixture *w = l->fixture;

	if (stream_is_open(&l->source))
		tick_source(l);
	if (draw(w, 2))
		stream_resume(&l->sink);
	else if (draw(w, 4) == 0)
		stream_pause(&l->sink);
	if (l->is_relay_ending && !stream_pending(&l->out))
		stream_close(&l->out);
	deadline_set(w->loop, d, loop_now(w->loop) + draw(w, TICK_US));
}

static void make_pair(struct fixture *w, struct stream *a,
    const struct stream_ops *a_ops, struct stream *b, const struct stream_ops *b_ops)
{
	int fds[2], size = 4096 << draw(w, 8);

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	stream_open(a, &w->net, fds[0], a_ops);
	stream_open(b, &w->net, fds[1], b_ops);
}

static void guard_expired(struct deadline *d)
{
	(void)d;
	fprintf(stderr, "some lines never ended\n");
	exit(1);
}

static void start_lines(struct fixture *w)
{
	for (int i = 0; i < LINES; i++) {
		struct line *l = &w->lines[i];
		l->fixture = w;
		l->total = 1 + draw(w, TOTAL_MOST);
		l->is_sudden = draw(w, 4) == 0;
		make_pair(w, &l->source, &source_ops, &l->in, &in_ops);
		make_pair(w, &l->out, &out_ops, &l->sink, &sink_ops);
		deadline_init(&l->tick, tick);
		deadline_set(w->loop, &l->tick, 0);
		w->running++;
	}
}

static void run_fixture(uint64_t seed, bool is_on_ring)
{
	struct fixture *w = mem_zero(sizeof(*w));
	struct err err;

	w->random = seed * 2 + 88172645463325253u;
	for (size_t i = 0; i < PATTERN; i++)
		w->pattern[i] = (uint8_t)(i % 251);
	mem_init(&w->mem);
	w->loop = loop_new(&w->mem, &err);
	CHECK(w->loop);
	net_init(&w->net, w->loop, &w->mem);
	if (is_on_ring && net_start_ring(&w->net, NULL, NULL, &err) < 0)
		printf("io_uring is not tested: %s\n", err.text);
	w->net.rounds = (int)draw(w, 6);
	deadline_init(&w->guard, guard_expired);
	deadline_set(w->loop, &w->guard, loop_now(w->loop) + 60000000);
	start_lines(w);
	loop_run(w->loop);
	deadline_clear(w->loop, &w->guard);
	/* Assertions in these functions check that all memory was given back. */
	net_done(&w->net);
	loop_free(&w->loop);
	mem_free(w);
}

int main(int argc, char **argv)
{
	uint64_t seed = seed_of_run(argc, argv);

	run_fixture(seed, false);
	run_fixture(seed, true);
	return 0;
}
