#include "daemon/rebalance_plan.h"

/* A worker gives active clients away if it has hardly any time left and another one has
 * most of it left.  The distance between the two keeps clients from moving to and fro:
 * after the move both are near the middle. */
enum { BUSY_PERCENT = 80, FREE_PERCENT = 40 };

/* Few clients more than others have are no reason to move any: the next ones that
 * connect level that.  A client that rests has no cost now, so they move a few per
 * second. */
enum { DIFFERENCE_LEAST = 16, IDLE_MOST = 16 };

/* The busiest and the least busy worker. */
static struct rebalance_plan plan_work(
    const struct rebalance_load *loads, unsigned count)
{
	struct rebalance_plan plan = {REBALANCE_NONE, 0, 0, 0};
	unsigned most = 0, least = 100;

	for (unsigned i = 0; i < count; i++) {
		if (!loads[i].is_there)
			continue;
		if (loads[i].busy_percent > most) {
			most = loads[i].busy_percent;
			plan.from = i;
		}
		if (loads[i].busy_percent < least) {
			least = loads[i].busy_percent;
			plan.to = i;
		}
	}
	if (most <= BUSY_PERCENT || least >= FREE_PERCENT)
		return plan;
	plan.kind = REBALANCE_ACTIVE;
	plan.amount = 100 * (most - least) / (2 * most);
	return plan;
}

/* The worker with the most clients, and the one with the fewest of those that are not
 * busy. */
static struct rebalance_plan plan_numbers(
    const struct rebalance_load *loads, unsigned count)
{
	struct rebalance_plan plan = {REBALANCE_NONE, 0, 0, 0};
	unsigned most = 0, least = ~0u;

	for (unsigned i = 0; i < count; i++) {
		if (!loads[i].is_there)
			continue;
		if (loads[i].clients > most) {
			most = loads[i].clients;
			plan.from = i;
		}
		if (loads[i].clients < least && loads[i].busy_percent <= BUSY_PERCENT) {
			least = loads[i].clients;
			plan.to = i;
		}
	}
	if (most < DIFFERENCE_LEAST || least > most - DIFFERENCE_LEAST ||
	    most / 2 <= least)
		return plan;
	plan.kind = REBALANCE_IDLE;
	plan.amount = (most - least) / 4;
	if (plan.amount > IDLE_MOST)
		plan.amount = IDLE_MOST;
	return plan;
}

struct rebalance_plan rebalance_plan(const struct rebalance_load *loads, unsigned count)
{
	struct rebalance_plan plan = plan_work(loads, count);

	return plan.kind == REBALANCE_NONE ? plan_numbers(loads, count) : plan;
}
