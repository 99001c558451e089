/*
 * The engine io_uring: the kernel receives into blocks lent to it, and sends with the
 * call that waits for completions.  Bulk is received and sent by system calls: next to
 * so many bytes a call costs little, and their blocks are free again at once, while
 * they are in the processor's cache.
 */
#include "config.h"
#include "net/stream_parts.h"

#ifdef HAVE_URING

#	include <errno.h>
#	include <unistd.h>

#	include "net/ring.h"

/* output from this size on is bulk */
enum { BULK = 65536 };

struct net_ring {
	struct ring *ring;
	struct loop_waiter waiter;
	void (*lost)(void *ctx, int errnum);
	void *lost_ctx;
	struct net *net; /* borrowed */
	int errnum;      /* why the ring broke */
};

/* ---- sending ---- */

static void queue_send(struct stream *s)
{
	struct iovec iov[STREAM_GATHER_MOST];
	size_t total, tls_len = s->tls ? s->tls->plain_len : 0;
	int count = stream_queue_gather(s->out, iov, &total);
	/* the owner waits until everything is sent, and no other event may come to end
	 * the wait */
	bool is_urgent = s->above || total < s->pending - tls_len;

	loop_counts(s->net->loop)->send_calls++;
	ring_send(s->port, iov, count, is_urgent);
}

static void wait_until_writable(struct stream *s)
{
	s->blocked = true;
	stream_settle_output(s);
	ring_wait_writable(s->port);
}

static void send_bulk(struct stream *s)
{
	int result = stream_send_queue(s);

	if (result < 0) {
		stream_fail(s, errno);
		return;
	}
	if (result > 0)
		wait_until_writable(s);
	stream_sent(s, 0);
}

static void ring_engine_send(struct stream *s, bool is_now)
{
	if (!s->port)
		return;
	if (ring_is_sending(s->port))
		ring_hurry(s->net->ring->ring); /* the rest follows, see port_sent */
	else if (s->pending >= BULK)
		send_bulk(s);
	else
		queue_send(s);
	while (is_now && s->port && ring_is_sending(s->port))
		ring_settle(s->port);
}

/* The bytes being sent are counted as pending until here. */
static void port_sent(void *owner, ssize_t result, size_t asked)
{
	struct stream *s = owner;
	size_t sent = result > 0 ? (size_t)result : 0;

	if (result < 0 && result != -EAGAIN && result != -EINTR) {
		stream_fail(s, (int)-result);
		return;
	}
	stream_sent(s, sent);
	if (sent < asked)
		wait_until_writable(s);
	else if (s->out && !s->failure)
		queue_send(s);
}

static void port_writable(void *owner)
{
	struct stream *s = owner;

	s->blocked = false;
	if (s->out && !s->failure && !s->detached)
		ring_engine_send(s, false);
}

static void ring_engine_settle(struct stream *s)
{
	while (s->port && ring_is_sending(s->port))
		ring_settle(s->port);
}

/* ---- receiving ---- */

static void port_received(void *owner, struct block *block, size_t len)
{
	struct stream *s = owner;

	loop_counts(s->net->loop)->recv_calls++;
	stream_rest_count(s, len);
	stream_arrived(s, block, block->bytes, len);
}

static size_t port_readable(void *owner)
{
	struct stream *s = owner;
	struct ring_port *port = s->port;
	size_t len;

	if (stream_readable(s, &len) == LEFT_UNTIL_RESTED && s->port == port)
		ring_stop_receiving(port);
	return len;
}

static void port_ended(void *owner, int errnum)
{
	stream_over(owner, errnum);
}

static void ring_engine_start(struct stream *s)
{
	s->port = ring_port_new(s->net->ring->ring, s->fd, s);
	if (!s->paused)
		ring_receive(s->port);
	else
		s->reader_off = true;
}

static void ring_engine_stop(struct stream *s)
{
	stream_rest_end(s);
	s->reader_off = true;
	if (s->port)
		ring_stop_receiving(s->port);
}

static bool ring_engine_is_still(const struct stream *s)
{
	return !s->port || (!ring_is_receiving(s->port) && !ring_is_sending(s->port));
}

static void ring_engine_go_on(struct stream *s)
{
	const struct ring_port *port = s->port;
	size_t len;

	if (!s->port || s->reader_off || s->ended)
		return;
	if (!s->paused && !stream_has_input(s))
		(void)stream_receive(s, &len);
	if (s->port && s->port == port && !s->resting && !s->reader_off && !s->ended)
		ring_receive(s->port);
}

static void ring_engine_resume(struct stream *s)
{
	if (!s->reader_off || s->ended || !s->port)
		return;
	s->reader_off = false;
	ring_receive(s->port);
}

/* What the peer has sent is delivered in the next turn at the latest. */
static bool ring_engine_hear_more(struct stream *s)
{
	if (s->last_words || !s->port || s->over)
		return false;
	s->last_words = true;
	if (s->resting) {
		stream_rest_end(s);
		ring_receive(s->port);
	}
	stream_flush_at_turn_end(s);
	return true;
}

