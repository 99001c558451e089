/*
 * Adds connections that come from another process, as if they had been opened here.
 */
#include "pool/exchange.h"
#include "pool/queue.h"
#include "pool/seats.h"

void pool_move_in(struct pool *pool, struct seat *seat, struct ask *ask,
    const struct seat *was, const char *host, int port, uint64_t now_us)
{
	const struct hosts *hosts = &pool->database->hosts;
	struct host *place = hosts_find(hosts, host, port);

	catalog_note_time(pool->database->catalog, now_us);
	pool->has_logged_in = true;
	seat->is_carried = was->is_carried;
	hosts_dial(pool, seat, place ? place : hosts->list[0]);
	seat_enter(pool, seat, SEAT_LOGIN, now_us);
	if (place)
		hosts_answered(seat);
	if (ask) {
		/* this is no assignment, because the client got the server before */
		queue_link(ask, seat, now_us);
		ask->pool->stats.server_assignment_count--;
	}
	seat_move(seat, ask ? SEAT_ACTIVE : was->state, now_us);
	seat->is_carried = false;
	if (was->is_carried) {
		exchange_lock(pool);
		pool->part.whole->places[pool->part.worker].arriving--;
		exchange_unlock(pool);
	}
	seat->born_us = was->born_us;
	if (!ask)
		seat->rested_us = was->rested_us;
	seat->was_lent = was->was_lent;
	seat->was_checked = was->was_checked;
	seat->needs_reset = was->needs_reset;
	/* the role of its host may have become unsuitable while it was on its way */
	hosts_review(seat);
	if (was->is_dirty || !place)
		pool_mark_seat_dirty(seat);
}
