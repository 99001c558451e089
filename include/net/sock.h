/*
 * Sockets: addresses, listen, accept, options, peer credentials.  No events, no bytes.
 */
#ifndef NET_SOCK_H
#define NET_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

/* Address of one end, small enough to be kept per connection. */
struct sock_addr {
	uint16_t family; /* AF_UNSPEC, AF_INET, AF_INET6, AF_UNIX */
	uint16_t port;   /* host order; 0 for unix */
	uint8_t ip[16];  /* network order; v4 in the first four */
	uint32_t scope;  /* IPv6 scope id */
};

enum { SOCK_ADDR_TEXT = 64, SOCK_PORT_TEXT = SOCK_ADDR_TEXT + 8 };
/* "127.0.0.1", "::1", "unix". */
const char *sock_addr_ip(const struct sock_addr *a, char out[SOCK_ADDR_TEXT]);
/* "127.0.0.1:6432", "[::1]:6432"; unix: "unix:PORT" with the port given for it. */
const char *sock_addr_text(
    const struct sock_addr *a, int unix_port, char out[SOCK_PORT_TEXT]);
bool sock_addr_is_equal_ip(const struct sock_addr *a, const struct sock_addr *b);
/* IPv4 or IPv6 literal; -1 when it is neither. */
int sock_addr_parse(const char *text, uint16_t port, struct sock_addr *out);

/* Where to connect or listen: an IP address or a unix path. */
struct sock_target {
	struct sock_addr addr;
	struct sockaddr_un un; /* family AF_UNIX only */
	socklen_t un_len;
};
/* DIR/.s.PGSQL.PORT; a leading @ means the abstract namespace (length exact).  -1 when
 * too long. */
int sock_target_unix(struct sock_target *t, const char *dir, int port, struct err *err);
/* This very path.  -1 when too long. */
int sock_target_path(struct sock_target *t, const char *path, struct err *err);
void sock_target_ip(struct sock_target *t, const struct sock_addr *addr);

struct sock_options {
	bool defer_accept, keepalive, reuseport;
	int buffer, keepcnt, keepidle, keepintvl; /* 0 = system default */
	int user_timeout_ms;
	int backlog;
	int unix_mode;          /* chmod of a socket file; -1 = leave */
	const char *unix_group; /* NULL or "" = leave */
};

/* Does somebody listen there?  A listener whose queue is full counts.  For unix
 * sockets: it may leave a connection behind that is closed at once. */
bool sock_has_listener(const struct sock_target *t);

/* Non-blocking, close-on-exec listening socket; -1 and err ("step(): strerror") */
int sock_listen(
    const struct sock_target *t, const struct sock_options *o, struct err *err);
/* All addresses of one listen_addr entry ("*" = wildcard of both families), at most
 * max. Returns the number, or -1 and err ("getaddrinfo('A', 'PORT') = msg [code]"). */
int sock_resolve_listen(
    const char *host, int port, struct sock_addr *out, int max, struct err *err);
/* Accept one: non-blocking, close-on-exec; options are as those of the listener.  -1
 * with errno (EAGAIN: no more). */
int sock_accept(int listener, struct sock_addr *peer);
/* Begin to connect: *fd is non-blocking; returns 0 connected, 1 in progress, -1 err
 * (with errno EAGAIN when too many are waiting at a unix socket). */
int sock_connect(const struct sock_target *t, const struct sock_options *o, int *fd,
    struct err *err);
/* The pending error of a socket (SO_ERROR), 0 when none. */
int sock_error(int fd);
void sock_tune(int fd, int family, const struct sock_options *o);
/* Change the options of a TCP listener, which what it accepts from now on inherits:
 * this spares the calls for each.  0 gives the system's default back. */
void sock_tune_listener(int listener, const struct sock_options *o);
void sock_set_defer_accept(int listener, bool on);
int sock_local(int fd, struct sock_addr *out);
/* Address and family of a socket that was handed to us (socket activation). */
int sock_is_listening(int fd);
/* Peer credentials of a unix socket; -1 when not known. */
int sock_peer(int fd, int *pid, unsigned *uid);
/* Write all bytes to a unix socket, and pass a descriptor with the first of them
 * (SCM_RIGHTS; -1: none).  Waits for room, patience_ms at most for all.  -1: err. */
int sock_send_fd(int fd, const void *bytes, size_t len, int passed, int patience_ms,
    struct err *err);
/* One receive from a unix socket, with the descriptors (close-on-exec) that were passed
 * with these bytes; there is room for *count, and *count says how many came.  Returns
 * how many bytes, 0 at the end, -1 with errno: EMFILE when descriptors were lost. */
ssize_t sock_receive_fds(int fd, void *bytes, size_t room, int *fds, size_t *count);
/* Two ends that are connected to each other: non-blocking, close-on-exec. */
int sock_pair(int fds[2], struct err *err);
/* The path of a unix socket, or "" for any other. */
const char *sock_local_path(int fd, struct sockaddr_un *un);

#endif
