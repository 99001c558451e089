/*
 * Forwards cancel requests to the process that the key names.  Each one uses a
 * connection of its own: connect, TLS if configured, send the request, wait until the
 * peer closes.
 */
#include "cancel/peers.h"

#include <errno.h>
#include <stdlib.h>

#include "broker/server_tls.h"
#include "cancel/cancel_request.h"
#include "net/dns.h"
#include "wire/codec.h"
#include "wire/message.h"

/* Limits the queue, because anyone can send a CancelRequest. */
enum { WAITING_MAX = 1000 };

/* Many requests at once can fill the queue of a peer's Unix socket; it soon has room
 * again. */
enum { RETRY_US = 50000 };

/* The bytes of a key that contain the number of its process, and how often the request
 * may still be forwarded. */
enum { KEY_PEER_LOW = 1, KEY_PEER_HIGH = 2, KEY_TTL = 7, KEY_TTL_MASK = 3 };

/* The reason in the log where [peers] has no such peer. */
#define PEER_UNKNOWN "could not find peer to forward request to"

struct peer {
	int id;
	struct list waiting, active; /* struct peer_conn by .node */
	/* how many of the active ones have sent the request */
	size_t sent_count;
	struct later work; /* sends waiting requests if there is room */
	struct site *site; /* borrowed */
};

struct peers {
	struct map *by_id; /* int -> struct peer; owned */
	size_t conn_count;
};

/* One request that is forwarded to a peer. */
struct peer_conn {
	struct conn conn; /* must be the first member */
	struct node node; /* in peer->waiting or peer->active */
	struct peer *peer;
	struct cancel_request *request;
	struct dns_query *query; /* while the peer's name is being looked up */
	struct deadline retry;   /* the peer's Unix socket had no room */
	char *host;              /* owned: the host as written in [peers] */
	int port;
	uint64_t due_us; /* end of cancel_wait_timeout; UINT64_MAX: none */
	bool is_active;
	bool is_sent;
	bool is_over;
};

static const struct conn_ops peer_conn_ops, peer_conn_asking_ops;

/* TLS to peers follows the settings of TLS to servers. */
static const struct database_config nameless = {.name = "peers"};

static struct peer_conn *peer_conn_of(const struct conn *conn)
{
	return container_of(conn, struct peer_conn, conn);
}

static const struct peer_config *peer_config_of(const struct site *site, int id)
{
	const struct config *config = site->catalog->config;

	for (size_t i = 0; i < config->peer_count; i++)
		if (config->peers[i].id == id)
			return &config->peers[i];
	return NULL;
}

/* ---- keys ---- */

static int key_peer(const uint8_t *key)
{
	return key[KEY_PEER_LOW] | key[KEY_PEER_HIGH] << 8;
}

void peers_mark_key(const struct site *site, uint8_t *key)
{
	int id = site_settings(site)->peer_id;

	if (id <= 0)
		return;
	key[KEY_PEER_LOW] = (uint8_t)(id & 0xff);
	key[KEY_PEER_HIGH] = (uint8_t)(id >> 8);
	key[KEY_TTL] |= KEY_TTL_MASK;
}

bool peers_is_foreign(const struct site *site, uint8_t *key, size_t len)
{
	int id = site_settings(site)->peer_id;

	if (id <= 0 || len <= KEY_TTL)
		return false;
	if (key_peer(key) != id)
		return true;
	key[KEY_TTL] |= KEY_TTL_MASK;
	return false;
}

/* ---- the end of a connection to a peer ---- */

static void peer_conn_finish(struct peer_conn *peer_conn, const char *reason)
{
	struct peer *peer = peer_conn->peer;

	if (peer_conn->is_over)
		return;
	peer_conn->is_over = true;
	list_remove(
	    peer_conn->is_active ? &peer->active : &peer->waiting, &peer_conn->node);
	peer->sent_count -= peer_conn->is_sent;
	if (peer_conn->query)
		dns_cancel(&peer_conn->query);
	deadline_clear(peer->site->loop, &peer_conn->retry);
	cancel_request_end(peer_conn->request, peer_conn->conn.site, reason);
	conn_doom(&peer_conn->conn, "%s", reason);
	loop_later(peer->site->loop, &peer->work);
}

static void peer_conn_destroy(struct conn *conn)
{
	struct peer_conn *peer_conn = peer_conn_of(conn);

	conn->site->peers->conn_count--;
	mem_free(peer_conn->host);
	mem_free(peer_conn);
}

