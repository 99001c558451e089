/*
 * The interface of streams: opening, connecting, handing over output, pausing,
 * closing.  stream_turn.c does the work of a turn, and the engines use the sockets.
 */
#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "net/stream_parts.h"

/* ---- opening ---- */

static void set_up(
    struct stream *s, struct net *net, int fd, const struct stream_ops *ops)
{
	*s = (struct stream){.net = net, .ops = ops, .fd = fd};
}

void stream_open(
    struct stream *s, struct net *net, int fd, const struct stream_ops *ops)
{
	set_up(s, net, fd, ops);
	net->engine->start(s);
}

int stream_connect(struct stream *s, struct net *net, const struct sock_target *target,
    const struct sock_options *options, const struct stream_ops *ops, struct err *err)
{
	int fd, result = sock_connect(target, options, &fd, err);

	if (result < 0)
		return -1;
	set_up(s, net, fd, ops);
	if (result == 0) {
		stream_tell_connected(s);
	} else {
		s->connecting = true;
		stream_await_connected(s);
	}
	return 0;
}

void stream_open_recv_now(
    struct stream *s, struct net *net, int fd, const struct stream_ops *ops)
{
	size_t len;

	set_up(s, net, fd, ops);
	(void)stream_receive(s, &len);
	/* the engine receives from the start */
	stream_rest_end(s);
	if (!s->ended)
		net->engine->start(s);
}

bool stream_is_open(const struct stream *s)
{
	return s->net != NULL;
}

int stream_start_tls(struct stream *s, struct tls_context *context,
    const struct tls_peer_config *peer, const uint8_t *initial, size_t len,
    struct err *err)
{
	assert(s->net && !s->tls && !s->connecting);
	/* later bytes must not be joined with unencrypted ones */
	s->net->growing.stream = NULL;
	if (stream_tls_new(s, context, peer, initial, len, err) < 0)
		return -1;
	/* a failure that happened before is reported first */
	if (s->failure) {
		stream_tls_drop_output(s);
		return 0;
	}
	s->input_due = len > 0;
	if (s->input_due)
		stream_tell_later(s);
	else
		stream_flush_at_turn_end(s);
	return 0;
}

const struct tls *stream_tls(const struct stream *s)
{
	return s->tls && tls_is_complete(s->tls->tls) ? s->tls->tls : NULL;
}

/* ---- output ---- */

static bool is_lost(const struct stream *s)
{
	return !s->net || s->failure;
}

static void added_output(struct stream *s)
{
	s->run_kb = 0;
	if (s->pending > STREAM_HIGH) {
		s->above = true;
		/* pending rises above the mark again, so `drained` comes later */
		s->drained_due = false;
	}
	/* with TLS, output that has to wait is at least encrypted, which frees the
	 * blocks it refers to */
	if (s->tls || (!s->blocked && !s->connecting))
		stream_flush_at_turn_end(s);
}

/* Joins bytes to the last span if they follow it in the same block, which is common:
 * several messages of one receive usually go to one stream. */
static bool grow_last(
    struct stream *s, const struct block *block, const uint8_t *p, size_t len)
{
	struct net *net = s->net;
	struct span *span = net->growing.span;

	if (net->growing.stream != s || span->block != block ||
	    span->bytes + span->len != p || s->pending + len > STREAM_HIGH)
		return false;
	span->len += len;
	s->pending += len;
	return true;
}

void stream_put(struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	if (is_lost(s) || !len || grow_last(s, block, p, len))
		return;
	if (s->tls) {
		stream_tls_put(s, block, p, len);
	} else {
		stream_queue_put(s->net, &s->out, block, p, len, s->blocked);
		if (!s->blocked) {
			s->net->growing.stream = s;
			s->net->growing.span = stream_queue_last(s->out);
		}
	}
	s->pending += len;
	added_output(s);
}

int stream_write(struct stream *s, const void *p, size_t len)
{
	if (is_lost(s) || !len)
		return 0;
	int result = s->tls ? stream_tls_write(s, p, len)
			    : stream_queue_write(s->net, &s->out, p, len, s->blocked);
	if (result < 0) {
		stream_fail(s, ENOMEM);
		return -1;
	}
	s->pending += len;
	added_output(s);
	return 0;
}

int stream_write_buf(struct stream *s, const struct buf *buf)
{
	if (!buf->failed)
		return stream_write(s, buf->bytes, buf->len);
	if (!is_lost(s))
		stream_fail(s, ENOMEM);
	return -1;
}

size_t stream_pending(const struct stream *s)
{
	return s->pending;
}

bool stream_is_above_high(const struct stream *s)
{
	return s->pending > STREAM_HIGH;
}

void stream_pause(struct stream *s)
{
	s->paused = true;
}

void stream_resume(struct stream *s)
{
	s->paused = false;
	if (s->ended)
		return;
	if (stream_has_input(s)) {
		s->input_due = true;
		stream_tell_later(s);
	} else {
		s->net->engine->resume(s);
	}
}

void stream_quiesce(struct stream *s)
{
	s->paused = true;
	s->net->engine->stop(s);
}

bool stream_is_silent(const struct stream *s)
{
	return s->paused && s->pending == 0 && !s->failure &&
	       s->net->engine->is_still(s);
}

void stream_put_unread(const struct stream *s, struct buf *out)
{
	if (!s->tls)
		stream_queue_copy(s->in, out);
}

void stream_close(struct stream *s)
{
	struct net *net = s->net;

	if (s->detached)
		stream_close_detached(s);
	if (!net)
		return;
	if (s->tls && !s->failure)
		stream_tls_say_goodbye(s);
	stream_rest_end(s);
	if (s->fd >= 0)
		net->engine->leave(s);
	stream_queue_drop(net, &s->out);
	stream_queue_drop(net, &s->in);
	if (s->tls)
		stream_tls_free(s);
	later_cancel(net->loop, &s->flush);
	*s = (struct stream){.fd = -1};
}
