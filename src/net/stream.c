/*
 * Streams over readiness: receives into shared blocks, queues of spans, one gathered
 * send per turn.  Nothing here knows what the bytes mean.
 *
 * While the kernel takes all we have, spans only borrow blocks until the end of the
 * turn.  Once it does not, small spans move into blocks of their own, so that a slow
 * peer with little to come does not hold on to large blocks.
 */
#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	CHUNK_SPANS = 8,
	GATHER_MOST = 64,          /* spans in one send */
	SHARED_WRITE_MOST = 16384, /* longer writes get a block of their own */
	COPY_MOST = 4096,          /* spans up to this are copied while blocked */
	COPY_BLOCK = 8192,
	ROUNDS_DEFAULT = 5,
};

/* A piece of an output queue; the head of a stream's queue knows the last one. */
struct stream_queue {
	struct stream_queue *next;
	struct stream_queue *last; /* in the head only */
	unsigned first, end;       /* spans [first, end) are in use */
	struct span spans[CHUNK_SPANS];
};

void net_init(struct net *net, struct loop *loop, struct mem *mem)
{
	*net = (struct net){
	    .loop = loop,
	    .blocks = block_pool_new(),
	    .queues = slab_new(mem, "stream_queue", sizeof(struct stream_queue)),
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
}

/* The shared block with this much free room.  When only we hold it, its old bytes are
 * gone from everywhere, and its beginning is likely still in the processor's cache. */
static struct block *block_with_room(struct net *net, size_t room)
{
	struct block *b = net->current;

	if (b && b->refs == 1)
		b->used = 0;
	if (b && b->cap - b->used >= room)
		return b;
	block_unref(b);
	net->current = block_get(net->blocks);
	return net->current;
}

/* ---- the output queue ---- */

static struct span *queue_last_span(struct stream *s)
{
	struct stream_queue *last = s->out ? s->out->last : NULL;

	return last && last->end > last->first ? &last->spans[last->end - 1] : NULL;
}

static struct span *queue_new_span(struct stream *s)
{
	struct stream_queue *last = s->out ? s->out->last : NULL;

	if (!last || last->end == CHUNK_SPANS) {
		struct stream_queue *chunk = slab_get(s->net->queues);
		if (last)
			last->next = chunk;
		else
			s->out = chunk;
		s->out->last = last = chunk;
	}
	return &last->spans[last->end++];
}

/* Append without a new reference unless one is needed. */
static void queue_add(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	struct span *last = queue_last_span(s);

	s->pending += len;
	if (last && last->block == block && last->bytes + last->len == p) {
		last->len += len;
		return;
	}
	if (block)
		block_ref(block);
	*queue_new_span(s) = (struct span){.block = block, .bytes = p, .len = len};
}

/* Append a copy in a lone block: behind the last one if there is room, else in a new
 * one that can hold `cap`.  -1: no memory. */
static int queue_add_copy(struct stream *s, const uint8_t *p, size_t len, size_t cap)
{
	struct span *last = queue_last_span(s);
	struct block *own = last ? last->block : NULL;

	if (own && !own->pool && own->refs == 1 && own->cap - own->used >= len &&
	    last->bytes + last->len == own->bytes + own->used) {
		block_ref(own);
	} else {
		own = block_new(len > cap ? len : cap);
		if (!own)
			return -1;
	}
	uint8_t *to = own->bytes + own->used;
	memcpy(to, p, len);
	own->used += (uint32_t)len;
	queue_add(s, own, to, len);
	block_unref(own);
	return 0;
}

static void queue_drop_head(struct stream *s)
{
	struct stream_queue *head = s->out;

	s->out = head->next;
	if (s->out)
		s->out->last = head->last;
	slab_put(s->net->queues, head);
}

/* Take n bytes away at the front. */
static void queue_consume(struct stream *s, size_t n)
{
	s->pending -= n;
	while (s->out) {
		struct stream_queue *head = s->out;
		for (; head->first < head->end; head->first++) {
			struct span *span = &head->spans[head->first];
			if (n < span->len) {
				span->bytes += n;
				span->len -= n;
				return;
			}
			n -= span->len;
			block_unref(span->block);
		}
		queue_drop_head(s);
	}
	assert(n == 0);
}

static void queue_drop(struct stream *s)
{
	if (s->out)
		queue_consume(s, s->pending);
}

/* The kernel took less than all: what remains may stay for long.  Copy what is small;
 * all of it into one block of its size when it is small together. */
static void queue_settle(struct stream *s)
{
	struct stream_queue *old = s->out;
	size_t cap = s->pending < COPY_BLOCK ? s->pending : COPY_BLOCK;

	s->out = NULL;
	s->pending = 0;
	while (old) {
		struct stream_queue *chunk = old;
		for (; chunk->first < chunk->end; chunk->first++) {
			struct span *span = &chunk->spans[chunk->first];
			bool copy =
			    span->block && span->block->pool && span->len <= COPY_MOST;
			if (!copy || queue_add_copy(s, span->bytes, span->len, cap) < 0)
				queue_add(s, span->block, span->bytes, span->len);
			block_unref(span->block);
		}
		old = chunk->next;
		slab_put(s->net->queues, chunk);
	}
}

static int queue_gather(const struct stream *s, struct iovec *iov, size_t *total)
{
	int count = 0;

	*total = 0;
	for (struct stream_queue *q = s->out; q && count < GATHER_MOST; q = q->next) {
		for (unsigned i = q->first; i < q->end && count < GATHER_MOST; i++) {
			iov[count].iov_base = (void *)(uintptr_t)q->spans[i].bytes;
			iov[count++].iov_len = q->spans[i].len;
			*total += q->spans[i].len;
		}
	}
	return count;
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
	s->failure = errnum;
	s->drained_due = s->above = s->blocked = false;
	queue_drop(s);
	if (s->writer)
		watch_off(s->writer);
	tell_later(s);
}

static void end(struct stream *s, int errnum)
{
	struct err err;

	s->ended = true;
	if (s->reader)
		watch_off(s->reader);
	s->reader_off = true;
	if (errnum)
		err_set(
		    &err, "%s", errnum == ENOMEM ? "out of memory" : strerror(errnum));
	s->ops->ended(s, errnum ? &err : NULL);
}

/* ---- receiving ---- */

/* One receive.  True: the room was filled, so there may be more. */
static bool may_receive_more(struct stream *s)
{
	struct block *b = block_with_room(s->net, BLOCK_MIN_ROOM);
	uint8_t *at = b->bytes + b->used;
	size_t room = b->cap - b->used;
	ssize_t got = recv(s->fd, at, room, 0);

	loop_counts(s->net->loop)->recv_calls++;
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return false;
	if (got <= 0) {
		end(s, got < 0 ? errno : 0);
		return false;
	}
	/* Held during the call: writes of the owner may replace the current block. */
	block_ref(b);
	b->used += (uint32_t)got;
	s->delivering = true;
	s->ops->received(s, b, at, (size_t)got);
	block_unref(b);
	return (size_t)got == room;
}

/* s->delivering falls when the owner closes the stream, even if it opens it again. */
static void receive(struct stream *s)
{
	int left = s->net->rounds;

	while (may_receive_more(s) && s->delivering && !s->paused && --left != 0)
		;
	s->delivering = false;
}

/* Readable while paused: it is told when the peer has left with nothing unread, so that
 * nobody keeps a place in a queue for it; otherwise the bytes wait in the kernel. */
static void readable_while_paused(struct stream *s)
{
	char next;
	ssize_t got = recv(s->fd, &next, 1, MSG_PEEK);

	loop_counts(s->net->loop)->recv_calls++;
	bool is_gone = got == 0 || (got < 0 && errno != EAGAIN &&
				       errno != EWOULDBLOCK && errno != EINTR);
	/* a failure that is about to be told says more */
	if (is_gone && !s->failure) {
		end(s, got < 0 ? errno : 0);
		return;
	}
	s->readable = true;
	s->reader_off = true;
	watch_off(s->reader);
}

static void stream_readable(void *ctx, int fd)
{
	struct stream *s = ctx;

	(void)fd;
	if (s->paused)
		readable_while_paused(s);
	else
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
	struct iovec iov[GATHER_MOST];
	struct msghdr message = {.msg_iov = iov};
	int count = queue_gather(s, iov, total);

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
		queue_consume(s, (size_t)sent);
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
		bool settle = !s->blocked || s->pending <= COPY_MOST;
		if (!s->blocked)
			wait_until_writable(s);
		if (settle)
			queue_settle(s);
	} else if (s->blocked) {
		s->blocked = false;
		watch_off(s->writer);
	}
	note_drained(s);
}

