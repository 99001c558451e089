/*
 * A minimal relay with epoll. Each client gets its own connection to the server, and
 * the relay forwards all bytes unchanged. It makes one wait per turn, and one receive
 * and one send per event. Benchmarks compare the cost of a pooler with epoll to this
 * relay.
 *
 *   relay_epoll LISTEN_PORT SERVER_PORT [THREADS]     on 127.0.0.1, until a signal ends
 * it
 */
#include <poll.h>
#include <sys/epoll.h>

#include "threads.h"
#include "tool.h"

#define EVENTS 256
#define INPUT  (64 << 10)

struct side {
	int fd;
	struct side *other;
};

struct pair {
	struct side client, server;
	struct pair *next_closed;
};

struct relay {
	const struct place *place;
	int poll;
	struct pair *closed; /* freed after the turn: later events may point to them */
	uint8_t *input;
};

static void watch(const struct relay *r, int fd, void *side)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = side};

	if (epoll_ctl(r->poll, EPOLL_CTL_ADD, fd, &event) < 0)
		die_of("epoll_ctl");
}

static void take_client(const struct relay *r)
{
	int fd = place_client(r->place);
	int to = connect_to(r->place->server_port);

	if (to < 0) {
		close(fd);
		return;
	}
	struct pair *p = need(1, sizeof(*p));
	set_nodelay(fd);
	set_nonblocking(fd);
	set_nonblocking(to);
	p->client = (struct side){fd, &p->server};
	p->server = (struct side){to, &p->client};
	watch(r, fd, &p->client);
	watch(r, to, &p->server);
}

static void close_pair(struct relay *r, struct side *s)
{
	struct side *o = s->other;
	/* The client's side comes first in a pair. */
	struct pair *p = (struct pair *)(s < o ? s : o);

	close(s->fd);
	close(o->fd);
	s->fd = o->fd = -1;
	p->next_closed = r->closed;
	r->closed = p;
}

/* Sends all bytes and waits when necessary, so the relay needs no queues. */
static int pass_on(int fd, const uint8_t *p, size_t len)
{
	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		struct pollfd writable = {.fd = fd, .events = POLLOUT};

		if (n < 0 && errno != EAGAIN)
			return -1;
		if (n < 0) {
			poll(&writable, 1, -1);
			continue;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static void serve(struct relay *r, struct side *s)
{
	if (s->fd < 0)
		return;
	ssize_t n = recv(s->fd, r->input, INPUT, 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0 || pass_on(s->other->fd, r->input, (size_t)n) < 0)
		close_pair(r, s);
}

static void free_closed(struct relay *r)
{
	while (r->closed) {
		struct pair *p = r->closed;
		r->closed = p->next_closed;
		free(p);
	}
}

static void run(struct relay *r)
{
	struct epoll_event events[EVENTS];

	for (;;) {
		int n = epoll_wait(r->poll, events, EVENTS, -1);

		for (int i = 0; i < n; i++)
			if (events[i].data.ptr)
				serve(r, events[i].data.ptr);
			else
				take_client(r);
		free_closed(r);
	}
}

static void *serve_place(void *place)
{
	struct relay r = {.place = place};

	r.input = need(1, INPUT);
	r.poll = epoll_create1(EPOLL_CLOEXEC);
	if (r.poll < 0)
		die_of("epoll_create1");
	watch(&r, r.place->clients, NULL);
	run(&r);
	return NULL;
}

int main(int argc, char **argv)
{
	serve_by_threads(argc, argv, serve_place);
}
