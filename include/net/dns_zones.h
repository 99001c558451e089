/*
 * The zones of the host names in use.  Their serial numbers are checked regularly; when
 * one has grown, the names of the zone are looked up again.  Private to net/dns.
 */
#ifndef NET_DNS_ZONES_H
#define NET_DNS_ZONES_H

#include "base/map.h"
#include "net/dns.h"
#include "net/dns_channel.h"

struct dns_zones {
	struct map *by_name; /* struct dns_zone */
	/* the same zones by .node; the one checked longest ago first */
	struct list turns;
	struct deadline next; /* when the first of them is checked */
	uint64_t period_us;   /* time between two checks of one zone; 0: no checks */
	dns_zone_fn *told;    /* NULL: not needed */
	/* borrowed */
	struct dns_channel *channel;
	/* Is called for each name in a zone whose serial has grown, with the node given
	 * to dns_zones_add. */
	void (*changed)(struct node *name);
	void *told_ctx;
};

void dns_zones_init(struct dns_zones *zones, struct dns_channel *channel,
    void (*changed)(struct node *name));
/* Must be called after dns_channel_done.  The names themselves are not changed. */
void dns_zones_done(struct dns_zones *zones);
void dns_zones_configure(struct dns_zones *zones, uint64_t period_us);
/* Adds a name to its zone, which is what follows its first dot; a name without a dot
 * has none. */
void dns_zones_add(struct dns_zones *zones, const char *host, struct node *name);
/* Calls fn for each zone, in order of their names. */
void dns_zones_walk(const struct dns_zones *zones,
    void (*fn)(void *ctx, const struct dns_zone_view *zone), void *ctx);

#endif
