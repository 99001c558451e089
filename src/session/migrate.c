#include "session/migrate.h"

#include "pool/activity.h"
#include "session/client.h"
#include "session/client_snapshot.h"
#include "session/client_transfer.h"

/* How many clients go in one step, which is about a millisecond's work, and how many
 * are looked at to find some that rest. */
enum { GO_AT_ONCE = 16, LOOK_AT_ONCE = 256 };

void migrate_watch(struct site *site)
{
	migrate_end(site);
	activity_begin(site->catalog);
}

static struct client_snapshot *begin(struct site *site)
{
	site->migrants = mem_zero(sizeof(*site->migrants));
	client_snapshot_begin(site->migrants, site);
	return site->migrants;
}

static void choose_from(
    struct client_snapshot *chosen, const struct activity *activity, unsigned percent)
{
	/* by how much the one worker would still do more than the other */
	uint64_t ahead = activity->total * percent / 100 * 2;

	for (size_t i = 0; i < activity->count; i++) {
		const struct activity_entry *entry = &activity->entries[i];
		/* A client that makes most of the difference alone would only turn it
		 * round, and move again and again. */
		if (!entry->request || entry->count * 4 > ahead * 3)
			continue;
		client_snapshot_add(chosen,
		    container_of(entry->request, struct client, request.in_pool));
		ahead -= entry->count * 2 < ahead ? entry->count * 2 : ahead;
	}
}

size_t migrate_choose_active(struct site *site, unsigned percent)
{
	const struct activity *activity = site->catalog->activity;
	struct client_snapshot *chosen;

	if (!activity)
		return 0;
	chosen = begin(site);
	choose_from(chosen, activity, percent);
	activity_end(site->catalog);
	return chosen->count;
}

size_t migrate_choose_idle(struct site *site, size_t most)
{
	struct client_snapshot *chosen;

	migrate_end(site);
	chosen = begin(site);
	if (!site->idle_walk.next)
		list_walk_begin(&site->idle_walk, &site->clients);
	for (int i = 0; i < LOOK_AT_ONCE && chosen->count < most; i++) {
		struct node *node = list_walk_next(&site->idle_walk, &site->clients);
		if (!node)
			break;
		struct client *client = container_of(node, struct client, site_node);
		if (client_transfer_is_possible(client))
			client_snapshot_add(chosen, client);
	}
	return chosen->count;
}

size_t migrate_step(struct site *site, struct worker *to, size_t *gone)
{
	struct client_snapshot *snapshot = site->migrants;
	size_t left = 0;

	*gone = 0;
	for (size_t i = 0; snapshot && i < snapshot->count; i++) {
		struct client *client = snapshot->clients[i];
		if (!client || client->conn.is_doomed) {
			snapshot->clients[i] = NULL;
		} else if (*gone < GO_AT_ONCE && client_transfer_is_possible(client)) {
			/* which takes it out of the snapshot */
			client_transfer_at_rest(client, to);
			++*gone;
		} else {
			left++;
		}
	}
	return left;
}

void migrate_end(struct site *site)
{
	activity_end(site->catalog);
	if (!site->migrants)
		return;
	client_snapshot_end(site->migrants, site);
	mem_free(site->migrants);
	site->migrants = NULL;
}
