/* links: net base */
/*
 * A minimal relay over the stream interface: it accepts, connects, and forwards both
 * ways. The cost of a transaction here is the lower limit for everything above that
 * interface.
 *
 *   relay_floor LISTEN_PORT SERVER_IP SERVER_PORT [io_uring]
 *
 * Runs until SIGINT or SIGTERM, then prints the numbers of turns and system calls.
 * Divide them by the number of transactions of the load (strace -c -f gives the same
 * figure).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "net/stream.h"

struct relay;

struct side {
	struct stream stream; /* first, because the ops cast its address */
	struct relay *relay;
	struct side *other;
};

struct relay {
	struct side front, back;
	struct later reap;
	struct floor *floor;
	struct node node;
};

/* The program. */
struct floor {
	struct loop *loop;
	struct mem mem;
	struct net net;
	struct watch *listener_watch;
	struct sock_target server;
	struct sock_options options;
	struct list relays; /* struct relay by .node */
	uint64_t delivery_count;
};

static void close_relay(struct relay *r)
{
	stream_close(&r->front.stream);
	stream_close(&r->back.stream);
	if (!node_is_linked(&r->node))
		return;
	list_remove(&r->floor->relays, &r->node);
	loop_reap(r->floor->loop, &r->reap);
}

static void free_relay(struct later *l)
{
	mem_free(container_of(l, struct relay, reap));
}

static void received(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	struct side *side = (struct side *)s;
	struct stream *to = &side->other->stream;

	side->relay->floor->delivery_count++;
	stream_put(to, block, p, len);
	if (!stream_is_above_high(to))
		return;
	stream_flush(to);
	if (stream_is_above_high(to))
		stream_pause(s);
}

static void drained(struct stream *s)
{
	stream_resume(&((struct side *)s)->other->stream);
}

static void ended(struct stream *s, const struct err *err)
{
	struct side *side = (struct side *)s;

	if (err)
		fprintf(stderr, "connection ended: %s\n", err->text);
	close_relay(side->relay);
}

static const struct stream_ops ops = {
    .received = received, .drained = drained, .ended = ended};

static void start_relay(struct floor *f, int fd)
{
	struct relay *r = mem_zero(sizeof(*r));
	struct err err;

	r->floor = f;
	r->reap.run = free_relay;
	r->front.relay = r->back.relay = r;
	r->front.other = &r->back;
	r->back.other = &r->front;
	list_push_back(&f->relays, &r->node);
	stream_open(&r->front.stream, &f->net, fd, &ops);
	if (stream_connect(
		&r->back.stream, &f->net, &f->server, &f->options, &ops, &err) < 0) {
		fprintf(stderr, "cannot connect: %s\n", err.text);
		close_relay(r);
	}
}

static void accept_all(void *ctx, int listener)
{
	struct floor *f = ctx;
	struct sock_addr peer;
	int fd;

	while ((fd = sock_accept(listener, &peer)) >= 0)
		start_relay(f, fd);
}

static void stop(void *ctx, int signo)
{
	struct floor *f = ctx;

	(void)signo;
	loop_stop(f->loop);
}

static int parse_arguments(
    struct floor *f, int argc, char **argv, struct sock_target *listen)
{
	struct sock_addr addr;

	if (argc != 4 && argc != 5)
		return -1;
	if (sock_addr_parse(argv[2], (uint16_t)atoi(argv[3]), &addr) < 0)
		return -1;
	sock_target_ip(&f->server, &addr);
	if (sock_addr_parse("127.0.0.1", (uint16_t)atoi(argv[1]), &addr) < 0)
		return -1;
	sock_target_ip(listen, &addr);
	return 0;
}

static void print_counts(const struct floor *f)
{
	const struct loop_counts *c = loop_counts(f->loop);

	printf("deliveries %llu turns %llu recv %llu send %llu ctl %llu\n",
	    (unsigned long long)f->delivery_count, (unsigned long long)c->turns,
	    (unsigned long long)c->recv_calls, (unsigned long long)c->send_calls,
	    (unsigned long long)c->ctl_calls);
}

int main(int argc, char **argv)
{
	struct floor f = {.options = {.backlog = 128, .unix_mode = -1}};
	struct sock_target listen;
	struct err err;

	if (parse_arguments(&f, argc, argv, &listen) < 0) {
		fprintf(stderr,
		    "usage: %s LISTEN_PORT SERVER_IP SERVER_PORT [io_uring]\n",
		    argv[0]);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	list_init(&f.relays);
	mem_init(&f.mem);
	f.loop = loop_new(&f.mem, &err);
	int fd = f.loop ? sock_listen(&listen, &f.options, &err) : -1;
	if (fd < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	net_init(&f.net, f.loop, &f.mem);
	if (argc == 5 && net_start_ring(&f.net, NULL, NULL, &err) < 0) {
		fprintf(stderr, "no io_uring: %s\n", err.text);
		return 1;
	}
	f.listener_watch = watch_new(f.loop, fd, WATCH_READ, accept_all, &f);
	loop_on_signal(f.loop, SIGINT, stop, &f);
	loop_on_signal(f.loop, SIGTERM, stop, &f);
	loop_run(f.loop);
	print_counts(&f);
	while (!list_is_empty(&f.relays))
		close_relay(container_of(list_first(&f.relays), struct relay, node));
	watch_free(&f.listener_watch);
	net_done(&f.net);
	loop_free(&f.loop);
	return 0;
}
