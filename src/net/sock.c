#include "net/sock.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

/* How often a lock is tried, every 10 ms. */
enum { LOCK_TRIES = 200 };

/* ---- addresses ---- */

static size_t ip_len(const struct sock_addr *a)
{
	return a->family == AF_INET ? 4 : a->family == AF_INET6 ? 16 : 0;
}

static void put_ip4(const uint8_t *ip, char out[SOCK_ADDR_TEXT])
{
	char *at = out;

	for (int i = 0; i < 4; i++) {
		if (ip[i] >= 100)
			*at++ = (char)('0' + ip[i] / 100);
		if (ip[i] >= 10)
			*at++ = (char)('0' + ip[i] / 10 % 10);
		*at++ = (char)('0' + ip[i] % 10);
		*at++ = i < 3 ? '.' : '\0';
	}
}

const char *sock_addr_ip(const struct sock_addr *a, char out[SOCK_ADDR_TEXT])
{
	if (a->family == AF_UNIX)
		snprintf(out, SOCK_ADDR_TEXT, "unix");
	else if (a->family == AF_INET)
		put_ip4(a->ip, out);
	else if (!ip_len(a) || !inet_ntop(a->family, a->ip, out, SOCK_ADDR_TEXT))
		snprintf(out, SOCK_ADDR_TEXT, "(unknown)");
	return out;
}

const char *sock_addr_text(
    const struct sock_addr *a, int unix_port, char out[SOCK_PORT_TEXT])
{
	const char *end = out + SOCK_PORT_TEXT;
	int port = a->family == AF_UNIX ? unix_port : a->port;
	bool is_v6 = a->family == AF_INET6;
	char *at = out;

	if (is_v6)
		*at++ = '[';
	sock_addr_ip(a, at);
	at = text_append(at + strlen(at), end, is_v6 ? "]:" : ":");
	text_append_number(at, end, (uint64_t)port);
	return out;
}

bool sock_addr_is_equal_ip(const struct sock_addr *a, const struct sock_addr *b)
{
	return a->family == b->family && memcmp(a->ip, b->ip, ip_len(a)) == 0 &&
	       (a->family != AF_INET6 || a->scope == b->scope);
}

void sock_addr_origin(const struct sock_addr *a, uint8_t out[SOCK_ORIGIN])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	bool is_mapped =
	    a->family == AF_INET6 && memcmp(a->ip, mapped, sizeof(mapped)) == 0;

	memset(out, 0, SOCK_ORIGIN);
	if (a->family == AF_INET6 && !is_mapped) {
		out[0] = 6;
		memcpy(out + 1, a->ip, SOCK_ORIGIN - 1);
	} else if (a->family != AF_UNIX) {
		out[0] = 4;
		memcpy(out + 1, a->ip + (is_mapped ? sizeof(mapped) : 0), 4);
	}
}

int sock_addr_parse(const char *text, uint16_t port, struct sock_addr *out)
{
	struct sock_addr a = {.port = port};

	if (inet_pton(AF_INET, text, a.ip) == 1)
		a.family = AF_INET;
	else if (inet_pton(AF_INET6, text, a.ip) == 1)
		a.family = AF_INET6;
	else
		return -1;
	*out = a;
	return 0;
}

static void from_sockaddr(const struct sockaddr_storage *from, struct sock_addr *out)
{
	*out = (struct sock_addr){.family = from->ss_family};
	if (from->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)from;
		out->port = ntohs(in->sin_port);
		memcpy(out->ip, &in->sin_addr, 4);
	} else if (from->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)from;
		out->port = ntohs(in6->sin6_port);
		memcpy(out->ip, &in6->sin6_addr, 16);
		out->scope = in6->sin6_scope_id;
	}
}

static socklen_t to_sockaddr(const struct sock_target *t, struct sockaddr_storage *out)
{
	const struct sock_addr *a = &t->addr;

	memset(out, 0, sizeof(*out));
	if (a->family == AF_UNIX) {
		memcpy(out, &t->un, sizeof(t->un));
		return t->un_len;
	}
	out->ss_family = a->family;
	if (a->family == AF_INET) {
		struct sockaddr_in *in = (void *)out;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->ip, 4);
		return sizeof(*in);
	}
	struct sockaddr_in6 *in6 = (void *)out;
	in6->sin6_port = htons(a->port);
	memcpy(&in6->sin6_addr, a->ip, 16);
	in6->sin6_scope_id = a->scope;
	return sizeof(*in6);
}

