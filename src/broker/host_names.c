#include "broker/host_names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "net/dns.h"
#include "session/workers.h"

struct host_name {
	struct node node;
	char *name;              /* owned */
	char *addresses;         /* owned: "ADDRESS,ADDRESS"; NULL: not known */
	struct dns_query *query; /* NULL: there is none under way */
	bool is_needed;
	struct host_monitor *monitor;
};

static bool is_name(const char *host)
{
	struct sock_addr addr;

	return host && *host != '/' && *host != '@' &&
	       sock_addr_parse(host, 0, &addr) < 0;
}

static struct host_name *find_or_add(struct host_monitor *m, const char *name)
{
	struct host_name *n;

	list_for (n, &m->names, node) {
		if (strcmp(n->name, name) == 0)
			return n;
	}
	n = mem_zero(sizeof(*n));
	n->name = mem_strdup(name);
	n->monitor = m;
	list_push_back(&m->names, &n->node);
	return n;
}

static void name_free(struct host_name *n)
{
	list_remove(&n->monitor->names, &n->node);
	dns_cancel(&n->query);
	mem_free(n->addresses);
	mem_free(n->name);
	mem_free(n);
}

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct sock_addr));
}

static void found(
    void *ctx, const struct sock_addr *addrs, size_t count, const struct err *err)
{
	struct host_name *n = ctx;
	size_t v6_count = 0;
	struct sock_addr *sorted;
	char text[SOCK_ADDR_TEXT];
	struct buf all;

	(void)err;
	n->query = NULL;
	/* those found before stay */
	if (!count)
		return;
	/* A machine often has one address of each family, so only those of one family
	 * are several hosts: of the one that has more. */
	for (size_t i = 0; i < count; i++)
		v6_count += addrs[i].family == AF_INET6;
	int family = v6_count > count - v6_count ? AF_INET6 : AF_INET;
	sorted = mem_dup(addrs, count * sizeof(*addrs));
	qsort(sorted, count, sizeof(*sorted), compare);
	buf_init(&all, 0);
	for (size_t i = 0; i < count; i++)
		if (sorted[i].family == family)
			buf_printf(&all, "%s%s", all.len ? "," : "",
			    sock_addr_ip(&sorted[i], text));
	mem_free(sorted);
	if (!all.failed &&
	    (!n->addresses || strcmp(n->addresses, buf_text(&all)) != 0)) {
		mem_free(n->addresses);
		n->addresses = mem_strdup(buf_text(&all));
		deadline_set(n->monitor->site->loop, &n->monitor->survey_due,
		    loop_now(n->monitor->site->loop));
	}
	buf_done(&all);
}

void host_names_look(struct host_monitor *m)
{
	const struct watched_database *d;
	struct host_name *n, *next;

	list_for (n, &m->names, node)
		n->is_needed = false;
	list_for (d, &m->databases, node) {
		const struct database *db =
		    catalog_find_database(m->site->catalog, d->name);
		for (size_t i = 0; db && d->is_wanted && i < db->config->host_count;
		     i++) {
			const char *name = db->config->hosts[i].host;
			if (!is_name(name))
				continue;
			n = find_or_add(m, name);
			n->is_needed = true;
			if (!n->query)
				n->query = dns_lookup(m->site->dns, name, found, n);
		}
	}
	list_for_safe (n, next, &m->names, node)
		if (!n->is_needed)
			name_free(n);
}

/* what: the name of the database, then the addresses */
static void spread(struct site *site, const void *what)
{
	const char *name = what;
	struct database *db = catalog_find_database(site->catalog, name);

	if (db)
		database_spread(db, name + strlen(name) + 1);
}

void host_names_spread(struct host_monitor *m)
{
	struct watched_database *d;
	struct buf all;
	size_t len, begin;

	list_for (d, &m->databases, node) {
		const struct database *db =
		    catalog_find_database(m->site->catalog, d->name);
		if (!db || !d->is_wanted)
			continue;
		buf_init_sure(&all);
		buf_put(&all, d->name, strlen(d->name) + 1);
		begin = all.len;
		for (size_t i = 0; i < db->config->host_count; i++) {
			const char *name = db->config->hosts[i].host, *now, *before;
			if (!is_name(name))
				continue;
			before = hosts_addresses(&db->hosts, name, &len);
			now = find_or_add(m, name)->addresses;
			/* it is not made one host again, because that would only cost
			 * connections */
			if (now && (before || strchr(now, ','))) {
				before = now;
				len = strlen(now);
			}
			if (before)
				buf_printf(&all, "%s%s=%.*s",
				    all.len > begin ? " " : "", name, (int)len, before);
		}
		buf_put(&all, "", 1);
		const char *before = db->hosts.addresses ? db->hosts.addresses : "";
		if (strcmp(before, (char *)all.bytes + begin) != 0 ||
		    d->wants_addresses)
			workers_broadcast(m->site, spread, all.bytes, all.len);
		d->wants_addresses = false;
		buf_done(&all);
	}
}

void host_names_free(struct host_monitor *m)
{
	struct node *first;

	while ((first = list_first(&m->names)))
		name_free(container_of(first, struct host_name, node));
}
