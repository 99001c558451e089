/*
 * Which clients are closed at the descriptor limit. listen.c notices that it is
 * reached.
 */
#include "login/evict.h"

#include "login/login.h"
#include "session/client.h"
#include "session/crew.h"

enum {
	/* Even on a slow network an honest client answers sooner; and a client that
	 * waits in the listener's queue behind such connections gets in within seconds.
	 */
	EVICT_AGE_US = 400000,
	EVICT_MOST = 64, /* at a time */
};

static bool evict_is_due(const struct client *client)
{
	return !client->is_carrier && !client->is_unix_owner &&
	       !login_is_at_work(client);
}

static void evict_at(struct site *site, void *ctx)
{
	struct client *client, *next;
	unsigned count = 0, *sum = ctx;

	/* the oldest come first */
	list_for_safe (client, next, &site->login_clients, site_node) {
		if (loop_now(site->loop) - client->conn.connect_us < EVICT_AGE_US ||
		    count == EVICT_MOST)
			break;
		if (!evict_is_due(client))
			continue;
		count++;
		client_fatal(client, ERROR_NO_MORE_DESCRIPTORS);
	}
	*sum += count;
}

unsigned evict_silent(struct site *site)
{
	unsigned sum = 0;

	(void)crew_each(site, evict_at, &sum);
	return sum;
}
