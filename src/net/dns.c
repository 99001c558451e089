/*
 * Looks up addresses with c-ares: one row per host with its last result, at most one
 * query at a time per host, any number of waiting lookups.  Results are always given
 * from the loop.  The configuration says how long they are used; the times in DNS
 * records are ignored.
 */
#include "net/dns.h"

#include <assert.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include <ares.h>

#include "base/map.h"
#include "base/mem.h"
#include "net/dns_channel.h"
#include "net/dns_zones.h"

/* At most so many addresses of one host are used. */
enum { ADDRS_MOST = 256 };

struct addr_set {
	struct sock_addr *addrs;
	size_t count;
};

struct host {
	struct node zone_node; /* in the zone of its name */
	char *name;
	struct addr_set set;   /* the last good result; kept when a lookup fails */
	struct addr_set fresh; /* the result that is coming in */
	struct err err;        /* why the last lookup failed */
	struct list waiters;   /* struct dns_query by .node */
	struct later answer;
	struct addr_set avoided; /* see dns_avoid */
	uint64_t found_us;       /* when the result came */
	size_t turn;             /* see dns_turn: an index of set.addrs */
	bool is_asking, is_failed, is_known, has_fresh;
	/* borrowed */
	struct dns *dns;
};

struct dns_query {
	struct node node;
	dns_done_fn *done;
	/* borrowed */
	struct host *host;
	void *ctx;
};

/* A reverse lookup: first the name of an address, then the addresses of that name. */
struct dns_reverse {
	struct node node;
	char *name;     /* must not be used unless is_verified */
	struct err err; /* why the name is not verified */
	struct later answer;
	dns_name_fn *done; /* NULL: the lookup was cancelled */
	bool is_asking, is_verified;
	struct sock_addr addr;
	/* borrowed */
	struct dns *dns;
	void *ctx;
};

struct dns {
	struct dns_channel channel;
	struct dns_zones zones;
	struct map *hosts;    /* struct host by .name */
	size_t first_turn;    /* of each new host */
	struct list reverses; /* struct dns_reverse by .node */
	uint64_t max_ttl_us, nxdomain_ttl_us;
	dns_changed_fn *changed;
	/* borrowed */
	struct loop *loop;
	void *changed_ctx;
};

/* ---- sets of addresses ---- */

static bool set_has(const struct addr_set *set, const struct sock_addr *addr)
{
	for (size_t i = 0; i < set->count; i++) {
		if (sock_addr_is_equal_ip(&set->addrs[i], addr))
			return true;
	}
	return false;
}

static void set_clear(struct addr_set *set)
{
	mem_free(set->addrs);
	*set = (struct addr_set){0};
}

/* Returns whether it was there. */
static bool set_remove(struct addr_set *set, const struct sock_addr *addr)
{
	for (size_t i = 0; i < set->count; i++) {
		if (sock_addr_is_equal_ip(&set->addrs[i], addr)) {
			set->addrs[i] = set->addrs[--set->count];
			return true;
		}
	}
	return false;
}

static bool read_address(const struct ares_addrinfo_node *node, struct sock_addr *out)
{
	*out = (struct sock_addr){.family = (uint16_t)node->ai_family};
	if (node->ai_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)node->ai_addr;
		memcpy(out->ip, &in->sin_addr, 4);
		return true;
	}
	if (node->ai_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)node->ai_addr;
		memcpy(out->ip, &in6->sin6_addr, 16);
		out->scope = in6->sin6_scope_id;
		return true;
	}
	return false;
}

static void set_fill(struct addr_set *set, const struct ares_addrinfo *found)
{
	struct sock_addr addr;

	set->addrs = mem_alloc(ADDRS_MOST * sizeof(addr));
	set->count = 0;
	for (const struct ares_addrinfo_node *n = found->nodes; n; n = n->ai_next) {
		if (set->count < ADDRS_MOST && read_address(n, &addr) &&
		    !set_has(set, &addr))
			set->addrs[set->count++] = addr;
	}
	set->addrs = mem_resize(set->addrs, set->count * sizeof(addr));
}

/* ---- hosts ---- */

static void answer_waiters(struct later *l);

static struct host *find_or_add_host(struct dns *dns, const char *name)
{
	struct host *h = map_get_str(dns->hosts, name);
	struct sock_addr literal;

