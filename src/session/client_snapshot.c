/*
 * Lists of clients for tasks in steps.  They are rare, so clients do not know in which
 * snapshots they are: a client that ends is searched for in all of them.
 */
#include "session/client_snapshot.h"

#include <assert.h>

#include "base/mem.h"
#include "session/site.h"

void client_snapshot_begin(struct client_snapshot *snapshot, struct site *site)
{
	*snapshot = (struct client_snapshot){.clients = NULL};
	list_push_back(&site->snapshots, &snapshot->node);
}

void client_snapshot_add(struct client_snapshot *snapshot, struct client *client)
{
	assert(!snapshot->kept);
	if (snapshot->count == snapshot->room) {
		snapshot->room = snapshot->room ? snapshot->room * 2 : 64;
		snapshot->clients = mem_resize(
		    snapshot->clients, snapshot->room * sizeof(*snapshot->clients));
	}
	snapshot->clients[snapshot->count++] = client;
}

struct client *client_snapshot_next(struct client_snapshot *snapshot, const void **kept)
{
	while (snapshot->at < snapshot->count) {
		size_t at = snapshot->at++;
		*kept = snapshot->kept ? snapshot->kept[at] : NULL;
		if (snapshot->clients[at] || *kept)
			return snapshot->clients[at];
	}
	*kept = NULL;
	return NULL;
}

void client_snapshot_end(struct client_snapshot *snapshot, struct site *site)
{
	if (node_is_linked(&snapshot->node))
		list_remove(&site->snapshots, &snapshot->node);
	for (size_t i = 0; snapshot->kept && i < snapshot->count; i++)
		mem_free(snapshot->kept[i]);
	mem_free(snapshot->kept);
	mem_free(snapshot->clients);
	*snapshot = (struct client_snapshot){.clients = NULL};
}

/* Returns the place that the client had; snapshot->count: none. */
static size_t strike_from(struct client_snapshot *snapshot, const struct client *client)
{
	for (size_t i = snapshot->at; i < snapshot->count; i++)
		if (snapshot->clients[i] == client) {
			snapshot->clients[i] = NULL;
			return i;
		}
	return snapshot->count;
}

void client_snapshot_strike(struct site *site, const struct client *client)
{
	struct client_snapshot *snapshot;

	list_for (snapshot, &site->snapshots, node)
		(void)strike_from(snapshot, client);
}

void client_snapshot_leave(struct site *site, const struct client *client)
{
	struct client_snapshot *snapshot;

	list_for (snapshot, &site->snapshots, node) {
		size_t at = strike_from(snapshot, client);
		if (at == snapshot->count || !snapshot->keep)
			continue;
		if (!snapshot->kept)
			snapshot->kept =
			    mem_zero(snapshot->count * sizeof(*snapshot->kept));
		snapshot->kept[at] = snapshot->keep(snapshot, client);
	}
}

void client_snapshot_forget_all(struct site *site)
{
	while (list_pop_front(&site->snapshots))
		;
}
