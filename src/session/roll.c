/*
 * Lists of clients for tasks in steps.  Rolls are rare, so clients do not know in which
 * rolls they are: a client that ends is searched for in all of them.
 */
#include "session/roll.h"

#include "base/mem.h"
#include "session/site.h"

void roll_begin(struct roll *roll, struct site *site)
{
	*roll = (struct roll){.clients = NULL};
	list_push_back(&site->rolls, &roll->node);
}

void roll_add(struct roll *roll, struct client *client)
{
	if (roll->count == roll->room) {
		roll->room = roll->room ? roll->room * 2 : 64;
		roll->clients =
		    mem_resize(roll->clients, roll->room * sizeof(*roll->clients));
	}
	roll->clients[roll->count++] = client;
}

struct client *roll_next(struct roll *roll)
{
	while (roll->at < roll->count) {
		struct client *client = roll->clients[roll->at++];
		if (client)
			return client;
	}
	return NULL;
}

void roll_end(struct roll *roll, struct site *site)
{
	list_remove(&site->rolls, &roll->node);
	mem_free(roll->clients);
	*roll = (struct roll){.clients = NULL};
}

static void strike_from(struct roll *roll, const struct client *client)
{
	for (size_t i = roll->at; i < roll->count; i++)
		if (roll->clients[i] == client) {
			roll->clients[i] = NULL;
			return;
		}
}

void roll_strike(struct site *site, const struct client *client)
{
	struct roll *roll;

	list_for (roll, &site->rolls, node)
		strike_from(roll, client);
}
