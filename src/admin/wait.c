/*
 * Commands whose reply comes later.  Their conditions are checked every few
 * milliseconds while any command waits.
 */
#include "admin/wait.h"

#include "admin/reply.h"
#include "base/mem.h"
#include "pool/pool.h"
#include "session/workers.h"

/* The interval is short, because a waiting PAUSE delays every client. */
enum { RECHECK_US = 20 * 1000 };

struct waits {
	struct site *site;
	struct list list; /* struct wait by .node, oldest first */
	struct deadline recheck;
};

struct wait {
	struct node node;
	struct client *client; /* borrowed; wait_drop ends it */
	char *database;        /* owned; NULL: all */
	enum wait_kind kind;
	/* until switchover_forget; NULL: another kind of wait */
	struct switchover *switchover;
};

static const char *const tags[] = {
    [WAIT_PAUSE] = "PAUSE",
    [WAIT_CLOSE] = "WAIT_CLOSE",
    [WAIT_SUSPEND] = "SUSPEND",
};

/* In errors, of what RESUME ends. */
static const char *const names[] = {
    [WAIT_PAUSE] = "pause",
    [WAIT_CLOSE] = NULL,
    [WAIT_SUSPEND] = "suspend",
};

static bool is_clean_pool(const struct pool *pool)
{
	const struct slot *slot;

	for (unsigned state = SLOT_NONE + 1; state < SLOT_STATE_COUNT; state++)
		list_for (slot, &pool->slots[state], node)
			if (slot->dirty)
				return false;
	return true;
}

static bool is_done_pool(enum wait_kind kind, const struct pool *pool)
{
	return kind == WAIT_PAUSE ? pool_count_in_use(pool) == 0 : is_clean_pool(pool);
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

struct done {
	enum wait_kind kind;
	const char *name;
	bool is_so; /* the condition holds at every site that has answered */
};

/* A database that is gone has no servers. */
static void look_at_site(struct site *site, void *ctx)
{
	struct done *done = ctx;
	const struct database *db =
	    done->name ? catalog_find_database(site->catalog, done->name) : NULL;

	if (!done->name)
		done->is_so =
		    done->is_so && is_done_everywhere(done->kind, site->catalog);
	else if (db)
		done->is_so = done->is_so && is_done_in(done->kind, db);
}

enum outcome { GOES_ON, DONE, INTERRUPTED };

/* A database that is gone has no servers. */
static enum outcome outcome_of(struct site *site, enum wait_kind kind, const char *name)
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
	struct done done = {kind, name, true};
	unsigned missed = workers_each(site, look_at_site, &done);
	return done.is_so && missed == 0 ? DONE : GOES_ON;
}

static void wait_free(struct waits *waits, struct wait *wait)
{
	list_remove(&waits->list, &wait->node);
	switchover_forget(&wait->switchover);
	mem_free(wait->database);
	mem_free(wait);
}

static void arm(struct waits *waits)
{
	struct loop *loop = waits->site->loop;

	if (list_is_empty(&waits->list))
		deadline_clear(loop, &waits->recheck);
	else if (waits->recheck.at_us == UINT64_MAX)
		deadline_set(loop, &waits->recheck, loop_now(loop) + RECHECK_US);
}

/* Replies if the wait is over.  True: the reply was sent. */
static bool reply_if_over(
    struct client *client, enum wait_kind kind, const char *database)
{
	switch (outcome_of(client->conn.site, kind, database)) {
	case DONE:
		reply_done(client, tags[kind]);
		return true;
	case INTERRUPTED:
		reply_error(client, ERROR_RESUMED, names[kind]);
		return true;
	case GOES_ON:
		break;
	}
	return false;
}

/* Sends the news of the SWITCHOVER, and replies if it is over. */
static bool reply_if_switched(struct client *client, struct switchover *s)
{
	const char *news = switchover_news(s);

	if (news)
		client_notice(client, news);
	if (!switchover_has_ended(s))
		return false;
	if (switchover_failure(s))
		reply_error(client, ERROR_SWITCHOVER_FAILED, switchover_failure(s));
	else
		reply_done(client, "SWITCHOVER");
	return true;
}

void wait_review(struct site *site)
{
	struct waits *waits = site->waits;
	struct wait *wait, *after;

	list_for_safe (wait, after, &waits->list, node) {
		if (wait->switchover
			? reply_if_switched(wait->client, wait->switchover)
			: reply_if_over(wait->client, wait->kind, wait->database))
			wait_free(waits, wait);
	}
	arm(waits);
}

static void recheck_expired(struct deadline *d)
{
	wait_review(container_of(d, struct waits, recheck)->site);
}

void wait_begin(struct client *client, enum wait_kind kind, const char *database)
{
	struct waits *waits = client->conn.site->waits;

	if (reply_if_over(client, kind, database))
		return;
	struct wait *wait = mem_zero(sizeof(*wait));
	wait->client = client;
	wait->kind = kind;
	wait->database = database ? mem_strdup(database) : NULL;
	list_push_back(&waits->list, &wait->node);
	arm(waits);
}

void wait_begin_switchover(struct client *client, struct switchover *s)
{
	struct waits *waits = client->conn.site->waits;
	struct wait *wait = mem_zero(sizeof(*wait));

	wait->client = client;
	wait->switchover = s;
	list_push_back(&waits->list, &wait->node);
	arm(waits);
}

void wait_cancel(struct client *client, bool resumes)
{
	struct waits *waits = client->conn.site->waits;
	struct wait *wait, *after;

	list_for_safe (wait, after, &waits->list, node) {
		if (wait->switchover) {
			if (wait->client == client)
				switchover_interrupt(wait->switchover);
		} else if (resumes && !wait->database && names[wait->kind]) {
			reply_error(
			    wait->client, ERROR_WAIT_CANCELED, names[wait->kind]);
			wait_free(waits, wait);
		}
	}
	arm(waits);
}

void wait_drop(struct client *client)
{
	struct waits *waits = client->conn.site->waits;
	struct wait *wait, *after;

	list_for_safe (wait, after, &waits->list, node) {
		if (wait->client == client)
			wait_free(waits, wait);
	}
	arm(waits);
}

struct waits *waits_new(struct site *site)
{
	struct waits *waits = mem_zero(sizeof(*waits));

	waits->site = site;
	list_init(&waits->list);
	deadline_init(&waits->recheck, recheck_expired);
	return waits;
}

void waits_free(struct waits **waits)
{
	struct waits *w = *waits;

	if (!w)
		return;
	while (!list_is_empty(&w->list))
		wait_free(w, container_of(list_front(&w->list), struct wait, node));
	deadline_clear(w->site->loop, &w->recheck);
	mem_free(w);
	*waits = NULL;
}
