/*
 * Which worker should give clients to which other one, and how many: a decision without
 * any I/O.
 */
#ifndef DAEMON_REBALANCE_PLAN_H
#define DAEMON_REBALANCE_PLAN_H

#include <stdbool.h>

struct rebalance_load {
	bool is_there; /* it has answered; the others take no part */
	unsigned clients;
	unsigned busy_percent; /* of the time since the last look */
};

enum rebalance_kind {
	REBALANCE_NONE,   /* they stay where they are */
	REBALANCE_ACTIVE, /* clients with `amount` percent of the giver's work */
	REBALANCE_IDLE,   /* `amount` clients, of those at rest */
};

struct rebalance_plan {
	enum rebalance_kind kind;
	unsigned from, to; /* workers */
	unsigned amount;
};

struct rebalance_plan rebalance_plan(
    const struct rebalance_load *loads, unsigned count);

#endif
