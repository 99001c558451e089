/*
 * From the client's server to the pool's connection, and what UNLISTEN takes back.
 */
#include "relay/listen.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "pool/pins.h"
#include "relay/listen_hub.h"
#include "session/listen_sender.h"
#include "wire/codec.h"
#include "wire/sql_scan.h"

/* Stands among the names of UNLISTENs for a ReadyForQuery that is owed.  It is longer
 * than any name. */
#define READY_OWED "................................................................"

/* PostgreSQL has sent the mark before it answers the first of them; a connection that
 * answers so many without it is at another server. */
enum { FENCES_MOST = 1000 };

static atomic_ullong *place_of(const struct server *server)
{
	return &server->slot.pool->part.whole->listener;
}

bool listen_is_shared(const struct server *server)
{
	return atomic_load(place_of(server)) != 0;
}

/* What follows from a list with a name too few would be wrong, so its client ends. */
static void check_memory(struct listening *l, struct buf *names)
{
	if (!names->failed)
		return;
	buf_clear(names);
	client_fatal(l->client, ERROR_OUT_OF_MEMORY);
}

/* ---- UNLISTEN ---- */

/* Takes out what comes next in `sent`; false: nothing is there, or it is a
 * ReadyForQuery and a name is wanted. */
static bool take_sent(struct listening *l, bool is_ready)
{
	if (!l->sent.len ||
	    (strcmp((char *)l->sent.bytes, READY_OWED) == 0) != is_ready)
		return false;
	l->readies -= is_ready;
	buf_shift(&l->sent, strlen((char *)l->sent.bytes) + 1);
	return true;
}

/* Reads up to an UNLISTEN.  *begins: a statement may begin here.  *chains: there is an
 * AND CHAIN before it. */
static bool find_unlisten(struct sql_scan *s, bool *begins, bool *chains)
{
	bool is_end = false;
	struct sql_token t;

	for (sql_scan_next(s, &t); t.kind != SQL_END; sql_scan_next(s, &t)) {
		bool is_unlisten = *begins && sql_token_is(&t, "unlisten");
		if (*begins)
			is_end = sql_token_is(&t, "rollback") ||
				 sql_token_is(&t, "abort") ||
				 sql_token_is(&t, "commit") || sql_token_is(&t, "end");
		*chains = *chains || (is_end && sql_token_is(&t, "and"));
		*begins = sql_token_is_mark(&t, ';');
		if (is_unlisten)
			return true;
	}
	return false;
}

bool listen_must_wait(const struct client *client, const struct server *server,
    const char *text, size_t len, bool has_escapes)
{
	bool begins = true, chains = false;
	struct sql_scan s;

	if (!client->listening || !client->listening->pool ||
	    !pipeline_count(&server->pipeline) ||
	    pipeline_is_copy_in(&server->pipeline))
		return false;
	sql_scan_init(&s, text, len, has_escapes);
	return find_unlisten(&s, &begins, &chains);
}

void listen_note_text(struct client *client, const char *text, size_t len,
    bool has_escapes, uint32_t owed)
{
	struct listening *l = client->listening;
	bool begins = true, chains = false;
	struct sql_token t;
	struct sql_scan s;

	if (!l || !l->pool)
		return;
	sql_scan_init(&s, text, len, has_escapes);
	while (find_unlisten(&s, &begins, &chains)) {
		for (; l->readies < owed; l->readies++)
			buf_put_str(&l->sent, READY_OWED);
		sql_scan_next(&s, &t);
		if (sql_token_is_mark(&t, '*'))
			buf_put_str(&l->sent, "");
		else
			sql_name_put(&s, &t, &l->sent);
	}
	l->chains |= chains;
	check_memory(l, &l->sent);
}

static void commit(struct listening *l)
{
	buf_put(&l->done, l->run.bytes, l->run.len);
	buf_clear(&l->run);
	check_memory(l, &l->done);
	l->has_savepoint = l->is_undone = l->chains = false;
}

