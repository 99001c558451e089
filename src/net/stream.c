/*
 * Streams over readiness: receives into shared blocks, one gathered send per turn.
 * Nothing here knows what the bytes mean; of TLS it knows when it has to go on.
 */
#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "net/stream_parts.h"

enum {
	ROUNDS_DEFAULT = 5,
	PEEK_MOST = 16384, /* of records, from a peer nobody listens to now */
	/* A step may cost a millisecond for its keys, and others wait meanwhile. */
	HANDSHAKES_MOST = 8,
};

void net_init(struct net *net, struct loop *loop, struct mem *mem)
{
	*net = (struct net){
	    .loop = loop,
	    .blocks = block_pool_new(),
	    .queues = stream_queue_slab(mem),
	    .secured = slab_new(mem, "stream_tls", sizeof(struct stream_tls)),
	    .rounds = ROUNDS_DEFAULT,
	    .mem = mem,
	};
}

void net_done(struct net *net)
{
	block_unref(net->current);
	net->current = NULL;
	block_pool_free(&net->blocks);
	slab_free(&net->queues);
	slab_free(&net->secured);
}

/* ---- the output queue ---- */

static void queue_drop(struct stream *s)
{
	stream_queue_drop(s->net, &s->out);
	if (s->tls)
		stream_tls_drop_output(s);
	s->pending = 0;
}

/* How much of what is pending is what the kernel is to get next. */
static size_t queue_size(const struct stream *s)
{
	return s->pending - (s->tls ? s->tls->plain_len : 0);
}

/* ---- telling the owner ---- */

static void stream_tell(struct later *l);
static void stream_turn_end(struct later *l);

static void tell_later(struct stream *s)
{
	later_cancel(s->net->loop, &s->flush);
	s->flush.run = stream_tell;
	loop_later(s->net->loop, &s->flush);
}

/* When something is to be told, that comes first and this after it. */
static void flush_at_turn_end(struct stream *s)
{
	if (node_is_linked(&s->flush.node))
		return;
	s->flush.run = stream_turn_end;
	loop_at_turn_end(s->net->loop, &s->flush);
}

static void fail(struct stream *s, int errnum)
{
	if (s->failure)
		return;
	s->failure = (uint16_t)errnum;
	s->drained_due = s->above = s->blocked = false;
	queue_drop(s);
	if (s->writer)
		watch_off(s->writer);
	tell_later(s);
}

static void end_saying(struct stream *s, const struct err *err)
{
	s->ended = true;
	if (s->reader)
		watch_off(s->reader);
	s->reader_off = true;
	s->ops->ended(s, err);
}

static void end(struct stream *s, int errnum)
{
	struct err err;

	if (errnum)
		err_set(
		    &err, "%s", errnum == ENOMEM ? "out of memory" : strerror(errnum));
	end_saying(s, errnum ? &err : NULL);
}

/* ---- receiving ---- */

/* One receive.  0: nothing came, or it was the end and that is told. */
static size_t receive_into(struct stream *s, uint8_t *at, size_t room)
{
	ssize_t got = recv(s->fd, at, room, 0);

	loop_counts(s->net->loop)->recv_calls++;
	if (got > 0)
		return (size_t)got;
	if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
		end(s, got < 0 ? errno : 0);
	return 0;
}

static void deliver(struct stream *s, struct block *b, size_t len)
{
	uint8_t *at = b->bytes + b->used;

	/* Held during the call: writes of the owner may replace the current block. */
	block_ref(b);
	b->used += (uint32_t)len;
	s->delivering = true;
	s->ops->received(s, b, at, len);
	block_unref(b);
}

static void count_handshake(struct net *net)
{
	uint64_t turn = loop_counts(net->loop)->turns;

	if (net->handshakes.turn != turn)
		net->handshakes.steps = 0;
	net->handshakes.turn = turn;
	net->handshakes.steps++;
}

