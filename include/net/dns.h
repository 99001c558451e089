/*
 * Names to addresses, asynchronously, with a cache.  No other files than those of
 * net/dns include c-ares.
 */
#ifndef NET_DNS_H
#define NET_DNS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/loop.h"
#include "net/sock.h"

struct dns;
struct dns_query; /* one waiter */

struct dns *dns_new(struct loop *loop, const char *resolv_conf, struct err *err);
void dns_free(struct dns **dns);
/* How long results and failures are used, and how often the serials of zones are asked
 * for (0: never).  What is known already is measured by the new times at once. */
void dns_configure(struct dns *dns, uint64_t max_ttl_us, uint64_t nxdomain_ttl_us,
    uint64_t zone_check_us);

/* Called later, never from inside dns_lookup.  addrs are borrowed for the call; count
 * 0: failed, with err.  Ports are 0. */
typedef void dns_done_fn(
    void *ctx, const struct sock_addr *addrs, size_t count, const struct err *err);
/* The addresses come rotated: each lookup of a host starts one further (round robin).
 */
struct dns_query *dns_lookup(
    struct dns *dns, const char *host, dns_done_fn *done, void *ctx);
/* The waiter is gone: done will not be called. */
void dns_cancel(struct dns_query **query);

/* The verified name of an address: what its reverse lookup says, when the forward
 * lookup of that name gives the address back.  Not cached, because peers choose their
 * names; each call asks name servers.  Called later, never from inside dns_reverse.
 * name is borrowed for the call; NULL: it has no verified name, and err says why. */
struct dns_reverse;
typedef void dns_name_fn(void *ctx, const char *name, const struct err *err);
struct dns_reverse *dns_reverse(
    struct dns *dns, const struct sock_addr *addr, dns_name_fn *done, void *ctx);
/* The waiter is gone: done will not be called.  Only before done was called. */
void dns_reverse_cancel(struct dns_reverse **reverse);

/* An address vanished from a host's result: called with the host name. */
typedef void dns_changed_fn(void *ctx, const char *host, const struct sock_addr *gone);
void dns_on_change(struct dns *dns, dns_changed_fn *changed, void *ctx);

/* The serial of a zone has grown, and its names are looked up again; or it cannot be
 * found out, which is told once until it can. */
struct dns_zone_news {
	const char *zone;
	uint32_t old_serial, serial;
	const char *failure; /* NULL: none */
};
typedef void dns_zone_fn(void *ctx, const struct dns_zone_news *news);
void dns_on_zone(struct dns *dns, dns_zone_fn *told, void *ctx);

/* For SHOW DNS_ZONES and LISTS.  A name belongs to the zone behind its first dot. */
struct dns_zone_view {
	const char *name;
	uint32_t serial; /* 0: not known */
	size_t host_count;
};
size_t dns_zone_count(const struct dns *dns);
/* Zones in name order. */
void dns_walk_zones(const struct dns *dns,
    void (*fn)(void *ctx, const struct dns_zone_view *zone), void *ctx);

/* For SHOW DNS_HOSTS and LISTS. */
struct dns_host_view {
	const char *name;
	uint64_t ttl_us; /* left */
	const struct sock_addr *addrs;
	size_t addr_count;
};
size_t dns_host_count(const struct dns *dns);
size_t dns_pending_count(const struct dns *dns);
/* Hosts in name order; calls fn for each. */
void dns_walk(const struct dns *dns,
    void (*fn)(void *ctx, const struct dns_host_view *h), void *ctx);
const char *dns_library_version(void); /* "c-ares 1.18.1" */

#endif
