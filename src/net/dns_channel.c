#include "net/dns_channel.h"

#include <stdint.h>
#include <sys/time.h>

#include <ares.h>

#include "base/mem.h"

/* A descriptor of c-ares. */
struct dns_socket {
	struct node node;
	int fd;
	struct watch *reader, *writer; /* NULL: not watched */
};

void dns_channel_follow(struct dns_channel *channel)
{
	struct timeval buffer, *left = ares_timeout(channel->ares, NULL, &buffer);

	if (!left) {
		deadline_clear(channel->loop, &channel->timeout);
		return;
	}
	/* c-ares reads its own clock in milliseconds; without one more we would ask too
	 * early */
	uint64_t wait_us = (uint64_t)left->tv_sec * 1000000 + (uint64_t)left->tv_usec;
	deadline_set(
	    channel->loop, &channel->timeout, loop_now(channel->loop) + wait_us + 1000);
}

static void timeout_expired(struct deadline *d)
{
	struct dns_channel *channel = container_of(d, struct dns_channel, timeout);

	ares_process_fd(channel->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	dns_channel_follow(channel);
}

static void socket_readable(void *ctx, int fd)
{
	struct dns_channel *channel = ctx;

	ares_process_fd(channel->ares, fd, ARES_SOCKET_BAD);
	dns_channel_follow(channel);
}

static void socket_writable(void *ctx, int fd)
{
	struct dns_channel *channel = ctx;

	ares_process_fd(channel->ares, ARES_SOCKET_BAD, fd);
	dns_channel_follow(channel);
}

static struct dns_socket *find_socket(struct dns_channel *channel, int fd)
{
	struct dns_socket *s;

	list_for (s, &channel->sockets, node) {
		if (s->fd == fd)
			return s;
	}
	return NULL;
}

static void free_socket(struct dns_channel *channel, struct dns_socket *s)
{
	list_remove(&channel->sockets, &s->node);
	watch_free(&s->reader);
	watch_free(&s->writer);
	mem_free(s);
}

static void follow_wish(
    struct dns_channel *channel, struct watch **watch, int fd, int what, int wish)
{
	if (!wish)
		watch_free(watch);
	else if (!*watch)
		*watch = watch_new(channel->loop, fd, what,
		    what == WATCH_READ ? socket_readable : socket_writable, channel);
}

/* Called by c-ares with what it wants to know about a socket; nothing means that it is
 * about to close the socket. */
static void socket_wish(void *ctx, ares_socket_t fd, int readable, int writable)
{
	struct dns_channel *channel = ctx;
	struct dns_socket *s = find_socket(channel, fd);

	if (!s) {
		if (!readable && !writable)
			return;
		s = mem_zero(sizeof(*s));
		s->fd = fd;
		list_push_back(&channel->sockets, &s->node);
	}
	follow_wish(channel, &s->reader, fd, WATCH_READ, readable);
	follow_wish(channel, &s->writer, fd, WATCH_WRITE, writable);
	if (!readable && !writable)
		free_socket(channel, s);
}

int dns_channel_init(struct dns_channel *channel, struct loop *loop,
    const char *resolv_conf, struct err *err)
{
	struct ares_options options = {
	    .sock_state_cb = socket_wish,
	    .sock_state_cb_data = channel,
	};
	int mask = ARES_OPT_SOCK_STATE_CB;
	int status = ares_library_init(ARES_LIB_INIT_ALL);

	*channel = (struct dns_channel){.loop = loop};
	list_init(&channel->sockets);
	deadline_init(&channel->timeout, timeout_expired);
	if (resolv_conf && resolv_conf[0]) {
		options.resolvconf_path = (char *)(uintptr_t)resolv_conf;
		mask |= ARES_OPT_RESOLVCONF;
	}
	if (status == ARES_SUCCESS) {
		status = ares_init_options(&channel->ares, &options, mask);
		if (status != ARES_SUCCESS)
			ares_library_cleanup();
	}
	if (status == ARES_SUCCESS)
		return 0;
	err_set(err, "cannot start the resolver: %s", ares_strerror(status));
	return -1;
}

void dns_channel_done(struct dns_channel *channel)
{
	ares_destroy(channel->ares);
	ares_library_cleanup();
	while (channel->sockets.count)
		free_socket(channel, container_of(list_first(&channel->sockets),
					 struct dns_socket, node));
	deadline_clear(channel->loop, &channel->timeout);
}
