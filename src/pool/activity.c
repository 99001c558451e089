/*
 * Counts how often each client gets a server.
 */
#include "pool/activity.h"

void activity_begin(struct catalog *c)
{
	activity_end(c);
	c->activity = mem_zero(sizeof(*c->activity));
	c->activity->by_ask = map_new();
}

void activity_end(struct catalog *c)
{
	if (!c->activity)
		return;
	map_free(&c->activity->by_ask);
	mem_free(c->activity);
	c->activity = NULL;
}

static struct activity_entry *entry_of(
    const struct activity *activity, const struct ask *ask)
{
	return map_get(activity->by_ask, &ask, sizeof(ask));
}

void activity_note(struct activity *activity, struct ask *ask)
{
	struct activity_entry *entry = entry_of(activity, ask);

	activity->total++;
	if (!entry && activity->count < ACTIVITY_MOST) {
		entry = &activity->entries[activity->count++];
		entry->ask = ask;
		map_put(activity->by_ask, &entry->ask, sizeof(ask), entry);
	}
	if (entry)
		entry->count++;
}

void activity_leave(struct activity *activity, const struct ask *ask)
{
	struct activity_entry *entry = entry_of(activity, ask);

	if (!entry)
		return;
	map_del(activity->by_ask, &ask, sizeof(ask));
	entry->ask = NULL;
}
