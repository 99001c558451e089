/*
 * Adds connections that come from another process, as if they had been opened here.
 */
#include "pool/conn_limits.h"
#include "pool/exchange.h"
#include "pool/queue.h"
#include "pool/slots.h"

void pool_move_in(struct pool *pool, struct slot *slot, struct pool_request *request,
    const struct slot *was, const char *host, int port, uint64_t now_us)
{
	const struct hosts *hosts = &pool->database->hosts;
	struct host *place = hosts_find(hosts, host, port);

	catalog_note_time(pool->database->catalog, now_us);
	pool->has_logged_in = true;
	slot->is_carried = was->is_carried;
	hosts_dial(pool, slot, place ? place : hosts->list[0]);
	slot_enter(pool, slot, SLOT_LOGIN, now_us);
	if (place)
		hosts_answered(slot);
	if (request) {
		/* this is no assignment, because the client got the server before */
		queue_link(request, slot, now_us);
		request->pool->stats.server_assignment_count--;
	}
	slot_move(slot, request ? SLOT_ACTIVE : was->state, now_us);
	slot->is_carried = false;
	if (was->is_carried) {
		struct central_host *from = was->carried_from;
		exchange_lock(pool);
		pool->part.whole->places[pool->part.worker].arriving--;
		central_host_carried(exchange_view(pool), &from);
		exchange_unlock(pool);
		pool->turn.asked_us = 0;
	}
	slot->born_us = was->born_us;
	if (!request)
		slot->rested_us = was->rested_us;
	slot->was_lent = was->was_lent;
	slot->was_checked = was->was_checked;
	slot->needs_reset = was->needs_reset;
	/* the role of its host may have become unsuitable while it was on its way */
	hosts_review(slot);
	/* clients that follow later bring servers; max_server_connections is kept at
	 * each release */
	bool is_too_many =
	    !was->is_carried && (conn_limits_is_exceeded(pool, CONN_LIMIT_USER) ||
				    conn_limits_is_exceeded(pool, CONN_LIMIT_DATABASE));
	enum dirty why = !place ? DIRTY_OLD : was->dirty;
	if (is_too_many && !why)
		why = DIRTY_SURPLUS;
	if (why || slot->dirty)
		pool_mark_slot_dirty(slot, why);
}