void stream_flush(struct stream *s)
{
	if (s->out && !s->blocked && !s->connecting)
		try_to_send(s);
}

static void stream_turn_end(struct later *l)
{
	stream_flush(container_of(l, struct stream, flush));
}

/* Each call may close the stream, so one thing is told at a time. */
static void tell_failure(struct stream *s)
{
	/* A peer that closed may have said why: its last words come first. */
	if (s->reader && !s->paused && !s->ended)
		receive(s);
	/* A stream that was closed meanwhile has no failure left. */
	if (s->failure && !s->ended)
		end(s, s->failure);
}

static void stream_tell(struct later *l)
{
	struct stream *s = container_of(l, struct stream, flush);

	if (s->failure) {
		tell_failure(s);
		return;
	}
	if (s->out && !s->blocked && !s->connecting)
		flush_at_turn_end(s);
	if (s->connected_due) {
		s->connected_due = false;
		if (s->drained_due)
			tell_later(s);
		if (s->ops->connected)
			s->ops->connected(s);
	} else if (s->drained_due) {
		s->drained_due = false;
		if (s->ops->drained)
			s->ops->drained(s);
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
	if (!s->blocked && !s->connecting)
		flush_at_turn_end(s);
}

void stream_put(struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	if (is_lost(s) || !len)
		return;
	bool copy = s->blocked && block && block->pool && len <= COPY_MOST;
	if (!copy || queue_add_copy(s, p, len, COPY_BLOCK) < 0)
		queue_add(s, block, p, len);
	added_output(s);
}

static int write_copy(struct stream *s, const void *p, size_t len)
{
	if (s->blocked || len > SHARED_WRITE_MOST)
		return queue_add_copy(s, p, len, s->blocked ? COPY_BLOCK : len);
	struct block *b = block_with_room(s->net, len);
	uint8_t *to = b->bytes + b->used;
	memcpy(to, p, len);
	b->used += (uint32_t)len;
	queue_add(s, b, to, len);
	return 0;
}

int stream_write(struct stream *s, const void *p, size_t len)
{
	if (is_lost(s) || !len)
		return 0;
	if (write_copy(s, p, len) < 0) {
		fail(s, ENOMEM);
		return -1;
	}
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
	if (s->out && !s->connecting)
		send_queue(s);
	queue_drop(s);
	later_cancel(net->loop, &s->flush);
	watch_free(&s->reader);
	watch_free(&s->writer);
	close(s->fd);
	*s = (struct stream){.fd = -1};
}
