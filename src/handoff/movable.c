#include "handoff/movable.h"

#include <stdlib.h>

/* ---- the walk ---- */

struct walk {
	movable_visit_fn *visit;
	void *ctx;
};

static void show(const struct walk *walk, const struct movable *thing)
{
	if (!thing->conn || !thing->conn->is_doomed)
		walk->visit(walk->ctx, thing);
}

static void show_client(
    const struct walk *walk, enum movable_kind kind, struct client *client)
{
	const struct movable thing = {
	    .kind = kind, .conn = &client->conn, .client = client};

	show(walk, &thing);
}

/* Other asks in these lists are not part of a client, only those of clients that have
 * logged in. */
static void walk_asks(const struct walk *walk, const struct list *requests)
{
	struct pool_request *request, *after;

	list_for_safe (request, after, requests, node) {
		if (request->is_logged_in)
			show_client(walk, MOVABLE_CLIENT,
			    container_of(request, struct client, request.in_pool));
	}
}

static void walk_pool(const struct walk *walk, const struct pool *pool)
{
	static const enum slot_state states[] = {SLOT_ACTIVE, SLOT_IDLE, SLOT_USED,
	    SLOT_TESTED, SLOT_LOGIN, SLOT_ACTIVE_CANCEL, SLOT_BEING_CANCELED};

	walk_asks(walk, &pool->clients);
	walk_asks(walk, &pool->waiting);
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		struct slot *slot, *after;

		list_for_safe (slot, after, &pool->slots[states[i]], node) {
			struct server *server = slot_server(slot);
			const struct movable thing = {.kind = MOVABLE_SERVER,
			    .conn = &server->conn,
			    .server = server};
			show(walk, &thing);
		}
	}
}

void movable_walk(struct site *site, movable_visit_fn *visit, void *ctx)
{
	const struct walk walk = {visit, ctx};
	struct listener *listener;
	struct client *client, *after;

	list_for (listener, &site->listeners, node) {
		const struct movable thing = {
		    .kind = MOVABLE_LISTENER, .listener = listener};
		show(&walk, &thing);
	}
	list_for_safe (client, after, &site->login_clients, site_node)
		show_client(&walk, MOVABLE_LOGIN, client);
	size_t count;
	struct pool **pools = catalog_sorted_pools(site->catalog, &count);

	for (size_t i = 0; i < count; i++)
		if (!pools[i]->database->is_admin)
			walk_pool(&walk, pools[i]);
	free(pools);
	list_for_safe (client, after, &site->cancel_clients, site_node)
		show_client(&walk, MOVABLE_CANCEL, client);
}

/* ---- stopping ---- */

/* Whether the object may stop now.  A server that works for the pooler itself (login,
 * test, auth_query, cancel request) must finish first.  A login cannot stand still,
 * unless it waits for a server, which no pool gives it now. */
static bool may_stop(const struct movable *thing)
{
	const struct server *server = thing->server;

	switch (thing->kind) {
	case MOVABLE_CLIENT:
		return true;
	case MOVABLE_SERVER:
		return server->slot.state == SLOT_IDLE || server->slot.is_listener ||
		       server_client(server);
	case MOVABLE_LOGIN:
		return thing->conn->ops->waits && thing->conn->ops->waits(thing->conn);
	case MOVABLE_LISTENER:
	case MOVABLE_CANCEL:
		break;
	}
	return false;
}

static bool is_between_messages(const struct conn *conn)
{
	return conn->passing == 0 && stream_pending(&conn->stream) == 0;
}

/* Whether the client has stopped and has nothing more for its server.  The server may
 * still have to send answers. */
static bool is_fed(const struct server *server)
{
	const struct client *client = server_client(server);

	return !client || client->conn.is_stopped;
}

static bool try_to_stop(const struct movable *thing)
{
	struct conn *conn = thing->conn;

	if (!may_stop(thing) || !is_between_messages(conn) ||
	    (thing->server && !is_fed(thing->server)))
		return false;
	conn_stop(conn);
	return true;
}

static void stop_one(void *ctx, const struct movable *thing)
{
	bool *is_quiet = ctx;

	if (!thing->conn)
		listener_stop(thing->listener);
	/* what goes to another site of this process stops there */
	else if (thing->conn->is_going ||
		 (!thing->conn->is_stopped && !try_to_stop(thing)))
		*is_quiet = false;
}

/* Finds output that is still to be sent; what a server sends goes to a client that has
 * stopped. */
static void look_at_output(void *ctx, const struct movable *thing)
{
	bool *is_quiet = ctx;

	if (thing->conn && !is_between_messages(thing->conn))
		*is_quiet = false;
}

bool movable_stop(struct site *site)
{
	bool is_quiet = true;

	movable_walk(site, stop_one, &is_quiet);
	if (is_quiet)
		movable_walk(site, look_at_output, &is_quiet);
	return is_quiet;
}

static void drop_one(void *ctx, const struct movable *thing)
{
	(void)ctx;
	if (!thing->conn ||
	    (thing->conn->is_stopped && is_between_messages(thing->conn)))
		return;
	if (thing->server)
		server_retire(thing->server, error_text(ERROR_SUSPEND_TIMEOUT));
	else if (thing->kind == MOVABLE_CANCEL)
		conn_doom(thing->conn, "%s", error_text(ERROR_SUSPEND_TIMEOUT));
	else
		client_fatal(thing->client, ERROR_SUSPEND_TIMEOUT);
}

void movable_drop_rest(struct site *site)
{
	movable_walk(site, drop_one, NULL);
}

/* ---- going on ---- */

static void start_one(void *ctx, const struct movable *thing)
{
	(void)ctx;
	if (thing->listener)
		listener_start(thing->listener);
	else
		conn_start(thing->conn);
}

void movable_start(struct site *site)
{
	movable_walk(site, start_one, NULL);
}
