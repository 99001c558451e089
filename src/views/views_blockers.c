/*
 * SHOW BLOCKERS.  A waiting client and the one it waits for may be at different sites.
 * So first all sites are asked who waits, and then who holds what those wait for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "pool/pool.h"
#include "session/client.h"
#include "session/server.h"
#include "session/workers.h"
#include "views/views.def"
#include "views/views.h"

enum { POINTER_TEXT = 24 };

/* Waiting clients of one database and user, at all sites. */
struct waiting_pool {
	const char *database, *user; /* point into key */
	const char *waits_for;       /* a literal */
	int waiting;
	uint64_t max_wait_us;
	char key[]; /* both names, each with its NUL */
};

/* A client that holds what another one waits for: its row, which is in the buffer. */
struct blocker {
	const struct waiting_pool *queue;
	uint64_t held_us;
	size_t from, len;
};

struct blockers {
	struct map *queues; /* struct waiting_pool by key */
	struct buf key;     /* key for searching */
	struct buf out;     /* the rows, in the order in which they were found */
	struct blocker *list;
	size_t count, room;
	size_t column_count;
	bool has_shared; /* somebody waits for a limit that several pools share */
};

/* ---- who waits ---- */

/* NULL: nobody waits for this pool. */
static struct waiting_pool *queue_find(struct blockers *all, const struct pool *pool)
{
	buf_clear(&all->key);
	buf_put(&all->key, pool->database->name, strlen(pool->database->name) + 1);
	buf_put(&all->key, pool->user->name, strlen(pool->user->name) + 1);
	return map_get(all->queues, all->key.bytes, all->key.len);
}

static struct waiting_pool *queue_of(struct blockers *all, const struct pool *pool)
{
	struct waiting_pool *queue = queue_find(all, pool);

	if (queue)
		return queue;
	queue = mem_zero(sizeof(*queue) + all->key.len);
	memcpy(queue->key, all->key.bytes, all->key.len);
	queue->database = queue->key;
	queue->user = queue->key + strlen(queue->key) + 1;
	map_put(all->queues, queue->key, all->key.len, queue);
	return queue;
}

static void add_waiting(struct site *site, void *ctx)
{
	struct blockers *all = ctx;
	uint64_t now_us = loop_now(site->loop);
	const struct pool *pool;

	list_for (pool, &site->catalog->pool_list, node) {
		struct waiting_pool *queue;
		const struct pool_request *first;
		if (list_is_empty(&pool->waiting))
			continue;
		queue = queue_of(all, pool);
		first =
		    container_of(list_front(&pool->waiting), struct pool_request, node);
		queue->waiting += (int)pool->waiting.count;
		if (first->queued_us < now_us &&
		    now_us - first->queued_us > queue->max_wait_us)
			queue->max_wait_us = now_us - first->queued_us;
		if (!queue->waits_for)
			queue->waits_for = pool_waits_for(pool);
		if (strncmp(queue->waits_for, "max_", 4) == 0)
			all->has_shared = true;
	}
}

/* ---- who holds ---- */

/* Whether a server of another pool counts against the limit that is waited for. */
static bool is_shared(const struct waiting_pool *queue, const struct pool *pool)
{
	if (strcmp(queue->waits_for, "max_user_connections") == 0)
		return strcmp(queue->user, pool->user->name) == 0;
	if (strcmp(queue->waits_for, "max_db_connections") == 0)
		return strcmp(queue->database, pool->database->name) == 0;
	return strcmp(queue->waits_for, "max_server_connections") == 0;
}

/* What a client does with its server. */
struct holding {
	const char *state;
	/* how long it is in this state, and how long it has the server */
	uint64_t state_us, held_us;
};

static uint64_t passed(uint64_t now_us, uint64_t since_us)
{
	return since_us && now_us > since_us ? now_us - since_us : 0;
}

