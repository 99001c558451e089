/*
 * What a stream does within a turn of the loop: delivers what arrived (through TLS if
 * there is any), calls its owner's callbacks, and has its output sent.  It is above the
 * queues and TLS, and below the engines and the interface.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "net/stream_parts.h"

/* One step can take a millisecond of computation, during which all other streams
 * wait. */
enum { HANDSHAKES_MOST = 8 };

/* ---- telling the owner ---- */

static void tell(struct later *l);
static void turn_end(struct later *l);

void stream_tell_later(struct stream *s)
{
	later_cancel(s->net->loop, &s->flush);
	s->flush.run = tell;
	loop_later(s->net->loop, &s->flush);
}

/* If callbacks are due, they come first, and flushing follows them. */
void stream_flush_at_turn_end(struct stream *s)
{
	if (node_is_linked(&s->flush.node))
		return;
	s->flush.run = turn_end;
	loop_at_turn_end(s->net->loop, &s->flush);
}

void stream_fail(struct stream *s, int errnum)
{
	if (s->failure)
		return;
	s->failure = (uint16_t)errnum;
	s->net->engine->settle(s);
	s->drained_due = s->above = s->blocked = false;
	stream_queue_drop(s->net, &s->out);
	if (s->tls)
		stream_tls_drop_output(s);
	s->pending = 0;
	if (s->writer)
		watch_off(s->writer);
	stream_tell_later(s);
}

static void stream_end_saying(struct stream *s, const struct err *err)
{
	s->ended = true;
	s->net->engine->stop(s);
	s->ops->ended(s, err);
}

void stream_end(struct stream *s, int errnum)
{
	struct err err;

	if (errnum)
		err_set(&err, "%s",
		    errnum == ENOMEM ? error_text(ERROR_OUT_OF_MEMORY)
				     : strerror(errnum));
	stream_end_saying(s, errnum ? &err : NULL);
}

/* ---- connecting ---- */

void stream_tell_connected(struct stream *s)
{
	s->net->engine->start(s);
	s->connected_due = true;
	stream_tell_later(s);
}

static void connect_over(void *ctx, int fd)
{
	struct stream *s = ctx;
	int errnum = sock_error(fd);

	watch_off(s->writer);
	if (errnum) {
		stream_fail(s, errnum);
		return;
	}
	watch_free(&s->writer);
	s->connecting = false;
	stream_tell_connected(s);
}

void stream_await_connected(struct stream *s)
{
	s->writer = watch_new(s->net->loop, s->fd, WATCH_WRITE, connect_over, s);
}

/* ---- delivering ---- */

bool stream_is_put_off(const struct stream *s)
{
	const struct net *net = s->net;

	return s->tls && !tls_is_complete(s->tls->tls) &&
	       net->handshakes.steps >= HANDSHAKES_MOST &&
	       net->handshakes.turn == loop_counts(net->loop)->turns;
}

static bool has_records(const struct stream *s)
{
	return s->tls && tls_has_input(s->tls->tls);
}

bool stream_has_input(const struct stream *s)
{
	return s->in || has_records(s);
}

static void deliver(struct stream *s, struct block *b, const uint8_t *p, size_t len)
{
	/* held during the call, because writes of the owner may replace the current
	 * block */
	block_ref(b);
	s->ops->received(s, b, p, len);
	block_unref(b);
}

/* Decrypts or shakes hands for one step.  True: there may be more in the records. */
static bool decrypt_some(struct stream *s)
{
	struct tls *tls = s->tls->tls;
	struct err err;
	enum tls_status status;
	size_t len;

	if (!tls_is_complete(tls)) {
		uint64_t turn = loop_counts(s->net->loop)->turns;
		if (s->net->handshakes.turn != turn)
			s->net->handshakes.steps = 0;
		s->net->handshakes.turn = turn;
		s->net->handshakes.steps++;
		status = tls_handshake(tls, &err);
		if (status == TLS_DONE && s->ops->secured)
			s->ops->secured(s);
	} else {
		/* Decrypts what fits into a block, and delivers it.  TLS may answer a
		 * record, so the rest of the block is taken meanwhile: answers are
		 * written to the same block. */
		struct block *b = block_ref(stream_room(s->net, BLOCK_MIN_ROOM));
		uint8_t *at = b->bytes + b->used;
		uint32_t before = b->used;
		b->used = b->cap;
		status = tls_read(s->tls->tls, at, b->cap - before, &len, &err);
		b->used = before + (uint32_t)len;
		if (status == TLS_DONE)
			deliver(s, b, at, len);
		block_unref(b);
	}
	if (status == TLS_CLOSED || status == TLS_FAILED)
		stream_end_saying(s, status == TLS_FAILED ? &err : NULL);
	return status == TLS_DONE && s->delivering && !s->paused && tls_has_input(tls);
}

