/*
 * One queue of attempts for each host and port.  The first attempt in it continues when
 * enough time has passed since the last connect.  A host without recent connects has no
 * queue.
 */
#include "broker/dial_turn.h"

#include "session/server.h"

struct dial_turns {
	char *name; /* owned: the key in site->dial_turns */
	struct site *site;
	struct list waiting; /* struct dial by .turn_node */
	struct deadline next;
	uint64_t last_us; /* when the last attempt went on; 0: none has */
	dial_go_fn *go;
};

/* The time between two connects, in microseconds; 0: no limit. */
static uint64_t turns_distance(const struct site *site)
{
	int rate = site_settings(site)->server_connect_rate;

	return rate > 0 ? 1000000 / (uint64_t)rate : 0;
}

static uint64_t turns_due(const struct dial_turns *turns)
{
	return turns->last_us ? turns->last_us + turns_distance(turns->site) : 0;
}

static void turns_free(struct dial_turns *turns)
{
	map_del_str(turns->site->dial_turns, turns->name);
	deadline_clear(turns->site->loop, &turns->next);
	mem_free(turns->name);
	mem_free(turns);
}

static void turns_expired(struct deadline *d)
{
	struct dial_turns *turns = container_of(d, struct dial_turns, next);
	uint64_t now = loop_now(turns->site->loop);
	struct node *first;

	while (now >= turns_due(turns) && (first = list_pop_front(&turns->waiting))) {
		struct dial *dial = container_of(first, struct dial, turn_node);
		dial->turns = NULL;
		turns->last_us = now;
		turns->go(dial->server);
	}
	if (now >= turns_due(turns))
		turns_free(turns);
	else
		deadline_set(turns->site->loop, &turns->next, turns_due(turns));
}

static struct dial_turns *turns_at(
    struct site *site, const char *place, int port, dial_go_fn *go)
{
	struct dial_turns *turns;
	struct buf name;

	buf_init(&name, 0);
	buf_printf(&name, "%s:%d", place, port);
	turns = map_get_str(site->dial_turns, buf_text(&name));
	if (!turns) {
		turns = mem_zero(sizeof(*turns));
		turns->name = mem_strdup(buf_text(&name));
		turns->site = site;
		turns->go = go;
		list_init(&turns->waiting);
		deadline_init(&turns->next, turns_expired);
		map_put_str(site->dial_turns, turns->name, turns);
	}
	buf_done(&name);
	return turns;
}

bool dial_turn_take(struct server *server, const char *place, dial_go_fn *go)
{
	struct site *site = server->conn.site;
	uint64_t now = loop_now(site->loop);
	struct dial_turns *turns;

	if (!turns_distance(site))
		return true;
	turns = turns_at(site, place, server->port, go);
	if (list_is_empty(&turns->waiting) && now >= turns_due(turns)) {
		turns->last_us = now;
		deadline_set(site->loop, &turns->next, turns_due(turns));
		return true;
	}
	list_push_back(&turns->waiting, &server->dial->turn_node);
	server->dial->turns = turns;
	return false;
}

void dial_turn_leave(struct dial *dial)
{
	if (!dial || !dial->turns)
		return;
	list_remove(&dial->turns->waiting, &dial->turn_node);
	dial->turns = NULL;
}

void dial_turn_review(struct site *site)
{
	struct dial_turns *turns;
	size_t at = 0;

	while ((turns = map_next(site->dial_turns, &at))) {
		uint64_t now = loop_now(site->loop), due = turns_due(turns);
		deadline_set(site->loop, &turns->next, due > now ? due : now);
	}
}

void dial_turn_init(struct site *site)
{
	site->dial_turns = map_new();
}

void dial_turn_done(struct site *site)
{
	struct dial_turns *turns;
	size_t at = 0;

	while ((turns = map_next(site->dial_turns, &at))) {
		turns_free(turns);
		at = 0;
	}
	map_free(&site->dial_turns);
}
