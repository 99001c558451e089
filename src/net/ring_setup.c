/*
 * Makes a ring: its queues, and a test of everything that is used later.
 */
#include "config.h"
#include "net/ring_parts.h"

#ifdef HAVE_URING

#	include <errno.h>
#	include <string.h>
#	include <unistd.h>

enum {
	REQUESTS = 1024, /* if more are queued, the first ones are submitted */
	/* beyond this the kernel keeps completions elsewhere, which is slower */
	COMPLETIONS = 16384,
	/* Queues are locked memory, of which a user may have little for all processes
	 * together.  If it is not enough, they are made this many times smaller. */
	SMALLER = 4,
	REQUESTS_LEAST = 64,
	/* A power of two.  This much can arrive at once, also for paused streams. */
	BUFFERS = 64,
	TRIAL_WAIT_US = 1000000,
	TRIAL_TURNS_MOST = 20,
};

/* ---- the trial ---- */

struct trial {
	struct ring_port *port;
	size_t received;
	ssize_t sent;
	bool has_ended;
};

static void trial_received(void *owner, struct block *block, size_t len)
{
	struct trial *t = owner;

	(void)block;
	t->received += len;
}

static void trial_ended(void *owner, int errnum)
{
	struct trial *t = owner;

	(void)errnum;
	t->has_ended = true;
}

static void trial_sent(void *owner, ssize_t result, size_t asked)
{
	struct trial *t = owner;

	(void)asked;
	t->sent += result;
}

static void trial_nothing(void *owner)
{
	(void)owner;
}

static const struct ring_ops trial_ops = {
    .received = trial_received,
    .ended = trial_ended,
    .sent = trial_sent,
    .writable = trial_nothing,
    .lost = trial_nothing,
};

/* Tests two sends and a close of one end: what arrives at the other end, in how many
 * parts, and the end. */
static int try_pair(struct ring *r, const int fds[2])
{
	struct trial from = {.sent = 0}, to = {.sent = 0};
	struct iovec pieces[2] = {{(void *)"ab", 2}, {(void *)"cd", 2}};

	to.port = ring_port_new(r, fds[0], &to);
	from.port = ring_port_new(r, fds[1], &from);
	ring_receive(to.port);
	for (int i = 0; i < TRIAL_TURNS_MOST && to.received < 6 && !r->broken; i++) {
		if (!ring_is_sending(from.port) && from.sent < 6)
			ring_send(from.port, pieces, from.sent ? 1 : 2, true);
		if (ring_wait(r, TRIAL_WAIT_US) == 0)
			ring_deliver(r);
	}
	bool is_armed = to.port->is_receiving;
	ring_settle(from.port);
	ring_port_leave(from.port);
	for (int i = 0; i < TRIAL_TURNS_MOST && !to.has_ended && !r->broken; i++)
		if (ring_wait(r, TRIAL_WAIT_US) == 0)
			ring_deliver(r);
	ring_port_leave(to.port);
	return to.received == 6 && from.sent == 6 && is_armed && to.has_ended ? 0 : -1;
}

static int try_out(struct ring *r, struct err *err)
{
	const struct ring_ops *ops = r->ops;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(err, "socketpair: %s", strerror(errno));
	r->ops = &trial_ops;
	int result = try_pair(r, fds);
	if (result < 0)
		err_set(err, "the kernel's io_uring lacks something: %s",
		    r->broken ? strerror(r->broken) : "a trial failed");
	r->ops = ops;
	return result;
}

/* ---- the ring ---- */

static int make_queues(struct ring *r, struct err *err)
{
	const unsigned needed =
	    IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG | IORING_FEAT_CQE_SKIP;
	unsigned requests = REQUESTS, completions = COMPLETIONS;
	struct io_uring_params params;
	int result;

	for (;;) {
		params = (struct io_uring_params){
		    .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			     IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE,
		    .cq_entries = completions,
		};
		result = io_uring_queue_init_params(requests, &r->uring, &params);
		if (result != -ENOMEM || requests <= REQUESTS_LEAST)
			break;
		requests /= SMALLER;
		completions /= SMALLER;
	}
	if (result < 0) {
		r->uring.ring_fd = -1;
		return err_set(err, "io_uring_setup: %s%s", strerror(-result),
		    result == -EINVAL ? " (Linux 6.1 or newer is needed)" : "");
	}
	if ((params.features & needed) != needed)
		return err_set(err, "the kernel's io_uring is too old");
	/* an optimization; failure does not matter */
	(void)io_uring_register_ring_fd(&r->uring);
	return 0;
}

struct ring *ring_new(struct mem *mem, const struct ring_ops *ops, struct err *err)
{
	struct ring *r = mem_zero(sizeof(*r));

	r->ops = ops;
	r->joined_fd = -1;
	list_init(&r->open);
	list_init(&r->unsettled);
	list_init(&r->listeners);
	r->ports = slab_new(mem, "ring_port", sizeof(struct ring_port));
	r->listener_slab = slab_new(mem, "ring_listener", sizeof(struct ring_listener));
	r->gathers = slab_new(mem, "ring_gather", sizeof(struct ring_gather));
	if (make_queues(r, err) < 0 || ring_make_buffers(r, BUFFERS, err) < 0 ||
	    try_out(r, err) < 0) {
		ring_free(&r);
		return NULL;
	}
	return r;
}

#endif