int sock_target_unix(struct sock_target *t, const char *dir, int port, struct err *err)
{
	*t = (struct sock_target){.addr.family = AF_UNIX, .un.sun_family = AF_UNIX};
	int len = snprintf(
	    t->un.sun_path, sizeof(t->un.sun_path), "%s/.s.PGSQL.%d", dir, port);
	if (len < 0 || (size_t)len >= sizeof(t->un.sun_path))
		return err_set(err, "unix socket path is too long: %s", dir);
	t->un_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)len);
	if (dir[0] == '@')
		t->un.sun_path[0] = '\0';
	else
		t->un_len++;
	return 0;
}

int sock_target_path(struct sock_target *t, const char *path, struct err *err)
{
	size_t len = strlen(path);

	*t = (struct sock_target){.addr.family = AF_UNIX, .un.sun_family = AF_UNIX};
	if (len >= sizeof(t->un.sun_path))
		return err_set(err, "unix socket path is too long: %s", path);
	memcpy(t->un.sun_path, path, len + 1);
	t->un_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
	return 0;
}

void sock_target_ip(struct sock_target *t, const struct sock_addr *addr)
{
	*t = (struct sock_target){.addr = *addr};
}

/* ---- options ---- */

static void set_int(int fd, int level, int name, int value)
{
	/* an option that the system refuses is no reason not to serve */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

static void set_if(int fd, int level, int name, int value)
{
	if (value > 0)
		set_int(fd, level, name, value);
}

static void sock_tune(int fd, int family, const struct sock_options *o)
{
	if (family == AF_UNIX)
		return;
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_if(fd, SOL_SOCKET, SO_SNDBUF, o->buffer);
	set_if(fd, SOL_SOCKET, SO_RCVBUF, o->buffer);
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, o->keepalive);
	if (o->keepalive) {
		set_if(fd, IPPROTO_TCP, TCP_KEEPCNT, o->keepcnt);
		set_if(fd, IPPROTO_TCP, TCP_KEEPIDLE, o->keepidle);
		set_if(fd, IPPROTO_TCP, TCP_KEEPINTVL, o->keepintvl);
	}
	set_if(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, o->user_timeout_ms);
}

/* Fills an option that is not set with the value of a new socket. */
static void fill_from(int fresh, int name, int *value)
{
	socklen_t len = sizeof(*value);

	if (*value <= 0)
		(void)getsockopt(fresh, IPPROTO_TCP, name, value, &len);
}

void sock_tune_listener(int listener, const struct sock_options *o)
{
	struct sock_options full = *o;
	int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fresh >= 0) {
		fill_from(fresh, TCP_KEEPCNT, &full.keepcnt);
		fill_from(fresh, TCP_KEEPIDLE, &full.keepidle);
		fill_from(fresh, TCP_KEEPINTVL, &full.keepintvl);
		close(fresh);
	}
	sock_tune(listener, AF_INET, &full);
	set_int(listener, IPPROTO_TCP, TCP_USER_TIMEOUT, o->user_timeout_ms);
}

void sock_set_defer_accept(int listener, bool on)
{
	set_int(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, on);
}

/* ---- listening ---- */

static int step_failed(struct err *err, const char *step)
{
	return err_set(err, "%s(): %s", step, strerror(errno));
}

static int set_or_fail(int fd, int level, int name, const char *what, struct err *err)
{
	int on = 1;

	if (setsockopt(fd, level, name, &on, sizeof(on)) < 0)
		return err_set(err, "setsockopt(%s): %s", what, strerror(errno));
	return 0;
}

static int find_group(const char *name, gid_t *gid, struct err *err)
{
	int number;
	const struct group *group = getgrnam(name);

	if (group)
		*gid = group->gr_gid;
	else if (text_int(name, &number) == 0 && number >= 0)
		*gid = (gid_t)number;
	else
		return err_set(err, "unknown group: %s", name);
	return 0;
}

/* Called before listen(), so that nobody can connect with the old permissions. */
static int set_file_rights(
    const char *path, const struct sock_options *o, struct err *err)
{
	if (!path[0])
		return 0;
	if (o->unix_group && o->unix_group[0]) {
		gid_t gid = (gid_t)-1;
		if (find_group(o->unix_group, &gid, err) < 0)
			return -1;
		if (chown(path, (uid_t)-1, gid) < 0)
			return step_failed(err, "chown");
	}
	if (o->unix_mode >= 0 && chmod(path, (mode_t)o->unix_mode) < 0)
		return step_failed(err, "chmod");
	return 0;
}

/* Locks the folder of a socket file, so that only one of two processes starting at the
 * same time can check and replace the file.  Returns a descriptor, whose closing
 * unlocks; -1: this file system has no locks. */
static int lock_folder(const char *path)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	char *folder = mem_strdup(path);
	int fd;

	*strrchr(folder, '/') = '\0';
	fd = open(*folder ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mem_free(folder);
	for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
			break;
		nanosleep(&pause, NULL);
	}
	return fd;
}

