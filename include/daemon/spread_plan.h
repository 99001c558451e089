/*
 * Which worker should give clients to which other one, and how many: a decision without
 * any I/O.
 */
#ifndef DAEMON_SPREAD_PLAN_H
#define DAEMON_SPREAD_PLAN_H

#include <stdbool.h>

struct spread_load {
	bool is_there; /* it has answered; the others take no part */
	unsigned clients;
	unsigned busy_percent; /* of the time since the last look */
};

enum spread_kind {
	SPREAD_NONE,   /* they stay where they are */
	SPREAD_ACTIVE, /* clients with `amount` percent of the giver's work */
	SPREAD_IDLE,   /* `amount` clients, of those at rest */
};

struct spread_plan {
	enum spread_kind kind;
	unsigned from, to; /* workers */
	unsigned amount;
};

struct spread_plan spread_plan(const struct spread_load *loads, unsigned count);

#endif
