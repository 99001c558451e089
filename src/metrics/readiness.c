/*
 * Modes of the pooler and states of hosts; which states there are is pool/hosts's.
 */
#include "metrics/readiness.h"

#include <string.h>

#include "pool/hosts_role.h"
#include "session/crew.h"

struct hosts_seen {
	bool is_any_known, is_any_there;
};

static void look_at_site(struct site *site, void *ctx)
{
	struct hosts_seen *seen = ctx;
	const struct database *db;

	/* the control thread of several workers connects to nobody */
	if (site->catalog->view.serves_nobody)
		return;
	list_for (db, &site->catalog->database_list, node) {
		for (size_t i = 0; !db->is_admin && i < db->hosts.count; i++) {
			const char *state = hosts_state_shown(db, db->hosts.list[i]);
			seen->is_any_known = true;
			if (strcmp(state, "up") != 0 && strcmp(state, "unfit") != 0)
				continue;
			seen->is_any_there = true;
			return;
		}
		if (seen->is_any_there)
			return;
	}
}

const char *readiness_obstacle(struct site *site)
{
	struct hosts_seen seen = {false, false};

	if (site->shutdown != SHUTDOWN_NONE)
		return "The pooler is shutting down.";
	if (site->catalog->suspended)
		return "The pooler is suspended.";
	if (site->catalog->paused)
		return "The pooler is paused.";
	(void)crew_each(site, look_at_site, &seen);
	if (seen.is_any_known && !seen.is_any_there)
		return "No server can be reached.";
	return NULL;
}