static void peer_conn_name_it(const struct conn *conn, struct conn_name *out)
{
	out->peer = peer_conn_of(conn)->peer->id;
}

static const struct conn_kind peer_conn_kind = {
    .letter = 'S',
    .name_it = peer_conn_name_it,
    .rows = message_back_rows,
    .destroy = peer_conn_destroy,
};

/* ---- the connection ---- */

static void peer_conn_send(struct peer_conn *peer_conn)
{
	struct buf buf;

	peer_conn->conn.ops = &peer_conn_ops;
	peer_conn->is_sent = true;
	peer_conn->peer->sent_count++;
	conn_set_deadline(&peer_conn->conn, peer_conn->due_us);
	buf_init(&buf, 0);
	codec_put_cancel_request(
	    &buf, peer_conn->request->key, peer_conn->request->len);
	conn_send(&peer_conn->conn, &buf);
	buf_done(&buf);
}

static void peer_conn_go_on(
    struct peer_conn *peer_conn, enum tls_begin begin, const char *reason)
{
	switch (begin) {
	case TLS_BEGIN_CLEAR:
		peer_conn_send(peer_conn);
		break;
	case TLS_BEGIN_ASKED:
		peer_conn->conn.ops = &peer_conn_asking_ops;
		break;
	case TLS_BEGIN_STARTED:
		break;
	case TLS_BEGIN_REFUSED:
		peer_conn_finish(peer_conn, reason);
		break;
	}
}

static void peer_conn_connected(struct conn *conn)
{
	struct peer_conn *peer_conn = peer_conn_of(conn);
	const char *reason = NULL;
	enum tls_begin begin =
	    server_tls_begin(conn, peer_conn->host, &nameless, &reason);

	peer_conn_go_on(peer_conn, begin, reason);
}

static enum step peer_conn_tls_answer(
    struct conn *conn, const uint8_t *p, size_t len, size_t *taken)
{
	struct peer_conn *peer_conn = peer_conn_of(conn);
	const char *reason = NULL;
	enum tls_begin begin;
	(void)taken;

	conn->ops = &peer_conn_ops;
	begin = server_tls_answer(conn, peer_conn->host, &nameless, p, len, &reason);
	peer_conn_go_on(peer_conn, begin, reason);
	return STEP_NEXT;
}

static void peer_conn_secured(struct conn *conn)
{
	peer_conn_send(peer_conn_of(conn));
}

/* A peer must not send any message. */
static enum step peer_conn_message(struct conn *conn, const struct message *m)
{
	(void)m;
	peer_conn_finish(peer_conn_of(conn), error_text(ERROR_BAD_PACKET));
	return STEP_CLOSE;
}

static void peer_conn_malformed(struct conn *conn, const uint8_t *bytes, size_t have)
{
	(void)bytes;
	(void)have;
	peer_conn_finish(peer_conn_of(conn), error_text(ERROR_BAD_PACKET));
}

static void peer_conn_ended(struct conn *conn, const struct err *err)
{
	struct peer_conn *peer_conn = peer_conn_of(conn);

	if (peer_conn->is_sent) {
		peer_conn_finish(peer_conn, "successfully sent cancel request");
		return;
	}
	if (err)
		conn_log(conn, LEVEL_WARNING | KIND_SERVERS, "cannot reach peer %d: %s",
		    peer_conn->peer->id, err->text);
	peer_conn_finish(peer_conn, "connect failed");
}

static void peer_conn_expired(struct conn *conn)
{
	struct peer_conn *peer_conn = peer_conn_of(conn);
	bool is_due = conn_now(conn) >= peer_conn->due_us;

	peer_conn_finish(peer_conn, is_due ? "cancel_wait_timeout" : "connect timeout");
}

static void peer_conn_closed(struct conn *conn, const char *reason)
{
	peer_conn_finish(peer_conn_of(conn), reason);
}

static const struct conn_ops peer_conn_ops = {
    .name = "peer",
    .message = peer_conn_message,
    .expired = peer_conn_expired,
    .malformed = peer_conn_malformed,
    .ended = peer_conn_ended,
    .closed = peer_conn_closed,
    .connected = peer_conn_connected,
    .secured = peer_conn_secured,
};

