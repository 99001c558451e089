/*
 * A minimal relay with io_uring. Each client gets its own connection to the server, and
 * the relay forwards bytes directly from the buffer that the kernel has filled. One
 * system call per turn submits all sends and waits. Benchmarks compare the cost of a
 * pooler with io_uring to this relay.
 *
 *   relay_uring LISTEN_PORT SERVER_PORT [THREADS]     on 127.0.0.1, until a signal ends
 * it
 */
#include <liburing.h>
#include <poll.h>

#include "threads.h"
#include "tool.h"

#define ENTRIES     1024
#define COMPLETIONS 8192
#define BUFFERS     2048 /* a power of two */
#define BUFFER_LEN  8192
#define GROUP       0

/* The kind of an operation, in the low bits of its user data. The other bits are a
 * pointer to the side, or the number of the buffer. */
enum {
	OP_CLIENT,
	OP_RECEIVE,
	OP_SEND,
	OP_MASK = 7,
};

struct pair;

struct side {
	int fd;
	struct side *other;
	struct pair *pair;
};

struct pair {
	struct side client, server;
	int receiving; /* receives without their last completion */
};

struct relay {
	struct io_uring ring;
	struct io_uring_buf_ring *free_buffers;
	uint8_t *buffers;
	const struct place *place;
	int returned;
};

static struct io_uring_sqe *next_entry(struct relay *r)
{
	struct io_uring_sqe *e;

	while (!(e = io_uring_get_sqe(&r->ring)))
		io_uring_submit(&r->ring);
	return e;
}

/* The next io_uring_buf_ring_advance() gives the buffer back to the kernel. */
static void give_back(struct relay *r, unsigned buffer)
{
	io_uring_buf_ring_add(r->free_buffers, r->buffers + (size_t)buffer * BUFFER_LEN,
	    BUFFER_LEN, (unsigned short)buffer, BUFFERS - 1, r->returned++);
}

/* Asks for one completion when a client has come. */
static void wait_for_client(struct relay *r)
{
	struct io_uring_sqe *e = next_entry(r);

	io_uring_prep_poll_add(e, r->place->clients, POLLIN);
	io_uring_sqe_set_data64(e, OP_CLIENT);
}

static void start_receiving(struct relay *r, struct side *s)
{
	struct io_uring_sqe *e = next_entry(r);

	io_uring_prep_recv_multishot(e, s->fd, NULL, 0, 0);
	e->flags |= IOSQE_BUFFER_SELECT;
	e->buf_group = GROUP;
	io_uring_sqe_set_data64(e, (uintptr_t)s | OP_RECEIVE);
	s->pair->receiving++;
}

static void take_client(struct relay *r)
{
	int fd = place_client(r->place), to = connect_to(r->place->server_port);

	wait_for_client(r);
	if (to < 0) {
		close(fd);
		return;
	}
	struct pair *p = need(1, sizeof(*p));
	set_nodelay(fd);
	p->client = (struct side){fd, &p->server, p};
	p->server = (struct side){to, &p->client, p};
	start_receiving(r, &p->client);
	start_receiving(r, &p->server);
}

/* One side has ended. The other side ends as a consequence, and the last one cleans up.
 * Pending sends complete before the descriptors are closed and can be reused. */
static void receive_ended(struct relay *r, struct pair *p)
{
	io_uring_submit(&r->ring);
	if (--p->receiving) {
		shutdown(p->client.fd, SHUT_RDWR);
		shutdown(p->server.fd, SHUT_RDWR);
		return;
	}
	close(p->client.fd);
	close(p->server.fd);
	free(p);
}

static void pass_on(struct relay *r, const struct side *s, unsigned buffer, int len)
{
	struct io_uring_sqe *e = next_entry(r);

	io_uring_prep_send(e, s->other->fd, r->buffers + (size_t)buffer * BUFFER_LEN,
	    (size_t)len, MSG_NOSIGNAL | MSG_WAITALL);
	io_uring_sqe_set_data64(e, (uint64_t)buffer << 3 | OP_SEND);
}

static void received(struct relay *r, const struct io_uring_cqe *c)
{
	struct side *s = (struct side *)(uintptr_t)(c->user_data & ~(uint64_t)OP_MASK);

	if (c->res > 0)
		pass_on(r, s, c->flags >> IORING_CQE_BUFFER_SHIFT, c->res);
	if (c->flags & IORING_CQE_F_MORE)
		return;
	if (c->res > 0 || c->res == -ENOBUFS) {
		s->pair->receiving--;
		start_receiving(r, s);
	} else {
		receive_ended(r, s->pair);
	}
}

static void take_completions(struct relay *r)
{
	struct io_uring_cqe *c;
	unsigned head, count = 0;

	io_uring_for_each_cqe(&r->ring, head, c)
	{
		count++;
		if ((c->user_data & OP_MASK) == OP_RECEIVE)
			received(r, c);
		else if ((c->user_data & OP_MASK) == OP_SEND)
			give_back(r, (unsigned)(c->user_data >> 3));
		else
			take_client(r);
	}
	io_uring_buf_ring_advance(r->free_buffers, r->returned);
	r->returned = 0;
	io_uring_cq_advance(&r->ring, count);
}

static void make_ring(struct relay *r)
{
	struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER |
					     IORING_SETUP_DEFER_TASKRUN |
					     IORING_SETUP_CQSIZE,
	    .cq_entries = COMPLETIONS};
	struct io_uring_buf_reg reg = {.ring_entries = BUFFERS, .bgid = GROUP};
	void *memory;
	int code = io_uring_queue_init_params(ENTRIES, &r->ring, &p);

	if (code < 0)
		die("no io_uring: %s", strerror(-code));
	if (posix_memalign(&memory, 4096, BUFFERS * sizeof(struct io_uring_buf)))
		die("no memory");
	r->free_buffers = memory;
	reg.ring_addr = (uintptr_t)memory;
	code = io_uring_register_buf_ring(&r->ring, &reg, 0);
	if (code < 0)
		die("no provided buffers: %s", strerror(-code));
	io_uring_buf_ring_init(r->free_buffers);
	r->buffers = need(BUFFERS, BUFFER_LEN);
	for (unsigned i = 0; i < BUFFERS; i++)
		give_back(r, i);
	io_uring_buf_ring_advance(r->free_buffers, r->returned);
	r->returned = 0;
}

static __attribute__((noreturn)) void *serve_place(void *place)
{
	struct relay r = {.place = place};

	make_ring(&r);
	wait_for_client(&r);
	for (;;) {
		io_uring_submit_and_wait(&r.ring, 1);
		take_completions(&r);
	}
}

int main(int argc, char **argv)
{
	serve_by_threads(argc, argv, serve_place);
}
