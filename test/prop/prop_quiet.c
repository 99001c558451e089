/* links: net base */
/*
 * Conversations through relays, between peers on another thread: nothing but their
 * bytes wakes the loop, and each waits until everything said before has arrived.  So an
 * event that is lost, or a send that waits for another event, stops the conversation.
 * Once with each engine.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/stream.h"
#include "prop.h"

enum {
	LINES_MOST = 3,
	TURNS = 60, /* of one conversation */
	PATTERN = 251,
	PORTION = 70000,
	PATIENCE_MS = 20000,
	HUSHED_US = 300,
};

struct fixture;

/* One end of a relay: what it receives goes to the other end. */
struct end {
	struct stream stream;
	struct line *line;
	struct end *other;
	bool holds_other; /* the other one has paused because of our output */
	bool is_hushed;
};

struct line {
	struct fixture *fixture;
	struct end ends[2];
	struct deadline quiesced;
};

/* What the peers of a line have said and heard; index: the end that they talk to. */
struct talk {
	int fd[2];
	size_t to_say[2], said[2], heard[2];
};

struct fixture {
	struct loop *loop;
	struct mem mem;
	struct net net;
	uint64_t random;
	unsigned line_count;
	struct line lines[LINES_MOST];
	/* the other thread's */
	uint64_t peers_random;
	struct talk talks[LINES_MOST];
	uint8_t pattern[PORTION + PATTERN]; /* byte at position p is p % 251 */
	uint8_t room[PORTION];
	int done_fd;
};

static unsigned draw(uint64_t *random, unsigned below)
{
	return (unsigned)(random_next(random) >> 20) % below;
}

/* ---- the relays ---- */

static const struct stream_ops ops;

static void resume(struct end *e)
{
	if (!e->other->holds_other && !e->is_hushed)
		stream_resume(&e->stream);
}

/* The socket goes to another stream, as if that were on another thread. */
static void move(struct end *e)
{
	struct net *net = e->stream.net;
	struct buf unread;

	buf_init(&unread, 0);
	stream_put_unread(&e->stream, &unread);
	int fd = dup(e->stream.fd);
	stream_close(&e->stream);
	stream_open(&e->stream, net, fd, &ops);
	CHECK(stream_write(&e->other->stream, unread.bytes, unread.len) == 0);
	buf_done(&unread);
	if (e->other->holds_other)
		stream_pause(&e->stream);
	/* all output was sent, but the other stream was not yet told */
	if (e->holds_other) {
		e->holds_other = false;
		resume(e->other);
	}
}

static void hushed_long_enough(struct deadline *d)
{
	struct line *l = container_of(d, struct line, quiesced);

	for (int i = 0; i < 2; i++) {
		struct end *e = &l->ends[i];
		bool was_hushed = e->is_hushed;
		e->is_hushed = false;
		if (was_hushed && stream_is_silent(&e->stream))
			move(e);
		else
			resume(e);
	}
}

static void quiesce(struct end *e)
{
	struct fixture *w = e->line->fixture;

	e->is_hushed = true;
	stream_quiesce(&e->stream);
	deadline_set(w->loop, &e->line->quiesced, loop_now(w->loop) + HUSHED_US);
}

static void pass_on(struct end *to, struct block *block, const uint8_t *p, size_t len)
{
	uint64_t *random = &to->line->fixture->random;

	while (len > 0) {
		size_t n = draw(random, 4) ? 200 + draw(random, 600) : len;
		if (n > len)
			n = len;
		if (draw(random, 2))
			stream_put(&to->stream, block, p, n);
		else
			CHECK(stream_write(&to->stream, p, n) == 0);
		p += n;
		len -= n;
	}
}

static void received(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	struct end *e = container_of(s, struct end, stream), *to = e->other;

	CHECK(!s->paused);
	pass_on(to, block, p, len);
	if (stream_is_above_high(&to->stream))
		stream_flush(&to->stream);
	if (stream_is_above_high(&to->stream)) {
		to->holds_other = true;
		stream_pause(s);
	}
	if (draw(&e->line->fixture->random, 200) == 0)
		quiesce(e);
}

static void drained(struct stream *s)
{
	struct end *e = container_of(s, struct end, stream);

	e->holds_other = false;
	resume(e->other);
}

static void ended(struct stream *s, const struct err *err)
{
	(void)s;
	fprintf(stderr, "ended: %s\n", err ? err->text : "by the peer");
	exit(1);
}

static const struct stream_ops ops = {
    .received = received, .ended = ended, .drained = drained};

/* ---- the peers ---- */

static void say_some(struct fixture *w, struct talk *t, int i)
{
	size_t n =
	    1 + draw(&w->peers_random, draw(&w->peers_random, 2) ? 300 : PORTION);

	if (n > t->to_say[i])
		n = t->to_say[i];
	ssize_t said = send(t->fd[i], w->pattern + t->said[i] % PATTERN, n,
	    MSG_DONTWAIT | MSG_NOSIGNAL);
	if (said <= 0)
		return;
	t->said[i] += (size_t)said;
	t->to_say[i] -= (size_t)said;
}

