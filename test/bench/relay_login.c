/*
 * The smallest pooler with epoll. It keeps logged-in connections to the server,
 * welcomes each client with the server's own welcome, and lends it a connection from
 * its first request to its end. It reads nothing but the first byte of what clients
 * send, and expects each message in one piece. Benchmarks with short connections
 * compare the cost of a pooler to it.
 *
 *   relay_login LISTEN_PORT SERVER_PORT [CERTIFICATE KEY]
 *
 * It runs on 127.0.0.1 until a signal ends it. The server must trust the user bench in
 * the database bench. With a certificate, clients have to ask for TLS.
 */
#include <signal.h>
#include <sys/epoll.h>

#include <openssl/ssl.h>

#include "tool.h"

#define EVENTS  256
#define INPUT   (64 << 10)
#define SERVERS 64

struct side {
	int fd, is_client, is_welcomed;
	SSL *tls;                  /* NULL: in clear */
	struct side *other, *next; /* next: free server, or client to be freed */
};

struct relay {
	int poll, listener;
	struct side servers[SERVERS], *free_servers;
	struct side *closed; /* freed after the turn: later events may point to them */
	struct bytes welcome;
	SSL_CTX *tls; /* NULL: clients speak in clear */
	uint8_t *input;
};

static void watch(const struct relay *r, int fd, void *side)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = side};

	if (epoll_ctl(r->poll, EPOLL_CTL_ADD, fd, &event) < 0)
		die_of("epoll_ctl");
}

static void send_all(int fd, const void *p, size_t len)
{
	if (send(fd, p, len, MSG_NOSIGNAL) != (ssize_t)len && errno != EPIPE &&
	    errno != ECONNRESET)
		die_of("cannot send");
}

static void pass_on(const struct side *to, const void *p, size_t len)
{
	if (!to->tls)
		send_all(to->fd, p, len);
	else
		SSL_write(to->tls, p, (int)len);
}

/* One receive, also with TLS, whose handshake goes on by itself. Returns 0 at the end,
 * and -1 when nothing has arrived. */
static ssize_t receive(const struct relay *r, const struct side *from)
{
	if (!from->tls) {
		ssize_t n = recv(from->fd, r->input, INPUT, 0);
		return n < 0 && errno != EAGAIN ? 0 : n;
	}
	int n = SSL_read(from->tls, r->input, INPUT);
	if (n > 0)
		return n;
	return SSL_get_error(from->tls, n) == SSL_ERROR_WANT_READ ? -1 : 0;
}

/* Logs in and returns what the server said until it was ready. */
static struct bytes log_in(int fd)
{
	struct bytes startup = {0}, said = {0};
	struct cutter cutter = {0};
	uint8_t input[4096];

	bytes_put_u32(&startup, 0);
	bytes_put_u32(&startup, 196608);
	bytes_put(&startup, "user\0bench\0database\0bench\0", 27);
	message_end(&startup, 0);
	send_all(fd, startup.p, startup.len);
	free(startup.p);
	for (;;) {
		ssize_t n = recv(fd, input, sizeof(input), 0);
		const uint8_t *p = input;

		if (n <= 0)
			die("the server refuses a login");
		bytes_put(&said, input, (size_t)n);
		for (const uint8_t *end = p + n; p < end;)
			if (cutter_take(&cutter, &p, end) && cutter.head[0] == 'Z')
				return said;
	}
}

static void open_servers(struct relay *r, long port)
{
	for (unsigned i = 0; i < SERVERS; i++) {
		struct side *s = &r->servers[i];

		s->fd = connect_to(port);
		if (s->fd < 0)
			die_of("cannot connect to the server");
		free(r->welcome.p);
		r->welcome = log_in(s->fd);
		set_nonblocking(s->fd);
		s->next = r->free_servers;
		r->free_servers = s;
		watch(r, s->fd, s);
	}
}