void listen_note_tag(struct client *client, const char *tag, size_t len)
{
	struct listening *l = client->listening;

	if (!tag) {
		/* what was sent behind it is skipped up to the ReadyForQuery */
		l->is_undone = true;
		while (take_sent(l, false))
			;
	} else if (text_is(tag, len, "UNLISTEN")) {
		while (take_sent(l, true))
			;
		if (l->sent.len)
			buf_put_str(&l->run, (char *)l->sent.bytes);
		check_memory(l, &l->run);
		take_sent(l, false);
	} else if (text_is(tag, len, "DISCARD ALL")) {
		/* it is committed at once, whatever fails behind it */
		buf_put_str(&l->run, "");
		check_memory(l, &l->run);
		commit(l);
	} else if (text_is(tag, len, "COMMIT")) {
		commit(l);
	} else if (text_is(tag, len, "SAVEPOINT")) {
		if (!l->has_savepoint)
			l->run_safe = l->run.len;
		l->has_savepoint = true;
	} else if (text_is(tag, len, "ROLLBACK")) {
		/* that of AND CHAIN is the same, also of a COMMIT behind an error */
		l->has_savepoint = l->has_savepoint && !l->chains;
		l->chains = false;
		/* TO SAVEPOINT takes back what came behind the first one at most */
		l->run.len = l->has_savepoint ? l->run_safe : 0;
		l->is_undone = l->has_savepoint;
	}
}

/* The transaction has come to its end. */
static void run_is_over(struct listening *l)
{
	if (l->is_undone)
		buf_clear(&l->run);
	commit(l);
}

void listen_note_ready(struct client *client, uint8_t status)
{
	struct listening *l = client->listening;
	bool is_last = !pipeline_count(&client_server(client)->pipeline);

	while (take_sent(l, false) || (is_last && take_sent(l, true)))
		;
	take_sent(l, true);
	if (status == 'T')
		l->is_undone = false;
	if (status != 'I') {
		l->was_block = true;
		return;
	}
	run_is_over(l);
}

static void end_unlistened(struct listening *l)
{
	const char *name, *end;

	if (!l->done.len)
		return;
	name = (const char *)l->done.bytes;
	for (end = name + l->done.len; name < end; name += strlen(name) + 1)
		if (*name)
			listen_table_remove(l, name);
		else
			listen_table_remove_all(l);
	buf_clear(&l->done);
}

void listen_end_transaction(const struct server *server, struct client *client)
{
	struct listening *l = client->listening;

	if (!l || server->status != 'I')
		return;
	/* As in PostgreSQL, an UNLISTEN within a block is also for what has come during
	 * the block; one outside is for what comes behind it. */
	if (!l->was_block)
		listen_table_send(l);
	end_unlistened(l);
	if (l->was_block)
		listen_table_send(l);
	l->was_block = false;
}

/* ---- LISTEN ---- */

void listen_note_channel(struct client *client, const char *channel, size_t len)
{
	struct listening *l = listen_table_of(client);

	buf_put(&l->found, channel, len);
	buf_put_u8(&l->found, 0);
	check_memory(l, &l->found);
}

static void subscribe(struct listening *l, struct server *server, uint64_t hub_id)
{
	const char *name = (const char *)l->found.bytes, *end = name + l->found.len;

	l->is_first = !l->pool;
	l->hub_id = hub_id;
	if (!l->pool)
		l->pool = listen_table_pool(server->conn.site, server->slot.pool);
	for (; name < end; name += strlen(name) + 1)
		listen_table_add(l, name);
}

static void answered(struct site *site, struct listen_message *m);

static void ask(struct listening *l, const void *channels, size_t len)
{
	struct listen_message *m = listen_table_message(
	    l->pool->key, l->pool->key_len, listen_hub_ask, channels, len);

	m->answer = answered;
	m->hub_id = l->hub_id;
	m->client_id = l->client->conn.id;
	listen_table_post(l->client->conn.site, listen_table_place(l->hub_id), m);
}

