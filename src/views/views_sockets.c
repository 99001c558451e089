/*
 * Views of connections: SHOW CLIENTS, SERVERS, SOCKETS, ACTIVE_SOCKETS, LISTENERS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cancel/cancel_request.h"
#include "conf/settings.h"
#include "pool/pool.h"
#include "relay/listen_table.h"
#include "session/client.h"
#include "session/server.h"
#include "views/views.def"
#include "views/views.h"
#include "wire/prepared.h"

/* A client or server, as these views show it. */
struct socket_row {
	const struct conn *conn;
	const struct conn *partner; /* NULL: none */
	const char *type, *user, *database, *replication, *state;
	const char *application_name, *auth_method;
	uint64_t request_us; /* time of the last message */
	uint64_t wait_us;    /* duration of the current query; 0: none runs */
	unsigned pid;
	unsigned prepared_count;
	bool is_to_close;
};

/* A list of slots, and the name of their state. */
struct slot_list {
	enum slot_state state;
	bool is_of_sockets; /* SHOW SOCKETS includes it */
};

static const struct slot_list slot_lists[] = {
    {SLOT_ACTIVE, true},
    {SLOT_IDLE, true},
    {SLOT_USED, true},
    {SLOT_TESTED, true},
    {SLOT_LOGIN, true},
    {SLOT_ACTIVE_CANCEL, false},
    {SLOT_BEING_CANCELED, false},
};
enum { SLOT_LIST_COUNT = sizeof(slot_lists) / sizeof(slot_lists[0]) };

static int port_shown(const struct conn *conn, const struct sock_addr *addr)
{
	return addr->family == AF_UNIX ? conn->unix_port : addr->port;
}

static const char *application_name(const struct vars *vars)
{
	const char *name = vars_get(vars, VAR_APPLICATION_NAME);
	return name ? name : "";
}

/* A server has the replication mode of its client. */
static const char *replication_shown(const struct client *client)
{
	static const char *const shown[] = {
	    [REPLICATION_NONE] = "none",
	    [REPLICATION_LOGICAL] = "logical",
	    [REPLICATION_PHYSICAL] = "physical",
	};
	return shown[client ? client->replication : REPLICATION_NONE];
}

static void fill_client(struct socket_row *s, const struct rows *rows,
    const struct client *client, const char *state)
{
	const struct pool_request *request = &client->request.in_pool;
	const struct pool *pool = request->pool;
	const struct server *server = client_server(client);

	*s = (struct socket_row){
	    .conn = &client->conn,
	    .partner = server ? &server->conn : NULL,
	    .type = "C",
	    .user = client->user ? client->user->name : "(nouser)",
	    .database = pool ? pool->database->name : "(nodb)",
	    .replication = replication_shown(client),
	    .state = state,
	    .application_name = application_name(&client->params.vars),
	    .auth_method = client->auth_method == AUTH_NONE
			       ? ""
			       : setting_auth_type_name(client->auth_method),
	    .request_us = request->last_us ? request->last_us : client->conn.connect_us,
	    .wait_us = request->query_us ? rows->now_us - request->query_us : 0,
	    .pid = (unsigned)client->conn.peer_pid,
	    .prepared_count = (unsigned)prepared_names_count(client->names),
	};
}

static void fill_server(
    struct socket_row *s, const struct server *server, const char *state)
{
	const struct slot *slot = &server->slot;
	const struct client *client = server_client(server);
	bool is_unix = server->conn.remote.family == AF_UNIX;

	*s = (struct socket_row){
	    .conn = &server->conn,
	    .partner = client ? &client->conn : NULL,
	    .type = "S",
	    .user = slot->pool->user->name,
	    .database = slot->pool->database->name,
	    .replication = replication_shown(client),
	    .state = state,
	    .application_name = application_name(&server->vars),
	    .auth_method = "",
	    .request_us = server->last_us ? server->last_us : server->conn.connect_us,
	    .pid = is_unix && server->conn.peer_pid ? (unsigned)server->conn.peer_pid
						    : server->remote_pid,
	    .prepared_count = (unsigned)prepared_set_count(server->statements),
	    .is_to_close = slot->dirty != DIRTY_NOT,
	};
}

enum { POINTER_TEXT = 24 };

struct socket_text {
	struct sock_addr local_addr;
	char remote[SOCK_ADDR_TEXT], local[SOCK_ADDR_TEXT];
	char ptr[POINTER_TEXT], link[POINTER_TEXT];
	char tls[TLS_TEXT];
};

