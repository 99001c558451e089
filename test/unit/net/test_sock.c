/*
 * Sockets: texts of addresses, targets, listening, accepting, permissions of socket
 * files.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/sock.h"

static const struct sock_options plain = {.unix_mode = -1, .backlog = 5};

static void expect_texts(const char *ip, uint16_t port, const char *both)
{
	struct sock_addr a;
	char text[SOCK_PORT_TEXT];

	assert_int_equal(sock_addr_parse(ip, port, &a), 0);
	assert_string_equal(sock_addr_ip(&a, text), ip);
	assert_string_equal(sock_addr_text(&a, 1, text), both);
}

static void test_texts(void **state)
{
	struct sock_addr a = {.family = AF_UNIX};
	char text[SOCK_PORT_TEXT];

	(void)state;
	expect_texts("127.0.0.1", 6432, "127.0.0.1:6432");
	expect_texts("::1", 6432, "[::1]:6432");
	expect_texts("2001:db8:1111:2222:3333:4444:5555:6666", 65535,
	    "[2001:db8:1111:2222:3333:4444:5555:6666]:65535");
	assert_string_equal(sock_addr_ip(&a, text), "unix");
	assert_string_equal(sock_addr_text(&a, 6432, text), "unix:6432");
	assert_int_equal(sock_addr_parse("localhost", 1, &a), -1);
	assert_int_equal(sock_addr_parse("127.0.0.1.", 1, &a), -1);
	assert_int_equal(sock_addr_parse("", 1, &a), -1);
}

static void test_equal(void **state)
{
	struct sock_addr a, b, six;

	(void)state;
	sock_addr_parse("10.0.0.1", 1, &a);
	sock_addr_parse("10.0.0.1", 2, &b);
	sock_addr_parse("::1", 1, &six);
	assert_true(sock_addr_is_equal_ip(&a, &b));
	assert_false(sock_addr_is_equal_ip(&a, &six));
	sock_addr_parse("10.0.0.2", 2, &b);
	assert_false(sock_addr_is_equal_ip(&a, &b));
}

static void test_unix_targets(void **state)
{
	struct sock_target t;
	struct err err;
	char dir[200];

	(void)state;
	assert_int_equal(sock_target_unix(&t, "/tmp", 6432, &err), 0);
	assert_string_equal(t.un.sun_path, "/tmp/.s.PGSQL.6432");
	assert_int_equal(t.un_len, offsetof(struct sockaddr_un, sun_path) + 19);
	assert_int_equal(sock_target_unix(&t, "@pool", 6432, &err), 0);
	assert_int_equal(t.un.sun_path[0], 0);
	assert_string_equal(t.un.sun_path + 1, "pool/.s.PGSQL.6432");
	assert_int_equal(t.un_len, offsetof(struct sockaddr_un, sun_path) + 19);
	memset(dir, 'd', sizeof(dir));
	dir[0] = '/';
	dir[sizeof(dir) - 1] = '\0';
	assert_int_equal(sock_target_unix(&t, dir, 6432, &err), -1);
	assert_memory_equal(err.text, "unix socket path is too long", 28);
	dir[93] = '\0';
	assert_int_equal(sock_target_unix(&t, dir, 6432, &err), 0);
	dir[93] = 'd';
	dir[94] = '\0';
	assert_int_equal(sock_target_unix(&t, dir, 6432, &err), -1);
}

static void wait_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, 5000), 1);
}

static int option(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

static void expect_flags(int fd)
{
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* Listen on a free port, connect, accept; all three are returned. */
static void meet(
    const char *ip, const struct sock_options *o, int *listener, int *front, int *back)
{
	struct sock_addr addr, peer;
	struct sock_target target;
	struct err err;

	assert_int_equal(sock_addr_parse(ip, 0, &addr), 0);
	sock_target_ip(&target, &addr);
	*listener = sock_listen(&target, o, &err);
	assert_true(*listener >= 0);
	assert_int_equal(sock_local(*listener, &target.addr), 0);
	assert_true(target.addr.port != 0);
	int result = sock_connect(&target, o, front, &err);
	assert_true(result == 0 || result == 1);
	if (o->defer_accept)
		assert_int_equal(send(*front, "x", 1, MSG_NOSIGNAL), 1);
	wait_readable(*listener);
	*back = sock_accept(*listener, &peer);
	assert_true(*back >= 0);
	struct sock_addr local;
	assert_int_equal(sock_local(*front, &local), 0);
	assert_true(sock_addr_is_equal_ip(&local, &peer));
	assert_int_equal(local.port, peer.port);
	assert_int_equal(sock_error(*front), 0);
}

static void close_all(int a, int b, int c)
{
	close(a);
	close(b);
	close(c);
}