static const struct conn_ops peer_conn_asking_ops = {
    .name = "peer asked for TLS",
    .message = peer_conn_message,
    .expired = peer_conn_expired,
    .malformed = peer_conn_malformed,
    .ended = peer_conn_ended,
    .closed = peer_conn_closed,
    .raw = peer_conn_tls_answer,
};

/* ---- where to ---- */

static void peer_conn_connect(
    struct peer_conn *peer_conn, const struct sock_target *target)
{
	struct loop *loop = peer_conn->peer->site->loop;
	struct err err;

	errno = 0;
	if (conn_connect(&peer_conn->conn, target, &err) == 0)
		return;
	if (errno == EAGAIN)
		deadline_set(loop, &peer_conn->retry, loop_now(loop) + RETRY_US);
	else
		peer_conn_ended(&peer_conn->conn, &err);
}

static void peer_conn_ip(struct peer_conn *peer_conn, struct sock_addr addr)
{
	struct sock_target target;

	addr.port = (uint16_t)peer_conn->port;
	sock_target_ip(&target, &addr);
	peer_conn_connect(peer_conn, &target);
}

static void peer_conn_unix(struct peer_conn *peer_conn)
{
	struct sock_target target;
	struct err err;

	peer_conn->conn.remote.family = AF_UNIX;
	if (sock_target_unix(&target, peer_conn->host, peer_conn->port, &err) < 0)
		peer_conn_ended(&peer_conn->conn, &err);
	else
		peer_conn_connect(peer_conn, &target);
}

static void peer_conn_retry(struct deadline *d)
{
	peer_conn_unix(container_of(d, struct peer_conn, retry));
}

static void peer_conn_resolved(
    void *ctx, const struct sock_addr *addrs, size_t count, const struct err *err)
{
	struct peer_conn *peer_conn = ctx;

	(void)addrs;
	peer_conn->query = NULL;
	if (count == 0)
		peer_conn_ended(&peer_conn->conn, err);
	else
		peer_conn_ip(
		    peer_conn, dns_turn(peer_conn->conn.site->dns, peer_conn->host));
}

static void peer_conn_launch(
    struct peer_conn *peer_conn, const struct peer_config *config)
{
	struct peer *peer = peer_conn->peer;
	struct sock_addr addr;

	list_remove(&peer->waiting, &peer_conn->node);
	list_push_back(&peer->active, &peer_conn->node);
	peer_conn->is_active = true;
	peer_conn->host = mem_strdup(config->host);
	peer_conn->port = config->port;
	peer_conn->conn.unix_port = (uint16_t)config->port;
	/* without cancel_wait_timeout, this is the only limit of a connect that hangs
	 */
	uint64_t limit = site_settings(peer->site)->global.server_connect_timeout;
	uint64_t at = limit ? conn_now(&peer_conn->conn) + limit : UINT64_MAX;
	conn_set_deadline(
	    &peer_conn->conn, at < peer_conn->due_us ? at : peer_conn->due_us);
	if (*peer_conn->host == '/' || *peer_conn->host == '@')
		peer_conn_unix(peer_conn);
	else if (sock_addr_parse(peer_conn->host, 0, &addr) == 0)
		peer_conn_ip(peer_conn, addr);
	else
		peer_conn->query = dns_lookup(
		    peer->site->dns, peer_conn->host, peer_conn_resolved, peer_conn);
}

/* ---- peers ---- */

static size_t peer_room(const struct site *site, const struct peer_config *config)
{
	int size = config->pool_size < 0 ? site_settings(site)->global.default_pool_size
					 : config->pool_size;
	return size > 0 ? (size_t)size : 1;
}

/* Sends waiting requests if there is room; if the peer no longer exists, drops all. */
static void peer_work(struct later *l)
{
	struct peer *peer = container_of(l, struct peer, work);
	const struct peer_config *config = peer_config_of(peer->site, peer->id);
	struct node *node;

	while ((node = list_first(&peer->waiting))) {
		struct peer_conn *peer_conn =
		    container_of(node, struct peer_conn, node);
		if (!config)
			peer_conn_finish(peer_conn, PEER_UNKNOWN);
		else if (peer->active.count < peer_room(peer->site, config))
			peer_conn_launch(peer_conn, config);
		else
			break;
	}
}

static struct peer *peer_of(struct site *site, int id)
{
	struct peer *peer = map_get(site->peers->by_id, &id, sizeof(id));