static void accept_one(const struct relay *r)
{
	int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	struct side *c = need(1, sizeof(*c));
	c->fd = fd;
	c->is_client = 1;
	watch(r, fd, c);
}

static void close_client(struct relay *r, struct side *c)
{
	if (c->other) {
		c->other->next = r->free_servers;
		c->other->other = NULL;
		r->free_servers = c->other;
	}
	if (c->tls)
		SSL_shutdown(c->tls);
	SSL_free(c->tls);
	close(c->fd);
	c->fd = -1;
	c->next = r->closed;
	r->closed = c;
}

static void lend(struct relay *r, struct side *c)
{
	struct side *s = r->free_servers;

	if (!s)
		die("there are more clients than servers");
	r->free_servers = s->next;
	s->other = c;
	c->other = s;
}

/* Answers the SSLRequest, which is the first thing that a client sends. */
static void begin_tls(const struct relay *r, struct side *c)
{
	send_all(c->fd, "S", 1);
	c->tls = SSL_new(r->tls);
	if (!c->tls || !SSL_set_fd(c->tls, c->fd))
		die("no TLS");
	SSL_set_accept_state(c->tls);
}

static void serve_client(struct relay *r, struct side *c)
{
	if (c->fd < 0)
		return;
	ssize_t n = receive(r, c);
	if (n < 0)
		return;
	if (n == 0 || r->input[0] == 'X') {
		close_client(r, c);
	} else if (r->tls && !c->tls) {
		begin_tls(r, c);
	} else if (!c->is_welcomed) {
		c->is_welcomed = 1;
		pass_on(c, r->welcome.p, r->welcome.len);
	} else {
		if (!c->other)
			lend(r, c);
		pass_on(c->other, r->input, (size_t)n);
	}
	if (c->fd >= 0 && c->tls && SSL_has_pending(c->tls))
		serve_client(r, c);
}

static void serve_server(struct relay *r, struct side *s)
{
	ssize_t n = receive(r, s);

	if (n == 0)
		die("the server closed a connection");
	if (n > 0 && s->other)
		pass_on(s->other, r->input, (size_t)n);
}

static void serve(struct relay *r, struct side *s)
{
	if (!s)
		accept_one(r);
	else if (s->is_client)
		serve_client(r, s);
	else
		serve_server(r, s);
}

static void free_closed(struct relay *r)
{
	while (r->closed) {
		struct side *c = r->closed;
		r->closed = c->next;
		free(c);
	}
}

static SSL_CTX *make_tls(const char *certificate, const char *key)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_server_method());

	if (!tls || SSL_CTX_use_certificate_chain_file(tls, certificate) != 1 ||
	    SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
		die("cannot use the certificate %s with its key", certificate);
	/* One receive takes a whole record, and an idle connection has no buffers. */
	SSL_CTX_set_read_ahead(tls, 1);
	SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
	return tls;
}

int main(int argc, char **argv)
{
	static struct relay r;
	struct epoll_event events[EVENTS];

	if (argc != 3 && argc != 5)
		die("usage: %s LISTEN_PORT SERVER_PORT [CERTIFICATE KEY]", argv[0]);
	r.tls = argc == 5 ? make_tls(argv[3], argv[4]) : NULL;
	signal(SIGPIPE, SIG_IGN);
	raise_descriptors();
	r.input = need(1, INPUT);
	r.poll = epoll_create1(EPOLL_CLOEXEC);
	if (r.poll < 0)
		die_of("epoll_create1");
	open_servers(&r, number_of(argv[2], 1, 65535));
	r.listener = listen_on(number_of(argv[1], 1, 65535));
	/* What is accepted inherits it. */
	set_nodelay(r.listener);
	set_nonblocking(r.listener);
	watch(&r, r.listener, NULL);
	for (;;) {
		int n = epoll_wait(r.poll, events, EVENTS, -1);

		for (int i = 0; i < n; i++)
			serve(&r, events[i].data.ptr);
		free_closed(&r);
	}
}