static void put_columns(struct rows *rows, const struct socket_row *s, bool is_whole)
{
	const struct conn *conn = s->conn;
	struct socket_text text;
	char *remote = text.remote, *local = text.local;
	const char *ptr = text.ptr, *link = text.link;
	const char *tls = conn_tls_text(conn, text.tls, "");

	/* fills the texts that connections do not keep */
	text.local_addr = (struct sock_addr){.family = conn->remote.family};
	if (!rows->sink)
		sock_local(conn->stream.fd, &text.local_addr);
	snprintf(text.ptr, POINTER_TEXT, "%p", (const void *)conn);
	text.link[0] = '\0';
	if (s->partner)
		snprintf(text.link, POINTER_TEXT, "%p", (const void *)s->partner);
	row_begin(rows);
	if (is_whole) {
		ALL_SOCKET_COLUMNS(CELL)
	} else {
		SOCKET_COLUMNS(CELL)
	}
	row_end(rows);
}

static void put_socket(struct rows *rows, const struct socket_row *s)
{
	put_columns(rows, s, false);
}

static void put_whole_socket(struct rows *rows, const struct socket_row *s)
{
	put_columns(rows, s, true);
}

static void put_busy_socket(struct rows *rows, const struct socket_row *s)
{
	const struct conn *conn = s->conn;

	/* in the middle of a message; the console that runs the command always is */
	if (conn->held_len > 0 || conn->passing > 0 || conn->is_walking ||
	    stream_pending(&conn->stream) > 0)
		put_whole_socket(rows, s);
}

typedef void put_socket_fn(struct rows *rows, const struct socket_row *s);

/* Other asks are not part of a client, only those of clients that have logged in. */
static const struct client *logged_in_client(const struct pool_request *request)
{
	return request->is_logged_in
		   ? container_of(request, struct client, request.in_pool)
		   : NULL;
}

static void put_clients_of(struct rows *rows, const struct list *requests,
    const char *state, put_socket_fn *put)
{
	const struct pool_request *request;
	struct socket_row s;

	list_for (request, requests, node) {
		const struct client *client = logged_in_client(request);
		if (!client)
			continue;
		fill_client(&s, rows, client, state);
		put(rows, &s);
	}
}

/* A socket that brought a cancel request, while that is being served. */
static void put_cancel(struct rows *rows, const struct client *client)
{
	const struct cancel_request *request = client->cancel_request;
	enum cancel_state state = request ? atomic_load(&request->state) : CANCEL_NEW;
	struct socket_row s;

	if (state != CANCEL_WAITING && state != CANCEL_ACTIVE)
		return;
	fill_client(&s, rows, client,
	    state == CANCEL_ACTIVE ? "active_cancel_req" : "waiting_cancel_req");
	s.database = request->database;
	put_socket(rows, &s);
}

static void call_clients_of(
    struct client_snapshot *snapshot, const struct list *requests)
{
	const struct pool_request *request;

	list_for (request, requests, node) {
		const struct client *client = logged_in_client(request);
		if (client)
			client_snapshot_add(
			    snapshot, (struct client *)(uintptr_t)client);
	}
}

/* a client that is about to close may have left its pool */
static void put_client(struct rows *rows, const struct client *client)
{
	static const char *const states[] = {[REQUEST_RESTING] = "idle",
	    [REQUEST_WAITING] = "waiting",
	    [REQUEST_LINKED] = "active"};
	enum request_state state = client->request.in_pool.state;
	struct socket_row s;

	if (client->conn.is_doomed || state == REQUEST_OUTSIDE)
		return;
	fill_client(&s, rows, client, states[state]);
	put_socket(rows, &s);
}

/* A row that was written before its turn came. */
struct kept_row {
	size_t len;
	uint8_t bytes[];
};

static void *keep_row(struct client_snapshot *snapshot, const struct client *client)
{
	const struct called *called = container_of(snapshot, struct called, snapshot);
	struct kept_row *kept;
	struct rows rows;
	struct buf row;

	buf_init_sure(&row);
	rows_init(&rows, called->site, &row, called->column_count);
	put_client(&rows, client);
	kept = mem_alloc(sizeof(*kept) + row.len);
	kept->len = row.len;
	if (row.len > 0)
		memcpy(kept->bytes, row.bytes, row.len);
	buf_done(&row);
	return kept;
}

void view_clients_call(struct called *called, struct site *site, size_t column_count)
{
	size_t count;
	struct pool **pools = catalog_sorted_pools(site->catalog, &count);

	called->site = site;
	called->column_count = column_count;
	client_snapshot_begin(&called->snapshot, site);
	called->snapshot.keep = keep_row;
	for (size_t i = 0; i < count; i++) {
		call_clients_of(&called->snapshot, &pools[i]->clients);
		call_clients_of(&called->snapshot, &pools[i]->waiting);
	}
	free(pools);
}

bool view_clients_part(struct rows *rows, struct called *called, size_t most)
{
	const struct client *client, *cancel;
	const struct kept_row *kept;
	const void *instead;

	for (; most > 0; most--) {
		client = client_snapshot_next(&called->snapshot, &instead);
		kept = instead;
		if (client) {
			put_client(rows, client);
		} else if (kept) {
			buf_put(rows->out, kept->bytes, kept->len);
		} else {
			list_for (cancel, &rows->site->cancel_clients, site_node)
				put_cancel(rows, cancel);
			return false;
		}
	}
	return true;
}

