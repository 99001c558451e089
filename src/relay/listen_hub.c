#include "relay/listen_hub.h"

#include <stdio.h>
#include <string.h>

#include "pool/pins.h"
#include "relay/kept.h"
#include "session/listen_sender.h"
#include "session/workers.h"
#include "wire/codec.h"

/* No server sends a longer one: PostgreSQL's payloads have less than 8000 bytes. */
enum { MESSAGE_MOST = 1024 * 1024 };
/* Nobody waits for the connection longer than so, but for those who want to listen. */
enum { FENCE_MOST_US = 1000000 };

struct hub_channel {
	uint64_t sites; /* bits of places: who has clients that listen to it */
	size_t len;
	char name[];
};

/* What is done when the next ReadyForQuery comes. */
struct hub_command {
	struct node node;
	unsigned to;
	struct listen_message *answer; /* owned; NULL: nothing */
};

struct listen_hub {
	struct server *server;
	struct listen_hub *before; /* of the same pool: it is being closed; or NULL */
	struct listen_pool *pool;
	uint64_t id;
	struct listen_sender_hub known;
	struct map *channels; /* struct hub_channel by name */
	struct list commands; /* struct hub_command: those that run */
	bool is_late;         /* the first of them for longer than FENCE_MOST_US */
};

static struct listen_hub *hub_of(const struct server *server)
{
	struct listen_hub *hub =
	    listen_table_pool(server->conn.site, server->slot.pool)->hub;

	while (hub->server != server)
		hub = hub->before;
	return hub;
}

static atomic_ullong *place_of(const struct server *server)
{
	return &server->slot.pool->part.whole->listener;
}

uint64_t listen_hub_number(const struct server *server)
{
	return server->conn.id << 8 | workers_place(server->conn.site);
}

/* ---- commands ---- */

/* What runs from now on ends with a ReadyForQuery.  answer: what goes to the site `to`
 * then, or NULL. */
static void note_command(
    struct listen_hub *hub, unsigned to, struct listen_message *answer)
{
	struct hub_command *command = mem_zero(sizeof(*command));

	command->to = to;
	command->answer = answer;
	if (list_is_empty(&hub->commands))
		conn_set_deadline(
		    &hub->server->conn, conn_now(&hub->server->conn) + FENCE_MOST_US);
	list_push_back(&hub->commands, &command->node);
}

/* Ends what was sent with a Sync. */
static void end_command(
    struct listen_hub *hub, unsigned to, struct listen_message *answer)
{
	note_command(hub, to, answer);
	if (server_sync(hub->server) < 0)
		server_retire(hub->server, error_text(ERROR_OUT_OF_MEMORY));
}

static void command(struct listen_hub *hub, const char *verb, const char *channel)
{
	struct buf sql;

	buf_init(&sql, 0);
	buf_printf(&sql, "%s \"", verb);
	for (; *channel; channel++) {
		if (*channel == '"')
			buf_put_u8(&sql, '"');
		buf_put_u8(&sql, (uint8_t)*channel);
	}
	buf_put_u8(&sql, '"');
	if (sql.failed || server_command(hub->server, buf_text(&sql), 0) < 0)
		server_retire(hub->server, error_text(ERROR_OUT_OF_MEMORY));
	buf_done(&sql);
}

/* True: the channel is new. */
static bool add_channel(struct listen_hub *hub, const char *name, unsigned place)
{
	size_t len = strlen(name);
	struct hub_channel *channel = map_get(hub->channels, name, len);
	bool is_new = !channel;

	if (is_new) {
		channel = mem_zero(sizeof(*channel) + len + 1);
		channel->len = len;
		memcpy(channel->name, name, len);
		map_put(hub->channels, channel->name, len, channel);
	}
	channel->sites |= UINT64_C(1) << place;
	return is_new;
}

void listen_hub_ask(struct site *site, struct listen_message *m)
{
	struct listen_pool *pool = listen_table_find(site, m->bytes, m->key_len);
	struct listen_hub *hub = pool ? pool->hub : NULL;
	const char *name = m->bytes + m->key_len, *end = name + m->len;
	struct listen_message *answer =
	    mem_dup(m, sizeof(*m) + m->key_len); /* about the same pool */

	answer->node = (struct node){0};
	answer->handle = m->answer;
	answer->len = 0;
	answer->is_refused =
	    !hub || hub->id != m->hub_id || hub->server->conn.is_doomed;
	if (answer->is_refused || (m->is_fence && hub->is_late)) {
		unsigned long long id = m->hub_id;
		/* it closes in a moment, and nobody has to wait for that */
		if (answer->is_refused && hub)
			atomic_compare_exchange_strong(place_of(hub->server), &id, 0);
		answer->is_refused = true;
		listen_table_post(site, m->from, answer);
		return;
	}
	for (; name < end; name += strlen(name) + 1)
		if (add_channel(hub, name, m->from))
			command(hub, "LISTEN", name);
	end_command(hub, m->from, answer);
}