/* What its server sends is for the client up to the mark. */
static int send_mark(const struct listening *l, struct server *server)
{
	char notify[sizeof("NOTIFY " LISTEN_MARKS ",''") + sizeof(l->mark)];

	snprintf(notify, sizeof(notify), "NOTIFY " LISTEN_MARKS ",'%s'", l->mark);
	if (server_command(server, "LISTEN " LISTEN_MARKS, 0) < 0)
		return -1;
	return server_command(server, notify, 0);
}

/* Subscribes to what its server has told, at the pool's connection, or at its server,
 * which becomes that. */
static void join(struct listening *l, struct server *server, uint16_t kinds)
{
	unsigned long long hub_id = atomic_load(place_of(server));
	uint64_t own = listen_hub_number(server), number;
	struct buf channels;

	/* one that listens for all must have nothing else of its client */
	if (!hub_id && !l->pool && pool_mode(server->slot.pool) != POOL_MODE_SESSION &&
	    kinds == LEAK_BIT(LISTEN) && !server->slot.cancels_in_flight &&
	    list_is_empty(&server->cancels) && !server->slot.dirty &&
	    pins_claim(&server->slot) &&
	    atomic_compare_exchange_strong(place_of(server), &hub_id, own)) {
		subscribe(l, server, own);
		l->phase = LISTEN_OWNING;
		return;
	}
	/* what has listened for it is lost, and so will it be */
	if (!hub_id || (l->pool && l->hub_id != hub_id))
		return;
	subscribe(l, server, hub_id);
	listen_table_add(l, LISTEN_MARKS);
	mem_random(&number, sizeof(number));
	snprintf(l->mark, sizeof(l->mark), "%016llx", (unsigned long long)number);
	l->phase = LISTEN_JOINING;
	l->fences = 0;
	buf_init(&channels, 0);
	buf_put(&channels, l->found.bytes, l->found.len);
	buf_put_str(&channels, LISTEN_MARKS);
	check_memory(l, &channels);
	ask(l, channels.bytes, channels.len);
	buf_done(&channels);
}

static struct listening *find_client(struct site *site, const struct listen_message *m)
{
	struct listen_pool *pool = listen_table_find(site, m->bytes, m->key_len);
	struct node *n;

	/* those that have come last are asked for mostly */
	for (n = pool ? list_last(&pool->clients) : NULL; n && n != &pool->clients.head;
	     n = n->prev) {
		struct listening *l = container_of(n, struct listening, node);
		if (l->client->conn.id == m->client_id && l->hub_id == m->hub_id)
			return l;
	}
	return NULL;
}

/* The pool's connection listens, or is lost. */
static void answered(struct site *site, struct listen_message *m)
{
	struct listening *l = find_client(site, m);
	struct server *server = l ? client_server(l->client) : NULL;
	int failed = 0;

	if (!server || server->conn.is_doomed ||
	    (l->phase != LISTEN_JOINING && l->phase != LISTEN_FENCING))
		return;
	if (m->is_refused) {
		if (l->phase == LISTEN_FENCING || !l->is_first)
			return; /* it is told by another message */
		/* it joins once more when its server has answered */
		l->phase = LISTEN_AT_REST;
		listen_table_remove_all(l);
	} else if (l->phase == LISTEN_JOINING) {
		l->phase = LISTEN_MARKING;
		failed = send_mark(l, server);
	} else {
		l->phase = LISTEN_FENCED;
	}
	if (failed || server_sync(server) < 0)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
}

/* The client's server has answered.  A late cancel request may have met what it was
 * sent, so this is sent until it has been done.  True: it is sent something. */
static bool go_on(struct listening *l, struct server *server, uint16_t *kinds)
{
	int failed;

	if (l->phase == LISTEN_MARKING && !l->has_passed) {
		failed = send_mark(l, server);
	} else if (l->phase == LISTEN_MARKING ||
		   (l->phase == LISTEN_LEAVING && *kinds & LEAK_BIT(LISTEN))) {
		/* if it is asked once more, it tells whether it listens still */
		*kinds &= (uint16_t)~LEAK_BIT(LISTEN);
		l->phase = LISTEN_LEAVING;
		failed = server_command(server, "UNLISTEN *", 0);
	} else {
		return false;
	}
	if (failed || server_sync(server) < 0)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	return true;
}

