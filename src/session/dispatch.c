/*
 * A new connection is looked after until its worker has taken it, so that it can be
 * given to another one if that worker stands still.
 */
#include "session/dispatch.h"

#include <string.h>
#include <unistd.h>

#include "session/crew.h"

/* How often it is checked whether workers take what was sent to them. */
enum { LOOK_US = 50000 };

/* A connection on its way. */
struct dispatched {
	struct letter letter;
	struct node node; /* in the control site's crew_member.given */
	/* one of the letter, one of that list */
	atomic_uint refs;
	/* the receiver has taken it, or the sender has taken it back.  The descriptor
	 * belongs to whoever has done so. */
	atomic_bool is_claimed;
	struct crew_member *to;
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

static void arrived(struct letter *letter)
{
	struct dispatched *d = container_of(letter, struct dispatched, letter);
	struct crew_member *to = d->to;
	int fd = claim(d);

	if (fd >= 0) {
		crew_arrival_begins(to);
		if (to->site->shutdown == SHUTDOWN_NOW)
			close(fd);
		else
			to->crew->ops->admit(to->site, fd, &d->remote, d->is_unix);
		crew_arrival_ends(to);
	}
	dispatched_unref(d);
}

static void look_soon(struct crew_member *own)
{
	struct loop *loop = own->site->loop;

	if (own->look.at_us == UINT64_MAX)
		deadline_set(loop, &own->look, loop_now(loop) + LOOK_US);
}

void dispatch_send(
    struct crew_member *to, int fd, const struct sock_addr *remote, bool is_unix)
{
	struct crew_member *own = crew_control(to->crew);
	struct dispatched *d = mem_zero(sizeof(*d));

	d->letter.open = arrived;
	d->refs = 2;
	d->to = to;
	d->fd = fd;
	d->remote = *remote;
	d->is_unix = is_unix;
	list_push_back(&own->given, &d->node);
	look_soon(own);
	crew_post(to, &d->letter);
}

/* Does nobody need to look after it any more?  If its worker leaves it unopened, it is
 * given to one that answers. */
static bool settle(struct dispatched *d)
{
	struct crew_member *to;
	int fd;

	if (atomic_load(&d->is_claimed))
		return true;
	if (!crew_is_deaf(d->to->crew, d->to->index))
		return false;
	to = crew_pick(d->to->crew);
	bool is_deaf = crew_is_deaf(to->crew, to->index);
	fd = is_deaf ? -1 : claim(d);
	if (fd < 0) {
		crew_unpick(to);
		return !is_deaf;
	}
	crew_unpick(d->to);
	dispatch_send(to, fd, &d->remote, d->is_unix);
	return true;
}

static void forget(struct crew_member *own, struct dispatched *d)
{
	list_remove(&own->given, &d->node);
	dispatched_unref(d);
}

static void look_expired(struct deadline *deadline)
{
	struct crew_member *own = container_of(deadline, struct crew_member, look);
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
	if (!site->crew)
		return;
	list_init(&site->crew->given);
	deadline_init(&site->crew->look, look_expired);
}

void dispatch_done(struct site *site)
{
	struct crew_member *own = site->crew;

	if (!own)
		return;
	deadline_clear(site->loop, &own->look);
	while (!list_is_empty(&own->given))
		forget(own,
		    container_of(list_first(&own->given), struct dispatched, node));
}
