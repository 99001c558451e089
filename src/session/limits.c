#include "session/limits.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "conf/scope.h"
#include "pool/catalog.h"
#include "pool/conn_limits.h"
#include "pool/hosts_role.h"
#include "pool/pins.h"
#include "pool/pool_effective.h"
#include "session/memory_limit.h"

/* The limits of queries and transactions are those of the pool's user, all others those
 * of the client's user. */
static struct scope limit_scope(const struct client *client, bool is_of_pool)
{
	const struct pool *pool = client->request.in_pool.pool;

	if (is_of_pool && pool)
		return scope_of_pool(pool);
	if (client->database)
		return scope_of_login(client->database, client->user);
	return (struct scope){.settings = site_settings(client->conn.site)};
}

/* The value of a setting; times are in seconds. */
static double limit_value(const struct client *client, const char *setting)
{
	struct scope own = limit_scope(client, false), link = limit_scope(client, true);
	const struct {
		const char *setting;
		double value;
	} limits[] = {
#define COUNT(scope, name) {#name, (double)scope_##name(scope)}
#define TIME(scope, name)                                \
	{                                                \
#		name, (double)scope_##name(scope) / 1e6 \
	}
	    COUNT(own, max_client_conn),
	    COUNT(own, max_db_client_connections),
	    COUNT(own, max_user_client_connections),
	    {"max_login_clients", own.settings->max_login_clients},
	    {"max_login_clients_per_address",
		own.settings->max_login_clients_per_address},
	    TIME(own, client_login_timeout),
	    TIME(own, suspend_timeout),
	    TIME(own, client_idle_timeout),
	    TIME(own, query_wait_timeout),
	    TIME(link, query_timeout),
	    TIME(link, transaction_timeout),
	    TIME(link, idle_transaction_timeout),
	    TIME(link, pin_idle_timeout),
#undef COUNT
#undef TIME
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		if (strcmp(limits[i].setting, setting) == 0)
			return limits[i].value;
	return 0;
}

const char *limit_describe_hosts(
    const struct client *client, const char *text, char out[LIMIT_TEXT])
{
	const struct pool *pool = client->request.in_pool.pool;

	if (!pool || pool->database->hosts.count < 2 || !pool->failure.refusal ||
	    (strcmp(text, pool->failure.refusal) != 0 &&
		strcmp(text, pool->failure.fast) != 0))
		return NULL;
	struct buf why;

	buf_init(&why, 0);
	hosts_describe_lack(pool, &why);
	snprintf(out, LIMIT_TEXT, "%s", buf_text(&why));
	buf_done(&why);
	return out;
}

/* What a client waits for that has no server. */
static void describe_wait(const struct pool *pool, struct buf *out)
{
	const char *lacked, *failure;
	int limit = 0;

	if (hosts_are_watched(pool->database) && !hosts_has_server(pool)) {
		hosts_describe_lack(pool, out);
		return;
	}
	if (!hosts_are_watched(pool->database) &&
	    pool->database->hosts.list[0]->verdict.value.state == HOST_HANGS) {
		hosts_describe(pool->database, out);
		return;
	}
	lacked = conn_limits_lacked(pool, &limit);
	if (lacked) {
		buf_printf(out, "the pool waits for room under %s, which is %d", lacked,
		    limit);
		return;
	}
	(void)pool_last_attempt(pool, &failure);
	if (pool_is_paused(pool))
		buf_printf(out, "database \"%s\" is paused", pool->database->name);
	else if (failure)
		buf_printf(out, "the last connection to a server failed: %s", failure);
	else if (pool_size(pool) > 0 &&
		 pool_servers_everywhere(pool) >= (size_t)pool_size(pool))
		buf_printf(out,
		    "pool_size of database \"%s\" and user \"%s\" is %d, and all these "
		    "server connections are in use",
		    pool->database->name, pool->user->name, pool_size(pool));
}

const char *limit_describe(
    const struct client *client, const char *setting, char out[LIMIT_TEXT])
{
	if (strcmp(setting, "max_waiting_clients") == 0) {
		const struct pool *pool = client->request.in_pool.pool;
		snprintf(out, LIMIT_TEXT,
		    "Clients that wait for a server connection of database \"%.127s\" "
		    "and user \"%.127s\": %zu; max_waiting_clients is %d.",
		    pool->database->name, pool->user->name,
		    pool_queued_everywhere(pool),
		    scope_max_waiting_clients(scope_of_pool(pool)));
		return out;
	}
	if (strcmp(setting, "max_pinned_servers") == 0) {
		const struct pool *pool = client->request.in_pool.pool;
		snprintf(out, LIMIT_TEXT,
		    "Servers of database \"%.127s\" and user \"%.127s\" that are "
		    "kept: %d, of which %d may be.",
		    pool->database->name, pool->user->name, pins_count(pool),
		    pins_most(pool));
		return out;
	}
	if (strcmp(setting, "memory_limit") == 0) {
		char limit[32];
		text_print_bytes(site_settings(client->conn.site)->memory_limit, limit,
		    sizeof(limit));
		snprintf(out, LIMIT_TEXT,
		    "The process uses %llu MB; memory_limit is %s.",
		    (unsigned long long)memory_limit_resident(client->conn.site) >> 20,
		    limit);
		return out;
	}
	const struct pool_request *request = &client->request.in_pool;
	struct buf why;

	buf_init(&why, 0);
	if (request->state == REQUEST_WAITING)
		describe_wait(request->pool, &why);
	snprintf(out, LIMIT_TEXT, "%s is %.15g%s%s", setting,
	    limit_value(client, setting), why.len ? "; " : "", buf_text(&why));
	buf_done(&why);
	return out;
}
