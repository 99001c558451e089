/*
 * Makes the pools of several sites look like one pool to clients and limits.  pool.c,
 * pool_next.c and room.c decide who gets what at this site; the broker sends letters
 * between sites.
 */
#include "pool/elsewhere.h"

#include "pool/pool_effective.h"

/* A server that is needed here goes to another site only if that site's client has
 * waited longer by this time, and by half of the time that the first client here has
 * waited.  Otherwise servers would change sites with every transaction. */
enum { LEAD_US = 3000 };

/* If the pool has servers at the client's own site, how long the client waits for one
 * of them before it gets a server that rests at another site.  The clients there are
 * about to use that server again; without this time servers would move back and forth
 * between busy sites. */
enum { PATIENCE_US = 1000 };

/* By how much others may see a client wait longer than it does, so that not each client
 * that is served changes what they see. */
enum { STALE_US = 1000 };

/* How long a site that was asked in vain is left alone.  Its servers rest for moments
 * only. */
enum { VAIN_US = 2000 };

/* How long a client waits for the answer of a site that was asked for a server.
 * Meanwhile no new connection is opened for it. */
enum { ANSWER_US = 20000 };

/* How often a waiting client checks again whether a server rests at another site. */
enum { LOOK_US = 2000 };

static const struct tally_view *view_of(const struct pool *pool)
{
	return &pool->database->catalog->view;
}

static struct tally *tally_of(const struct pool *pool, enum tally_kind kind)
{
	switch (kind) {
	case TALLY_USER:
		return pool->user->tally;
	case TALLY_DATABASE:
		return pool->database->tally;
	case TALLY_PROCESS:
		return pool->database->catalog->tally;
	case TALLY_POOL:
	case TALLY_HOST:
		break;
	}
	return pool->tally;
}

static enum tally_kind kind_of_room(enum room_kind kind)
{
	return kind == ROOM_USER       ? TALLY_USER
	       : kind == ROOM_DATABASE ? TALLY_DATABASE
				       : TALLY_PROCESS;
}

/* The names are NULL where the tally is not about one. */
static void send_named(struct catalog *c, int site, struct wish wish)
{
	wish.from = c->view.site;
	if (wish.of != TALLY_DATABASE && wish.of != TALLY_POOL)
		wish.database = NULL;
	if (wish.of != TALLY_USER && wish.of != TALLY_POOL)
		wish.user = NULL;
	c->events->wish(c->events_ctx, (unsigned)site, &wish);
}

static void send(const struct pool *pool, int site, enum wish_kind kind,
    enum tally_kind of, uint64_t since_us)
{
	send_named(pool->database->catalog, site,
	    (struct wish){.kind = kind,
		.of = of,
		.database = pool->database->name,
		.user = pool->user->name,
		.since_us = since_us});
}

/* ---- what others see ---- */

uint64_t elsewhere_shown_since(
    const struct pool *pool, const struct ask *first, uint64_t now_us)
{
	uint64_t shown_us = tally_shown_waiting(view_of(pool), pool->tally);

	if (!first ||
	    (pool_server_count(pool) > 0 && now_us < first->queued_us + PATIENCE_US))
		return 0;
	if (shown_us <= first->queued_us && first->queued_us - shown_us < STALE_US)
		return shown_us;
	return first->queued_us;
}

uint64_t elsewhere_show_time(const struct pool *pool, const struct ask *first)
{
	if (!pool->tally || !first ||
	    tally_shown_waiting(view_of(pool), pool->tally) != 0)
		return UINT64_MAX;
	return first->queued_us + LOOK_US;
}

/* ---- asking ---- */