static int bind_unix(
    int fd, const struct sock_target *t, const struct sock_options *o, struct err *err)
{
	struct stat st;

	if (t->un.sun_path[0] && sock_probe_listener(t)) {
		err_set(err, "another process listens on %s", t->un.sun_path);
		errno = EADDRINUSE;
		return -1;
	}
	/* removes an old socket file, but never a file of another type */
	if (t->un.sun_path[0] && lstat(t->un.sun_path, &st) == 0 &&
	    S_ISSOCK(st.st_mode))
		(void)unlink(t->un.sun_path);
	if (bind(fd, (const struct sockaddr *)&t->un, t->un_len) < 0)
		return step_failed(err, "bind");
	if (set_file_rights(t->un.sun_path, o, err) < 0)
		return -1;
	return listen(fd, o->backlog) < 0 ? step_failed(err, "listen") : 0;
}

static int bind_and_listen(
    int fd, const struct sock_target *t, const struct sock_options *o, struct err *err)
{
	struct sockaddr_storage to;
	socklen_t len = to_sockaddr(t, &to);

	if (t->addr.family == AF_UNIX) {
		int lock = t->un.sun_path[0] ? lock_folder(t->un.sun_path) : -1;
		int result = bind_unix(fd, t, o, err);
		int reason = errno;
		if (lock >= 0)
			close(lock);
		errno = reason;
		return result;
	}
	if (set_or_fail(fd, SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR", err) < 0)
		return -1;
	if (o->reuseport &&
	    set_or_fail(fd, SOL_SOCKET, SO_REUSEPORT, "SO_REUSEPORT", err) < 0)
		return -1;
	if (t->addr.family == AF_INET6 &&
	    set_or_fail(fd, IPPROTO_IPV6, IPV6_V6ONLY, "IPV6_V6ONLY", err) < 0)
		return -1;
	sock_tune(fd, t->addr.family, o);
	if (o->defer_accept)
		sock_set_defer_accept(fd, true);

	if (bind(fd, (struct sockaddr *)&to, len) < 0)
		return step_failed(err, "bind");
	if (listen(fd, o->backlog) < 0)
		return step_failed(err, "listen");
	return 0;
}

int sock_listen(
    const struct sock_target *t, const struct sock_options *o, struct err *err)
{
	int fd = socket(t->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return step_failed(err, "socket");
	if (bind_and_listen(fd, t, o, err) < 0) {
		int reason = errno;
		close(fd);
		errno = reason;
		return -1;
	}
	return fd;
}

int sock_resolve_listen(
    const char *host, int port, struct sock_addr *out, int max, struct err *err)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char service[16];
	int count = 0;

	snprintf(service, sizeof(service), "%d", port);
	int code =
	    getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, service, &hints, &found);
	if (code)
		return err_set(err, "getaddrinfo('%s', '%d') = %s [%d]", host, port,
		    gai_strerror(code), code);
	for (struct addrinfo *at = found; at && count < max; at = at->ai_next) {
		struct sockaddr_storage addr = {0};
		if (at->ai_family != AF_INET && at->ai_family != AF_INET6)
			continue;
		memcpy(&addr, at->ai_addr, at->ai_addrlen);
		from_sockaddr(&addr, &out[count++]);
	}
	freeaddrinfo(found);
	return count;
}

int sock_accept(int listener, struct sock_addr *peer)
{
	struct sockaddr_storage from = {0};
	int fd;

	/* skip connections that were closed while they waited */
	do {
		socklen_t len = sizeof(from);
		fd = accept4(listener, (struct sockaddr *)&from, &len,
		    SOCK_NONBLOCK | SOCK_CLOEXEC);
	} while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (fd < 0)
		return -1;
	from_sockaddr(&from, peer);
	return fd;
}

/* ---- connecting ---- */

int sock_connect(
    const struct sock_target *t, const struct sock_options *o, int *fd, struct err *err)
{
	struct sockaddr_storage to;
	socklen_t len = to_sockaddr(t, &to);
	int s = socket(t->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (s < 0)
		return step_failed(err, "socket");
	sock_tune(s, t->addr.family, o);
	if (connect(s, (struct sockaddr *)&to, len) == 0) {
		*fd = s;
		return 0;
	}
	/* an interrupted connect continues in the background */
	if (errno == EINPROGRESS || errno == EINTR) {
		*fd = s;
		return 1;
	}
	int errnum = errno;
	if (errnum == EAGAIN && t->addr.family == AF_UNIX)
		err_set(err, "connect(): would block, too many are waiting there");
	else
		step_failed(err, "connect");
	close(s);
	errno = errnum;
	return -1;
}

/* ---- asking ---- */

bool sock_probe_listener(const struct sock_target *t)
{
	struct sockaddr_storage to;
	socklen_t len = to_sockaddr(t, &to);
	int s = socket(t->addr.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool has_one;

	/* nobody knows, and the file of a listener must not be removed */
	if (s < 0)
		return true;
	/* EAGAIN: the queue of the listener is full */
	has_one = connect(s, (struct sockaddr *)&to, len) == 0 || errno == EAGAIN ||
		  errno == EINPROGRESS || errno == EINTR;
	close(s);
	return has_one;
}

static int get_int(int fd, int name, int *value)
{
	socklen_t len = sizeof(*value);

	return getsockopt(fd, SOL_SOCKET, name, value, &len);
}

int sock_error(int fd)
{
	int value = 0;

	return get_int(fd, SO_ERROR, &value) < 0 ? errno : value;
}

int sock_local(int fd, struct sock_addr *out)
{
	struct sockaddr_storage addr = {0};
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
		return -1;
	from_sockaddr(&addr, out);
	return 0;
}

int sock_is_listening(int fd)
{
	int value = 0;

	return get_int(fd, SO_ACCEPTCONN, &value) == 0 && value;
}

int sock_peer(int fd, int *pid, unsigned *uid)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -1;
	/* for other sockets than Unix ones the system says "nobody" */
	if (peer.pid == 0 || peer.uid == (uid_t)-1)
		return -1;
	*pid = (int)peer.pid;
	*uid = peer.uid;
	return 0;
}

void sock_want_sender(int fd, bool on)
{
	const int value = on;

	(void)setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &value, sizeof(value));
}

int sock_sender(int fd, int *pid)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	char byte;
	struct iovec part = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &part,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof(control.bytes)};
	struct ucred sender;
	ssize_t got;

	do
		got = recvmsg(fd, &m, MSG_PEEK);
	while (got < 0 && errno == EINTR);
	const struct cmsghdr *header = got < 0 ? NULL : CMSG_FIRSTHDR(&m);
	if (header && header->cmsg_type == SCM_CREDENTIALS) {
		memcpy(&sender, CMSG_DATA(header), sizeof(sender));
		*pid = (int)sender.pid;
	}
	return got < 0 ? -1 : 0;
}

