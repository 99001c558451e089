/*
 * Messages from other threads: a lock-free stack that is emptied at once, and an
 * eventfd or a pipe that wakes the loop.
 */
#include "net/mailbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/poller.h"
#ifdef NET_HAS_LINUX
#	include <sys/eventfd.h>
#endif

struct mailbox {
	_Atomic(struct thread_message *)
	    last; /* the message posted last; .next leads to older ones */
	_Atomic uint64_t since_us; /* when the oldest of them was posted */
	struct loop *loop;
	struct watch *watch;
	int fd, bell; /* what is written to the bell can be read from fd */
};

/* Takes all messages, the oldest first. */
static struct thread_message *take_all(struct mailbox *m)
{
	struct thread_message *message =
	    atomic_exchange_explicit(&m->last, NULL, memory_order_acquire);
	struct thread_message *first = NULL;

	while (message) {
		struct thread_message *next = message->next;
		message->next = first;
		first = message;
		message = next;
	}
	return first;
}

static void open_all(struct mailbox *m)
{
	struct thread_message *message = take_all(m);

	/* times in them are of the senders' clocks, and must not be later than now */
	loop_touch_clock(m->loop);
	while (message) {
		struct thread_message *next = message->next;
		message->handle(message);
		message = next;
	}
}

static void ready(void *ctx, int fd)
{
	struct mailbox *m = ctx;
	uint64_t count;

	/* read before the messages are taken, so that a later post wakes the loop
	 * again */
	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	open_all(m);
}

static int make_bell(int *fd, int *bell)
{
#ifdef NET_HAS_LINUX
	*fd = *bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return *fd < 0 ? -1 : 0;
#else
	int fds[2] = {-1, -1};
	int result = pipe2(fds, O_NONBLOCK | O_CLOEXEC);

	*fd = fds[0];
	*bell = fds[1];
	return result;
#endif
}

struct mailbox *mailbox_new(struct loop *loop, struct err *err)
{
	int fd, bell;
	struct mailbox *m;

	if (make_bell(&fd, &bell) < 0) {
		err_set(err, "cannot make a mailbox: %s", strerror(errno));
		return NULL;
	}
	m = mem_zero(sizeof(*m));
	m->loop = loop;
	m->fd = fd;
	m->bell = bell;
	m->watch = watch_new(loop, fd, WATCH_READ, ready, m);
	return m;
}

void mailbox_free(struct mailbox **mp)
{
	struct mailbox *m = *mp;

	if (!m)
		return;
	while (atomic_load_explicit(&m->last, memory_order_relaxed))
		open_all(m);
	watch_free(&m->watch);
	close(m->fd);
	if (m->bell != m->fd)
		close(m->bell);
	mem_free(m);
	*mp = NULL;
}

/* The sender's loop may have read its clock long ago. */
static uint64_t clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void mailbox_post(struct mailbox *m, struct thread_message *message)
{
	static const uint64_t one = 1;
	struct thread_message *last =
	    atomic_load_explicit(&m->last, memory_order_relaxed);

	do {
		/* before the message can be seen */
		if (!last)
			atomic_store_explicit(
			    &m->since_us, clock_us(), memory_order_relaxed);
		message->next = last;
	} while (!atomic_compare_exchange_weak_explicit(
	    &m->last, &last, message, memory_order_release, memory_order_relaxed));
	/* if there were messages before, the loop has been woken already */
	if (last)
		return;
	while (write(m->bell, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

bool mailbox_is_unread_for(const struct mailbox *m, uint64_t us)
{
	if (!atomic_load_explicit(&m->last, memory_order_acquire))
		return false;
	uint64_t since_us = atomic_load_explicit(&m->since_us, memory_order_relaxed);
	uint64_t now_us = clock_us();
	return now_us > since_us && now_us - since_us >= us;
}