static bool awaits_answer(const struct pool *pool, uint64_t now_us)
{
	return pool->wished_us && now_us < pool->wished_us + ANSWER_US;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Whether clients wait for the welcome, and another site has it or will have it
 * soon. */
static bool has_welcome_elsewhere(struct pool *pool, uint64_t now_us, uint64_t *wake_us)
{
	int site = tally_find_welcome(view_of(pool), pool->tally);

	if (site < 0 || awaits_answer(pool, now_us))
		return false;
	pool->wished_us = now_us;
	*wake_us = earlier(*wake_us, now_us + ANSWER_US);
	send(pool, site, WISH_WELCOME, TALLY_POOL, now_us);
	return true;
}

bool elsewhere_has_help(
    struct pool *pool, const struct ask *first, uint64_t now_us, uint64_t *wake_us)
{
	int site;

	if (!pool->tally)
		return false;
	if (awaits_answer(pool, now_us)) {
		*wake_us = earlier(*wake_us, pool->wished_us + ANSWER_US);
		return true;
	}
	/* if the last site asked does not answer, another one may, or a new server is
	 * opened */
	bool is_late = pool->wished_us != 0;
	pool->wished_us = 0;
	if (!first && !is_late && !pool->is_welcome_valid &&
	    has_welcome_elsewhere(pool, now_us, wake_us))
		return true;
	/* A server that comes to rest a moment later, or is on its way, is not visible
	 * now, and clients that wait for the welcome are not told of room; so check
	 * again. */
	if (pool_servers_everywhere(pool) > pool_server_count(pool))
		*wake_us = earlier(*wake_us, now_us + LOOK_US);
	site = is_late || !first ? -1 : tally_find_resting(view_of(pool), pool->tally);
	if (site < 0)
		return false;
	if (now_us < pool->vain_us + VAIN_US) {
		*wake_us = earlier(*wake_us, pool->vain_us + VAIN_US);
		return true;
	}
	if (pool_server_count(pool) > 0 && now_us < first->queued_us + PATIENCE_US) {
		*wake_us = earlier(*wake_us, first->queued_us + PATIENCE_US);
		return true;
	}
	pool->wished_us = now_us;
	*wake_us = earlier(*wake_us, now_us + ANSWER_US);
	send(pool, site, WISH_SERVER, TALLY_POOL, first->queued_us);
	return true;
}

void elsewhere_ask_welcome(struct pool *pool, uint64_t now_us, uint64_t *wake_us)
{
	if (!pool->tally || pool->is_welcome_valid || list_is_empty(&pool->newcomers))
		return;
	if (awaits_answer(pool, now_us))
		*wake_us = earlier(*wake_us, pool->wished_us + ANSWER_US);
	else
		(void)has_welcome_elsewhere(pool, now_us, wake_us);
}

void elsewhere_ask_for_room(struct pool *pool, enum room_kind kind, uint64_t place_us)
{
	enum tally_kind of = kind_of_room(kind);
	int site = tally_find_resting(view_of(pool), tally_of(pool, of));

	if (site >= 0)
		send(pool, site, WISH_ROOM, of, place_us);
}

bool elsewhere_asks_for_seat(struct pool *pool, uint64_t now_us)
{
	int site = tally_find_resting(view_of(pool), pool->tally);

	if (site >= 0)
		send(pool, site, WISH_ROOM, TALLY_POOL, now_us);
	return pool->tally != NULL;
}

void elsewhere_tell_of_surplus(struct pool *pool, uint64_t now_us)
{
	int site = tally_find_resting(view_of(pool), pool->tally);

	if (site >= 0)
		send(pool, site, WISH_LOOK, TALLY_POOL, now_us);
}

void elsewhere_tell_of_lack(struct pool *pool, uint64_t now_us)
{
	int site = tally_find_clients(view_of(pool), pool->tally);

	if (site >= 0)
		send(pool, site, WISH_LOOK, TALLY_POOL, now_us);
}

bool elsewhere_is_first(const struct pool *pool, enum room_kind kind, uint64_t place_us,
    uint64_t *theirs_us)
{
	enum tally_kind of = kind_of_room(kind);
	int site = tally_find_waiting(view_of(pool), tally_of(pool, of), theirs_us);

	if (site < 0 || *theirs_us >= place_us || place_us - *theirs_us <= LEAD_US)
		return false;
	send(pool, site, WISH_LOOK, of, *theirs_us);
	return true;
}

void elsewhere_tell_of_room(const struct pool *pool)
{
	static const enum tally_kind kinds[] = {
	    TALLY_POOL, TALLY_USER, TALLY_DATABASE, TALLY_PROCESS};

	if (!pool->tally)
		return;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		elsewhere_tell_next(pool, tally_of(pool, kinds[i]));
}

void elsewhere_tell_next(const struct pool *pool, const struct tally *tally)
{
	elsewhere_tell_named(
	    pool->database->catalog, tally, pool->database->name, pool->user->name);
}

void elsewhere_tell_named(struct catalog *c, const struct tally *tally,
    const char *database, const char *user)
{
	uint64_t since_us;
	/* a site that a server is on its way to checks again when it has come */
	int site = tally->kind == TALLY_POOL
		       ? tally_find_receiver(&c->view, tally, c->seen_us, &since_us)
		       : tally_find_waiting(&c->view, tally, &since_us);

	if (site >= 0)
		send_named(c, site,
		    (struct wish){.kind = WISH_LOOK,
			.of = tally->kind,
			.database = database,
			.user = user,
			.since_us = since_us});
}

void elsewhere_leave(struct pool *pool)
{
	const struct tally_view *view = view_of(pool);

	if (!pool->tally || pool->is_killed)
		return;
	tally_note_waiting(view, pool->tally, 0);
	atomic_store(&tally_own(view, pool->tally)->wants_welcome, false);
	atomic_store(&tally_own(view, pool->tally)->has_welcome, false);
}

/* ---- giving ---- */

/* Returns the site whose client has waited longest, since *since_us; -1: there is none,
 * or this pool may give nothing now.  A site gets one server at a time: otherwise all
 * sites would send it servers for the same client, and one whose thread stands still
 * would get them all. */
static int find_receiver(const struct pool *pool, uint64_t *since_us)
{
	if (!pool->tally || pool_is_paused(pool) ||
	    tallies_are_frozen(view_of(pool)->tallies))
		return -1;
	return tally_find_receiver(
	    view_of(pool), pool->tally, pool->database->catalog->seen_us, since_us);
}

int elsewhere_receiver(
    const struct pool *pool, const struct ask *first, uint64_t now_us)
{
	uint64_t since_us;
	int site = find_receiver(pool, &since_us);

	if (site < 0 || !first)
		return site;
	uint64_t own_us = first->queued_us < now_us ? now_us - first->queued_us : 0;
	return since_us + LEAD_US + own_us / 2 < first->queued_us ? site : -1;
}
