/*
 * Lists of clients for tasks in steps.  Rolls are rare, so clients do not know in which
 * rolls they are: a client that ends is searched for in all of them.
 */
#include "session/roll.h"

#include <assert.h>

#include "base/mem.h"
#include "session/site.h"

void roll_begin(struct roll *roll, struct site *site)
{
	*roll = (struct roll){.clients = NULL};
	list_push_back(&site->rolls, &roll->node);
}

void roll_add(struct roll *roll, struct client *client)
{
	assert(!roll->kept);
	if (roll->count == roll->room) {
		roll->room = roll->room ? roll->room * 2 : 64;
		roll->clients =
		    mem_resize(roll->clients, roll->room * sizeof(*roll->clients));
	}
	roll->clients[roll->count++] = client;
}

struct client *roll_next_or_kept(struct roll *roll, const void **kept)
{
	while (roll->at < roll->count) {
		size_t at = roll->at++;
		*kept = roll->kept ? roll->kept[at] : NULL;
		if (roll->clients[at] || *kept)
			return roll->clients[at];
	}
	*kept = NULL;
	return NULL;
}

struct client *roll_next(struct roll *roll)
{
	struct client *client;
	const void *kept;

	do
		client = roll_next_or_kept(roll, &kept);
	while (kept);
	return client;
}

void roll_end(struct roll *roll, struct site *site)
{
	if (node_is_linked(&roll->node))
		list_remove(&site->rolls, &roll->node);
	for (size_t i = 0; roll->kept && i < roll->count; i++)
		mem_free(roll->kept[i]);
	mem_free(roll->kept);
	mem_free(roll->clients);
	*roll = (struct roll){.clients = NULL};
}

/* Returns the place that the client had; roll->count: none. */
static size_t strike_from(struct roll *roll, const struct client *client)
{
	for (size_t i = roll->at; i < roll->count; i++)
		if (roll->clients[i] == client) {
			roll->clients[i] = NULL;
			return i;
		}
	return roll->count;
}

void roll_strike(struct site *site, const struct client *client)
{
	struct roll *roll;

	list_for (roll, &site->rolls, node)
		(void)strike_from(roll, client);
}

void roll_leave(struct site *site, const struct client *client)
{
	struct roll *roll;

	list_for (roll, &site->rolls, node) {
		size_t at = strike_from(roll, client);
		if (at == roll->count || !roll->keep)
			continue;
		if (!roll->kept)
			roll->kept = mem_zero(roll->count * sizeof(*roll->kept));
		roll->kept[at] = roll->keep(roll, client);
	}
}

void roll_forget_all(struct site *site)
{
	while (list_pop_front(&site->rolls))
		;
}
