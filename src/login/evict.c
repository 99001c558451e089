/*
 * Chooses and closes clients in mid-login.  listen.c calls it when it cannot accept a
 * connection for lack of descriptors, and when there are too many strangers.
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

void evict_for(struct client *newest, enum strangers_verdict verdict)
{
	struct client *client;

	/* its first bytes may have been enough for a proof, or for its end */
	if (!newest->is_stranger || newest->conn.is_doomed)
		return;
	if (verdict == STRANGERS_OF_ADDRESS)
		client_fatal(newest, ERROR_TOO_MANY_LOGINS_OF_ADDRESS);
	if (verdict != STRANGERS_OF_ALL)
		return;
	/* The oldest come first, and the newest is one of them.  Where it is alone, the
	 * others are at other sites: it may stay, so that the administrator gets in. */
	list_for (client, &newest->conn.site->login_clients, site_node) {
		if (!client->is_stranger || client->conn.is_doomed ||
		    login_is_at_work(client) ||
		    (client == newest && newest->conn.site->worker))
			continue;
		/* it closes later in this turn, in which more may come */
		client_prove(client);
		client_fatal(client, ERROR_TOO_MANY_LOGINS);
		return;
	}
}