/* Others of this turn have had theirs. */
static bool is_handshake_put_off(const struct stream *s)
{
	const struct net *net = s->net;

	return s->tls && !tls_is_complete(s->tls->tls) &&
	       net->handshakes.steps >= HANDSHAKES_MOST &&
	       net->handshakes.turn == loop_counts(net->loop)->turns;
}

/* Let records that are there go on by one step.  True: there may be more in them. */
static bool may_decrypt_more(struct stream *s)
{
	struct tls *tls = s->tls->tls;
	struct err err;
	enum tls_status status;

	if (!tls_is_complete(tls)) {
		count_handshake(s->net);
		status = tls_handshake(tls, &err);
		if (status == TLS_DONE && s->ops->secured)
			s->ops->secured(s);
	} else {
		struct block *b = net_room(s->net, BLOCK_MIN_ROOM);
		size_t len;
		status =
		    tls_read(tls, b->bytes + b->used, b->cap - b->used, &len, &err);
		if (status == TLS_DONE)
			deliver(s, b, len);
	}
	if (status == TLS_CLOSED || status == TLS_FAILED)
		end_saying(s, status == TLS_FAILED ? &err : NULL);
	return status == TLS_DONE && s->delivering && !s->paused && tls_has_input(tls);
}

/* Records of earlier receives come first.  -1: none came, or the end; else how many
 * bytes were received now. */
static ssize_t get_records(struct stream *s, struct block *b, size_t most)
{
	if (tls_has_input(s->tls->tls))
		return 0;
	b->used = (uint32_t)receive_into(s, b->bytes, most);
	if (b->used == 0)
		return -1;
	tls_set_input(s->tls->tls, b->bytes, b->used);
	return (ssize_t)b->used;
}

/* What is not used now, while paused, waits.  A handshake answers by itself. */
static void put_records_aside(struct stream *s, struct block *b)
{
	if (stream_tls_keep_input(s, b) < 0)
		fail(s, ENOMEM);
	flush_at_turn_end(s);
}

static bool may_receive_more_records(struct stream *s)
{
	struct block *b = block_get(s->net->blocks);
	ssize_t got = get_records(s, b, b->cap);

	if (got >= 0) {
		s->delivering = true;
		while (may_decrypt_more(s))
			;
		if (s->delivering)
			put_records_aside(s, b);
	}
	bool is_full = got == (ssize_t)b->cap && s->delivering && !s->ended;
	block_unref(b);
	return is_full;
}

/* One receive.  True: the room was filled, so there may be more. */
static bool may_receive_more(struct stream *s)
{
	if (s->tls)
		return may_receive_more_records(s);
	struct block *b = net_room(s->net, BLOCK_MIN_ROOM);
	size_t room = b->cap - b->used;
	size_t got = receive_into(s, b->bytes + b->used, room);
	if (got == 0)
		return false;
	deliver(s, b, got);
	return got == room;
}

/* s->delivering falls when the owner closes the stream, even if it opens it again. */
static void receive(struct stream *s)
{
	int left = s->net->rounds;

	while (may_receive_more(s) && s->delivering && !s->paused && --left != 0)
		;
	s->delivering = false;
}

static void stop_reading(struct stream *s)
{
	s->readable = true;
	s->reader_off = true;
	watch_off(s->reader);
}

/* That the peer leaves is said in a record, so one is read; what it holds waits. */
static void records_while_paused(struct stream *s)
{
	struct err err;
	enum tls_status status = TLS_DONE;

	if (tls_is_complete(s->tls->tls) && !s->failure) {
		struct block *b = block_get(s->net->blocks);
		status = TLS_HUNGRY;
		if (get_records(s, b, PEEK_MOST) >= 0) {
			status = tls_peek(s->tls->tls, &err);
			put_records_aside(s, b);
		}
		block_unref(b);
	}
	if (status == TLS_DONE)
		stop_reading(s);
	else if (status != TLS_HUNGRY)
		end_saying(s, status == TLS_FAILED ? &err : NULL);
}

/* Readable while paused: it is told when the peer has left with nothing unread, so that
 * nobody keeps a place in a queue for it; otherwise the bytes wait in the kernel. */
