#include "relay/listen_table.h"

#include <string.h>

#include "session/workers.h"

enum { HEADER = 5 }; /* the type and length of a message */

struct listens {
	struct site *site;
	struct map *pools; /* struct listen_pool by .key */
	listen_handle_fn *drop;
	struct list inbox; /* struct listen_message of this site to itself */
	struct later open;
	struct list fences;
	uint64_t last_number;
};

/* ---- messages ---- */

static void handle(struct listen_message *message)
{
	struct site *site = message->site;

	if (site->shutdown != SHUTDOWN_NOW)
		message->handle(site, message);
	mem_free(message);
}

static void arrived(struct thread_message *message)
{
	handle(container_of(message, struct listen_message, message));
}

static void open_inbox(struct later *later)
{
	struct listens *listens = container_of(later, struct listens, open);
	struct node *n;

	while ((n = list_pop_front(&listens->inbox)))
		handle(container_of(n, struct listen_message, node));
}

struct listen_message *listen_table_message(const char *key, size_t key_len,
    listen_handle_fn *handle_fn, const void *what, size_t len)
{
	struct listen_message *m = mem_zero(sizeof(*m) + key_len + len);

	m->handle = handle_fn;
	m->key_len = key_len;
	m->len = len;
	memcpy(m->bytes, key, key_len);
	if (len)
		memcpy(m->bytes + key_len, what, len);
	return m;
}

void listen_table_post(struct site *from, unsigned to, struct listen_message *m)
{
	/* the others may have ended */
	if (from->shutdown == SHUTDOWN_NOW) {
		mem_free(m);
		return;
	}
	m->from = workers_place(from);
	if (to == m->from) {
		m->site = from;
		list_push_back(&from->listens->inbox, &m->node);
		loop_later(from->loop, &from->listens->open);
		return;
	}
	struct worker *member = &from->worker->workers->members[to];
	m->site = member->site;
	m->message.handle = arrived;
	workers_post(member, &m->message);
}

/* ---- pools ---- */

struct listens *listen_table_new(struct site *site, listen_handle_fn *drop)
{
	struct listens *listens = mem_zero(sizeof(*listens));

	listens->site = site;
	listens->pools = map_new();
	listens->drop = drop;
	list_init(&listens->inbox);
	list_init(&listens->fences);
	listens->open.run = open_inbox;
	return listens;
}

void listen_table_free(struct listens **listens)
{
	struct node *n;

	if (!*listens)
		return;
	while ((n = list_pop_front(&(*listens)->inbox)))
		mem_free(container_of(n, struct listen_message, node));
	later_cancel((*listens)->site->loop, &(*listens)->open);
	map_free(&(*listens)->pools);
	mem_free(*listens);
	*listens = NULL;
}

struct listen_pool *listen_table_find(
    const struct site *site, const char *key, size_t len)
{
	return map_get(site->listens->pools, key, len);
}

struct listen_pool *listen_table_pool(struct site *site, const struct pool *of)
{
	struct listen_pool *pool;
	struct buf key;

	buf_init_sure(&key);
	buf_put_str(&key, of->database->name);
	buf_put_str(&key, of->user->name);
	pool = listen_table_find(site, (const char *)key.bytes, key.len);
	if (!pool) {
		pool = mem_zero(sizeof(*pool) + key.len);
		pool->channels = map_new();
		list_init(&pool->clients);
		pool->key_len = key.len;
		memcpy(pool->key, key.bytes, key.len);
		map_put(site->listens->pools, pool->key, pool->key_len, pool);
	}
	buf_done(&key);
	return pool;
}

void listen_table_leave(struct site *site, struct listen_pool *pool)
{
	if (pool->hub || !list_is_empty(&pool->clients))
		return;
	map_del(site->listens->pools, pool->key, pool->key_len);
	map_free(&pool->channels);
	mem_free(pool);
}

struct list *listen_table_fences(const struct site *site)
{
	return &site->listens->fences;
}

uint64_t listen_table_number(const struct site *site)
{
	return ++site->listens->last_number;
}

const struct listen_pool *listen_table_next(const struct site *site, size_t *at)
{
	return map_next(site->listens->pools, at);
}

/* ---- subscriptions ---- */

struct listening *listen_table_of(struct client *client)
{
	struct listening *l = client->listening;

	if (l)
		return l;
	l = mem_zero(sizeof(*l));
	l->client = client;
	list_init(&l->subscriptions);
	buf_init(&l->queue, 0);
	buf_init(&l->found, 0);
	buf_init(&l->sent, 0);
	buf_init(&l->run, 0);
	buf_init(&l->done, 0);
	client->listening = l;
	return l;
}

/* The client's subscription among those of the channel or those of the client,
 * whichever are fewer. */
static struct subscription *find(
    const struct listening *l, const struct listen_channel *channel)
{
	struct subscription *s;

	if (channel->subscriptions.count < l->subscriptions.count) {
		list_for (s, &channel->subscriptions, of_channel)
			if (s->listening == l)
				return s;
	} else {
		list_for (s, &l->subscriptions, of_client)
			if (s->channel == channel)
				return s;
	}
	return NULL;
}