static void hear_some(struct fixture *w, struct talk *t, int i)
{
	size_t n =
	    1 + draw(&w->peers_random, draw(&w->peers_random, 2) ? 300 : PORTION);
	ssize_t got = recv(t->fd[i], w->room, n, MSG_DONTWAIT);

	if (got <= 0)
		return;
	CHECK(memcmp(w->room, w->pattern + t->heard[i] % PATTERN, (size_t)got) == 0);
	t->heard[i] += (size_t)got;
	CHECK(t->heard[i] <= t->said[1 - i]);
}

static bool is_silent(const struct talk *t)
{
	return !t->to_say[0] && !t->to_say[1] && t->said[0] == t->heard[1] &&
	       t->said[1] == t->heard[0];
}

/* Says and hears some on all lines.  False: everything has arrived. */
static bool may_go_on(struct fixture *w)
{
	struct pollfd fds[2 * LINES_MOST];
	bool is_over = true;

	for (unsigned i = 0; i < 2 * w->line_count; i++) {
		const struct talk *t = &w->talks[i / 2];
		bool says = t->to_say[i % 2] > 0;
		is_over = is_over && is_silent(t);
		fds[i] = (struct pollfd){.fd = t->fd[i % 2],
		    .events = (short)(POLLIN | (says ? POLLOUT : 0))};
	}
	if (is_over)
		return false;
	if (poll(fds, 2 * w->line_count, PATIENCE_MS) == 0) {
		fprintf(stderr, "the conversation does not go on\n");
		abort();
	}
	for (unsigned i = 0; i < 2 * w->line_count; i++) {
		if (fds[i].revents & POLLOUT)
			say_some(w, &w->talks[i / 2], i % 2);
		if (fds[i].revents & POLLIN)
			hear_some(w, &w->talks[i / 2], i % 2);
	}
	return true;
}

static size_t draw_len(uint64_t *random)
{
	static const unsigned most[] = {100, 100, 10000, 100000, 1000000};

	return 1 + draw(random, most[draw(random, sizeof(most) / sizeof(most[0]))]);
}

static void *talk_all(void *arg)
{
	struct fixture *w = arg;

	for (step_number = 0; step_number < TURNS; step_number++) {
		for (unsigned i = 0; i < w->line_count; i++) {
			struct talk *t = &w->talks[i];
			unsigned who = draw(&w->peers_random, 3);
			if (who != 0)
				t->to_say[0] = draw_len(&w->peers_random);
			if (who != 1)
				t->to_say[1] = draw_len(&w->peers_random);
		}
		while (may_go_on(w))
			;
	}
	eventfd_write(w->done_fd, 1);
	return NULL;
}

/* ---- the fixture ---- */

static void all_said(void *ctx, int fd)
{
	eventfd_t count;

	eventfd_read(fd, &count);
	loop_stop(ctx);
}

static void open_end(struct fixture *w, struct line *l, unsigned line, int i)
{
	struct end *e = &l->ends[i];
	int fds[2], size = 4096 << draw(&w->random, 8);

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int));
	e->line = l;
	e->other = &l->ends[1 - i];
	stream_open(&e->stream, &w->net, fds[0], &ops);
	w->talks[line].fd[i] = fds[1];
}

static void open_lines(struct fixture *w)
{
	w->line_count = 1 + draw(&w->random, LINES_MOST);
	for (unsigned i = 0; i < w->line_count; i++) {
		struct line *l = &w->lines[i];
		l->fixture = w;
		deadline_init(&l->quiesced, hushed_long_enough);
		open_end(w, l, i, 0);
		open_end(w, l, i, 1);
	}
}

static void close_lines(struct fixture *w)
{
	for (unsigned i = 0; i < 2 * w->line_count; i++) {
		stream_close(&w->lines[i / 2].ends[i % 2].stream);
		close(w->talks[i / 2].fd[i % 2]);
		deadline_clear(w->loop, &w->lines[i / 2].quiesced);
	}
}

static void run_fixture(uint64_t seed, bool is_on_ring)
{
	struct fixture *w = mem_zero(sizeof(*w));
	pthread_t peers;
	struct err err;

	w->random = seed * 2 + 88172645463325253u;
	w->peers_random = seed * 2 + 1442695040888963407u;
	for (size_t i = 0; i < sizeof(w->pattern); i++)
		w->pattern[i] = (uint8_t)(i % PATTERN);
	mem_init(&w->mem);
	w->loop = loop_new(&w->mem, &err);
	CHECK(w->loop);
	net_init(&w->net, w->loop, &w->mem);
	if (is_on_ring && net_start_ring(&w->net, NULL, NULL, &err) < 0)
		printf("io_uring is not tested: %s\n", err.text);
	w->done_fd = eventfd(0, EFD_NONBLOCK);
	struct watch *done =
	    watch_new(w->loop, w->done_fd, WATCH_READ, all_said, w->loop);
	open_lines(w);
	CHECK(pthread_create(&peers, NULL, talk_all, w) == 0);
	loop_run(w->loop);
	pthread_join(peers, NULL);
	close_lines(w);
	watch_free(&done);
	close(w->done_fd);
	/* Assertions in these functions check that all memory was given back. */
	net_done(&w->net);
	loop_free(&w->loop);
	mem_free(w);
}

int main(int argc, char **argv)
{
	uint64_t seed = seed_of_run(argc, argv);

	for (run_number = 0; run_number < 10; run_number++) {
		run_fixture(seed + run_number, false);
		run_fixture(seed + run_number, true);
	}
	return 0;
}
