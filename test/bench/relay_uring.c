/*
 * A minimal relay with io_uring. Each client gets its own connection to the server, and
 * the relay forwards bytes directly from the buffer that the kernel has filled. One
 * system call per turn submits all sends and waits. Benchmarks compare the cost of a
 * pooler with io_uring to this relay.
 *
 *   relay_uring LISTEN_PORT SERVER_PORT [THREADS]     on 127.0.0.1, until a signal ends
 * it
 *
 * A side has one send at a time, because two that have to wait could change their
 * order. A send is first tried without waiting, and reports nothing if it succeeds;
 * only what the socket did not take is sent by a second one, which waits. While a side
 * has much to send, nothing is received from the other one.
 */
#include <liburing.h>
#include <poll.h>
#include <stdbool.h>

#include "threads.h"
#include "tool.h"

enum {
	ENTRIES = 1024,
	COMPLETIONS = 8192,
	QUEUED_MOST = 4, /* buffers that one side may have to send */
	TRIES = 100,
};

/* Few buffers stay in the processor's cache. The numbers are powers of two. Buffers are
 * counted from 0, the large ones behind the small ones. */
enum {
	SMALL,
	LARGE,
	GROUPS,
	SMALL_COUNT = 128,
	LARGE_COUNT = 16,
	BUFFERS = SMALL_COUNT + LARGE_COUNT,
	NONE = BUFFERS,
	SMALL_LEN = 8 << 10,
	LARGE_LEN = 64 << 10,
};

/* The kind of an operation, in the low bits of its user data. The other bits are a
 * pointer to the side. */
enum {
	OP_CLIENT,
	OP_RECEIVE,
	OP_TRY,
	OP_SEND,
	OP_CANCEL,
	OP_MASK = 7,
};

struct side {
	int fd;
	struct side *other;
	struct pair *pair;
	/* the buffers to send to this side, in order; the first one is being sent */
	unsigned first, last, queued;
	bool is_sending, is_receiving, is_cancelled;
	bool is_bulky;   /* much arrives at once: one receive is asked for at a time */
	bool has_ended;  /* nothing more is received, or nothing can be sent */
	bool is_broken;  /* nothing can be sent */
	bool is_starved; /* no buffer was free */
	struct side *next_starved;
	int result; /* of a send that is tried */
	struct side *next_trying;
};

struct pair {
	struct side client, server;
	int requests; /* of both sides, which the kernel has not completed */
	bool is_shut;
};

struct filled {
	unsigned next;
	int from, len;
};

struct group {
	struct io_uring_buf_ring *free_buffers;
	uint8_t *memory;
	unsigned first, count, len;
	int returned;
};

struct relay {
	struct io_uring ring;
	struct group groups[GROUPS];
	struct filled filled[BUFFERS];
	struct side *starved, *trying;
	const struct place *place;
	bool is_urgent; /* something has to be done as soon as tries are over */
};

static struct io_uring_sqe *next_entry(struct relay *r)
{
	struct io_uring_sqe *e;

	while (!(e = io_uring_get_sqe(&r->ring)))
		io_uring_submit(&r->ring);
	return e;
}

static struct group *group_of(struct relay *r, unsigned buffer)
{
	return &r->groups[buffer < SMALL_COUNT ? SMALL : LARGE];
}

static uint8_t *bytes_of(struct relay *r, unsigned buffer)
{
	const struct group *g = group_of(r, buffer);

	return g->memory + (size_t)(buffer - g->first) * g->len;
}

/* The kernel gets it with the next call of advance_all(). */
static void give_back(struct relay *r, unsigned buffer)
{
	struct group *g = group_of(r, buffer);

	io_uring_buf_ring_add(g->free_buffers, bytes_of(r, buffer), g->len,
	    (unsigned short)buffer, (int)g->count - 1, g->returned++);
}

/* Says whether there were any. */
static bool advance_all(struct relay *r)
{
	bool has_any = false;

	for (int i = 0; i < GROUPS; i++) {
		struct group *g = &r->groups[i];
		has_any = has_any || g->returned;
		io_uring_buf_ring_advance(g->free_buffers, g->returned);
		g->returned = 0;
	}
	return has_any;
}

/* Asks for one completion when a client has come. */
static void wait_for_client(struct relay *r)
{
	struct io_uring_sqe *e = next_entry(r);

	io_uring_prep_poll_add(e, r->place->clients, POLLIN);
	io_uring_sqe_set_data64(e, OP_CLIENT);
}

/* ---- receiving ---- */

static void start_receiving(struct relay *r, struct side *s)
{
	struct io_uring_sqe *e = next_entry(r);

	if (s->is_bulky)
		io_uring_prep_recv(e, s->fd, NULL, 0, 0);
	else
		io_uring_prep_recv_multishot(e, s->fd, NULL, 0, 0);
	e->flags |= IOSQE_BUFFER_SELECT;
	e->buf_group = s->is_bulky ? LARGE : SMALL;
	io_uring_sqe_set_data64(e, (uintptr_t)s | OP_RECEIVE);
	s->is_receiving = true;
	s->is_cancelled = false;
	s->pair->requests++;
}

