/*
 * Connections close in later turns of the loop, so it runs a little longer.
 */
#include "daemon/ending.h"

#include "broker/host_monitor.h"
#include "cancel/peers.h"
#include "session/session.h"

/* The process must end, even if a connection does not close. */
enum { TURNS_MAX = 1000 };

struct last_turn {
	struct deadline due;
	struct loop *loop;
};

static void turned(struct deadline *due)
{
	loop_stop(container_of(due, struct last_turn, due)->loop);
}

static bool is_empty(const struct site *site)
{
	return session_is_empty(site) && peers_are_idle(site);
}

int ending_drop_all(struct site *site)
{
	struct last_turn turn = {.loop = site->loop};

	deadline_init(&turn.due, turned);
	/* so that no pool opens new servers */
	site->catalog->paused = true;
	host_monitor_end(site);
	for (int i = 0; i < TURNS_MAX && !is_empty(site); i++) {
		session_drop_all(site);
		peers_drop_all(site);
		deadline_set(site->loop, &turn.due, loop_now(site->loop));
		loop_run(site->loop);
	}
	deadline_clear(site->loop, &turn.due);
	return is_empty(site) ? 0 : -1;
}
