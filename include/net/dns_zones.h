/*
 * The zones that host names are in, and their serial numbers, asked for now and then:
 * when one has grown, the names of the zone are looked up again.  Private to net/dns.
 */
#ifndef NET_DNS_ZONES_H
#define NET_DNS_ZONES_H

#include "base/map.h"
#include "net/dns.h"
#include "net/dns_channel.h"

struct dns_zones {
	struct map *by_name;  /* struct dns_zone */
	struct list turns;    /* the same by .node: who was asked longest ago first */
	struct deadline next; /* when the first of them is asked */
	uint64_t period_us;   /* between two questions about one zone; 0: none */
	dns_zone_fn *told;    /* NULL: nobody wants to know */
	/* borrowed */
	struct dns_channel *channel;
	/* One of the names in a zone that has changed: the node that it was added by.
	 */
	void (*changed)(struct node *name);
	void *told_ctx;
};

void dns_zones_init(struct dns_zones *zones, struct dns_channel *channel,
    void (*changed)(struct node *name));
/* After dns_channel_done.  Names are not touched. */
void dns_zones_done(struct dns_zones *zones);
void dns_zones_configure(struct dns_zones *zones, uint64_t period_us);
/* A name belongs to the zone behind its first dot, if there is anything. */
void dns_zones_add(struct dns_zones *zones, const char *host, struct node *name);
size_t dns_zones_count(const struct dns_zones *zones);
/* In order of their names. */
void dns_zones_walk(const struct dns_zones *zones,
    void (*fn)(void *ctx, const struct dns_zone_view *zone), void *ctx);

#endif