void listen_table_add(struct listening *l, const char *name)
{
	size_t len = strlen(name);
	struct listen_channel *channel = map_get(l->pool->channels, name, len);
	struct subscription *s;

	if (!channel) {
		channel = mem_zero(sizeof(*channel) + len + 1);
		list_init(&channel->subscriptions);
		channel->len = len;
		memcpy(channel->name, name, len);
		map_put(l->pool->channels, channel->name, len, channel);
	} else if (find(l, channel)) {
		return;
	}
	s = mem_zero(sizeof(*s));
	s->channel = channel;
	s->listening = l;
	s->is_joining = true;
	list_push_back(&channel->subscriptions, &s->of_channel);
	list_push_back(&l->subscriptions, &s->of_client);
	if (node_is_linked(&l->node))
		return;
	list_push_back(&l->pool->clients, &l->node);
	l->since_us = conn_now(&l->client->conn);
}

static void end_subscription(struct subscription *s)
{
	struct listening *l = s->listening;
	struct listen_channel *channel = s->channel;
	struct site *site = l->client->conn.site;

	list_remove(&channel->subscriptions, &s->of_channel);
	list_remove(&l->subscriptions, &s->of_client);
	mem_free(s);
	if (!list_is_empty(&channel->subscriptions))
		return;
	struct listen_message *m = listen_table_message(l->pool->key, l->pool->key_len,
	    site->listens->drop, channel->name, channel->len + 1);
	m->hub_id = l->hub_id;
	listen_table_post(site, listen_table_place(l->hub_id), m);
	map_del(l->pool->channels, channel->name, channel->len);
	mem_free(channel);
}

static void leave_pool(struct listening *l)
{
	struct listen_pool *pool = l->pool;

	if (!pool || !list_is_empty(&l->subscriptions))
		return;
	if (node_is_linked(&l->node))
		list_remove(&pool->clients, &l->node);
	l->pool = NULL;
	buf_clear(&l->queue);
	listen_table_leave(l->client->conn.site, pool);
}

void listen_table_remove(struct listening *l, const char *name)
{
	struct listen_channel *channel =
	    l->pool ? map_get(l->pool->channels, name, strlen(name)) : NULL;
	struct subscription *s = channel ? find(l, channel) : NULL;

	if (s)
		end_subscription(s);
	leave_pool(l);
}

void listen_table_remove_all(struct listening *l)
{
	struct node *n;

	while ((n = list_first(&l->subscriptions)))
		end_subscription(container_of(n, struct subscription, of_client));
	leave_pool(l);
}

/* ---- notifications ---- */

int listen_table_read(
    const uint8_t *bytes, size_t len, uint32_t *pid, const char **channel)
{
	struct cursor c;

	cursor_init(&c, bytes + HEADER, len - HEADER);
	*pid = cursor_u32(&c);
	*channel = cursor_str(&c);
	(void)cursor_str(&c);
	return c.overrun || cursor_left(&c) ? -1 : 0;
}

/* Is it the mark of this client? */
static bool is_mark(const struct listening *l, const char *channel)
{
	return *l->mark && strcmp(channel, LISTEN_MARKS) == 0 &&
	       strcmp(channel + sizeof(LISTEN_MARKS), l->mark) == 0;
}

/* What of the queue begins here: its bytes, and what the client has subscribed to, if
 * it has not ended that meanwhile. */
static struct subscription *queued(const struct listening *l, size_t at, size_t *size)
{
	const uint8_t *p = l->queue.bytes + at;
	struct listen_channel *channel = NULL;
	const char *name;
	uint32_t pid;

	*size = 1 + get_u32(p + 1);
	if (l->pool && listen_table_read(p, *size, &pid, &name) == 0)
		channel = map_get(l->pool->channels, name, strlen(name));
	return channel ? find(l, channel) : NULL;
}

/* Sends what waits, and keeps what the client's own server may send. */
static void send_queue(struct listening *l)
{
	struct client *client = l->client;
	size_t kept = 0, size;

	if (l->queue.failed) {
		client_fatal(client, ERROR_OUT_OF_MEMORY);
		return;
	}
	for (size_t at = 0; at < l->queue.len; at += size) {
		const struct subscription *s = queued(l, at, &size);
		uint8_t *bytes = l->queue.bytes + at;
		if (s && s->is_joining) {
			memmove(l->queue.bytes + kept, bytes, size);
			kept += size;
		} else if (s) {
			(void)stream_write(&client->conn.stream, bytes, size);
			l->count++;
		}
	}
	l->queue.len = kept;
}