/* Keeps the records that cannot be used while paused.  A handshake goes on
 * nevertheless. */
static void put_records_aside(struct stream *s, struct block *b)
{
	if (stream_tls_keep_input(s, b) < 0)
		stream_fail(s, ENOMEM);
	stream_flush_at_turn_end(s);
}

static void decrypt(struct stream *s, struct block *b)
{
	while (decrypt_some(s))
		;
	if (s->delivering)
		put_records_aside(s, b);
}

void stream_take(struct stream *s, struct block *b, const uint8_t *p, size_t len)
{
	s->delivering = true;
	if (!s->tls) {
		deliver(s, b, p, len);
		return;
	}
	/* the engines deliver records of earlier receives first */
	assert(!tls_has_input(s->tls->tls));
	tls_set_input(s->tls->tls, p, len);
	decrypt(s, b);
}

void stream_deliver_waiting(struct stream *s)
{
	s->delivering = true;
	while (s->delivering && !s->paused && !s->ended && stream_has_input(s) &&
	       !stream_is_put_off(s)) {
		/* hands the first waiting span to TLS or to the owner */
		if (has_records(s)) {
			/* the records are in a block that is already held */
			decrypt(s, NULL);
			continue;
		}
		struct span span = stream_queue_pop(s->net, &s->in);
		stream_take(s, span.block, span.bytes, span.len);
		block_unref(span.block);
	}
	if (!s->delivering)
		return;
	s->delivering = false;
	if (s->paused || s->ended)
		return;
	if (stream_has_input(s)) {
		s->input_due = true;
		stream_flush_at_turn_end(s);
	} else if (s->over) {
		stream_end(s, s->over_errnum);
	} else {
		s->net->engine->resume(s);
	}
}

/* A peer closes by a record, so one record is decrypted; its bytes wait for the
 * owner. */
enum stream_look stream_look(struct stream *s)
{
	struct err err;

	if (!s->tls || !tls_is_complete(s->tls->tls) || s->failure)
		return stream_has_input(s) ? LOOK_BYTES : LOOK_NOTHING;
	while (stream_has_input(s)) {
		struct span span = {.block = NULL};
		if (!has_records(s)) {
			span = stream_queue_pop(s->net, &s->in);
			tls_set_input(s->tls->tls, span.bytes, span.len);
		}
		enum tls_status status = tls_peek(s->tls->tls, &err);
		put_records_aside(s, span.block);
		block_unref(span.block);
		if (status == TLS_DONE)
			return LOOK_BYTES;
		if (status != TLS_HUNGRY) {
			stream_end_saying(s, status == TLS_FAILED ? &err : NULL);
			return LOOK_ENDED;
		}
	}
	return LOOK_NOTHING;
}

void stream_arrived(struct stream *s, struct block *b, const uint8_t *p, size_t len)
{
	if (s->ended)
		return;
	if (!s->paused && !stream_has_input(s) && !stream_is_put_off(s)) {
		stream_take(s, b, p, len);
		s->delivering = false;
		return;
	}
	stream_queue_put(s->net, &s->in, b, p, len, true);
	if (!s->paused) {
		s->input_due = true;
		stream_flush_at_turn_end(s);
	} else if (!s->detached && stream_look(s) == LOOK_BYTES) {
		s->net->engine->stop(s);
	}
}

/* The end is reported even to an owner that has paused, unless unread bytes are left or
 * a failure that says more is about to be reported. */
