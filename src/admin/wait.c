/*
 * Replies that come later.  Conditions are looked at every few milliseconds, but only
 * while somebody waits.
 */
#include "admin/wait.h"

#include "admin/console.h"
#include "admin/reply.h"
#include "base/mem.h"

/* A waiting PAUSE holds up every client, so it is not kept waiting for long. */
enum { RECHECK_US = 20 * 1000 };

struct consoles {
	struct site *site;
	struct list waits; /* struct wait by .node, oldest first */
	struct deadline recheck;
};

struct wait {
	struct node node;
	struct client *client; /* borrowed; wait_drop ends it */
	char *database;        /* owned; NULL: all */
	enum wait_kind kind;
};

static const char *const tags[] = {
    [WAIT_PAUSE] = "PAUSE",
    [WAIT_CLOSE] = "WAIT_CLOSE",
    [WAIT_SUSPEND] = "SUSPEND",
};

static bool is_paused_pool(const struct pool *pool)
{
	return list_is_empty(&pool->seats[SEAT_ACTIVE]) &&
	       list_is_empty(&pool->seats[SEAT_TESTED]) &&
	       list_is_empty(&pool->seats[SEAT_BEING_CANCELED]);
}

static bool has_dirty_seat(const struct list *seats)
{
	const struct seat *seat;

	list_for (seat, seats, node) {
		if (seat->is_dirty)
			return true;
	}
	return false;
}

static bool is_clean_pool(const struct pool *pool)
{
	for (unsigned state = SEAT_NONE + 1; state < SEAT_STATE_COUNT; state++)
		if (has_dirty_seat(&pool->seats[state]))
			return false;
	return true;
}

static bool is_done_pool(enum wait_kind kind, const struct pool *pool)
{
	return kind == WAIT_PAUSE ? is_paused_pool(pool) : is_clean_pool(pool);
}

static bool is_done_everywhere(enum wait_kind kind, const struct catalog *catalog)
{
	const struct pool *pool;

	list_for (pool, &catalog->pool_list, node) {
		if (!is_done_pool(kind, pool))
			return false;
	}
	return true;
}

static bool is_done_in(enum wait_kind kind, const struct database *db)
{
	const struct pool *pool;

	list_for (pool, &db->pools, db_node) {
		if (!is_done_pool(kind, pool))
			return false;
	}
	return true;
}

enum outcome { GOES_ON, DONE, INTERRUPTED };

/* A database that is gone has no servers. */
static enum outcome outcome_of(
    const struct site *site, enum wait_kind kind, const char *name)
{
	struct catalog *catalog = site->catalog;
	const struct database *db = name ? catalog_find_database(catalog, name) : NULL;

	if (name && !db)
		return DONE;
	if (kind == WAIT_SUSPEND && catalog->suspended)
		return site->is_still ? DONE : GOES_ON;
	if (kind == WAIT_SUSPEND)
		return INTERRUPTED;
	if (kind == WAIT_PAUSE && !(db ? db->paused : catalog->paused))
		return INTERRUPTED;
	return (db ? is_done_in(kind, db) : is_done_everywhere(kind, catalog))
		   ? DONE
		   : GOES_ON;
}

static void wait_free(struct consoles *consoles, struct wait *wait)
{
	list_remove(&consoles->waits, &wait->node);
	mem_free(wait->database);
	mem_free(wait);
}

static void arm(struct consoles *consoles)
{
	struct loop *loop = consoles->site->loop;

	if (list_is_empty(&consoles->waits))
		deadline_clear(loop, &consoles->recheck);
	else if (consoles->recheck.at_us == UINT64_MAX)
		deadline_set(loop, &consoles->recheck, loop_now(loop) + RECHECK_US);
}

/* True when the command has had its reply. */
static bool has_ended(struct client *client, enum wait_kind kind, const char *database)
{
	switch (outcome_of(client->conn.site, kind, database)) {
	case DONE:
		reply_done(client, tags[kind]);
		return true;
	case INTERRUPTED:
		reply_error(client, "%s was interrupted by RESUME",
		    kind == WAIT_SUSPEND ? "suspend" : "pause");
		return true;
	case GOES_ON:
		break;
	}
	return false;
}

void wait_review(struct site *site)
{
	struct consoles *consoles = site->consoles;
	struct wait *wait, *after;

	list_for_safe (wait, after, &consoles->waits, node) {
		if (has_ended(wait->client, wait->kind, wait->database))
			wait_free(consoles, wait);
	}
	arm(consoles);
}

static void recheck_expired(struct deadline *d)
{
	wait_review(container_of(d, struct consoles, recheck)->site);
}

void wait_begin(struct client *client, enum wait_kind kind, const char *database)
{
	struct consoles *consoles = client->conn.site->consoles;

	if (has_ended(client, kind, database))
		return;
	struct wait *wait = mem_zero(sizeof(*wait));
	wait->client = client;
	wait->kind = kind;
	wait->database = database ? mem_strdup(database) : NULL;
	list_push_back(&consoles->waits, &wait->node);
	arm(consoles);
}

void wait_drop(struct client *client)
{
	struct consoles *consoles = client->conn.site->consoles;
	struct wait *wait, *after;

	list_for_safe (wait, after, &consoles->waits, node) {
		if (wait->client == client)
			wait_free(consoles, wait);
	}
	arm(consoles);
}

struct consoles *consoles_new(struct site *site)
{
	struct consoles *consoles = mem_zero(sizeof(*consoles));

	consoles->site = site;
	list_init(&consoles->waits);
	deadline_init(&consoles->recheck, recheck_expired);
	return consoles;
}

void consoles_free(struct consoles **consoles)
{
	struct consoles *c = *consoles;

	if (!c)
		return;
	while (!list_is_empty(&c->waits))
		wait_free(c, container_of(list_first(&c->waits), struct wait, node));
	deadline_clear(c->site->loop, &c->recheck);
	mem_free(c);
	*consoles = NULL;
}