static void stop_receiving(struct relay *r, struct side *s)
{
	struct io_uring_sqe *e;

	if (!s->is_receiving || s->is_cancelled)
		return;
	e = next_entry(r);
	io_uring_prep_cancel64(e, (uintptr_t)s | OP_RECEIVE, 0);
	io_uring_sqe_set_data64(e, OP_CANCEL);
	s->is_cancelled = true;
}

static void receive_again(struct relay *r, struct side *s)
{
	if (!s->is_receiving && !s->is_starved && !s->has_ended &&
	    s->other->queued < QUEUED_MOST)
		start_receiving(r, s);
}

static void wait_for_buffer(struct relay *r, struct side *s)
{
	s->is_starved = true;
	s->next_starved = r->starved;
	r->starved = s;
}

/* Buffers are free again. */
static void feed_starved(struct relay *r)
{
	struct side *s;

	while ((s = r->starved)) {
		r->starved = s->next_starved;
		s->is_starved = false;
		receive_again(r, s);
	}
}

/* ---- the end of a pair ---- */

static void forget_queue(struct relay *r, struct side *s)
{
	while (s->first != NONE) {
		give_back(r, s->first);
		s->first = r->filled[s->first].next;
	}
	s->queued = 0;
}

static void forget_starved(struct relay *r, const struct side *s)
{
	struct side **p = &r->starved;

	while (*p && *p != s)
		p = &(*p)->next_starved;
	if (*p)
		*p = s->next_starved;
}

static void free_pair(struct relay *r, struct pair *p)
{
	struct side *sides[] = {&p->client, &p->server};

	for (int i = 0; i < 2; i++) {
		forget_queue(r, sides[i]);
		forget_starved(r, sides[i]);
		close(sides[i]->fd);
	}
	free(p);
}

/* A pair ends when one side has ended and the other one has got everything. Descriptors
 * are closed, and can be used again, when the kernel has completed all requests. */
static void end_if_due(struct relay *r, struct pair *p)
{
	bool is_due = (p->client.has_ended && !p->server.queued) ||
		      (p->server.has_ended && !p->client.queued);

	if (!is_due && (p->client.has_ended || p->server.has_ended))
		r->is_urgent = true;
	if (is_due && !p->is_shut) {
		p->is_shut = true;
		shutdown(p->client.fd, SHUT_RDWR);
		shutdown(p->server.fd, SHUT_RDWR);
	}
	if (p->is_shut && !p->requests)
		free_pair(r, p);
}

/* ---- sending ---- */

static void send_first(struct relay *r, struct side *s, bool may_wait)
{
	struct io_uring_sqe *e = next_entry(r);
	const struct filled *f = &r->filled[s->first];

	io_uring_prep_send(e, s->fd, bytes_of(r, s->first) + f->from, (size_t)f->len,
	    MSG_NOSIGNAL | MSG_WAITALL | (may_wait ? 0 : MSG_DONTWAIT));
	io_uring_sqe_set_data64(e, (uintptr_t)s | (may_wait ? OP_SEND : OP_TRY));
	s->is_sending = true;
	s->pair->requests++;
	if (may_wait)
		return;
	e->flags |= IOSQE_CQE_SKIP_SUCCESS;
	s->result = f->len;
	s->next_trying = r->trying;
	r->trying = s;
	if (s->queued > 1)
		r->is_urgent = true;
}

static void pass_on(struct relay *r, struct side *to, unsigned buffer, int len)
{
	if (to->is_broken) {
		give_back(r, buffer);
		return;
	}
	r->filled[buffer] = (struct filled){NONE, 0, len};
	if (to->first == NONE)
		to->first = buffer;
	else
		r->filled[to->last].next = buffer;
	to->last = buffer;
	to->queued++;
	if (to->is_sending)
		r->is_urgent = true;
	else
		send_first(r, to, false);
	if (to->queued >= QUEUED_MOST)
		stop_receiving(r, to->other);
}

static void drop_first(struct relay *r, struct side *s)
{
	unsigned done = s->first;

	s->first = r->filled[done].next;
	s->queued--;
	give_back(r, done);
}

static void sent(struct relay *r, struct side *s, int result)
{
	struct filled *f = &r->filled[s->first];

	s->is_sending = false;
	s->pair->requests--;
	if (result > 0) {
		f->from += result;
		f->len -= result;
	}
	if (f->len == 0) {
		drop_first(r, s);
	} else if (result < 0 && result != -EAGAIN) {
		s->has_ended = s->is_broken = true;
		forget_queue(r, s);
	}
	if (s->first != NONE)
		send_first(r, s, f->len > 0);
	receive_again(r, s->other);
	end_if_due(r, s->pair);
}