static void test_tcp(void **state)
{
	struct sock_options o = {.unix_mode = -1,
	    .backlog = 5,
	    .keepalive = true,
	    .keepcnt = 3,
	    .keepidle = 77,
	    .keepintvl = 7,
	    .user_timeout_ms = 12345,
	    .reuseport = true};
	struct sock_addr peer;
	int listener, front, back, pid;
	unsigned uid;

	(void)state;
	meet("127.0.0.1", &o, &listener, &front, &back);
	expect_flags(listener);
	expect_flags(front);
	expect_flags(back);
	for (int i = 0; i < 2; i++) {
		int fd = i ? front : back;
		assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
		assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
		assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
		assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 77);
		assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 7);
		assert_int_equal(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 12345);
		assert_int_equal(sock_peer(fd, &pid, &uid), -1);
	}
	assert_int_equal(option(listener, SOL_SOCKET, SO_REUSEADDR), 1);
	assert_int_equal(option(listener, SOL_SOCKET, SO_REUSEPORT), 1);
	assert_int_equal(sock_is_listening(listener), 1);
	assert_int_equal(sock_is_listening(front), 0);
	assert_int_equal(sock_accept(listener, &peer), -1);
	assert_int_equal(errno, EAGAIN);
	close_all(listener, front, back);
	assert_int_equal(sock_local(-1, &peer), -1);
	assert_true(sock_error(-1) != 0);
}

static void test_tcp6(void **state)
{
	struct sock_target target;
	struct sock_addr addr;
	int listener, front, back;

	(void)state;
	sock_addr_parse("::1", 0, &addr);
	sock_target_ip(&target, &addr);
	listener = sock_listen(&target, &plain, NULL);
	if (listener < 0)
		skip();
	close(listener);
	meet("::1", &plain, &listener, &front, &back);
	assert_int_equal(option(listener, IPPROTO_IPV6, IPV6_V6ONLY), 1);
	close_all(listener, front, back);
}

static void test_defer_accept(void **state)
{
	struct sock_options o = {.unix_mode = -1, .backlog = 5, .defer_accept = true};
	int listener, front, back;

	(void)state;
	meet("127.0.0.1", &o, &listener, &front, &back);
	assert_true(option(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT) > 0);
	sock_set_defer_accept(listener, false);
	assert_int_equal(option(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT), 0);
	close_all(listener, front, back);
}

/* A change by a reload reaches the next connection, also when it is undone. */
static void test_options_are_inherited(void **state)
{
	struct sock_options none = {.unix_mode = -1, .backlog = 5, .keepalive = true};
	struct sock_options some = none, off = {.unix_mode = -1};
	struct sock_addr peer;
	struct sock_target target;
	struct err err;
	int listener, front, back, idle;

	(void)state;
	some.keepidle = 77;
	some.user_timeout_ms = 5000;
	meet("127.0.0.1", &none, &listener, &front, &back);
	idle = option(back, IPPROTO_TCP, TCP_KEEPIDLE);
	assert_true(idle != 77);
	assert_int_equal(sock_local(listener, &target.addr), 0);
	const struct sock_options *each[] = {&some, &none, &off};
	for (int i = 0; i < 3; i++) {
		close(front);
		close(back);
		sock_tune_listener(listener, each[i]);
		assert_true(sock_connect(&target, &none, &front, &err) >= 0);
		wait_readable(listener);
		back = sock_accept(listener, &peer);
		assert_true(back >= 0);
		assert_int_equal(option(back, IPPROTO_TCP, TCP_NODELAY), 1);
		assert_int_equal(option(back, SOL_SOCKET, SO_KEEPALIVE), i < 2);
		assert_int_equal(
		    option(back, IPPROTO_TCP, TCP_USER_TIMEOUT), i == 0 ? 5000 : 0);
		if (i < 2)
			assert_int_equal(option(back, IPPROTO_TCP, TCP_KEEPIDLE),
			    i == 0 ? 77 : idle);
	}
	close_all(listener, front, back);
}

static void test_port_in_use(void **state)
{
	struct sock_target target;
	struct sock_addr addr;
	struct err err;

	(void)state;
	sock_addr_parse("127.0.0.1", 0, &addr);
	sock_target_ip(&target, &addr);
	int listener = sock_listen(&target, &plain, &err);
	assert_true(listener >= 0);
	sock_local(listener, &target.addr);
	assert_int_equal(sock_listen(&target, &plain, &err), -1);
	assert_string_equal(err.text, "bind(): Address already in use");
	close(listener);
}