static void readable_while_paused(struct stream *s)
{
	char next;

	if (s->tls) {
		records_while_paused(s);
		return;
	}
	ssize_t got = recv(s->fd, &next, 1, MSG_PEEK);

	loop_counts(s->net->loop)->recv_calls++;
	bool is_gone = got == 0 || (got < 0 && errno != EAGAIN &&
				       errno != EWOULDBLOCK && errno != EINTR);
	/* a failure that is about to be told says more */
	if (is_gone && !s->failure) {
		end(s, got < 0 ? errno : 0);
		return;
	}
	stop_reading(s);
}

static void stream_readable(void *ctx, int fd)
{
	struct stream *s = ctx;

	(void)fd;
	if (s->paused)
		readable_while_paused(s);
	else if (!is_handshake_put_off(s)) /* it is readable in the next turn too */
		receive(s);
}

/* ---- sending ---- */

static void stream_writable(void *ctx, int fd);

static void wait_until_writable(struct stream *s)
{
	s->blocked = true;
	if (s->writer)
		watch_on(s->writer);
	else
		s->writer =
		    watch_new(s->net->loop, s->fd, WATCH_WRITE, stream_writable, s);
}

/* One send.  Returns what was sent of *total; -1 with errno. */
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

/* Send until all is gone (0), the kernel has enough (1), or it fails (-1, errno). */
static int send_queue(struct stream *s)
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

static void note_drained(struct stream *s)
{
	if (!s->above || s->pending > STREAM_LOW)
		return;
	s->above = false;
	s->drained_due = true;
	tell_later(s);
}

static void try_to_send(struct stream *s)
{
	int result = send_queue(s);

	if (result < 0) {
		fail(s, errno);
		return;
	}
	if (result > 0) {
		bool settle = !s->blocked || s->pending <= STREAM_COPY_MOST;
		if (!s->blocked)
			wait_until_writable(s);
		if (settle)
			stream_queue_settle(s->net, &s->out, queue_size(s));
	} else if (s->blocked) {
		s->blocked = false;
		watch_off(s->writer);
	}
	note_drained(s);
}

void stream_flush(struct stream *s)
{
	if (s->tls && stream_tls_encrypt(s) < 0) {
		fail(s, EPROTO);
		return;
	}
	if (s->out && !s->blocked && !s->connecting)
		try_to_send(s);
}

/* Output of TLS that has to wait is made into records at least: it pins no block. */
static bool may_flush(const struct stream *s)
{
	return s->tls || (s->out && !s->blocked && !s->connecting);
}

static void stream_turn_end(struct later *l)
{
	struct stream *s = container_of(l, struct stream, flush);

	stream_flush(s);
	if (s->input_due && !s->ended)
		tell_later(s); /* in the next turn */
}

/* Each call may close the stream, so one thing is told at a time. */
static void tell_failure(struct stream *s)
{
	/* A peer that closed may have said why: its last words come first. */
	if (s->reader && !s->paused && !s->ended)
		receive(s);
	/* A stream that was closed meanwhile has no failure left. */
	if (!s->failure || s->ended)
		return;
	if (stream_has_tls_failure(s)) {
		struct err err = *tls_failure(s->tls->tls);
		end_saying(s, &err);
	} else {
		end(s, s->failure);
	}
}

static void tell_input(struct stream *s)
{
	if (is_handshake_put_off(s)) {
		flush_at_turn_end(s);
		return;
	}
	s->input_due = false;
	if (!s->paused && !s->ended && tls_has_input(s->tls->tls))
		receive(s);
}

static void stream_tell(struct later *l)
{
	struct stream *s = container_of(l, struct stream, flush);

	if (s->failure) {
		tell_failure(s);
		return;
	}
	if (may_flush(s))
		flush_at_turn_end(s);
	if (s->connected_due) {
		s->connected_due = false;
		if (s->drained_due)
			tell_later(s);
		if (s->ops->connected)
			s->ops->connected(s);
	} else if (s->drained_due) {
		s->drained_due = false;
		if (s->input_due)
			tell_later(s);
		if (s->ops->drained)
			s->ops->drained(s);
	} else if (s->input_due) {
		tell_input(s);
	}
}