	if (peer)
		return peer;
	peer = mem_zero(sizeof(*peer));
	peer->id = id;
	peer->site = site;
	peer->work.run = peer_work;
	list_init(&peer->waiting);
	list_init(&peer->active);
	map_put(site->peers->by_id, &peer->id, sizeof(peer->id), peer);
	return peer;
}

/* ---- requests ---- */

static void peer_conn_begin(struct cancel_request *request, struct peer *peer)
{
	struct site *site = request->home;
	uint64_t limit = site_settings(site)->global.cancel_wait_timeout;
	struct peer_conn *peer_conn = mem_zero(sizeof(*peer_conn));

	conn_init(&peer_conn->conn, site, &peer_conn_kind, &peer_conn_ops);
	deadline_init(&peer_conn->retry, peer_conn_retry);
	site->peers->conn_count++;
	peer_conn->request = request;
	request->key[KEY_TTL]--;
	atomic_store(&request->state, CANCEL_TAKEN);
	peer_conn->peer = peer;
	list_push_back(&peer->waiting, &peer_conn->node);
	peer_conn->due_us = limit ? loop_now(site->loop) + limit : UINT64_MAX;
	conn_set_deadline(&peer_conn->conn, peer_conn->due_us);
	peer_work(&peer->work);
}

void peers_forward(struct cancel_request *request, const uint8_t *key, size_t len)
{
	struct site *site = request->home;
	int id = key_peer(key);
	const char *reason = NULL;

	if (len > CANCEL_KEY_LONG)
		reason = "failed cancel request";
	else if ((key[KEY_TTL] & KEY_TTL_MASK) == 0)
		reason =
		    "failed to forward cancel request because its TTL was exhausted";
	else if (!peer_config_of(site, id))
		reason = PEER_UNKNOWN;
	else if (peer_of(site, id)->waiting.count >= WAITING_MAX)
		reason = "too many cancel requests for this peer";
	if (reason)
		cancel_request_end(request, site, reason);
	else
		peer_conn_begin(request, peer_of(site, id));
}

/* ---- the whole ---- */

void peers_init(struct site *site)
{
	site->peers = mem_zero(sizeof(*site->peers));
	site->peers->by_id = map_new();
}

void peers_done(struct site *site)
{
	struct peer *peer;
	size_t at;

	while ((at = 0, peer = map_next(site->peers->by_id, &at))) {
		later_cancel(site->loop, &peer->work);
		map_del(site->peers->by_id, &peer->id, sizeof(peer->id));
		mem_free(peer);
	}
	map_free(&site->peers->by_id);
	mem_free(site->peers);
	site->peers = NULL;
}

void peers_review(struct site *site)
{
	struct peer *peer;
	size_t at = 0;

	while ((peer = map_next(site->peers->by_id, &at)))
		loop_later(site->loop, &peer->work);
}

static void drop_conns(struct list *list)
{
	struct peer_conn *peer_conn, *next;

	list_for_safe (peer_conn, next, list, node)
		conn_doom_quietly(&peer_conn->conn, error_text(ERROR_SHUTTING_DOWN));
}

void peers_drop_all(struct site *site)
{
	struct peer *peer;
	size_t at = 0;

	while ((peer = map_next(site->peers->by_id, &at))) {
		drop_conns(&peer->waiting);
		drop_conns(&peer->active);
	}
}

bool peers_are_idle(const struct site *site)
{
	return site->peers->conn_count == 0;
}

size_t peers_count(const struct site *site)
{
	return map_count(site->peers->by_id);
}

static int compare_ids(const void *a, const void *b)
{
	int left = (*(struct peer *const *)a)->id,
	    right = (*(struct peer *const *)b)->id;
	return left < right ? -1 : left > right;
}

void peers_walk(const struct site *site, peers_view_fn *show, void *ctx)
{
	size_t count = peers_count(site), at = 0, i = 0;
	struct peer **sorted = mem_alloc((count + 1) * sizeof(struct peer *)), *peer;

	while ((peer = map_next(site->peers->by_id, &at)))
		sorted[i++] = peer;
	qsort(sorted, count, sizeof(struct peer *), compare_ids);
	for (i = 0; i < count; i++) {
		struct peer_view view = {
		    .id = sorted[i]->id,
		    .active_count = sorted[i]->active.count,
		    .waiting_count = sorted[i]->waiting.count,
		    .sent_count = sorted[i]->sent_count,
		    .connecting_count = sorted[i]->active.count - sorted[i]->sent_count,
		};
		show(ctx, &view);
	}
	mem_free(sorted);
}