void listen_hub_drop(struct site *site, struct listen_message *m)
{
	struct listen_pool *pool = listen_table_find(site, m->bytes, m->key_len);
	struct listen_hub *hub = pool ? pool->hub : NULL;
	const char *name = m->bytes + m->key_len;
	struct hub_channel *channel;

	if (!hub || hub->id != m->hub_id || hub->server->conn.is_doomed)
		return;
	channel = map_get(hub->channels, name, strlen(name));
	if (!channel)
		return;
	channel->sites &= ~(UINT64_C(1) << m->from);
	if (channel->sites)
		return;
	map_del(hub->channels, channel->name, channel->len);
	mem_free(channel);
	if (map_count(hub->channels) == 0) {
		atomic_store(place_of(hub->server), 0);
		server_retire(hub->server, "no client listens any more");
		return;
	}
	command(hub, "UNLISTEN", name);
	end_command(hub, 0, NULL);
}

/* ---- the end ---- */

/* The connection is lost: the clients for which it has listened here. */
static void gone(struct site *site, struct listen_message *m)
{
	struct listen_pool *pool = listen_table_find(site, m->bytes, m->key_len);
	bool may_stay = site_settings(site)->listen_lost_warning;
	struct node *next;

	if (!pool)
		return;
	for (struct node *n = pool->clients.head.next; n != &pool->clients.head;
	     n = next) {
		struct listening *l = container_of(n, struct listening, node);
		next = n->next;
		/* its own server still listens; it asks again when it is refused */
		if (l->hub_id != m->hub_id ||
		    (l->is_first && l->phase == LISTEN_JOINING))
			continue;
		l->was_lost = may_stay && l->phase == LISTEN_AT_REST;
		if (!l->was_lost) {
			client_fatal(l->client, ERROR_LISTEN_LOST);
			continue;
		}
		bool is_last = next == &pool->clients.head;
		listen_table_remove_all(l);
		/* the pool may be gone with its last client */
		if (is_last)
			return;
	}
}

static void hub_closed(struct conn *conn, const char *reason)
{
	struct server *server = conn_server(conn);
	struct site *site = conn->site;
	struct listen_hub *hub = hub_of(server), **at_hub = &hub->pool->hub;
	unsigned long long id = hub->id;
	struct hub_channel *channel;
	uint64_t sites = 0;
	struct node *n;
	size_t at = 0;

	atomic_compare_exchange_strong(place_of(server), &id, 0);
	listen_sender_remove_hub(server->slot.pool, &hub->known);
	while ((channel = map_next(hub->channels, &at))) {
		sites |= channel->sites;
		mem_free(channel);
	}
	map_free(&hub->channels);
	for (unsigned place = 0; sites >> place; place++) {
		if (!(sites >> place & 1))
			continue;
		struct listen_message *m = listen_table_message(
		    hub->pool->key, hub->pool->key_len, gone, NULL, 0);
		m->hub_id = hub->id;
		listen_table_post(site, place, m);
	}
	while ((n = list_pop_front(&hub->commands))) {
		struct hub_command *c = container_of(n, struct hub_command, node);
		if (c->answer) {
			c->answer->is_refused = true;
			listen_table_post(site, c->to, c->answer);
		}
		mem_free(c);
	}
	while (*at_hub != hub)
		at_hub = &(*at_hub)->before;
	*at_hub = hub->before;
	listen_table_leave(site, hub->pool);
	mem_free(hub);
	server_leave(server, reason);
}

/* ---- messages of the server ---- */

static void note(struct site *site, struct listen_message *m)
{
	struct listen_pool *pool = listen_table_find(site, m->bytes, m->key_len);

	if (pool)
		listen_table_deliver(pool, m->hub_id,
		    (const uint8_t *)m->bytes + m->key_len, m->len, m->pid);
}

static void spread(struct listen_hub *hub, const struct message *m)
{
	struct site *site = hub->server->conn.site;
	const struct hub_channel *channel;
	const char *name;
	uint32_t pid;

	if (listen_table_read(m->bytes, m->have, &pid, &name) < 0) {
		server_unreadable(hub->server, m);
		return;
	}
	pid = listen_sender_find(hub->server->slot.pool, pid);
	channel = map_get(hub->channels, name, strlen(name));
	for (unsigned place = 0; channel && channel->sites >> place; place++) {
		if (!(channel->sites >> place & 1))
			continue;
		if (place == workers_place(site)) {
			listen_table_deliver(
			    hub->pool, hub->id, m->bytes, m->have, pid);
			continue;
		}
		struct listen_message *out = listen_table_message(
		    hub->pool->key, hub->pool->key_len, note, m->bytes, m->have);
		out->hub_id = hub->id;
		out->pid = pid;
		listen_table_post(site, place, out);
	}
}

