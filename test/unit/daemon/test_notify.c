/* What the service manager is told, over a socket file and an abstract one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/notify.h"

/* A service manager that listens at this address. */
static int listen_at(const char *address)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	size_t len = strlen(address);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	memcpy(un.sun_path, address, len);
	if (address[0] == '@')
		un.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&un,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
	    0);
	setenv("NOTIFY_SOCKET", address, 1);
	return fd;
}

static const char *heard(int fd, char text[256])
{
	ssize_t len = recv(fd, text, 255, 0);

	text[len > 0 ? len : 0] = '\0';
	return text;
}

static void says_everything(const char *address)
{
	char text[256], wanted[64];
	unsigned long long clock;
	int fd = listen_at(address);

	notify_ready();
	assert_string_equal(heard(fd, text), "READY=1");
	notify_taken_over();
	snprintf(wanted, sizeof(wanted), "MAINPID=%ld\nREADY=1", (long)getpid());
	assert_string_equal(heard(fd, text), wanted);
	notify_stopping();
	assert_string_equal(heard(fd, text), "STOPPING=1");
	notify_alive();
	assert_string_equal(heard(fd, text), "WATCHDOG=1");
	notify_status("stats: 5");
	assert_string_equal(heard(fd, text), "STATUS=stats: 5");
	notify_reloading();
	heard(fd, text);
	assert_int_equal(sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%llu", &clock), 1);
	assert_true(clock > 0);
	close(fd);
}

static void over_a_file(void **state)
{
	char folder[] = "/tmp/test-notify-XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/socket", folder);
	says_everything(path);
	unlink(path);
	rmdir(folder);
}

static void over_the_abstract(void **state)
{
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "@test-notify-%ld", (long)getpid());
	says_everything(name);
}

static void nobody_there(void **state)
{
	char name[64], text[256], longer[300];
	int fd;

	(void)state;
	snprintf(name, sizeof(name), "@test-notify-%ld", (long)getpid());
	fd = listen_at(name);
	unsetenv("NOTIFY_SOCKET");
	notify_ready();
	setenv("NOTIFY_SOCKET", "relative", 1);
	notify_ready();
	setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
	notify_ready();
	memset(longer, 'x', sizeof(longer));
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	setenv("NOTIFY_SOCKET", longer, 1);
	notify_ready();
	assert_string_equal(heard(fd, text), "");
	close(fd);
}

static void who_is_watched(void **state)
{
	char pid[32];

	(void)state;
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	assert_int_equal(notify_watchdog_us(), 0);
	setenv("WATCHDOG_USEC", "30000000", 1);
	assert_int_equal(notify_watchdog_us(), 30000000);
	setenv("WATCHDOG_PID", "1", 1);
	assert_int_equal(notify_watchdog_us(), 0);
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	setenv("WATCHDOG_PID", pid, 1);
	assert_int_equal(notify_watchdog_us(), 30000000);
	setenv("WATCHDOG_USEC", "-1", 1);
	assert_int_equal(notify_watchdog_us(), 0);
	setenv("WATCHDOG_USEC", "1x", 1);
	assert_int_equal(notify_watchdog_us(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(over_a_file),
	    cmocka_unit_test(over_the_abstract),
	    cmocka_unit_test(nobody_there),
	    cmocka_unit_test(who_is_watched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