	if (h)
		return h;
	h = mem_zero(sizeof(*h));
	h->name = mem_strdup(name);
	h->dns = dns;
	h->turn = dns->first_turn;
	h->answer.run = answer_waiters;
	list_init(&h->waiters);
	map_put_str(dns->hosts, h->name, h);
	if (sock_addr_parse(name, 0, &literal) < 0)
		dns_zones_add(&dns->zones, h->name, &h->zone_node);
	return h;
}

/* Makes the new result the one in use, and reports addresses that are gone. */
static void adopt_fresh(struct host *h)
{
	struct addr_set old = h->set;
	struct dns *dns = h->dns;

	h->set = h->fresh;
	h->fresh = (struct addr_set){0};
	h->has_fresh = false;
	for (size_t i = 0; i < old.count; i++) {
		if (set_has(&h->set, &old.addrs[i]))
			continue;
		set_remove(&h->avoided, &old.addrs[i]);
		if (dns->changed)
			dns->changed(dns->changed_ctx, h->name, &old.addrs[i]);
	}
	set_clear(&old);
}

static void answer_one(struct host *h, struct dns_query *q)
{
	dns_done_fn *done = q->done;
	void *ctx = q->ctx;

	mem_free(q);
	if (h->is_failed)
		done(ctx, NULL, 0, &h->err);
	else
		done(ctx, h->set.addrs, h->set.count, NULL);
}

static void answer_waiters(struct later *l)
{
	struct host *h = container_of(l, struct host, answer);
	size_t count = h->waiters.count;
	struct node *n;

	if (h->has_fresh)
		adopt_fresh(h);
	/* only lookups that were waiting before; one begun inside `done` is answered
	 * later */
	for (; count && (n = list_pop_front(&h->waiters)); count--)
		answer_one(h, container_of(n, struct dns_query, node));
}

/* How long the result may still be used with the current settings. */
static uint64_t time_left_us(const struct host *h)
{
	uint64_t ttl_us = h->is_failed ? h->dns->nxdomain_ttl_us : h->dns->max_ttl_us;
	uint64_t age_us = loop_now(h->dns->loop) - h->found_us;

	return h->is_known && age_us < ttl_us ? ttl_us - age_us : 0;
}

/* Notes the result of a lookup; h->fresh has the addresses, none means failure.  If the
 * lookup was made only because a zone has changed, a failure does not replace a good
 * result before its time is over. */
static void note_result(struct host *h, int status)
{
	if (!h->fresh.count && !h->is_failed && time_left_us(h)) {
		loop_later(h->dns->loop, &h->answer);
		return;
	}
	h->has_fresh = h->fresh.count > 0;
	h->is_failed = !h->has_fresh;
	h->is_known = true;
	if (h->is_failed) {
		set_clear(&h->fresh);
		if (status == ARES_SUCCESS)
			status = ARES_ENODATA;
		err_set(&h->err, "result=%d (%s)", status, ares_strerror(status));
	}
	h->found_us = loop_now(h->dns->loop);
	loop_later(h->dns->loop, &h->answer);
}

static void lookup_done(
    void *ctx, int status, int timeouts, struct ares_addrinfo *found)
{
	struct host *h = ctx;

	(void)timeouts;
	h->is_asking = false;
	h->dns->channel.pending_count--;
	if (status != ARES_EDESTRUCTION) {
		set_clear(&h->fresh);
		if (status == ARES_SUCCESS && found)
			set_fill(&h->fresh, found);
		note_result(h, status);
	}
	if (found)
		ares_freeaddrinfo(found);
}

