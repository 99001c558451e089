#include "session/session.h"

#include <unistd.h>

#include "auth/digest.h"
#include "auth/helpers.h"
#include "auth/key_cache.h"
#include "base/text.h"
#include "session/cancel_keys.h"
#include "session/client.h"
#include "session/client_snapshot.h"
#include "session/dispatch.h"
#include "session/log_flood.h"
#include "session/memory_limit.h"
#include "session/oauth_issuers.h"
#include "session/passwords.h"
#include "session/reserved_fds.h"
#include "session/server.h"
#include "session/strangers.h"
#include "session/switchover.h"
#include "session/tickets.h"
#include "session/workers.h"

static void helpers_answered(void *ctx, int fd)
{
	struct site *site = ctx;
	(void)fd;
	helpers_collect(site->helpers);
}

/* The loop delivers the results of the helper threads. */
static int helpers_begin(struct site *site, struct err *err)
{
	struct helpers_mutex *mutex =
	    site->worker ? site->worker->workers->mutex : NULL;

	site->helpers = helpers_new(HELPERS_ASK_THREADS, HELPERS_ASK_QUEUE, mutex, err);
	if (!site->helpers)
		return -1;
	site->external_watch = watch_new(
	    site->loop, helpers_fd(site->helpers), WATCH_READ, helpers_answered, site);
	return 0;
}

/* Ends the threads, waits for them, and drops the jobs that still wait. */
static void helpers_end(struct site *site)
{
	if (site->external_watch)
		watch_free(&site->external_watch);
	if (site->helpers)
		helpers_free(&site->helpers);
}

int session_init(struct site *site, struct err *err)
{
	site->client_slab =
	    slab_new_single(&site->mem, "client_cache", sizeof(struct client));
	site->server_slab =
	    slab_new_single(&site->mem, "server_cache", sizeof(struct server));
	list_init(&site->clients);
	list_init(&site->login_clients);
	list_init(&site->cancel_clients);
	list_init(&site->snapshots);
	list_init(&site->listeners);
	site->cancel_keys =
	    site->worker ? site->worker->workers->cancel_keys : cancel_keys_new();
	site->strangers =
	    site->worker ? site->worker->workers->strangers : strangers_new();
	site->memory_limit =
	    site->worker ? site->worker->workers->memory_limit : memory_limit_new();
	site->log_flood = log_flood_new();
	site->next_id = 1 + (site->worker ? site->worker->index : 0);
	site->id_step = workers_site_count(site);
	dispatch_init(site);
	reserved_fds_init(site);
	mem_random(site->mock_secret, sizeof(site->mock_secret));
	if (gethostname(site->hostname, sizeof(site->hostname) - 1) != 0)
		site->hostname[0] = '\0';
	switchover_init(site);
	site->key_cache = key_cache_new(KEY_CACHE_ENTRIES);
	passwords_init(site);
	oauth_issuers_init(site);
	tickets_init(site);
	return helpers_begin(site, err);
}

void session_keep_salts(struct site *site, const struct settings *settings)
{
	static const char purpose[] = "salts of users who do not exist";
	struct digest *sha256;
	struct err ignored;
	size_t len;
	const char *file = settings->client_tls_key_file;
	char *key;

	if (!*file && (settings->so_reuseport || settings->peer_id))
		file = "/proc/sys/kernel/random/boot_id";
	key = text_read_file(file, &len, &ignored);
	if (!key)
		return;
	sha256 = digest_new("SHA256");
	if (sha256)
		(void)digest_of(
		    sha256, purpose, sizeof(purpose), key, len, site->mock_secret);
	digest_free(&sha256);
	mem_wipe(key, len);
	mem_free(key);
}

static void review_clients(const struct list *clients)
{
	struct client *client;

	list_for (client, clients, site_node)
		if (!client->conn.is_doomed && client->conn.ops->review)
			client->conn.ops->review(&client->conn);
}

void session_review(struct site *site)
{
	review_clients(&site->login_clients);
	review_clients(&site->clients);
}

void session_done(struct site *site)
{
	switchover_done(site);
	client_snapshot_forget_all(site);
	dispatch_done(site);
	helpers_end(site);
	key_cache_free(&site->key_cache);
	passwords_done(site);
	oauth_issuers_done(site);
	tickets_done(site);
	if (!site->worker) {
		cancel_keys_free(&site->cancel_keys);
		strangers_free(&site->strangers);
		memory_limit_free(&site->memory_limit);
	}
	log_flood_free(&site->log_flood);
	reserved_fds_done(site);
	slab_free(&site->client_slab);
	slab_free(&site->server_slab);
	mem_wipe(site->mock_secret, sizeof(site->mock_secret));
}

static void drop_clients(const struct list *clients, const char *reason)
{
	struct client *client;

	list_for (client, clients, site_node)
		conn_doom_quietly(&client->conn, reason);
}

void session_drop_all(struct site *site)
{
	const char *reason = error_text(ERROR_SHUTTING_DOWN);
	struct pool *pool;
	struct slot *slot;

	site->shutdown = SHUTDOWN_NOW;
	drop_clients(&site->login_clients, reason);
	drop_clients(&site->clients, reason);
	drop_clients(&site->cancel_clients, reason);
	list_for (pool, &site->catalog->pool_list, node)
		for (int state = SLOT_NONE + 1; state < SLOT_STATE_COUNT; state++)
			list_for (slot, &pool->slots[state], node)
				conn_doom_quietly(&slot_server(slot)->conn, reason);
}

bool session_is_empty(const struct site *site)
{
	return site_client_count(site) == 0 && site->server_count == 0;
}
