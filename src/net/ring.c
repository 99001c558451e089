/*
 * Sockets on io_uring: queues requests, and reports completions to the owners.
 * ring_setup.c makes and tests a ring.
 */
#include "net/ring.h"

#include "config.h"

#ifdef HAVE_URING

#	include <assert.h>
#	include <errno.h>
#	include <poll.h>
#	include <string.h>
#	include <sys/socket.h>
#	include <unistd.h>

#	include "net/ring_parts.h"

enum {
	/* A socket that fills its buffer is only watched, until this many receives in a
	 * row were small. */
	SMALL_IN_A_ROW = 4,
	LEAVING_TURNS_MOST = 1000,
};

/* The kind of a completion, in the low bits of its user data; the other bits are the
 * port. */
enum kind {
	KIND_NONE,
	KIND_RECEIVE,
	KIND_SEND,
	KIND_POLL,
	KIND_JOINED,
	KIND_LISTENER,
	KIND_MASK = 7
};

/* ---- requests ---- */

/* Returns an empty request.  When the ring is broken, it is one that nobody reads. */
static struct io_uring_sqe *next_request(struct ring *r)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = io_uring_get_sqe(&r->uring))) {
		int result = r->broken ? -r->broken : io_uring_submit(&r->uring);
		if (result >= 0 || result == -EINTR)
			continue;
		r->broken = -result;
		memset(&r->unread, 0, sizeof(r->unread));
		return &r->unread;
	}
	return sqe;
}

static void set_data(struct io_uring_sqe *sqe, const void *object, enum kind kind)
{
	io_uring_sqe_set_data64(sqe, (uint64_t)(uintptr_t)object | (uint64_t)kind);
}

static void *object_of(const struct io_uring_cqe *cqe)
{
	return (void *)(uintptr_t)(cqe->user_data & ~(uint64_t)KIND_MASK);
}

/* The position of the kernel's queue head after it has taken this request. */
static unsigned position(const struct ring *r, const struct io_uring_sqe *sqe)
{
	return r->uring.sq.sqe_tail + (sqe == &r->unread);
}

/* The position up to which the kernel has taken requests. */
static unsigned taken_to(const struct ring *r)
{
	return io_uring_smp_load_acquire(r->uring.sq.khead);
}

static bool is_reached(unsigned at, unsigned end)
{
	return (int)(end - at) >= 0;
}

static bool is_taken(const struct ring *r, unsigned at)
{
	return is_reached(at, taken_to(r));
}

