/*
 * Derives readiness from the mode of the pooler and the states of the hosts
 * (pool/hosts.h).
 */
#include "metrics/readiness.h"

#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "pool/hosts_role.h"
#include "session/workers.h"

/* What all sites together know of one host.  A site that has not connected to it lately
 * knows nothing of it. */
struct host_seen {
	bool is_down;
	char key[];
};

struct hosts_seen {
	struct map *hosts; /* struct host_seen by key: "name:port" */
	bool is_any_there; /* at least one host is known to be reachable */
	bool is_alone; /* this is the only site: a host that it has not tried counts as
			  reachable */
};

static struct host_seen *host_of(struct hosts_seen *seen, const struct host *host)
{
	struct host_seen *found;
	struct buf key;

	buf_init(&key, 0);
	buf_printf(&key, "%s:%d", host->name ? host->name : "", host->port);
	found = map_get_str(seen->hosts, buf_text(&key));
	if (!found) {
		found = mem_zero(sizeof(*found) + key.len + 1);
		memcpy(found->key, key.bytes, key.len);
		map_put_str(seen->hosts, found->key, found);
	}
	buf_done(&key);
	return found;
}

static void look_at_host(
    struct hosts_seen *seen, const struct database *db, const struct host *host)
{
	struct host_verdict shown;

	hosts_show(db, host, &shown);
	if (shown.value.state != HOST_UP && shown.value.state != HOST_NOT_TRIED)
		host_of(seen, host)->is_down = true;
	else if (seen->is_alone || host->assignments > 0)
		seen->is_any_there = true;
	else
		(void)host_of(seen, host);
}

static void look_at_site(struct site *site, void *ctx)
{
	struct hosts_seen *seen = ctx;
	const struct database *db;

	/* with several workers the control thread connects to no server */
	if (site->catalog->view.serves_nobody)
		return;
	list_for (db, &site->catalog->database_list, node)
		for (size_t i = 0; !db->is_admin && i < db->hosts.count; i++) {
			look_at_host(seen, db, db->hosts.list[i]);
			if (seen->is_any_there)
				return;
		}
}

const char *readiness_obstacle(struct site *site)
{
	struct host_seen *host;

	if (site->shutdown != SHUTDOWN_NONE)
		return "The pooler is shutting down.";
	if (site->catalog->suspended)
		return "The pooler is suspended.";
	if (site->catalog->paused)
		return "The pooler is paused.";
	struct hosts_seen seen = {
	    .hosts = map_new(), .is_alone = workers_site_count(site) == 1};
	bool is_any_up = false;
	size_t at = 0;

	(void)workers_each(site, look_at_site, &seen);
	is_any_up = seen.is_any_there || map_count(seen.hosts) == 0;
	while ((host = map_next(seen.hosts, &at))) {
		is_any_up = is_any_up || !host->is_down;
		mem_free(host);
	}
	map_free(&seen.hosts);
	if (!is_any_up)
		return "No server can be reached.";
	return NULL;
}