/* -1: the connection is being closed. */
static int hub_read(struct listen_hub *hub, const struct message *m)
{
	struct server *server = hub->server;
	struct error_fields f;

	switch (m->type) {
	case 'A':
		spread(hub, m);
		break;
	case 'S':
		return server_note_parameter(server, m, NULL, NULL);
	case 'E':
		/* it ends, or cannot LISTEN: nobody may believe that it does */
		codec_read_error(message_body(m), message_body_len(m), &f);
		conn_log(&server->conn, LEVEL_LOG | KIND_SERVERS, "server said: %s: %s",
		    f.severity, f.message);
		server_retire(server, error_text(ERROR_LISTEN_LOST));
		return -1;
	case 'Z':
		if (codec_read_ready(
			message_body(m), message_body_len(m), &server->status) < 0) {
			server_unreadable(server, m);
			return -1;
		}
		server->noted = 0;
		break;
	default:
		break;
	}
	return 0;
}

static enum step hub_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	struct listen_hub *hub = hub_of(server);
	struct node *n;

	if (!message_is_whole(m)) {
		if (m->size <= MESSAGE_MOST)
			return STEP_MORE;
		server_log_header(server, m->bytes, m->have);
		server_protocol_error(server, error_text(ERROR_SERVER_BAD_HEADER));
		return STEP_CLOSE;
	}
	server->last_us = conn_now(conn);
	if (hub_read(hub, m) < 0)
		return STEP_CLOSE;
	if (pipeline_answer(&server->pipeline, m->type,
		m->type == 'Z' ? server->status : 0, NULL) == ANSWER_BROKEN) {
		server_unexpected(server, m, error_text(ERROR_UNKNOWN_PACKET));
		return STEP_CLOSE;
	}
	if (m->type == 'Z' && (n = list_pop_front(&hub->commands))) {
		struct hub_command *c = container_of(n, struct hub_command, node);
		if (c->answer)
			listen_table_post(conn->site, c->to, c->answer);
		mem_free(c);
		hub->is_late = false;
		conn_set_deadline(conn,
		    list_is_empty(&hub->commands) ? 0 : conn_now(conn) + FENCE_MOST_US);
	}
	return server->conn.is_doomed ? STEP_CLOSE : STEP_NEXT;
}

/* The connection has not answered for long: nobody else has to wait for that. */
static void hub_expired(struct conn *conn)
{
	struct listen_hub *hub = hub_of(conn_server(conn));
	struct hub_command *command;

	hub->is_late = true;
	list_for (command, &hub->commands, node) {
		if (!command->answer || !command->answer->is_fence)
			continue;
		command->answer->is_refused = true;
		listen_table_post(conn->site, command->to, command->answer);
		command->answer = NULL;
	}
}

static const struct conn_ops hub_ops = {
    .name = "listening",
    .message = hub_message,
    .expired = hub_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = hub_closed,
};

/* The first connection of the process listens: whose notifications those of the servers
 * in use are. */
static void note_senders(struct site *site, struct listen_message *m)
{
	struct client *client;

	(void)m;
	list_for (client, &site->clients, site_node) {
		struct server *server = client_server(client);
		if (!server)
			continue;
		server->link.params.has_hubs = server->may_notify = true;
		server->sender_id = client->conn.id;
		listen_sender_set(server, client);
	}
}

void listen_hub_begin(struct server *server, const struct listening *first)
{
	struct site *site = server->conn.site;
	struct listen_hub *hub = mem_zero(sizeof(*hub));
	const struct subscription *s;
	uint64_t ignored = 0;
	struct buf sql;

	pool_orphan(&server->slot, conn_now(&server->conn));
	pins_restore(&server->slot);
	server->slot.is_listener = true;
	hub->server = server;
	hub->pool = first->pool;
	hub->id = first->hub_id;
	hub->channels = map_new();
	list_init(&hub->commands);
	hub->before = hub->pool->hub;
	hub->pool->hub = hub;
	hub->known = (struct listen_sender_hub){
	    .id = hub->id, .key = hub->pool->key, .key_len = hub->pool->key_len};
	bool is_first = listen_sender_add_hub(server->slot.pool, &hub->known);
	for (unsigned place = 0; is_first && place < workers_site_count(site); place++)
		listen_table_post(site, place,
		    listen_table_message(
			hub->known.key, hub->known.key_len, note_senders, NULL, 0));
	list_for (s, &first->subscriptions, of_client)
		add_channel(hub, s->channel->name, workers_place(site));
	conn_hand_on(&server->conn, &hub_ops);
	conn_set_deadline(&server->conn, 0);
	conn_log(&server->conn, LEVEL_LOG | KIND_POOLS,
	    "listens for all clients of its pool");
	/* it is nobody's any more */
	buf_init(&sql, 0);
	(void)kept_put_back(server, NULL, &sql);
	mem_free(server->kept);
	server->kept = NULL;
	for (size_t i = 0; i < vars_schema_count(site->vars); i++)
		if (!vars_encoding(&server->own, i) &&
		    server_puts_back(server, i, &sql, &ignored))
			buf_put_text(&sql, ";");
	if (sql.len || sql.failed) {
		note_command(hub, 0, NULL);
		server_query_text(server, &sql);
	}
	buf_done(&sql);
}