void stream_over(struct stream *s, int errnum)
{
	if (s->ended || (s->paused && s->failure))
		return;
	s->over = true;
	s->over_errnum = (uint16_t)errnum;
	if (s->detached)
		return;
	enum stream_look look = s->paused ? stream_look(s) : LOOK_NOTHING;
	if (look == LOOK_NOTHING && !stream_has_input(s))
		stream_end(s, errnum);
}

/* ---- output ---- */

void stream_sent(struct stream *s, size_t n)
{
	if (n > 0) {
		stream_queue_consume(s->net, &s->out, n);
		s->pending -= n;
	}
	/* if pending rises above the mark again, `drained` comes another time */
	if (!s->above || s->pending > STREAM_LOW)
		return;
	s->above = false;
	s->drained_due = true;
	stream_tell_later(s);
}

void stream_settle_output(struct stream *s)
{
	size_t plain_len = s->tls ? s->tls->plain_len : 0;

	stream_queue_settle(s->net, &s->out, s->pending - plain_len);
}

static ssize_t send_gathered(struct stream *s, size_t *total)
{
	struct iovec iov[STREAM_GATHER_MOST];
	struct msghdr message = {.msg_iov = iov};
	int count = stream_queue_gather(s->out, iov, total);

	loop_counts(s->net->loop)->send_calls++;
	if (count == 1)
		return send(s->fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL);
	message.msg_iovlen = (size_t)count;
	return sendmsg(s->fd, &message, MSG_NOSIGNAL);
}

int stream_send_queue(struct stream *s)
{
	while (s->out) {
		size_t total;
		ssize_t sent = send_gathered(s, &total);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 1 : -1;
		stream_queue_consume(s->net, &s->out, (size_t)sent);
		s->pending -= (size_t)sent;
		if ((size_t)sent < total)
			return 1;
	}
	return 0;
}

static void flush(struct stream *s, bool is_now)
{
	if (s->tls && stream_tls_encrypt(s) < 0) {
		stream_fail(s, EPROTO);
		return;
	}
	if (s->out && !s->blocked && !s->connecting)
		s->net->engine->send(s, is_now);
}

void stream_flush(struct stream *s)
{
	flush(s, true);
}

static void turn_end(struct later *l)
{
	struct stream *s = container_of(l, struct stream, flush);

	flush(s, false);
	if ((s->input_due || s->failure) && !s->ended)
		stream_tell_later(s); /* in the next turn */
}

/* ---- what is to be told, one thing at a time: each call may close the stream ---- */

static void tell_failure(struct stream *s)
{
	/* the peer may have sent the reason before closing, so its bytes come first */
	if (!s->paused && !s->ended) {
		if (stream_has_input(s))
			stream_deliver_waiting(s);
		else if (s->net->engine->hear_more(s))
			return;
	}
	/* the stream may have been closed meanwhile */
	if (!s->failure || s->ended)
		return;
	if (stream_has_tls_failure(s)) {
		struct err err = *tls_failure(s->tls->tls);
		stream_end_saying(s, &err);
	} else {
		stream_end(s, s->failure);
	}
}

static void tell(struct later *l)
{
	struct stream *s = container_of(l, struct stream, flush);

	if (s->failure) {
		tell_failure(s);
		return;
	}
	/* with TLS, output that has to wait is at least encrypted, which frees the
	 * blocks that it refers to */
	if (s->tls || (s->out && !s->blocked && !s->connecting))
		stream_flush_at_turn_end(s);
	if (s->connected_due) {
		s->connected_due = false;
		if (s->drained_due || s->input_due)
			stream_tell_later(s);
		if (s->ops->connected)
			s->ops->connected(s);
	} else if (s->drained_due) {
		s->drained_due = false;
		if (s->input_due)
			stream_tell_later(s);
		if (s->ops->drained)
			s->ops->drained(s);
	} else if (s->input_due) {
		if (stream_is_put_off(s)) {
			stream_flush_at_turn_end(s);
			return;
		}
		s->input_due = false;
		if (s->ended)
			return;
		if (!s->paused)
			stream_deliver_waiting(s);
		else if (stream_look(s) == LOOK_BYTES)
			s->net->engine->stop(s);
		else if (s->over && !s->ended)
			stream_end(s, s->over_errnum);
	}
}

bool stream_has_tls_failure(const struct stream *s)
{
	return s->tls && tls_failure(s->tls->tls);
}
