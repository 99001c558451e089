/*
 * What the stream tests share; see owner.h.  Only the tests themselves assert.
 */
#include "owner.h"

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

static void stop_loop(struct later *l)
{
	loop_stop(container_of(l, struct owner, stop)->loop);
}

static void guard_expired(struct deadline *d)
{
	(void)d;
	fail_msg("the loop did not stop in time");
}

static void received(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	struct owner *o = (struct owner *)s;

	assert_false(o->in_call);
	assert_true(p >= block->bytes && p + len <= block->bytes + block->used);
	o->receive_count++;
	buf_put(&o->got, p, len);
	if (o->echoes)
		stream_put(s, block, p, len);
	if (o->keeps && !o->kept)
		o->kept = block_ref(block);
	if (o->pauses)
		stream_pause(s);
	if (o->got.len >= o->stop_at)
		loop_later(o->loop, &o->stop);
	if (o->closes)
		stream_close(s);
}

static void connected(struct stream *s)
{
	struct owner *o = (struct owner *)s;

	assert_false(o->in_call);
	o->connect_count++;
	loop_later(o->loop, &o->stop);
}

static void ended(struct stream *s, const struct err *err)
{
	struct owner *o = (struct owner *)s;

	assert_false(o->in_call);
	o->end_count++;
	if (err)
		snprintf(o->end_text, sizeof(o->end_text), "%s", err->text);
	loop_later(o->loop, &o->stop);
	if (o->closes_at_end)
		stream_close(s);
}

static void drained(struct stream *s)
{
	struct owner *o = (struct owner *)s;

	assert_false(o->in_call);
	o->drain_count++;
	loop_later(o->loop, &o->stop);
}

const struct stream_ops owner_ops = {
    .received = received,
    .connected = connected,
    .ended = ended,
    .drained = drained,
};

int owner_set_up_closed(void **state)
{
	struct owner *o = mem_zero(sizeof(*o));
	struct err err;

	mem_init(&o->mem);
	o->loop = loop_new(&o->mem, &err);
	assert_non_null(o->loop);
	net_init(&o->net, o->loop, &o->mem);
	engine_choose(&o->net);
	deadline_init(&o->guard, guard_expired);
	deadline_set(o->loop, &o->guard, loop_now(o->loop) + 20000000);
	o->stop.run = stop_loop;
	o->stop_at = SIZE_MAX;
	o->peer = -1;
	buf_init(&o->got, 0);
	*state = o;
	return 0;
}

int owner_set_up(void **state)
{
	int fds[2];

	owner_set_up_closed(state);
	struct owner *o = *state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	stream_open(&o->stream, &o->net, fds[0], &owner_ops);
	o->peer = fds[1];
	return 0;
}

int owner_tear_down(void **state)
{
	struct owner *o = *state;

	stream_close(&o->stream);
	stream_close(&o->stream);
	assert_false(stream_is_open(&o->stream));
	block_unref(o->kept);
	if (o->peer >= 0)
		close(o->peer);
	deadline_clear(o->loop, &o->guard);
	later_cancel(o->loop, &o->stop);
	/* net_done asserts that every block and queue came back. */
	net_done(&o->net);
	loop_free(&o->loop);
	buf_done(&o->got);
	mem_free(o);
	return 0;
}

void one_turn(struct owner *o)
{
	loop_later(o->loop, &o->stop);
	loop_run(o->loop);
}

void say(struct owner *o, const char *text)
{
	assert_int_equal(write(o->peer, text, strlen(text)), strlen(text));
}

size_t hear(struct owner *o, struct buf *into)
{
	size_t sum = 0;

	for (;;) {
		uint8_t *room = buf_room(into, 65536);
		assert_non_null(room);
		ssize_t got = read(o->peer, room, 65536);
		if (got <= 0)
			return sum;
		buf_grow(into, (size_t)got);
		sum += (size_t)got;
	}
}

void expect_heard(struct owner *o, const char *text)
{
	struct buf b;

	buf_init(&b, 0);
	hear(o, &b);
	assert_string_equal(buf_text(&b), text);
	buf_done(&b);
}

size_t blocks_in_use(const struct owner *o)
{
	size_t used, free_count, bytes;

	block_pool_usage(o->net.blocks, &used, &free_count, &bytes);
	return used;
}

void say_much(struct owner *o, size_t len)
{
	char *large = mem_alloc(len);
	int size = 1 << 20;

	setsockopt(o->peer, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	memset(large, 'l', len);
	assert_int_equal(write(o->peer, large, len), len);
	mem_free(large);
}