bool listen_settle(struct client *client, struct server *server, uint16_t *kinds)
{
	const struct link_pin *pin = &server->link.pin;
	struct listening *l = client->listening;

	if (!l)
		return false;
	if (l->was_lost && *kinds & LEAK_BIT(LISTEN)) {
		struct buf warning;
		l->was_lost = false;
		buf_init(&warning, 0);
		codec_put_warning(&warning,
		    "the connection that listened for this client was lost",
		    "Notifications may have been missed before this LISTEN.");
		client_say(client, &warning);
		buf_done(&warning);
	}
	if (!(*kinds & LEAK_BIT(LISTEN)) || (pin->made & LEAK_BIT(LISTEN)))
		l->is_unseen = false;
	else if (!(pin->kinds & LEAK_BIT(LISTEN)))
		l->is_unseen = true;
	if (go_on(l, server, kinds))
		return true;
	/* in another encoding the notifications would be others */
	if (l->phase == LISTEN_AT_REST && (*kinds & LEAK_BIT(LISTEN)) &&
	    !l->is_unseen &&
	    (!client_is_own(client, VAR_CLIENT_ENCODING) ||
		vars_is_same(&client->params.vars, &server->own, VAR_CLIENT_ENCODING)))
		join(l, server, *kinds | pin->lasting);
	else if ((l->phase == LISTEN_LEAVING || l->phase == LISTEN_FENCED) &&
		 !listen_table_has_mark(l)) {
		if (l->fences++ == FENCES_MOST) {
			server_retire(server, error_text(ERROR_LISTEN_APART));
			return true;
		}
		l->phase = LISTEN_FENCING;
		ask(l, NULL, 0);
	}
	switch ((enum listen_phase)l->phase) {
	case LISTEN_JOINING:
	case LISTEN_MARKING:
	case LISTEN_FENCING:
		return true;
	case LISTEN_OWNING:
		server->link.pin.becomes_listener = true;
		/* fall through */
	case LISTEN_LEAVING:
	case LISTEN_FENCED:
		*kinds &= (uint16_t)~LEAK_BIT(LISTEN);
		l->phase = LISTEN_AT_REST;
		listen_table_settle(l);
		break;
	case LISTEN_AT_REST:
		break;
	}
	buf_done(&l->found);
	return false;
}

bool listen_tell(
    struct client *client, const struct server *server, const struct message *m)
{
	enum { HEADER = 5 };
	uint32_t pid = get_u32(m->bytes + HEADER), known = pid;
	struct listening *l = listen_table_of(client);
	struct buf out;

	/* it comes behind a COMMIT, whose UNLISTENs are in force */
	run_is_over(l);
	if (l->was_block)
		end_unlistened(l);
	if (!listen_table_heard(l, m))
		return true;
	if (pid != server->remote_pid)
		known = listen_sender_find(server->slot.pool, pid);
	else if (client->cancel_key.len >= sizeof(known))
		known = get_u32(cancel_key_bytes(&client->cancel_key));
	if (known == pid)
		return false;
	buf_init(&out, 0);
	buf_put(&out, m->bytes, HEADER);
	buf_put_u32(&out, known);
	buf_put(&out, m->bytes + HEADER + sizeof(pid), m->have - HEADER - sizeof(pid));
	client_say(client, &out);
	buf_done(&out);
	return true;
}

void listen_forget(struct client *client)
{
	struct listening *l = client->listening;

	if (!l)
		return;
	listen_table_remove_all(l);
	buf_done(&l->queue);
	buf_done(&l->found);
	buf_done(&l->sent);
	buf_done(&l->run);
	buf_done(&l->done);
	mem_free(l);
	client->listening = NULL;
}
