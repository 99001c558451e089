/*
 * The sd_notify(3) protocol.  Errors are ignored, because a manager that cannot be
 * reached is no reason to stop.
 */
#include "daemon/notify.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* How long it is waited for a manager that is behind with reading.  It may end a
 * service that it does not hear of. */
enum { PATIENCE_S = 3 };

/* The queue of the manager's socket is short (net.unix.max_dgram_qlen).  What it must
 * hear waits for room; a sign of life is sent again soon anyway. */
static void notify(const char *state, bool must_arrive)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (!len || len >= sizeof(to.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	(void)sendto(fd, state, strlen(state),
	    MSG_NOSIGNAL | (must_arrive ? 0 : MSG_DONTWAIT), (struct sockaddr *)&to,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}

void notify_ready(void)
{
	notify("READY=1", true);
}

void notify_taken_over(void)
{
	char text[64];

	snprintf(text, sizeof(text), "MAINPID=%ld\nREADY=1", (long)getpid());
	notify(text, true);
}

/* The manager tells reloads apart by the time that is sent. */
void notify_reloading(void)
{
	struct timespec now;
	char text[64];

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
	    (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	notify(text, true);
}

void notify_stopping(void)
{
	notify("STOPPING=1", true);
}

void notify_alive(void)
{
	notify("WATCHDOG=1", false);
}

/* Child processes inherit the variables, so WATCHDOG_PID names the process that they
 * are for. */
uint64_t notify_watchdog_us(void)
{
	const char *limit = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	char *end;
	unsigned long long us;

	if (!limit || !*limit || (pid && atol(pid) != (long)getpid()))
		return 0;
	errno = 0;
	us = strtoull(limit, &end, 10);
	return *end || errno || *limit == '-' ? 0 : us;
}

void notify_status(const char *text)
{
	char state[1024];

	snprintf(state, sizeof(state), "STATUS=%s", text);
	notify(state, false);
}
