/*
 * A new connection is looked after until its worker has taken it, so that it can be
 * given to another one if that worker stands still.
 */
#include "session/dispatch.h"

#include <unistd.h>

#include "session/workers.h"

/* How often it is checked whether workers take what was sent to them. */
enum { LOOK_US = 50000 };

/* A connection on its way. */
struct dispatched {
	struct thread_message message;
	struct node node; /* in worker->given of the control site */
	/* one of the message, one of that list */
	atomic_uint refs;
	/* the receiver has taken it, or the sender has taken it back.  The descriptor
	 * belongs to whoever has done so. */
	atomic_bool is_claimed;
	struct worker *to;
	int fd;
	struct sock_addr remote;
	bool is_unix;
};

static void dispatched_unref(struct dispatched *d)
{
	if (atomic_fetch_sub(&d->refs, 1) == 1)
		mem_free(d);
}

/* Returns the descriptor, or -1 if the other side has taken it. */
static int claim(struct dispatched *d)
{
	return atomic_exchange(&d->is_claimed, true) ? -1 : d->fd;
}

static void arrived(struct thread_message *message)
{
	struct dispatched *d = container_of(message, struct dispatched, message);
	struct worker *to = d->to;
	int fd = claim(d);

	if (fd >= 0) {
		workers_arrival_begins(to);
		if (to->site->shutdown == SHUTDOWN_NOW)
			close(fd);
		else
			to->workers->ops->admit(to->site, fd, &d->remote, d->is_unix);
		workers_arrival_ends(to);
	}
	dispatched_unref(d);
}

static void look_soon(struct worker *own)
{
	struct loop *loop = own->site->loop;

	if (own->look.at_us == UINT64_MAX)
		deadline_set(loop, &own->look, loop_now(loop) + LOOK_US);
}

void dispatch_send(
    struct worker *to, int fd, const struct sock_addr *remote, bool is_unix)
{
	struct worker *own = workers_control(to->workers);
	struct dispatched *d = mem_zero(sizeof(*d));

	d->message.handle = arrived;
	d->refs = 2;
	d->to = to;
	d->fd = fd;
	d->remote = *remote;
	d->is_unix = is_unix;
	list_push_back(&own->given, &d->node);
	look_soon(own);
	workers_post(to, &d->message);
}

/* Does nobody need to look after it any more?  If its worker leaves it unopened, it is
 * given to one that answers. */
static bool settle(struct dispatched *d)
{
	struct worker *to;
	int fd;

	if (atomic_load(&d->is_claimed))
		return true;
	if (!workers_is_unresponsive(d->to->workers, d->to->index))
		return false;
	to = workers_pick(d->to->workers);
	bool is_unresponsive = workers_is_unresponsive(to->workers, to->index);
	fd = is_unresponsive ? -1 : claim(d);
	if (fd < 0) {
		workers_unpick(to);
		return !is_unresponsive;
	}
	workers_unpick(d->to);
	dispatch_send(to, fd, &d->remote, d->is_unix);
	return true;
}

static void forget(struct worker *own, struct dispatched *d)
{
	list_remove(&own->given, &d->node);
	dispatched_unref(d);
}

static void look_expired(struct deadline *deadline)
{
	struct worker *own = container_of(deadline, struct worker, look);
	struct dispatched *d, *after;

	list_for_safe (d, after, &own->given, node) {
		if (settle(d))
			forget(own, d);
	}
	if (!list_is_empty(&own->given))
		look_soon(own);
}

void dispatch_init(struct site *site)
{
	if (!site->worker)
		return;
	list_init(&site->worker->given);
	deadline_init(&site->worker->look, look_expired);
}

void dispatch_done(struct site *site)
{
	struct worker *own = site->worker;

	if (!own)
		return;
	deadline_clear(site->loop, &own->look);
	while (!list_is_empty(&own->given))
		forget(own,
		    container_of(list_first(&own->given), struct dispatched, node));
}