/* ---- connecting ---- */

static void start_reading(struct stream *s)
{
	s->reader = watch_new(s->net->loop, s->fd, WATCH_READ, stream_readable, s);
}

static void finish_connect(struct stream *s)
{
	int errnum = sock_error(s->fd);

	watch_off(s->writer);
	if (errnum) {
		fail(s, errnum);
		return;
	}
	s->connecting = false;
	start_reading(s);
	s->connected_due = true;
	tell_later(s);
}

static void stream_writable(void *ctx, int fd)
{
	struct stream *s = ctx;

	(void)fd;
	if (s->connecting)
		finish_connect(s);
	else
		try_to_send(s);
}

/* ---- the interface ---- */

static void set_up(
    struct stream *s, struct net *net, int fd, const struct stream_ops *ops)
{
	*s = (struct stream){.net = net, .ops = ops, .fd = fd};
}

void stream_open(
    struct stream *s, struct net *net, int fd, const struct stream_ops *ops)
{
	set_up(s, net, fd, ops);
	start_reading(s);
}

int stream_connect(struct stream *s, struct net *net, const struct sock_target *target,
    const struct sock_options *options, const struct stream_ops *ops, struct err *err)
{
	int fd, result = sock_connect(target, options, &fd, err);

	if (result < 0)
		return -1;
	set_up(s, net, fd, ops);
	if (result == 0) {
		start_reading(s);
		s->connected_due = true;
		tell_later(s);
	} else {
		s->connecting = true;
		s->writer =
		    watch_new(s->net->loop, s->fd, WATCH_WRITE, stream_writable, s);
	}
	return 0;
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
	/* nothing more joins what leaves in clear */
	s->net->growing.stream = NULL;
	if (stream_tls_new(s, context, peer, initial, len, err) < 0)
		return -1;
	/* A stream that failed already has something else to tell. */
	if (s->failure) {
		queue_drop(s);
		return 0;
	}
	s->input_due = len > 0;
	if (s->input_due)
		tell_later(s);
	else
		flush_at_turn_end(s);
	return 0;
}

const struct tls *stream_tls(const struct stream *s)
{
	return s->tls && tls_is_complete(s->tls->tls) ? s->tls->tls : NULL;
}

bool stream_has_tls_failure(const struct stream *s)
{
	return s->tls && tls_failure(s->tls->tls);
}

static bool is_lost(const struct stream *s)
{
	return !s->net || s->failure;
}

static void added_output(struct stream *s)
{
	if (s->pending > STREAM_HIGH) {
		s->above = true;
		/* Another will come; one now would wake the owner too early. */
		s->drained_due = false;
	}
	if (may_flush(s))
		flush_at_turn_end(s);
}

/* One message after the other of one receive mostly goes to one stream. */
static bool has_grown(
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
	if (is_lost(s) || !len || has_grown(s, block, p, len))
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
		fail(s, ENOMEM);
		return -1;
	}
	s->pending += len;
	added_output(s);
	return 0;
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
	s->readable = false;
	if (s->tls && !s->ended && tls_has_input(s->tls->tls)) {
		s->input_due = true;
		tell_later(s);
	}
	if (!s->reader_off || s->ended || !s->reader)
		return;
	s->reader_off = false;
	watch_on(s->reader);
}

void stream_close(struct stream *s)
{
	struct net *net = s->net;

	if (!net)
		return;
	if (s->tls && !s->failure)
		stream_tls_say_goodbye(s);
	if (s->out && !s->connecting)
		send_queue(s);
	queue_drop(s);
	if (s->tls)
		stream_tls_free(s);
	later_cancel(net->loop, &s->flush);
	watch_free(&s->reader);
	watch_free(&s->writer);
	close(s->fd);
	*s = (struct stream){.fd = -1};
}
