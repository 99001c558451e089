#include "net/alarm.h"

#include <unistd.h>

#include "net/poller.h" /* NET_HAS_LINUX */
#ifdef NET_HAS_LINUX
#	include <sys/timerfd.h>
#endif

int alarm_init(struct alarm *a)
{
	*a = (struct alarm){.fd = -1};
#ifdef NET_HAS_LINUX
	a->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	return a->fd < 0 ? -1 : 0;
#else
	return 0;
#endif
}

void alarm_done(struct alarm *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
}

void alarm_set(struct alarm *a, uint64_t at_us, uint64_t now_us)
{
#ifdef NET_HAS_LINUX
	uint64_t in_us = at_us - now_us;
	const struct itimerspec when = {
	    .it_value.tv_sec = (time_t)(in_us / 1000000),
	    .it_value.tv_nsec = (long)(in_us % 1000000 * 1000),
	};

	if (a->at_us > now_us && a->at_us <= at_us)
		return;
	a->at_us = at_us;
	timerfd_settime(a->fd, 0, &when, NULL);
#else
	(void)a, (void)at_us, (void)now_us;
#endif
}
