/*
 * What the rooms that bring servers to clients need before the first connection.
 */
#include "session/broker_floor.h"

#include "session/broker.h"
#include "session/dial.h"
#include "session/dial_turn.h"

void broker_floor_init(struct site *site)
{
	dial_init(site);
	dial_turn_init(site);
	broker_init(site);
}

void broker_floor_review(struct site *site)
{
	broker_review_all(site);
	dial_turn_review(site);
}

void broker_floor_done(struct site *site)
{
	dial_turn_done(site);
	slab_free(&site->dial_slab);
	slab_free(&site->desk_slab);
}