bool listen_table_heard(struct listening *l, const struct message *m)
{
	struct listen_channel *channel;
	const struct subscription *s;
	const char *name = "";
	uint32_t pid;

	if (l->client->conn.is_doomed)
		return true;
	(void)listen_table_read(m->bytes, m->have, &pid, &name);
	channel = l->pool ? map_get(l->pool->channels, name, strlen(name)) : NULL;
	s = channel ? find(l, channel) : NULL;
	l->has_passed |= is_mark(l, name);
	if (s && (!s->is_joining || l->has_passed || strcmp(name, LISTEN_MARKS) == 0))
		return false;
	if (l->queue.len)
		send_queue(l);
	l->count++;
	return true;
}

/* Of the channels that it joins, nothing before this point of the queue is for it. */
static void drop_joining(struct listening *l, size_t end)
{
	size_t kept = 0, size;

	for (size_t at = 0; at < l->queue.len; at += size) {
		const struct subscription *s = queued(l, at, &size);
		if (!s || (s->is_joining && at < end))
			continue;
		memmove(l->queue.bytes + kept, l->queue.bytes + at, size);
		kept += size;
	}
	l->queue.len = kept;
}

/* The end of the mark in the queue; 0: it is not there. */
static size_t end_of_mark(const struct listening *l)
{
	size_t size;

	for (size_t at = 0; at < l->queue.len; at += size) {
		const uint8_t *p = l->queue.bytes + at;
		const char *name;
		uint32_t pid;
		size = 1 + get_u32(p + 1);
		if (listen_table_read(p, size, &pid, &name) == 0 && is_mark(l, name))
			return at + size;
	}
	return 0;
}

bool listen_table_has_mark(const struct listening *l)
{
	/* the client is told of a failure when it is sent */
	return l->queue.failed || end_of_mark(l) > 0;
}

void listen_table_settle(struct listening *l)
{
	struct node *n;

	if (l->queue.failed)
		return;
	drop_joining(l, end_of_mark(l));
	/* the new ones are the last ones */
	for (n = list_last(&l->subscriptions); n && n != &l->subscriptions.head;
	     n = n->prev) {
		struct subscription *s =
		    container_of(n, struct subscription, of_client);
		if (!s->is_joining)
			break;
		s->is_joining = false;
	}
	if (*l->mark)
		listen_table_remove(l, LISTEN_MARKS);
	*l->mark = '\0';
	l->has_passed = false;
}

static bool is_outside_of_transactions(const struct client *client)
{
	const struct server *server = client_server(client);

	if (client->block.state != BLOCK_NONE || client->is_skipping)
		return false;
	return !server ||
	       (server->is_ready && !server->dial && !server->link.params.is_applying &&
		   pipeline_is_settled(&server->pipeline) &&
		   pipeline_may_speak(&server->pipeline) &&
		   !client_is_sending_message(client));
}

/* Would more bytes wait for the client than may?  What was written in this turn is sent
 * first, because many notifications may come at once. */
static bool is_full(const struct listening *l, size_t len)
{
	size_t limit = site_settings(l->client->conn.site)->listen_queue_limit;
	struct stream *stream = &l->client->conn.stream;

	len += l->queue.len;
	if (!limit || stream_pending(stream) + len <= limit)
		return false;
	stream_flush(stream);
	return stream_pending(stream) + len > limit;
}

static void put(struct listening *l, const uint8_t *bytes, size_t len, uint32_t pid)
{
	struct client *client = l->client;
	uint8_t header[HEADER + sizeof(pid)];

	if (client->conn.is_doomed)
		return;
	/* Other characters than those of ASCII are understood only in the encoding in
	 * which the connection has got them, which is the server's. */
	bool is_own = client_is_own(client, VAR_CLIENT_ENCODING);
	for (size_t i = sizeof(header); is_own && i < len; i++)
		if (bytes[i] & 0x80) {
			client_fatal(client, ERROR_LISTEN_ENCODING);
			return;
		}
	if (is_full(l, len)) {
		client_fatal(client, ERROR_LISTEN_QUEUE);
		return;
	}
	memcpy(header, bytes, HEADER);
	put_u32(header + HEADER, pid);
	buf_put(&l->queue, header, sizeof(header));
	buf_put(&l->queue, bytes + sizeof(header), len - sizeof(header));
	listen_table_flush(client);
}

void listen_table_deliver(struct listen_pool *pool, uint64_t hub_id,
    const uint8_t *bytes, size_t len, uint32_t pid)
{
	struct listen_channel *channel;
	struct subscription *s;
	const char *name;
	uint32_t raw;

	if (listen_table_read(bytes, len, &raw, &name) < 0)
		return;
	channel = map_get(pool->channels, name, strlen(name));
	if (!channel)
		return;
	/* nothing is removed here: a client that is closed is doomed only */
	list_for (s, &channel->subscriptions, of_channel)
		if (s->listening->hub_id == hub_id)
			put(s->listening, bytes, len, pid);
}

void listen_table_flush(struct client *client)
{
	struct listening *l = client->listening;

	if (l && l->queue.len && is_outside_of_transactions(l->client))
		listen_table_send(l);
}

void listen_table_send(struct listening *l)
{
	if (l->queue.len && !l->client->conn.is_doomed)
		send_queue(l);
}