void view_clients_end(struct called *called)
{
	client_snapshot_end(&called->snapshot, called->site);
}

void view_clients(struct rows *rows)
{
	struct called called;

	view_clients_call(&called, rows->site, rows->column_count);
	view_clients_part(rows, &called, SIZE_MAX);
	view_clients_end(&called);
}

static bool walk_clients(struct rows *rows, size_t most, const struct list *clients,
    void (*put)(struct rows *rows, const struct client *client))
{
	const struct node *node;

	for (; most > 0; most--) {
		node = list_walk_next(&rows->site->client_walk, clients);
		if (!node)
			return false;
		put(rows, container_of(node, struct client, site_node));
	}
	return true;
}

void view_clients_begin(struct site *site)
{
	list_walk_begin(&site->client_walk, &site->clients);
}

bool view_clients_walk(struct rows *rows, size_t most)
{
	return walk_clients(rows, most, &rows->site->clients, put_client);
}

void view_cancels_begin(struct site *site)
{
	list_walk_begin(&site->client_walk, &site->cancel_clients);
}

bool view_cancels_walk(struct rows *rows, size_t most)
{
	return walk_clients(rows, most, &rows->site->cancel_clients, put_cancel);
}

static void put_servers_of(
    struct rows *rows, const struct list *slots, const char *state, put_socket_fn *put)
{
	const struct slot *slot;
	struct socket_row s;

	list_for (slot, slots, node) {
		fill_server(&s, container_of(slot, struct server, slot), state);
		put(rows, &s);
	}
}

void view_servers(struct rows *rows)
{
	size_t count;
	struct pool **pools = catalog_sorted_pools(rows->site->catalog, &count);

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < SLOT_LIST_COUNT; j++) {
			enum slot_state state = slot_lists[j].state;
			put_servers_of(rows, &pools[i]->slots[state],
			    slot_state_shown(state), put_socket);
		}
	free(pools);
}

static void put_sockets_of(
    struct rows *rows, const struct pool *pool, put_socket_fn *put)
{
	put_clients_of(rows, &pool->clients, "cl_active", put);
	put_clients_of(rows, &pool->waiting, "cl_waiting", put);
	for (size_t j = 0; j < SLOT_LIST_COUNT; j++) {
		enum slot_state state = slot_lists[j].state;
		if (slot_lists[j].is_of_sockets)
			put_servers_of(rows, &pool->slots[state],
			    slot_state_socket_shown(state), put);
	}
}

static void put_all_sockets(struct rows *rows, put_socket_fn *put)
{
	const struct client *client;
	struct socket_row s;
	size_t count;
	struct pool **pools = catalog_sorted_pools(rows->site->catalog, &count);

	for (size_t i = 0; i < count; i++)
		put_sockets_of(rows, pools[i], put);
	free(pools);
	list_for (client, &rows->site->login_clients, site_node) {
		fill_client(&s, rows, client, "cl_login");
		put(rows, &s);
	}
}

void view_sockets(struct rows *rows)
{
	put_all_sockets(rows, put_whole_socket);
}

void view_active_sockets(struct rows *rows)
{
	put_all_sockets(rows, put_busy_socket);
}

/* ---- SHOW LISTENERS ---- */

enum { CHANNELS_SHOWN = 20 };

static void put_listener(
    struct rows *rows, const struct listen_pool *pool, const struct listening *l)
{
	const struct client *client = l->client;
	char ptr[POINTER_TEXT], addr[SOCK_ADDR_TEXT];
	const struct subscription *s;
	struct buf channels;
	size_t shown = 0;

	buf_init(&channels, 0);
	list_for (s, &l->subscriptions, of_client) {
		if (shown++ == CHANNELS_SHOWN) {
			buf_printf(&channels, ", .. (%zu)", l->subscriptions.count);
			break;
		}
		buf_printf(
		    &channels, "%s%s", channels.len ? ", " : "", s->channel->name);
	}
	snprintf(ptr, sizeof(ptr), "%p", (const void *)&client->conn);
	row_begin(rows);
	LISTENERS_COLUMNS(CELL)
	row_end(rows);
	buf_done(&channels);
}

void view_listeners(struct rows *rows)
{
	const struct listen_pool *pool;
	const struct listening *l;
	size_t at = 0;

	while ((pool = listen_table_next(rows->site, &at)))
		list_for (l, &pool->clients, node)
			put_listener(rows, pool, l);
}

unsigned view_listener_count(const struct pool *pool)
{
	const struct site *site = pool->database->catalog->events_ctx;
	const struct listen_pool *found = NULL;
	struct buf key;

	buf_init(&key, 0);
	buf_put_str(&key, pool->database->name);
	buf_put_str(&key, pool->user->name);
	if (!key.failed)
		found = listen_table_find(site, (const char *)key.bytes, key.len);
	buf_done(&key);
	return found ? (unsigned)found->clients.count : 0;
}
