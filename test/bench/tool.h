/* Shared by the programs of this folder: fatal errors, clocks, byte buffers. */
#ifndef BENCH_TOOL_H
#define BENCH_TOOL_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000ULL

static inline __attribute__((noreturn, format(printf, 1, 2))) void die(
    const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* Exits with the error in errno. */
static inline __attribute__((noreturn)) void die_of(const char *what)
{
	die("%s: %s", what, strerror(errno));
}

static inline void *need(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p)
		die("no memory");
	return p;
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

/* Returns the integer in an option or argument. */
static inline long number_of(const char *text, long least, long most)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < least || n > most)
		die("%s: wanted a number from %ld to %ld", text, least, most);
	return n;
}

static inline void set_nonblocking(int fd)
{
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		die_of("fcntl");
}

static inline void set_nodelay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Raises the descriptor limit as far as the system allows. */
static inline void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static inline struct sockaddr_in loopback(long port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	return a;
}

static inline int listen_on(long port)
{
	struct sockaddr_in a = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		die_of("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 4096) < 0)
		die_of("cannot listen");
	return fd;
}

/* Returns a connected socket, or -1. */
static inline int connect_to(long port)
{
	struct sockaddr_in a = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0) {
		set_nodelay(fd);
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* A byte buffer that grows. */
struct bytes {
	uint8_t *p;
	size_t len, room;
};

static inline void bytes_put(struct bytes *b, const void *p, size_t len)
{
	if (b->room - b->len < len) {
		b->room = (b->room + len) * 2;
		b->p = realloc(b->p, b->room);
		if (!b->p)
			die("no memory");
	}
	memcpy(b->p + b->len, p, len);
	b->len += len;
}

static inline void bytes_put_u32(struct bytes *b, uint32_t n)
{
	n = htonl(n);
	bytes_put(b, &n, sizeof(n));
}

static inline void bytes_put_u16(struct bytes *b, uint16_t n)
{
	n = htons(n);
	bytes_put(b, &n, sizeof(n));
}

/* Adds the text with its terminating zero. */
static inline void bytes_put_text(struct bytes *b, const char *text)
{
	bytes_put(b, text, strlen(text) + 1);
}

/* Begins a message of the protocol: adds its type and length. What is added until
 * message_end() is its body. Returns the position that message_end() needs. */
static inline size_t message_begin(struct bytes *b, char type)
{
	bytes_put(b, &type, 1);
	bytes_put_u32(b, 0);
	return b->len - 4;
}

static inline void message_end(struct bytes *b, size_t at)
{
	uint32_t len = htonl((uint32_t)(b->len - at));

	memcpy(b->p + at, &len, sizeof(len));
}

/*
 * Splits received bytes into messages, which may arrive in pieces. Only the first bytes
 * of a body are kept, in `start`; they are enough to recognise the content.
 */
struct cutter {
	uint8_t head[5], start[16];
	uint8_t head_len, start_len;
	uint32_t left; /* bytes of the body still to come */
};

/* Consumes some of the bytes; returns true when a message ends with them. */
static inline int cutter_take(struct cutter *c, const uint8_t **p, const uint8_t *end)
{
	if (c->head_len == 0)
		c->start_len = 0;
	while (c->head_len < 5) {
		if (*p == end)
			return 0;
		c->head[c->head_len++] = *(*p)++;
		if (c->head_len < 5)
			continue;
		uint32_t len;
		memcpy(&len, c->head + 1, sizeof(len));
		c->left = ntohl(len) - 4;
		if (c->left > 1U << 30)
			die("not a message: type %d", c->head[0]);
	}
	size_t here = (size_t)(end - *p), room = sizeof(c->start) - c->start_len;
	size_t taken = here < c->left ? here : c->left;
	size_t kept = taken < room ? taken : room;
	memcpy(c->start + c->start_len, *p, kept);
	c->start_len = (uint8_t)(c->start_len + kept);
	*p += taken;
	c->left -= (uint32_t)taken;
	if (c->left)
		return 0;
	c->head_len = 0;
	return 1;
}

#endif
