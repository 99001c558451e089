/*
 * Checks the serial numbers of zones.  The queries are spread over the period, and a
 * zone is not queried again before its answer came, so that a silent name server costs
 * little.
 */
#include "net/dns_zones.h"

#include <stdlib.h>
#include <string.h>

#include <ares.h>

#include "base/mem.h"

struct dns_zone {
	struct node node; /* in zones->turns */
	char *name;
	const char *asked; /* the name, or the parent of it that has a serial */
	struct list names;
	uint32_t serial;
	bool has_serial, is_asking, is_failing;
	/* borrowed */
	struct dns_zones *zones;
};

static void next_expired(struct deadline *d);

void dns_zones_init(struct dns_zones *zones, struct dns_channel *channel,
    void (*changed)(struct node *name))
{
	*zones = (struct dns_zones){.channel = channel, .changed = changed};
	zones->by_name = map_new();
	list_init(&zones->turns);
	deadline_init(&zones->next, next_expired);
}

void dns_zones_done(struct dns_zones *zones)
{
	struct node *n;

	deadline_clear(zones->channel->loop, &zones->next);
	while ((n = list_pop_front(&zones->turns))) {
		struct dns_zone *zone = container_of(n, struct dns_zone, node);
		mem_free(zone->name);
		mem_free(zone);
	}
	map_free(&zones->by_name);
}

/* ---- questions and answers ---- */

static void note_serial(struct dns_zone *zone, uint32_t serial)
{
	struct dns_zones *zones = zone->zones;
	struct dns_zone_news news = {
	    .zone = zone->name, .old_serial = zone->serial, .serial = serial};
	/* compares serials as in RFC 1982: they may wrap around */
	bool has_changed = zone->has_serial && serial != zone->serial &&
			   serial - zone->serial < UINT32_C(0x80000000);
	struct node *name, *after;

	zone->is_failing = false;
	/* one of several servers may lag behind, so an older serial is no news */
	if (zone->has_serial && !has_changed)
		return;
	zone->serial = serial;
	zone->has_serial = true;
	if (!has_changed)
		return;
	if (zones->told)
		zones->told(zones->told_ctx, &news);
	for (name = list_first(&zone->names); name; name = after) {
		after = list_next(&zone->names, name);
		zones->changed(name);
	}
}

/* The part of a name behind its first dot, or NULL. */
static const char *parent_of(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot && dot[1] ? dot + 1 : NULL;
}

static void ask(struct dns_zone *zone);

/* The zone may begin at a parent of the name, so the parent is asked next.  Names
 * without a dot are not asked: the serial of a top level domain changes all the time
 * and says nothing. */
static bool goes_up(struct dns_zone *zone, int status)
{
	const char *parent = parent_of(zone->asked);

	if (zone->has_serial || (status != ARES_ENODATA && status != ARES_ENOTFOUND) ||
	    !parent || !parent_of(parent))
		return false;
	zone->asked = parent;
	ask(zone);
	return true;
}

static void soa_came(
    void *ctx, int status, int timeouts, unsigned char *answer, int answer_len)
{
	struct dns_zone *zone = ctx;
	struct ares_soa_reply *soa = NULL;

	(void)timeouts;
	zone->is_asking = false;
	zone->zones->channel->pending_count--;
	if (status == ARES_EDESTRUCTION || goes_up(zone, status))
		return;
	if (status == ARES_SUCCESS)
		status = ares_parse_soa_reply(answer, answer_len, &soa);
	if (status == ARES_SUCCESS) {
		note_serial(zone, soa->serial);
	} else {
		struct dns_zones *zones = zone->zones;
		struct dns_zone_news news = {
		    .zone = zone->name, .failure = ares_strerror(status)};

		if (!zone->is_failing && zones->told)
			zones->told(zones->told_ctx, &news);
		zone->is_failing = true;
	}
	if (soa)
		ares_free_data(soa);
}

static void ask(struct dns_zone *zone)
{
	enum { CLASS_IN = 1, TYPE_SOA = 6 };
	struct dns_channel *channel = zone->zones->channel;

	zone->is_asking = true;
	channel->pending_count++;
	ares_search(channel->ares, zone->asked, CLASS_IN, TYPE_SOA, soa_came, zone);
	dns_channel_follow(channel);
}

/* ---- when ---- */

static void wait_for_next(struct dns_zones *zones)
{
	struct loop *loop = zones->channel->loop;

	if (!zones->period_us || list_is_empty(&zones->turns))
		deadline_clear(loop, &zones->next);
	else
		deadline_set(loop, &zones->next,
		    loop_now(loop) + zones->period_us / zones->turns.count);
}

static void next_expired(struct deadline *d)
{
	struct dns_zones *zones = container_of(d, struct dns_zones, next);
	struct dns_zone *zone =
	    container_of(list_front(&zones->turns), struct dns_zone, node);

	list_remove(&zones->turns, &zone->node);
	list_push_back(&zones->turns, &zone->node);
	wait_for_next(zones);
	if (!zone->is_asking)
		ask(zone);
}

/* Zones with an unknown serial are asked at once, because changes can only be seen from
 * then on. */
void dns_zones_configure(struct dns_zones *zones, uint64_t period_us)
{
	struct dns_zone *zone;

	if (zones->period_us == period_us)
		return;
	zones->period_us = period_us;
	wait_for_next(zones);
	list_for (zone, &zones->turns, node) {
		if (period_us && !zone->has_serial && !zone->is_asking)
			ask(zone);
	}
}

static struct dns_zone *find_or_add(struct dns_zones *zones, const char *name)
{
	struct dns_zone *zone = map_get_str(zones->by_name, name);

	if (zone)
		return zone;
	zone = mem_zero(sizeof(*zone));
	zone->name = mem_strdup(name);
	zone->asked = zone->name;
	zone->zones = zones;
	list_init(&zone->names);
	map_put_str(zones->by_name, zone->name, zone);
	list_push_back(&zones->turns, &zone->node);
	wait_for_next(zones);
	if (zones->period_us)
		ask(zone);
	return zone;
}

void dns_zones_add(struct dns_zones *zones, const char *host, struct node *name)
{
	const char *zone = parent_of(host);

	if (zone)
		list_push_back(&find_or_add(zones, zone)->names, name);
}

/* ---- for SHOW ---- */

static int compare_names(const void *a, const void *b)
{
	const struct dns_zone *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

void dns_zones_walk(const struct dns_zones *zones,
    void (*fn)(void *ctx, const struct dns_zone_view *zone), void *ctx)
{
	size_t count;
	void **sorted = map_sorted(zones->by_name, &count, compare_names);

	for (size_t i = 0; i < count; i++) {
		const struct dns_zone *zone = sorted[i];
		struct dns_zone_view view = {.name = zone->name,
		    .serial = zone->serial,
		    .host_count = zone->names.count};
		fn(ctx, &view);
	}
	free(sorted);
}