/* ---- handing on ---- */

/* Returns the number of bytes sent, like send(). */
static ssize_t send_with_fd(int fd, const void *bytes, size_t len, int passed)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	struct msghdr m = {.msg_iov = &part,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&m);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &passed, sizeof(int));
	return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int sock_send_fd(
    int fd, const void *bytes, size_t len, int passed, int patience_ms, struct err *err)
{
	const char *at = bytes;
	size_t left = len;

	while (left > 0) {
		struct pollfd room = {.fd = fd, .events = POLLOUT};
		ssize_t n = left == len && passed >= 0
				? send_with_fd(fd, at, left, passed)
				: send(fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0) {
			at += n;
			left -= (size_t)n;
		} else if (errno != EAGAIN && errno != EINTR) {
			return err_set(err, "%s", strerror(errno));
		} else if (poll(&room, 1, patience_ms) == 0) {
			return err_set(err, "the peer does not read");
		}
	}
	return 0;
}

static size_t take_fds(struct msghdr *m, int *fds, size_t room)
{
	size_t count = 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS ||
		    n > room - count)
			continue;
		memcpy(fds + count, CMSG_DATA(h), n * sizeof(int));
		count += n;
	}
	return count;
}

ssize_t sock_receive_fds(int fd, void *bytes, size_t room, int *fds, size_t *count)
{
	enum { FDS_MOST = 16 };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(FDS_MOST * sizeof(int))];
	} control;
	struct iovec part = {.iov_base = bytes, .iov_len = room};
	struct msghdr m = {.msg_iov = &part,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof(control.bytes)};
	ssize_t got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);

	assert(*count >= FDS_MOST);
	*count = got > 0 ? take_fds(&m, fds, *count) : 0;
	if (got > 0 && (m.msg_flags & MSG_CTRUNC)) {
		while (*count > 0)
			close(fds[--*count]);
		errno = EMFILE;
		return -1;
	}
	return got;
}

int sock_pair(int fds[2], struct err *err)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(err, "socketpair(): %s", strerror(errno));
	return 0;
}

const char *sock_local_path(int fd, struct sockaddr_un *un)
{
	socklen_t len = sizeof(*un);

	memset(un, 0, sizeof(*un));
	if (getsockname(fd, (struct sockaddr *)un, &len) < 0 ||
	    un->sun_family != AF_UNIX)
		un->sun_path[0] = '\0';
	un->sun_path[sizeof(un->sun_path) - 1] = '\0';
	return un->sun_path;
}
