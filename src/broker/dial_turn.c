/*
 * One queue of attempts for each host and port.  The first attempt in it continues when
 * enough time has passed since the last connect.  A host without recent connects has no
 * queue.  Several sites have a queue each, and the time of the last connect in common.
 */
#include "broker/dial_turn.h"

#include "session/server.h"
#include "session/workers.h"

/* How often a site looks whether another, whose attempt has waited longer, has taken
 * the turn. */
enum { LOOK_US = 5000 };

struct dial_turns {
	char *name; /* owned: the key in site->dial_turns */
	struct site *site;
	struct list waiting; /* struct dial by .turn_node */
	struct deadline next;
	struct central_host *shared; /* a reference: what all workers know */
	dial_go_fn *go;
};

/* The time between two connects, in microseconds; 0: no limit. */
static uint64_t turns_distance(const struct site *site)
{
	int rate = site_settings(site)->server_connect_rate;

	return rate > 0 ? 1000000 / (uint64_t)rate : 0;
}

static struct central_view *turns_view(const struct dial_turns *turns)
{
	return &turns->site->catalog->view;
}

static uint64_t turns_due(const struct dial_turns *turns)
{
	central_lock(turns_view(turns));
	uint64_t last_us = turns->shared->last_us;
	central_unlock(turns_view(turns));
	return last_us ? last_us + turns_distance(turns->site) : 0;
}

/* Since when the first attempt waits here; 0: none does. */
static uint64_t turns_since(const struct dial_turns *turns)
{
	struct node *first = list_first(&turns->waiting);

	return first ? container_of(first, struct dial, turn_node)->turn_us : 0;
}

static void turns_note(const struct dial_turns *turns)
{
	struct central_view *view = turns_view(turns);

	central_lock(view);
	turns->shared->waiting_us[view->worker] = turns_since(turns);
	central_unlock(view);
}

/* Under the lock: has an attempt of another worker, which answers, waited longer? */
static bool turns_is_behind(const struct dial_turns *turns, uint64_t since_us)
{
	const struct central_view *view = turns_view(turns);

	for (unsigned i = 0; i < view->central->worker_count; i++) {
		uint64_t other_us = turns->shared->waiting_us[i];
		if (i != view->worker && other_us && other_us < since_us &&
		    !central_is_unresponsive(view, i))
			return true;
	}
	return false;
}

/* Takes the turn for an attempt that waits since then.  False: it is not due. */
static bool turns_take(struct dial_turns *turns, uint64_t since_us, uint64_t now)
{
	struct central_view *view = turns_view(turns);

	central_lock(view);
	bool may = now >= turns_due(turns) && !turns_is_behind(turns, since_us);
	if (may)
		turns->shared->last_us = now;
	central_unlock(view);
	return may;
}

static void turns_free(struct dial_turns *turns)
{
	central_host_release(turns_view(turns), &turns->shared);
	map_del_str(turns->site->dial_turns, turns->name);
	deadline_clear(turns->site->loop, &turns->next);
	mem_free(turns->name);
	mem_free(turns);
}

/* Sets the time of the next look, or frees what is not needed any more. */
static void turns_arm(struct dial_turns *turns, uint64_t now)
{
	uint64_t due = turns_due(turns);

	if (now < due)
		deadline_set(turns->site->loop, &turns->next, due);
	else if (list_is_empty(&turns->waiting))
		turns_free(turns);
	else
		deadline_set(turns->site->loop, &turns->next, now + LOOK_US);
}

static void turns_expired(struct deadline *d)
{
	struct dial_turns *turns = container_of(d, struct dial_turns, next);
	uint64_t now = loop_now(turns->site->loop), since_us;

	while ((since_us = turns_since(turns)) && turns_take(turns, since_us, now)) {
		struct dial *dial = container_of(
		    list_pop_front(&turns->waiting), struct dial, turn_node);
		dial->turns = NULL;
		turns_note(turns);
		turns->go(dial->server);
	}
	turns_arm(turns, now);
}

bool dial_turn_take(struct server *server, const char *place, dial_go_fn *go)
{
	struct site *site = server->conn.site;
	uint64_t now = loop_now(site->loop);
	struct dial_turns *turns;
	struct buf name;

	if (!turns_distance(site))
		return true;
	buf_init_sure(&name);
	buf_printf(&name, "%s:%d", place, server->port);
	turns = map_get_str(site->dial_turns, buf_text(&name));
	if (!turns) {
		turns = mem_zero(sizeof(*turns));
		turns->name = mem_strdup(buf_text(&name));
		turns->site = site;
		turns->go = go;
		turns->shared =
		    central_host_hold(&site->catalog->view, "", turns->name);
		list_init(&turns->waiting);
		deadline_init(&turns->next, turns_expired);
		map_put_str(site->dial_turns, turns->name, turns);
	}
	buf_done(&name);
	if (list_is_empty(&turns->waiting) && turns_take(turns, now, now)) {
		deadline_set(site->loop, &turns->next, turns_due(turns));
		return true;
	}
	list_push_back(&turns->waiting, &server->dial->turn_node);
	server->dial->turns = turns;
	server->dial->turn_us = now;
	turns_note(turns);
	if (turns->next.at_us == UINT64_MAX)
		turns_arm(turns, now);
	return false;
}

void dial_turn_leave(struct dial *dial)
{
	if (!dial || !dial->turns)
		return;
	list_remove(&dial->turns->waiting, &dial->turn_node);
	turns_note(dial->turns);
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