/* The kernel has tried all these sends, and their results are known. */
static void finish_tries(struct relay *r)
{
	struct side *s = r->trying, *next;

	r->trying = NULL;
	for (; s; s = next) {
		next = s->next_trying;
		sent(r, s, s->result);
	}
}

/* ---- completions ---- */

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
	p->client = (struct side){fd, &p->server, p, .first = NONE};
	p->server = (struct side){to, &p->client, p, .first = NONE};
	start_receiving(r, &p->client);
	start_receiving(r, &p->server);
}

static struct side *side_of(const struct io_uring_cqe *c)
{
	return (struct side *)(uintptr_t)(c->user_data & ~(uint64_t)OP_MASK);
}

static void received(struct relay *r, const struct io_uring_cqe *c)
{
	struct side *s = side_of(c);
	unsigned buffer = c->flags >> IORING_CQE_BUFFER_SHIFT;

	if (c->res > 0) {
		s->is_bulky = c->res >= SMALL_LEN;
		pass_on(r, s->other, buffer, c->res);
	} else if (c->flags & IORING_CQE_F_BUFFER) {
		give_back(r, buffer);
	}
	if (c->flags & IORING_CQE_F_MORE) {
		if (s->is_bulky)
			stop_receiving(r, s);
		return;
	}
	s->is_receiving = false;
	s->pair->requests--;
	if (c->res == -ENOBUFS)
		wait_for_buffer(r, s);
	else if (c->res <= 0 && c->res != -ECANCELED)
		s->has_ended = true;
	receive_again(r, s);
	end_if_due(r, s->pair);
}

/* Tries report only that they did not send everything. */
static void take_results(struct relay *r)
{
	struct io_uring_cqe *c;
	unsigned head;

	io_uring_for_each_cqe(&r->ring, head, c)
	{
		if ((c->user_data & OP_MASK) == OP_TRY)
			side_of(c)->result = c->res;
	}
}

static void take_completion(struct relay *r, const struct io_uring_cqe *c)
{
	switch (c->user_data & OP_MASK) {
	case OP_RECEIVE:
		received(r, c);
		break;
	case OP_SEND:
		sent(r, side_of(c), c->res);
		break;
	case OP_CLIENT:
		take_client(r);
		break;
	}
}

static void take_completions(struct relay *r)
{
	struct io_uring_cqe *c;
	unsigned head, count = 0;

	take_results(r);
	finish_tries(r);
	io_uring_for_each_cqe(&r->ring, head, c)
	{
		count++;
		take_completion(r, c);
	}
	if (advance_all(r))
		feed_starved(r);
	io_uring_cq_advance(&r->ring, count);
}

static int submit_and_wait(struct relay *r)
{
	if (!r->is_urgent)
		return io_uring_submit_and_wait(&r->ring, 1);
	r->is_urgent = false;
	return io_uring_submit_and_get_events(&r->ring);
}

/* The memory of rings that have just ended may still count for a moment. */
static void make_queues(struct relay *r)
{
	struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER |
					     IORING_SETUP_DEFER_TASKRUN |
					     IORING_SETUP_CQSIZE,
	    .cq_entries = COMPLETIONS};
	int code = -ENOMEM;

	for (int i = 0; code == -ENOMEM && i < TRIES; i++) {
		if (i > 0)
			usleep(20000);
		code = io_uring_queue_init_params(ENTRIES, &r->ring, &p);
	}
	if (code < 0)
		die("no io_uring: %s", strerror(-code));
}

static void make_group(
    struct relay *r, int id, unsigned first, unsigned count, unsigned len)
{
	struct group *g = &r->groups[id];
	struct io_uring_buf_reg reg = {.ring_entries = count, .bgid = (uint16_t)id};
	void *memory;
	int code;

	if (posix_memalign(&memory, 4096, count * sizeof(struct io_uring_buf)))
		die("no memory");
	reg.ring_addr = (uintptr_t)memory;
	code = io_uring_register_buf_ring(&r->ring, &reg, 0);
	if (code < 0)
		die("no provided buffers: %s", strerror(-code));
	*g = (struct group){memory, need(count, len), first, count, len, 0};
	io_uring_buf_ring_init(g->free_buffers);
	for (unsigned i = 0; i < count; i++)
		give_back(r, first + i);
}

static __attribute__((noreturn)) void *serve_place(void *place)
{
	struct relay r = {.place = place};

	make_queues(&r);
	make_group(&r, SMALL, 0, SMALL_COUNT, SMALL_LEN);
	make_group(&r, LARGE, SMALL_COUNT, LARGE_COUNT, LARGE_LEN);
	advance_all(&r);
	wait_for_client(&r);
	for (;;)
		if (submit_and_wait(&r) >= 0)
			take_completions(&r);
}

int main(int argc, char **argv)
{
	serve_by_threads(argc, argv, serve_place);
}