static void test_unix_socket(void **state)
{
	struct sock_options o = {.unix_mode = 0640, .backlog = 5};
	char dir[] = "/tmp/net-sock-XXXXXX";
	struct sock_target t;
	struct sock_addr peer;
	struct err err;
	struct stat st;
	int front, pid;
	unsigned uid;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(sock_target_unix(&t, dir, 6432, &err), 0);
	int stale = sock_listen(&t, &plain, &err);
	assert_true(stale >= 0);
	close(stale);
	char group[32];
	snprintf(group, sizeof(group), "%u", (unsigned)getgid());
	o.unix_group = group;
	int listener = sock_listen(&t, &o, &err);
	assert_true(listener >= 0);
	assert_int_equal(stat(t.un.sun_path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(sock_connect(&t, &o, &front, &err), 0);
	int back = sock_accept(listener, &peer);
	assert_true(back >= 0);
	assert_int_equal(peer.family, AF_UNIX);
	assert_int_equal(sock_peer(back, &pid, &uid), 0);
	assert_int_equal(pid, getpid());
	assert_int_equal(uid, getuid());
	close_all(listener, front, back);
	assert_int_equal(sock_connect(&t, &o, &front, &err), -1);
	assert_string_equal(err.text, "connect(): Connection refused");
	o.unix_group = "no such group";
	assert_int_equal(sock_listen(&t, &o, &err), -1);
	assert_string_equal(err.text, "unknown group: no such group");
	unlink(t.un.sun_path);
	rmdir(dir);
}

static void test_file_is_not_removed(void **state)
{
	char dir[] = "/tmp/net-sock-XXXXXX";
	struct sock_target t;
	struct err err;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(sock_target_unix(&t, dir, 6432, &err), 0);
	int fd = open(t.un.sun_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(sock_listen(&t, &plain, &err), -1);
	assert_string_equal(err.text, "bind(): Address already in use");
	assert_int_equal(unlink(t.un.sun_path), 0);
	rmdir(dir);
}

/* A socket file is replaced only when no process listens on it; a full queue does not
 * count as that. */
static void test_live_socket_is_not_replaced(void **state)
{
	struct sock_options o = {.unix_mode = -1, .backlog = 0};
	char dir[] = "/tmp/net-sock-XXXXXX";
	struct sock_target t;
	struct err err;
	int fds[16], count = 0;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(sock_target_unix(&t, dir, 6432, &err), 0);
	assert_false(sock_probe_listener(&t));
	int first = sock_listen(&t, &o, &err);
	assert_true(first >= 0);
	assert_true(sock_probe_listener(&t));
	while (count < 15 && sock_connect(&t, &o, &fds[count], &err) == 0)
		count++;
	assert_true(count < 15);
	assert_true(sock_probe_listener(&t));
	assert_int_equal(sock_listen(&t, &o, &err), -1);
	assert_non_null(strstr(err.text, "another process listens on "));
	while (count)
		close(fds[--count]);
	close(first);
	assert_false(sock_probe_listener(&t));
	first = sock_listen(&t, &o, &err);
	assert_true(first >= 0);
	close(first);
	unlink(t.un.sun_path);
	rmdir(dir);
}

static void test_unix_would_block(void **state)
{
	struct sock_options o = {.unix_mode = -1, .backlog = 0};
	struct sock_target t;
	struct err err;
	char name[64];
	int fds[16], count = 0, result;

	(void)state;
	snprintf(name, sizeof(name), "@net-full-%d", (int)getpid());
	assert_int_equal(sock_target_unix(&t, name, 1, &err), 0);
	int listener = sock_listen(&t, &o, &err);
	assert_true(listener >= 0);
	while ((result = sock_connect(&t, &o, &fds[count], &err)) == 0 && count < 15)
		count++;
	assert_int_equal(result, -1);
	assert_non_null(strstr(err.text, "would block"));
	while (count)
		close(fds[--count]);
	close(listener);
}

static void test_resolve_listen(void **state)
{
	struct sock_addr addrs[8];
	struct err err;

	(void)state;
	assert_int_equal(sock_resolve_listen("127.0.0.1", 6432, addrs, 8, &err), 1);
	assert_int_equal(addrs[0].family, AF_INET);
	assert_int_equal(addrs[0].port, 6432);
	int count = sock_resolve_listen("*", 6432, addrs, 8, &err);
	assert_true(count >= 1 && count <= 2);
	assert_int_equal(sock_resolve_listen("*", 6432, addrs, 1, &err), 1);
	assert_int_equal(sock_resolve_listen("300.1.1.1.", 6432, addrs, 8, &err), -1);
	assert_memory_equal(err.text, "getaddrinfo('300.1.1.1.', '6432') = ", 36);
	assert_int_equal(err.text[strlen(err.text) - 1], ']');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_texts),
	    cmocka_unit_test(test_equal),
	    cmocka_unit_test(test_unix_targets),
	    cmocka_unit_test(test_tcp),
	    cmocka_unit_test(test_tcp6),
	    cmocka_unit_test(test_defer_accept),
	    cmocka_unit_test(test_options_are_inherited),
	    cmocka_unit_test(test_port_in_use),
	    cmocka_unit_test(test_unix_socket),
	    cmocka_unit_test(test_file_is_not_removed),
	    cmocka_unit_test(test_live_socket_is_not_replaced),
	    cmocka_unit_test(test_unix_would_block),
	    cmocka_unit_test(test_resolve_listen),
	};

	return cmocka_run_group_tests_name("sock", tests, NULL, NULL);
}