static struct holding holding_of(
    const struct client *client, const struct server *server)
{
	const struct link *link = &server->link;
	uint64_t now_us = conn_now(&server->conn);
	uint64_t query_us = client->request.in_pool.query_us;
	struct holding h = {.held_us = passed(now_us, link->since_us)};

	if (server->pipeline.copy) {
		h.state = "copying";
		h.state_us = passed(now_us, query_us);
	} else if (!query_us && link->idle_xact_us) {
		h.state = server->status == 'E' ? "idle in transaction (aborted)"
						: "idle in transaction";
		h.state_us = passed(now_us, link->idle_xact_us);
	} else if (!query_us && server->is_ready) {
		h.state = link->pin.kinds ? "pinned" : "idle";
		h.state_us = passed(now_us, server->last_us);
	} else {
		h.state = "active";
		h.state_us = passed(now_us, query_us ? query_us : link->since_us);
	}
	return h;
}

static void put_blocker(struct blockers *all, const struct waiting_pool *queue,
    struct client *client, struct server *server)
{
	struct holding holding = holding_of(client, server);
	if (all->count == all->room) {
		all->room = all->room ? 2 * all->room : 16;
		all->list = mem_resize(all->list, all->room * sizeof(*all->list));
	}

	struct blocker *b = &all->list[all->count++];
	char ptr[POINTER_TEXT], link[POINTER_TEXT], addr[SOCK_ADDR_TEXT];
	struct rows own, *rows = &own;

	rows_init(rows, client->conn.site, &all->out, all->column_count);
	snprintf(ptr, sizeof(ptr), "%p", (const void *)&client->conn);
	snprintf(link, sizeof(link), "%p", (const void *)&server->conn);
	*b = (struct blocker){
	    .queue = queue, .held_us = holding.held_us, .from = all->out.len};
	row_begin(rows);
	BLOCKERS_COLUMNS(CELL)
	row_end(rows);
	b->len = all->out.len - b->from;
}

static void add_holders(
    struct blockers *all, const struct waiting_pool *queue, const struct pool *pool)
{
	const struct slot *slot;

	list_for (slot, &pool->slots[SLOT_ACTIVE], node) {
		struct server *server = container_of(slot, struct server, slot);
		struct client *client = server_client(server);
		if (client)
			put_blocker(all, queue, client, server);
	}
}

static void add_site(struct site *site, void *ctx)
{
	struct blockers *all = ctx;
	const struct pool *pool;

	list_for (pool, &site->catalog->pool_list, node) {
		const struct waiting_pool *queue, *own;
		size_t at = 0;
		if (list_is_empty(&pool->slots[SLOT_ACTIVE]))
			continue;
		own = queue_find(all, pool);
		if (own)
			add_holders(all, own, pool);
		while (all->has_shared && (queue = map_next(all->queues, &at)))
			if (queue != own && is_shared(queue, pool))
				add_holders(all, queue, pool);
	}
}

/* ---- the rows ---- */

static int compare(const void *a, const void *b)
{
	const struct blocker *x = a, *y = b;
	int result = strcmp(x->queue->database, y->queue->database);

	if (!result)
		result = strcmp(x->queue->user, y->queue->user);
	if (!result)
		result = (x->held_us < y->held_us) - (x->held_us > y->held_us);
	return result ? result : (x->from > y->from) - (x->from < y->from);
}

void view_blockers(struct rows *rows)
{
	struct blockers all = {.queues = map_new(), .column_count = rows->column_count};
	struct waiting_pool *queue;

	buf_init(&all.key, 0);
	buf_init(&all.out, 0);
	rows->missed = workers_each(rows->site, add_waiting, &all);
	unsigned missed =
	    map_count(all.queues) > 0 ? workers_each(rows->site, add_site, &all) : 0;
	if (missed > rows->missed)
		rows->missed = missed;
	if (all.count > 0)
		qsort(all.list, all.count, sizeof(*all.list), compare);
	for (size_t i = 0; i < all.count; i++)
		buf_put(rows->out, all.out.bytes + all.list[i].from, all.list[i].len);
	size_t at = 0;
	while ((queue = map_next(all.queues, &at)))
		mem_free(queue);
	map_free(&all.queues);
	buf_done(&all.key);
	buf_done(&all.out);
	mem_free(all.list);
}