static void ask(struct host *h)
{
	struct dns *dns = h->dns;
	struct ares_addrinfo_hints hints = {
	    .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct sock_addr literal;

	/* c-ares would ask name servers even for a numeric address */
	if (sock_addr_parse(h->name, 0, &literal) == 0) {
		set_clear(&h->fresh);
		h->fresh.addrs = mem_dup(&literal, sizeof(literal));
		h->fresh.count = 1;
		note_result(h, ARES_SUCCESS);
		return;
	}
	h->is_asking = true;
	dns->channel.pending_count++;
	ares_getaddrinfo(dns->channel.ares, h->name, NULL, &hints, lookup_done, h);
	dns_channel_follow(&dns->channel);
}

/* Looks the name up again.  The old result stays in use until the new one comes. */
static void zone_changed(struct node *name)
{
	struct host *h = container_of(name, struct host, zone_node);

	if (!h->is_asking)
		ask(h);
}

/* ---- names of addresses ---- */

static void free_reverse(struct dns_reverse *r)
{
	list_remove(&r->dns->reverses, &r->node);
	later_cancel(r->dns->loop, &r->answer);
	mem_free(r->name);
	mem_free(r);
}

static void answer_reverse(struct later *l)
{
	struct dns_reverse *r = container_of(l, struct dns_reverse, answer);
	dns_name_fn *done = r->done;
	void *ctx = r->ctx;
	char *name = r->is_verified ? r->name : NULL;
	struct err err = r->err;

	if (name)
		r->name = NULL;
	free_reverse(r);
	if (done)
		done(ctx, name, name ? NULL : &err);
	mem_free(name);
}

/* Ends a reverse lookup from the loop, because c-ares may call back from inside our
 * calls. */
static void end_reverse(struct dns_reverse *r)
{
	r->is_asking = false;
	r->dns->channel.pending_count--;
	loop_later(r->dns->loop, &r->answer);
}

static void forward_done(
    void *ctx, int status, int timeouts, struct ares_addrinfo *found)
{
	struct dns_reverse *r = ctx;
	struct addr_set set = {0};

	(void)timeouts;
	if (status == ARES_SUCCESS && found) {
		set_fill(&set, found);
		r->is_verified = set_has(&set, &r->addr);
	}
	if (status != ARES_SUCCESS)
		err_set(&r->err, "name \"%.200s\" has no address: %s", r->name,
		    ares_strerror(status));
	else if (!r->is_verified)
		err_set(&r->err, "name \"%.200s\" has other addresses", r->name);
	set_clear(&set);
	if (found)
		ares_freeaddrinfo(found);
	end_reverse(r);
}

/* The forward lookup does not use the rows of hosts: the peer chose the name and could
 * fill them.  A "name" that is a numeric address is refused, because it would verify
 * itself. */
static void name_found(void *ctx, int status, int timeouts, char *name, char *service)
{
	struct ares_addrinfo_hints hints = {
	    .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct dns_reverse *r = ctx;
	struct sock_addr literal;

	(void)timeouts;
	(void)service;
	if (status != ARES_SUCCESS || !name) {
		err_set(&r->err, "no name: %s",
		    ares_strerror(status == ARES_SUCCESS ? ARES_ENODATA : status));
		end_reverse(r);
		return;
	}
	r->name = mem_strdup(name);
	if (sock_addr_parse(name, 0, &literal) == 0) {
		err_set(&r->err, "name \"%.200s\" is an address", name);
		end_reverse(r);
		return;
	}
	ares_getaddrinfo(r->dns->channel.ares, r->name, NULL, &hints, forward_done, r);
}

struct dns_reverse *dns_reverse(
    struct dns *dns, const struct sock_addr *addr, dns_name_fn *done, void *ctx)
{
	struct dns_reverse *r = mem_zero(sizeof(*r));

	assert(addr->family == AF_INET || addr->family == AF_INET6);
	r->dns = dns;
	r->addr = *addr;
	r->done = done;
	r->ctx = ctx;
	r->answer.run = answer_reverse;
	r->is_asking = true;
	list_push_back(&dns->reverses, &r->node);
	dns->channel.pending_count++;
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	bool is_v4 = r->addr.family == AF_INET;
	memcpy(&in.sin_addr, r->addr.ip, 4);
	memcpy(&in6.sin6_addr, r->addr.ip, 16);
	ares_getnameinfo(r->dns->channel.ares,
	    is_v4 ? (struct sockaddr *)&in : (struct sockaddr *)&in6,
	    is_v4 ? sizeof(in) : sizeof(in6), ARES_NI_LOOKUPHOST | ARES_NI_NAMEREQD,
	    name_found, r);
	dns_channel_follow(&r->dns->channel);
	return r;
}

/* c-ares cannot cancel a single query, so the struct stays until its answer comes. */
void dns_reverse_cancel(struct dns_reverse **rp)
{
	struct dns_reverse *r = *rp;

	if (!r)
		return;
	r->done = NULL;
	if (!r->is_asking)
		free_reverse(r);
	*rp = NULL;
}

/* ---- the interface ---- */

struct dns *dns_new(
    struct loop *loop, const char *resolv_conf, size_t first_turn, struct err *err)
{
	struct dns *dns = mem_zero(sizeof(*dns));

	if (dns_channel_init(&dns->channel, loop, resolv_conf, err) < 0) {
		mem_free(dns);
		return NULL;
	}
	dns->loop = loop;
	dns->first_turn = first_turn;
	dns->hosts = map_new();
	list_init(&dns->reverses);
	dns_zones_init(&dns->zones, &dns->channel, zone_changed);
	return dns;
}

void dns_free(struct dns **dp)
{
	struct dns *dns = *dp;
	struct host *h;
	size_t at = 0;
	struct node *n;

	if (!dns)
		return;
	dns_channel_done(&dns->channel);
	dns_zones_done(&dns->zones);
	while (dns->reverses.count)
		free_reverse(
		    container_of(list_front(&dns->reverses), struct dns_reverse, node));
	while ((h = map_next(dns->hosts, &at))) {
		while ((n = list_pop_front(&h->waiters)))
			mem_free(container_of(n, struct dns_query, node));
		later_cancel(h->dns->loop, &h->answer);
		set_clear(&h->set);
		set_clear(&h->fresh);
		set_clear(&h->avoided);
		mem_free(h->name);
		mem_free(h);
	}
	map_free(&dns->hosts);
	mem_free(dns);
	*dp = NULL;
}

void dns_configure(struct dns *dns, uint64_t max_ttl_us, uint64_t nxdomain_ttl_us,
    uint64_t zone_check_us)
{
	dns->max_ttl_us = max_ttl_us;
	dns->nxdomain_ttl_us = nxdomain_ttl_us;
	dns_zones_configure(&dns->zones, zone_check_us);
}

struct dns_query *dns_lookup(
    struct dns *dns, const char *host, dns_done_fn *done, void *ctx)
{
	struct host *h = find_or_add_host(dns, host);
	struct dns_query *q = mem_zero(sizeof(*q));

	q->host = h;
	q->done = done;
	q->ctx = ctx;
	list_push_back(&h->waiters, &q->node);
	/* an answer that is about to be given serves this lookup too */
	if (node_is_linked(&h->answer.node))
		return q;
	if (time_left_us(h))
		loop_later(dns->loop, &h->answer);
	else if (!h->is_asking)
		ask(h);
	return q;
}

struct sock_addr dns_turn(struct dns *dns, const char *host)
{
	struct host *h = map_get_str(dns->hosts, host);

	for (size_t i = 0; i < h->set.count; i++) {
		size_t at = h->turn++ % h->set.count;
		if (!set_remove(&h->avoided, &h->set.addrs[at]))
			return h->set.addrs[at];
	}
	return h->set.addrs[h->turn++ % h->set.count];
}

void dns_avoid(struct dns *dns, const char *host, const struct sock_addr *addr)
{
	struct host *h = map_get_str(dns->hosts, host);

	if (!h || !set_has(&h->set, addr) || set_has(&h->avoided, addr))
		return;
	h->avoided.addrs =
	    mem_resize(h->avoided.addrs, (h->avoided.count + 1) * sizeof(*addr));
	h->avoided.addrs[h->avoided.count++] = *addr;
}

void dns_cancel(struct dns_query **qp)
{
	struct dns_query *q = *qp;

	if (!q)
		return;
	list_remove(&q->host->waiters, &q->node);
	mem_free(q);
	*qp = NULL;
}

void dns_on_change(struct dns *dns, dns_changed_fn *changed, void *ctx)
{
	dns->changed = changed;
	dns->changed_ctx = ctx;
}

void dns_on_zone(struct dns *dns, dns_zone_fn *told, void *ctx)
{
	dns->zones.told = told;
	dns->zones.told_ctx = ctx;
}

size_t dns_zone_count(const struct dns *dns)
{
	return dns->zones.turns.count;
}

void dns_walk_zones(const struct dns *dns,
    void (*fn)(void *ctx, const struct dns_zone_view *zone), void *ctx)
{
	dns_zones_walk(&dns->zones, fn, ctx);
}

size_t dns_host_count(const struct dns *dns)
{
	return map_count(dns->hosts);
}

size_t dns_pending_count(const struct dns *dns)
{
	return dns->channel.pending_count;
}

static int compare_names(const void *a, const void *b)
{
	const struct host *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

void dns_walk(const struct dns *dns,
    void (*fn)(void *ctx, const struct dns_host_view *h), void *ctx)
{
	size_t count;
	void **hosts = map_sorted(dns->hosts, &count, compare_names);

	for (size_t i = 0; i < count; i++) {
		const struct host *h = hosts[i];
		struct dns_host_view view = {
		    .name = h->name,
		    .ttl_us = time_left_us(h),
		    .addrs = h->is_failed ? NULL : h->set.addrs,
		    .addr_count = h->is_failed ? 0 : h->set.count,
		};
		fn(ctx, &view);
	}
	free(hosts);
}

const char *dns_library_version(void)
{
	return "c-ares " ARES_VERSION_STR;
}