static void cancel(struct ring *r, const void *object, enum kind kind)
{
	struct io_uring_sqe *sqe = next_request(r);

	io_uring_prep_cancel64(sqe, (uint64_t)(uintptr_t)object | (uint64_t)kind, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	set_data(sqe, NULL, KIND_NONE);
}

/* ---- ports ---- */

struct ring_port *ring_port_new(struct ring *ring, int fd, void *owner)
{
	struct ring_port *port = slab_get(ring->ports);

	port->ring = ring;
	port->owner = owner;
	port->fd = fd;
	list_push_back(&ring->open, &port->node);
	return port;
}

static void free_port(struct ring_port *port)
{
	list_remove(&port->ring->open, &port->node);
	slab_put(port->ring->ports, port);
}

static void free_if_done(struct ring_port *port)
{
	if (port->is_closed && !port->is_receiving && !port->is_polling)
		free_port(port);
}

void ring_port_leave(struct ring_port *port)
{
	struct ring *r = port->ring;

	assert(!port->is_sending);
	port->owner = NULL;
	port->wants_bytes = false;
	if (port->is_receiving && !port->is_cancelled)
		cancel(r, port, KIND_RECEIVE);
	if (port->is_polling)
		cancel(r, port, KIND_POLL);
	struct io_uring_sqe *sqe = next_request(r);
	io_uring_prep_close(sqe, port->fd);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	set_data(sqe, NULL, KIND_NONE);
	port->request_at = position(r, sqe);
	list_push_back(&r->unsettled, &port->unsettled);
}

/* ---- receiving ---- */

static void arm(struct ring_port *port)
{
	struct io_uring_sqe *sqe = next_request(port->ring);

	if (port->is_bulky) {
		io_uring_prep_poll_add(sqe, port->fd, POLLIN | POLLRDHUP);
	} else {
		io_uring_prep_recv_multishot(sqe, port->fd, NULL, 0, 0);
		sqe->flags |= IOSQE_BUFFER_SELECT;
		sqe->buf_group = RING_BUFFERS;
	}
	set_data(sqe, port, KIND_RECEIVE);
	port->is_receiving = true;
	port->is_cancelled = false;
	port->is_watched = port->is_bulky;
}

void ring_receive(struct ring_port *port)
{
	port->wants_bytes = true;
	if (!port->is_receiving)
		arm(port);
}

static void cancel_receive(struct ring_port *port)
{
	if (!port->is_receiving || port->is_cancelled)
		return;
	port->is_cancelled = true;
	cancel(port->ring, port, KIND_RECEIVE);
}

void ring_stop_receiving(struct ring_port *port)
{
	port->wants_bytes = false;
	cancel_receive(port);
}

bool ring_is_receiving(const struct ring_port *port)
{
	return port->is_receiving;
}

/* Chooses between the two ways to receive.  For bulk, system calls are cheaper: they
 * fill large blocks, several in one turn, which leave in one send, and which are the
 * blocks used last, so they are in the processor's cache. */
static void learn_size(struct ring_port *port, size_t len)
{
	if (len >= RING_BUFFER_SIZE) {
		port->small_count = 0;
		if (port->is_bulky)
			return;
		port->is_bulky = true;
		cancel_receive(port);
	} else if (port->is_bulky && ++port->small_count >= SMALL_IN_A_ROW) {
		port->is_bulky = false;
	}
}

static void take_bytes(struct ring_port *port, unsigned flags, int len)
{
	struct ring *r = port->ring;
	unsigned id = flags >> IORING_CQE_BUFFER_SHIFT;
	struct block *b = r->buffers.blocks[id];

	if (len > 0 && port->owner) {
		b->used = (uint32_t)len;
		if (port->wants_bytes)
			learn_size(port, (size_t)len);
		r->ops->received(port->owner, b, (size_t)len);
	}
	ring_buffers_return(&r->buffers, id);
}

static void completed_receive(struct ring_port *port, const struct io_uring_cqe *cqe)
{
	bool is_last = !(cqe->flags & IORING_CQE_F_MORE);

	/* before the owner is called, because it may start receiving again or leave */
	if (is_last)
		port->is_receiving = false;
	if (cqe->flags & IORING_CQE_F_BUFFER)
		take_bytes(port, cqe->flags, cqe->res);
	else if (port->is_watched && cqe->res > 0 && port->wants_bytes)
		learn_size(port, port->ring->ops->readable(port->owner));
	if (!is_last || port->is_receiving)
		return;
	bool is_end = cqe->res <= 0 && cqe->res != -ENOBUFS && cqe->res != -ECANCELED &&
		      cqe->res != -EAGAIN && cqe->res != -EINTR;
	if (!port->owner)
		free_if_done(port);
	else if (is_end)
		port->ring->ops->ended(port->owner, -cqe->res);
	else if (port->wants_bytes)
		arm(port);
}

/* ---- sending ---- */

void ring_send(
    struct ring_port *port, const struct iovec *iov, int count, bool is_urgent)
{
	/* tried only once, so that the kernel does not use the bytes after the call */
	const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | MSG_WAITALL;
	struct ring *r = port->ring;
	struct io_uring_sqe *sqe = next_request(r);
	ssize_t total = 0;

	assert(!port->is_sending && count > 0 && count <= RING_PIECES);
	for (int i = 0; i < count; i++)
		total += (ssize_t)iov[i].iov_len;
	if (count == 1) {
		io_uring_prep_send(sqe, port->fd, iov->iov_base, iov->iov_len, flags);
	} else {
		port->gather = slab_get(r->gathers);
		memcpy(port->gather->iov, iov, (size_t)count * sizeof(*iov));
		port->gather->message.msg_iov = port->gather->iov;
		port->gather->message.msg_iovlen = (size_t)count;
		io_uring_prep_sendmsg(
		    sqe, port->fd, &port->gather->message, (unsigned)flags);
	}
	if (!is_urgent)
		sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	set_data(sqe, port, KIND_SEND);
	port->is_sending = true;
	port->send_result = total;
	port->send_size = (uint32_t)total;
	port->request_at = position(r, sqe);
	list_push_back(&r->unsettled, &port->unsettled);
}

bool ring_is_sending(const struct ring_port *port)
{
	return port->is_sending;
}

void ring_hurry(struct ring *ring)
{
	ring->is_hurried = true;
}

/* Reports the result of a send (or closes) when its request was taken and all
 * completions up to then are known. */
static void conclude(struct ring_port *port)
{
	struct ring *r = port->ring;

	list_remove(&r->unsettled, &port->unsettled);
	if (!port->is_sending) {
		port->is_closed = true;
		free_if_done(port);
		return;
	}
	port->is_sending = false;
	if (port->gather)
		slab_put(r->gathers, port->gather);
	port->gather = NULL;
	r->ops->sent(port->owner, port->send_result, port->send_size);
}

/* To be called when all completions are collected. */
static void conclude_all(struct ring *r)
{
	unsigned end = taken_to(r);
	struct node *n;

	/* What the owners queue meanwhile is behind these.  If it is much, the kernel
	 * takes a part of it, of which no completion is known yet. */
	while ((n = list_first(&r->unsettled))) {
		struct ring_port *port = container_of(n, struct ring_port, unsettled);
		if (!is_reached(port->request_at, end))
			return;
		conclude(port);
	}
}

/* ---- waiting for room ---- */

void ring_wait_writable(struct ring_port *port)
{
	struct io_uring_sqe *sqe = next_request(port->ring);

	assert(!port->is_polling);
	io_uring_prep_poll_add(sqe, port->fd, POLLOUT);
	set_data(sqe, port, KIND_POLL);
	port->is_polling = true;
}

static void completed_poll(struct ring_port *port)
{
	port->is_polling = false;
	if (port->owner)
		port->ring->ops->writable(port->owner);
	else
		free_if_done(port);
}

/* ---- listening sockets ---- */

/* one completion per request; connections still waiting complete the next one */
static void arm_listener(struct ring_listener *l)
{
	struct io_uring_sqe *sqe = next_request(l->ring);

	io_uring_prep_poll_add(sqe, l->fd, POLLIN);
	set_data(sqe, l, KIND_LISTENER);
	l->is_armed = true;
}

static void drop_listener(struct ring_listener *l)
{
	list_remove(&l->ring->listeners, &l->node);
	slab_put(l->ring->listener_slab, l);
}

struct ring_listener *ring_listener_new(
    struct ring *r, int fd, void (*ready)(void *owner), void *owner)
{
	struct ring_listener *l = slab_get(r->listener_slab);

	l->ring = r;
	l->fd = fd;
	l->ready = ready;
	l->owner = owner;
	list_push_back(&r->listeners, &l->node);
	arm_listener(l);
	return l;
}

static void completed_listener(struct ring_listener *l)
{
	l->is_armed = false;
	if (l->ready)
		l->ready(l->owner);
	if (l->ready)
		arm_listener(l);
	else
		drop_listener(l);
}

/* ---- completions ---- */

/* The result of a send is kept as soon as it is known; other completions wait for
 * ring_deliver. */
static void keep(struct ring *r, const struct io_uring_cqe *cqe)
{
	enum kind kind = (enum kind)(cqe->user_data & KIND_MASK);

	if (kind == KIND_SEND) {
		((struct ring_port *)object_of(cqe))->send_result = cqe->res;
		return;
	}
	if (kind == KIND_NONE)
		return;
	if (r->batch_count == r->batch_cap) {
		r->batch_cap = r->batch_cap ? r->batch_cap * 2 : 256;
		r->batch = mem_resize(r->batch, r->batch_cap * sizeof(*r->batch));
	}
	r->batch[r->batch_count++] = *cqe;
}

static void collect(struct ring *r)
{
	bool is_overflown;

	do {
		struct io_uring_cqe *cqe;
		unsigned head, count = 0;
		io_uring_for_each_cqe(&r->uring, head, cqe)
		{
			keep(r, cqe);
			count++;
		}
		io_uring_cq_advance(&r->uring, count);
		is_overflown =
		    IO_URING_READ_ONCE(*r->uring.sq.kflags) & IORING_SQ_CQ_OVERFLOW;
	} while (is_overflown && io_uring_get_events(&r->uring) >= 0);
}

static void dispatch(struct ring *r, const struct io_uring_cqe *cqe)
{
	switch ((enum kind)(cqe->user_data & KIND_MASK)) {
	case KIND_RECEIVE:
		completed_receive(object_of(cqe), cqe);
		break;
	case KIND_POLL:
		completed_poll(object_of(cqe));
		break;
	case KIND_LISTENER:
		completed_listener(object_of(cqe));
		break;
	case KIND_JOINED:
		r->is_joined_armed = false;
		r->is_joined_ready = true;
		break;
	default:
		break;
	}
}

void ring_deliver(struct ring *r)
{
	collect(r);
	conclude_all(r);
	while (r->batch_at < r->batch_count) {
		/* a copy, because the array may move when an owner settles a send */
		struct io_uring_cqe cqe = r->batch[r->batch_at++];
		dispatch(r, &cqe);
	}
	r->batch_at = r->batch_count = 0;
}

/* Reports the completions of one port before those that came earlier. */
static void deliver_port(struct ring *r, const struct ring_port *port)
{
	for (size_t i = r->batch_at; i < r->batch_count; i++) {
		struct io_uring_cqe cqe = r->batch[i];
		if (object_of(&cqe) != port)
			continue;
		r->batch[i].user_data = KIND_NONE;
		dispatch(r, &cqe);
	}
	/* while there are any, the next call does not wait */
	while (r->batch_count > r->batch_at &&
	       r->batch[r->batch_count - 1].user_data == KIND_NONE)
		r->batch_count--;
}

/* Submits until the kernel has taken the request at this position. */
static void submit_until(struct ring *r, unsigned at)
{
	while (!r->broken && !is_taken(r, at)) {
		int result = io_uring_submit(&r->uring);
		if (result < 0 && result != -EINTR)
			r->broken = -result;
	}
}

/* Submits everything, and lets cancelled requests end, because only then are their
 * sockets closed. */
static void submit_all(struct ring *r)
{
	unsigned last = r->uring.sq.sqe_tail;

	if (r->broken)
		return;
	/* one call is usually enough for both */
	(void)io_uring_submit_and_get_events(&r->uring);
	if (is_taken(r, last))
		return;
	submit_until(r, last);
	if (!r->broken)
		(void)io_uring_get_events(&r->uring);
}

void ring_port_detach(struct ring_port *port)
{
	struct ring *r = port->ring;

	assert(!port->is_sending);
	port->wants_bytes = false;
	cancel_receive(port);
	if (port->is_polling)
		cancel(r, port, KIND_POLL);
	while ((port->is_receiving || port->is_polling) && !r->broken) {
		submit_all(r);
		collect(r);
		deliver_port(r, port);
	}
	/* the kernel may have received bytes that nobody will report */
	if (port->is_receiving)
		r->ops->ended(port->owner, r->broken);
	port->owner = NULL;
	port->is_closed = true;
	free_if_done(port);
}

void ring_settle_all(struct ring *r)
{
	submit_all(r);
	collect(r);
	conclude_all(r);
}

void ring_settle(struct ring_port *port)
{
	struct ring *r = port->ring;

	if (!port->is_sending)
		return;
	submit_until(r, port->request_at);
	collect(r);
	if (!is_taken(r, port->request_at))
		port->send_result = -EAGAIN;
	conclude(port);
}

void ring_listener_free(struct ring_listener **lp)
{
	struct ring_listener *l = *lp;

	if (!l)
		return;
	*lp = NULL;
	l->ready = NULL;
	/* otherwise it is being reported right now and will be freed afterwards */
	if (l->is_armed) {
		cancel(l->ring, l, KIND_LISTENER);
		submit_all(l->ring);
		collect(l->ring);
	}
}

/* ---- waiting ---- */

static int wait_for_one(struct ring *r, int64_t wait_us)
{
	struct io_uring_cqe *cqe;
	struct __kernel_timespec most = {
	    .tv_sec = wait_us / 1000000,
	    .tv_nsec = wait_us % 1000000 * 1000,
	};

	if (wait_us == 0 || r->is_hurried || r->batch_count > 0)
		return io_uring_submit_and_get_events(&r->uring);
	if (wait_us < 0)
		return io_uring_submit_and_wait(&r->uring, 1);
	return io_uring_submit_and_wait_timeout(&r->uring, &cqe, 1, &most, NULL);
}

int ring_wait(struct ring *r, int64_t wait_us)
{
	if (r->joined_fd >= 0 && !r->is_joined_armed) {
		struct io_uring_sqe *sqe = next_request(r);
		io_uring_prep_poll_add(sqe, r->joined_fd, POLLIN);
		set_data(sqe, NULL, KIND_JOINED);
		r->is_joined_armed = true;
	}
	int result = r->broken ? -r->broken : wait_for_one(r, wait_us);
	r->is_hurried = false;
	if (result >= 0 || result == -ETIME || result == -EINTR || result == -EBUSY)
		return 0;
	r->broken = errno = -result;
	return -1;
}

void ring_join(struct ring *r, int fd)
{
	r->joined_fd = fd;
}

bool ring_take_joined_ready(struct ring *r)
{
	bool is_ready = r->is_joined_ready;

	r->is_joined_ready = false;
	return is_ready;
}

/* ---- the end ---- */

void ring_abandon(struct ring *r)
{
	struct node *n;

	r->broken = r->broken ? r->broken : EPIPE;
	ring_deliver(r);
	while ((n = list_first(&r->unsettled))) {
		struct ring_port *port = container_of(n, struct ring_port, unsettled);
		port->send_result = -EAGAIN;
		if (!port->is_sending)
			close(port->fd);
		port->is_receiving = port->is_polling = false;
		conclude(port);
	}
	while ((n = list_first(&r->listeners)))
		drop_listener(container_of(n, struct ring_listener, node));
	while ((n = list_first(&r->open))) {
		struct ring_port *port = container_of(n, struct ring_port, node);
		void *owner = port->owner;
		free_port(port);
		if (owner)
			r->ops->lost(owner);
	}
}

static bool is_left(const struct ring *r)
{
	return list_is_empty(&r->open) && list_is_empty(&r->listeners);
}

void ring_free(struct ring **rp)
{
	struct ring *r = *rp;

	if (!r)
		return;
	r->joined_fd = -1;
	for (int i = 0; i < LEAVING_TURNS_MOST && !is_left(r); i++) {
		if (ring_wait(r, 1000) < 0)
			break;
		ring_deliver(r);
	}
	if (!is_left(r))
		ring_abandon(r);
	ring_take_down(r);
	*rp = NULL;
}

void ring_block_usage(
    const struct ring *r, size_t *used, size_t *free_count, size_t *bytes)
{
	block_pool_usage(r->buffers.pool, used, free_count, bytes);
}

#endif
