#include "pool/activity.h"

void activity_begin(struct catalog *c)
{
	activity_end(c);
	c->activity = mem_zero(sizeof(*c->activity));
	c->activity->by_request = map_new();
}

void activity_end(struct catalog *c)
{
	if (!c->activity)
		return;
	map_free(&c->activity->by_request);
	mem_free(c->activity);
	c->activity = NULL;
}

static struct activity_entry *entry_of(
    const struct activity *activity, const struct pool_request *request)
{
	return map_get(activity->by_request, &request, sizeof(request));
}

void activity_note(struct activity *activity, struct pool_request *request)
{
	struct activity_entry *entry = entry_of(activity, request);

	activity->total++;
	if (!entry && activity->count < ACTIVITY_MOST) {
		entry = &activity->entries[activity->count++];
		entry->request = request;
		map_put(activity->by_request, &entry->request, sizeof(request), entry);
	}
	if (entry)
		entry->count++;
}

void activity_leave(struct activity *activity, const struct pool_request *request)
{
	struct activity_entry *entry = entry_of(activity, request);

	if (!entry)
		return;
	map_del(activity->by_request, &request, sizeof(request));
	entry->request = NULL;
}
