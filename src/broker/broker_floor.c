#include "broker/broker_floor.h"

#include "broker/broker.h"
#include "broker/dial.h"
#include "broker/dial_turn.h"
#include "broker/host_monitor.h"

void broker_floor_init(struct site *site)
{
	dial_init(site);
	dial_turn_init(site);
	broker_init(site);
	host_monitor_init(site);
}

void broker_floor_review(struct site *site)
{
	broker_review_all(site);
	dial_turn_review(site);
	host_monitor_review(site);
}

void broker_floor_stop(struct site *site)
{
	dial_turn_done(site);
}

void broker_floor_done(struct site *site)
{
	host_monitor_done(site);
	slab_free(&site->dial_slab);
	slab_free(&site->runner_slab);
}
