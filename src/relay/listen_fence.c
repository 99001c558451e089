#include "relay/listen_fence.h"

#include <string.h>

#include "relay/listen_hub.h"
#include "session/listen_sender.h"

enum fence_kind {
	FENCE_LINK,  /* the client waits for a server of another one */
	FENCE_OWN,   /* what the client itself has sent */
	FENCE_QUERY, /* what others have sent before the client's query */
};

/* The connections have sent what was sent to them before. */
static void answered(struct site *site, struct listen_message *m)
{
	struct server *server = NULL, *s;

	list_for (s, listen_table_fences(site), fence.node)
		if (s->fence.number == m->client_id)
			server = s;
	if (!server)
		return;
	server->fence.is_doubtful |= m->is_refused;
	if (--server->fence.missing)
		return;
	list_remove(listen_table_fences(site), &server->fence.node);
	if (server->fence.kind == FENCE_LINK)
		listen_sender_set(
		    server, server->fence.is_doubtful ? NULL : server_client(server));
	if (server->fence.kind == FENCE_LINK ||
	    (server->fence.kind == FENCE_OWN && !server->fence.is_doubtful))
		server->may_notify = false;
	/* if something else is to be answered, the client goes on then */
	if (!server->fence.is_waited_for)
		return;
	server->fence.is_waited_for = false;
	if (!server->conn.is_doomed && pipeline_count(&server->pipeline) == 0 &&
	    server_sync(server) < 0)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
}

static void ask(void *ctx, const struct listen_sender_hub *hub)
{
	struct server *server = ctx;
	struct listen_message *m =
	    listen_table_message(hub->key, hub->key_len, listen_hub_ask, NULL, 0);

	m->answer = answered;
	m->hub_id = hub->id;
	m->client_id = server->fence.number;
	m->is_fence = true;
	server->fence.missing++;
	listen_table_post(server->conn.site, listen_table_place(hub->id), m);
}

/* A question that was asked before is forgotten. */
static void begin(struct server *server, enum fence_kind kind)
{
	struct list *fences = listen_table_fences(server->conn.site);

	if (server->fence.missing)
		list_remove(fences, &server->fence.node);
	server->fence.kind = (uint8_t)kind;
	server->fence.missing = 0;
	server->fence.is_doubtful = server->fence.is_waited_for = false;
	server->fence.number = listen_table_number(server->conn.site);
	if (kind == FENCE_QUERY) {
		const struct listening *l = server_client(server)->listening;
		const struct listen_sender_hub own = {
		    .id = l->hub_id, .key = l->pool->key, .key_len = l->pool->key_len};
		ask(server, &own);
	} else {
		listen_sender_each_hub(server->slot.pool, ask, server);
	}
	if (server->fence.missing)
		list_push_back(fences, &server->fence.node);
}

static void wait_for(struct server *server)
{
	server->fence.is_waited_for = true;
	server->link.params.is_applying = true;
	server->link.params.apply_failed = false;
	server->link.params.apply_us = conn_now(&server->conn);
}

bool listen_fence_link(struct server *server, const struct client *client)
{
	bool is_same = server->sender_id == client->conn.id;

	server->link.params.has_hubs = listen_sender_has_hubs(server->slot.pool);
	server->sender_id = client->conn.id;
	if (server->may_notify && !is_same && server->link.params.has_hubs &&
	    !server->slot.is_replication) {
		begin(server, FENCE_LINK);
		if (server->fence.missing) {
			wait_for(server);
			return true;
		}
	}
	server->may_notify &= is_same;
	listen_sender_set(server, client);
	listen_fence_query(server, client);
	return false;
}

void listen_fence_query(struct server *server, const struct client *client)
{
	bool is_waiting = server->fence.missing && server->fence.kind == FENCE_LINK;

	if (client->listening && client->listening->pool && !is_waiting)
		begin(server, FENCE_QUERY);
}

bool listen_fence_holds(struct server *server, const struct client *client)
{
	if (!client->listening || !client->listening->pool || server->status != 'I')
		return false;
	if (server->may_notify)
		begin(server, FENCE_OWN);
	if (!server->fence.missing)
		return false;
	server->link.params.is_fenced = true;
	wait_for(server);
	return true;
}

void listen_fence_restore(struct server *server, const struct client *client)
{
	server->sender_id = client->conn.id;
	listen_sender_set(server, client);
}

void listen_fence_unlink(struct server *server)
{
	/* what may have been sent was not seen */
	if (!server->is_ready || (!server->link.params.has_hubs &&
				     listen_sender_has_hubs(server->slot.pool)))
		server->may_notify = true;
	if (!server->fence.missing)
		return;
	list_remove(listen_table_fences(server->conn.site), &server->fence.node);
	server->fence.missing = 0;
	server->fence.is_waited_for = false;
	/* the client before is the last one that has sent anything */
	if (server->fence.kind == FENCE_LINK)
		server->sender_id = 0;
}

void listen_fence_note_tag(struct server *server, const struct message *m)
{
	/* beginnings of tags of statements that change nothing but their session; what
	 * functions in them may do is known from their texts */
	static const char *const others[] = {"SELECT", "BEGIN", "START", "COMMIT",
	    "ROLLBACK", "SET", "RESET", "SHOW", "FETCH", "MOVE", "DECLARE", "CLOSE",
	    "SAVEPOINT", "RELEASE", "LISTEN", "UNLISTEN", "PREPARE", "DEALLOCATE",
	    "DISCARD"};
	const char *tag = (const char *)message_body(m);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (message_body_len(m) >= strlen(others[i]) &&
		    memcmp(tag, others[i], strlen(others[i])) == 0)
			return;
	server->may_notify = true;
}
