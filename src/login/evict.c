#include "login/evict.h"

#include "base/mem.h"
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

/* ---- too many strangers ---- */

/* Closes the oldest client of this site that is in mid-login although it is its turn,
 * but for this one and those that have just come.  False: there is none. */
static bool evict_oldest(struct site *site, uint64_t spared_id, uint64_t age_us)
{
	struct client *client;

	list_for (client, &site->login_clients, site_node) {
		if (!client->is_stranger || client->conn.is_doomed ||
		    client->conn.id == spared_id || login_is_at_work(client) ||
		    client->conn.connect_us + age_us > loop_now(site->loop))
			continue;
		/* it closes later in this turn, in which more may come */
		client_prove(client);
		client_fatal(client, ERROR_TOO_MANY_LOGINS);
		return true;
	}
	return false;
}

/* Goes from worker to worker until one has such a client: twice around, because those
 * that have just come are spared at first, and at last to where it began. */
struct search {
	unsigned from, at, round;
	/* the newcomer, which may have gone to another worker meanwhile */
	uint64_t spared_id;
};

static void search_at(struct site *site, const void *what);

static void search_on(struct workers *workers, struct search s)
{
	do
		s.at = s.at == workers->worker_count ? 0 : s.at + 1;
	while (
	    s.at == s.from ? s.round++ == 0 : workers_is_unresponsive(workers, s.at));
	workers_send(&workers->members[s.at], search_at, &s, sizeof(s));
}

static void search_at(struct site *site, const void *what)
{
	const struct search *s = what;
	uint64_t age_us = s->round == 0 ? EVICT_AGE_US : 0;

	/* some may have gone meanwhile; and mailboxes that are being freed take nothing
	 */
	if (site->shutdown != SHUTDOWN_NOW &&
	    strangers_are_too_many(site->strangers, site_settings(site)) &&
	    !evict_oldest(site, s->at == s->from ? 0 : s->spared_id, age_us) &&
	    s->at != s->from)
		search_on(site->worker->workers, *s);
}

void evict_for(struct client *newest, enum strangers_verdict verdict)
{
	struct worker *own = newest->conn.site->worker;

	/* its first bytes may have been enough for a proof, or for its end */
	if (!newest->is_stranger || newest->conn.is_doomed)
		return;
	if (verdict == STRANGERS_OF_ADDRESS)
		client_fatal(newest, ERROR_TOO_MANY_LOGINS_OF_ADDRESS);
	if (verdict != STRANGERS_OF_ALL)
		return;
	if (evict_oldest(newest->conn.site, own ? newest->conn.id : 0, 0) || !own)
		return;
	search_on(own->workers,
	    (struct search){
		.from = own->index, .at = own->index, .spared_id = newest->conn.id});
}
