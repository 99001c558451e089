/*
 * Sockets: addresses, listening, accepting, connecting, options, peer credentials.  It
 * neither waits for sockets nor transfers bytes (except for passing descriptors).
 */
#ifndef NET_SOCK_H
#define NET_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

/* The address of one end of a connection.  It is small, because each connection keeps
 * some. */
struct sock_addr {
	uint16_t family; /* AF_UNSPEC, AF_INET, AF_INET6, AF_UNIX */
	uint16_t port;   /* host order; 0 for Unix sockets */
	uint8_t ip[16];  /* network order; IPv4 in the first four bytes */
	uint32_t scope;  /* scope id of IPv6 */
};

enum { SOCK_ADDR_TEXT = 64, SOCK_PORT_TEXT = SOCK_ADDR_TEXT + 8 };
/* Prints "127.0.0.1", "::1" or "unix". */
const char *sock_addr_ip(const struct sock_addr *a, char out[SOCK_ADDR_TEXT]);
/* Prints "127.0.0.1:6432", "[::1]:6432" or "unix:PORT"; unix_port is the port for Unix
 * sockets, which have none of their own. */
const char *sock_addr_text(
    const struct sock_addr *a, int unix_port, char out[SOCK_PORT_TEXT]);
bool sock_addr_is_equal_ip(const struct sock_addr *a, const struct sock_addr *b);
/* Whom limits by address count together: an IPv4 address, also one that is mapped into
 * IPv6; the first 64 bits of an IPv6 address, of which one machine has all others; or
 * the unix socket. */
enum { SOCK_ORIGIN = 9 };
void sock_addr_origin(const struct sock_addr *a, uint8_t out[SOCK_ORIGIN]);
/* Parses a numeric IPv4 or IPv6 address; -1 when it is neither. */
int sock_addr_parse(const char *text, uint16_t port, struct sock_addr *out);

/* Where to connect or listen: an IP address or the path of a Unix socket. */
struct sock_target {
	struct sock_addr addr;
	struct sockaddr_un un; /* only for AF_UNIX */
	socklen_t un_len;
};
/* Makes the path DIR/.s.PGSQL.PORT; a leading @ means the abstract namespace (with its
 * exact length).  -1: the path is too long. */
int sock_target_unix(struct sock_target *t, const char *dir, int port, struct err *err);
/* Uses exactly this path.  -1: it is too long. */
int sock_target_path(struct sock_target *t, const char *path, struct err *err);
void sock_target_ip(struct sock_target *t, const struct sock_addr *addr);

struct sock_options {
	bool defer_accept, keepalive, reuseport;
	int buffer, keepcnt, keepidle, keepintvl; /* 0: the system's default */
	int user_timeout_ms;
	int backlog;
	int unix_mode;          /* permissions of the socket file; -1: unchanged */
	const char *unix_group; /* group of the socket file; NULL or "": unchanged */
};

/* Whether some process listens there, even if its queue is full.  With Unix sockets the
 * test may make a connection, which is closed at once. */
bool sock_probe_listener(const struct sock_target *t);

/* Makes a non-blocking, close-on-exec listening socket.  -1 and err ("step():
 * strerror"); errno is EADDRINUSE if somebody else has the address. */
int sock_listen(
    const struct sock_target *t, const struct sock_options *o, struct err *err);
/* Resolves one entry of listen_addr ("*": all addresses of both families) to at most
 * max addresses.  Returns their number, or -1 and err ("getaddrinfo('A', 'PORT') = msg
 * [code]"). */
int sock_resolve_listen(
    const char *host, int port, struct sock_addr *out, int max, struct err *err);
/* Accepts one connection: non-blocking, close-on-exec, with the options of the
 * listener.  -1 with errno (EAGAIN: no more wait). */
int sock_accept(int listener, struct sock_addr *peer);
/* Begins to connect; *fd is non-blocking.  Returns 0 when connected, 1 when in
 * progress, -1 and err on failure (errno is EAGAIN when the queue of a Unix socket is
 * full). */
int sock_connect(const struct sock_target *t, const struct sock_options *o, int *fd,
    struct err *err);
/* Returns the pending error of a socket (SO_ERROR), or 0. */
int sock_error(int fd);
/* Sets the options of a TCP listener.  Connections accepted from now on inherit them,
 * which saves system calls for each.  An option of 0 restores the system's default. */
void sock_tune_listener(int listener, const struct sock_options *o);
void sock_set_defer_accept(int listener, bool on);
int sock_local(int fd, struct sock_addr *out);
/* Returns 1 if a socket that another process has passed (such as systemd) is
 * listening. */
int sock_is_listening(int fd);
/* The process and user at the other end of a Unix socket; -1: unknown. */
int sock_peer(int fd, int *pid, unsigned *uid);
/* Whether what arrives at a Unix socket says who has sent it.  That takes the room of
 * descriptors in what sock_receive_fds reads. */
void sock_want_sender(int fd, bool on);
/* Waits for bytes, which stay there, and tells the process that has sent them.
 * sock_peer tells who made the socket at which the connection arrived.  *pid stays as
 * it is if it is not known.  -1 and errno: the connection has failed. */
int sock_sender(int fd, int *pid);
/* Writes all bytes to a Unix socket and passes a descriptor with the first of them
 * (SCM_RIGHTS; passed -1: none).  Waits for room, altogether at most patience_ms.  -1:
 * err. */
int sock_send_fd(int fd, const void *bytes, size_t len, int passed, int patience_ms,
    struct err *err);
/* Receives once from a Unix socket, with the descriptors (close-on-exec) that were
 * passed with the bytes.  *count is the room in fds, and then the number received.
 * Returns the number of bytes, 0 at the end, -1 with errno: EMFILE when descriptors
 * were lost. */
ssize_t sock_receive_fds(int fd, void *bytes, size_t room, int *fds, size_t *count);
/* Makes two connected Unix sockets: non-blocking, close-on-exec. */
int sock_pair(int fds[2], struct err *err);
/* Returns the path of a Unix socket, or "" for other sockets. */
const char *sock_local_path(int fd, struct sockaddr_un *un);

#endif
