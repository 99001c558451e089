/*
 * Looks up addresses of host names asynchronously, with a cache.  Only the files of
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
struct dns_query; /* one waiting lookup */

/* first_turn: of the addresses of each host, the one whose turn is first, counted from
 * 0 and round; threads that connect to the same hosts spread over them. */
struct dns *dns_new(
    struct loop *loop, const char *resolv_conf, size_t first_turn, struct err *err);
void dns_free(struct dns **dns);
/* max_ttl_us and nxdomain_ttl_us: how long results and failures are used;
 * zone_check_us: how often the serials of zones are checked (0: never).  The new times
 * apply at once, also to results already in the cache. */
void dns_configure(struct dns *dns, uint64_t max_ttl_us, uint64_t nxdomain_ttl_us,
    uint64_t zone_check_us);

/* Is called later, never from inside dns_lookup.  addrs are borrowed for the call, and
 * their ports are 0.  count 0: the lookup failed, and err says why. */
typedef void dns_done_fn(
    void *ctx, const struct sock_addr *addrs, size_t count, const struct err *err);
/* Looks up a host. */
struct dns_query *dns_lookup(
    struct dns *dns, const char *host, dns_done_fn *done, void *ctx);
/* Which of its addresses to connect to next (round robin).  The host was found. */
struct sock_addr dns_turn(struct dns *dns, const char *host);
/* A connection to this address of the host has failed: the address loses its next turn.
 * Whoever connects in step with others would otherwise get the same one each time. */
void dns_avoid(struct dns *dns, const char *host, const struct sock_addr *addr);
/* Cancels a lookup: done will not be called. */
void dns_cancel(struct dns_query **query);

/* Looks up the verified name of an address: the name that its reverse lookup gives, if
 * the forward lookup of that name gives the address again.  Results are not cached,
 * because peers choose their names; each call asks name servers.  done is called later,
 * never from inside dns_reverse.  name is borrowed for the call; NULL: there is no
 * verified name, and err says why. */
struct dns_reverse;
typedef void dns_name_fn(void *ctx, const char *name, const struct err *err);
struct dns_reverse *dns_reverse(
    struct dns *dns, const struct sock_addr *addr, dns_name_fn *done, void *ctx);
/* Cancels the lookup: done will not be called.  Only allowed before done was called. */
void dns_reverse_cancel(struct dns_reverse **reverse);

/* Is called when an address is no longer among those of a host. */
typedef void dns_changed_fn(void *ctx, const char *host, const struct sock_addr *gone);
void dns_on_change(struct dns *dns, dns_changed_fn *changed, void *ctx);

/* News of a zone: its serial has grown, so its names are looked up again; or the serial
 * cannot be found out, which is reported once until it can. */
struct dns_zone_news {
	const char *zone;
	uint32_t old_serial, serial;
	const char *failure; /* NULL: the serial has grown */
};
typedef void dns_zone_fn(void *ctx, const struct dns_zone_news *news);
void dns_on_zone(struct dns *dns, dns_zone_fn *told, void *ctx);

/* For SHOW DNS_ZONES and SHOW LISTS.  The zone of a name is what follows its first
 * dot. */
struct dns_zone_view {
	const char *name;
	uint32_t serial; /* 0: unknown */
	size_t host_count;
};
size_t dns_zone_count(const struct dns *dns);
/* Calls fn for each zone, in order of their names. */
void dns_walk_zones(const struct dns *dns,
    void (*fn)(void *ctx, const struct dns_zone_view *zone), void *ctx);

/* For SHOW DNS_HOSTS and SHOW LISTS. */
struct dns_host_view {
	const char *name;
	uint64_t ttl_us; /* the time left */
	const struct sock_addr *addrs;
	size_t addr_count;
};
size_t dns_host_count(const struct dns *dns);
size_t dns_pending_count(const struct dns *dns);
/* Calls fn for each host, in order of their names. */
void dns_walk(const struct dns *dns,
    void (*fn)(void *ctx, const struct dns_host_view *h), void *ctx);
const char *dns_library_version(void); /* such as "c-ares 1.18.1" */

#endif