static void ring_engine_detach(struct stream *s)
{
	ring_engine_settle(s);
	watch_free(&s->writer);
	if (s->port)
		ring_port_detach(s->port);
	s->port = NULL;
}

static void ring_engine_leave(struct stream *s)
{
	struct ring_port *port = s->port;

	ring_engine_settle(s);
	if (s->out && !s->connecting)
		stream_send_queue(s);
	watch_free(&s->writer);
	s->port = NULL;
	if (port)
		ring_port_leave(port);
	else
		close(s->fd);
}

const struct stream_engine stream_ring = {
    .name = "io_uring",
    .start = ring_engine_start,
    .stop = ring_engine_stop,
    .go_on = ring_engine_go_on,
    .is_still = ring_engine_is_still,
    .resume = ring_engine_resume,
    .send = ring_engine_send,
    .settle = ring_engine_settle,
    .hear_more = ring_engine_hear_more,
    .detach = ring_engine_detach,
    .leave = ring_engine_leave,
};

/* ---- when it breaks ---- */

/* The ring is broken: the stream continues with epoll from where it is. */
static void port_lost(void *owner)
{
	struct stream *s = owner;

	stream_rest_end(s);
	s->port = NULL;
	s->blocked = false;
	stream_ready.start(s);
	if (s->ended || s->over || s->reader_off)
		stream_ready.stop(s);
	if (s->out && !s->failure)
		stream_flush_at_turn_end(s);
}

static const struct ring_ops port_ops = {
    .received = port_received,
    .readable = port_readable,
    .ended = port_ended,
    .sent = port_sent,
    .writable = port_writable,
    .lost = port_lost,
};

static void waiter_lost(void *ctx)
{
	struct net_ring *nr = ctx;
	struct net *net = nr->net;

	ring_abandon(nr->ring);
	net->engine = &stream_ready;
	net->ring = NULL;
	ring_free(&nr->ring);
	if (nr->lost)
		nr->lost(nr->lost_ctx, nr->errnum);
	mem_free(nr);
}

/* ---- the loop waits here ---- */

static int waiter_wait(void *ctx, int64_t wait_us)
{
	struct net_ring *nr = ctx;
	int result = ring_wait(nr->ring, wait_us);

	nr->errnum = result < 0 ? errno : 0;
	return result;
}

static bool waiter_may_deliver(void *ctx)
{
	struct net_ring *nr = ctx;

	ring_deliver(nr->ring);
	return ring_take_joined_ready(nr->ring);
}

static void waiter_settle(void *ctx)
{
	struct net_ring *nr = ctx;

	ring_settle_all(nr->ring);
}

static void *waiter_listen(void *ctx, int fd, void (*ready)(void *arg), void *arg)
{
	struct net_ring *nr = ctx;

	return ring_listener_new(nr->ring, fd, ready, arg);
}

static void waiter_unlisten(void *ctx, void *listener)
{
	struct ring_listener *l = listener;

	(void)ctx;
	ring_listener_free(&l);
}

int stream_ring_begin(
    struct net *net, void (*lost)(void *ctx, int errnum), void *ctx, struct err *err)
{
	struct ring *ring = ring_new(net->mem, &port_ops, err);

	if (!ring)
		return -1;
	struct net_ring *nr = mem_zero(sizeof(*nr));
	*nr = (struct net_ring){
	    .ring = ring,
	    .waiter = {.ctx = nr,
		.wait = waiter_wait,
		.may_deliver = waiter_may_deliver,
		.settle = waiter_settle,
		.lost = waiter_lost,
		.listen = waiter_listen,
		.unlisten = waiter_unlisten},
	    .lost = lost,
	    .lost_ctx = ctx,
	    .net = net,
	};
	int fd = loop_wait_elsewhere(net->loop, &nr->waiter);
	if (fd < 0) {
		loop_wait_elsewhere(net->loop, NULL);
		ring_free(&ring);
		mem_free(nr);
		return err_set(err, "the event loop does not use epoll");
	}
	ring_join(ring, fd);
	net->ring = nr;
	net->engine = &stream_ring;
	return 0;
}

void stream_ring_stop(struct net *net)
{
	struct net_ring *nr = net->ring;

	if (!nr)
		return;
	loop_wait_elsewhere(net->loop, NULL);
	ring_free(&nr->ring);
	net->ring = NULL;
	net->engine = &stream_ready;
	mem_free(nr);
}

void stream_ring_usage(
    const struct net *net, size_t *used, size_t *free_count, size_t *bytes)
{
	ring_block_usage(net->ring->ring, used, free_count, bytes);
}

#else

int stream_ring_begin(
    struct net *net, void (*lost)(void *ctx, int errnum), void *ctx, struct err *err)
{
	(void)net, (void)lost, (void)ctx;
	return err_set(err, "this program was built without it");
}

void stream_ring_stop(struct net *net)
{
	(void)net;
}

void stream_ring_usage(
    const struct net *net, size_t *used, size_t *free_count, size_t *bytes)
{
	(void)net;
	*used = 1;
	*free_count = *bytes = 0;
}

#endif
