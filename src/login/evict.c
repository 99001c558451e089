/*
 * Chooses and closes clients in mid-login.  listen.c calls it when it cannot accept a
 * connection for lack of descriptors.
 */
#include "login/evict.h"

#include "login/login.h"
#include "session/client.h"
#include "session/workers.h"

enum {
	/* Honest clients answer sooner even on a slow network; and with this value a
	   client that waits in the kernel's accept queue is accepted within seconds. */
	EVICT_AGE_US = 400000,
	EVICT_MOST = 64, /* in one call */
};

static void evict_at(struct site *site, void *ctx)
{
	struct client *client, *next;
	unsigned count = 0, *sum = ctx;

	/* the oldest come first */
	list_for_safe (client, next, &site->login_clients, site_node) {
		if (loop_now(site->loop) - client->conn.connect_us < EVICT_AGE_US ||
		    count == EVICT_MOST)
			break;
		if (client->is_unix_owner || login_is_at_work(client))
			continue;
		count++;
		client_fatal(client, ERROR_NO_MORE_DESCRIPTORS);
	}
	*sum += count;
}

unsigned evict_silent(struct site *site)
{
	unsigned sum = 0;

	(void)workers_each(site, evict_at, &sum);
	return sum;
}
