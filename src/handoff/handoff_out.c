/*
 * The sending side.  Every client and server is in one of four states: it stays for
 * good, it is busy, it can be described once its last bytes are sent, or it can be
 * described now.
 */
#include <string.h>

#include "broker/broker.h"
#include "handoff/handoff.h"
#include "handoff/movable.h"
#include "pool/credentials.h"
#include "session/client.h"
#include "session/conn_move.h"
#include "session/listen_sender.h"
#include "session/server.h"
#include "wire/kept_settings.h"
#include "wire/prepared.h"

/* An incomplete message longer than this has to be completed first. */
enum { UNREAD_MOST = 64 * 1024 * 1024 };

enum fate { FATE_STAYS, FATE_BUSY, FATE_GOES };

/* ---- what can go ---- */

static enum fate fate_of_pair(const struct client *client, const struct server *server)
{
	const struct service_moves *moves = client->database->service->moves;

	if (server->conn.stream.tls || server->slot.is_replication)
		return FATE_STAYS;
	if (server->dial || server->slot.state != SLOT_ACTIVE ||
	    !list_is_empty(&server->cancels) || server->slot.cancels_in_flight ||
	    server->conn.is_doomed || server->conn.held_len > UNREAD_MOST)
		return FATE_BUSY;
	return moves->is_movable(client) ? FATE_GOES : FATE_BUSY;
}

static enum fate fate_of_client(const struct client *client)
{
	const struct service_moves *moves = client->database->service->moves;
	const struct server *server = client_server(client);

	if (client->conn.stream.tls || client->replication || !moves)
		return FATE_STAYS;
	if (client->conn.held_len > UNREAD_MOST ||
	    prepared_names_has_long(client->names))
		return FATE_BUSY;
	if (server)
		return fate_of_pair(client, server);
	return moves->is_movable(client) ? FATE_GOES : FATE_BUSY;
}

/* For a server without a client. */
static enum fate fate_of_server(const struct server *server)
{
	if (server->conn.stream.tls || server->slot.dirty)
		return FATE_STAYS;
	return server->slot.state == SLOT_IDLE || server->slot.state == SLOT_USED
		   ? FATE_GOES
		   : FATE_BUSY;
}

/* ---- servers at rest: theirs or ours? ---- */

struct company {
	const struct pool *pool; /* the pool asked about last */
	bool has_staying, has_going;
};

static void look_at_asks(struct company *company, const struct list *requests)
{
	const struct pool_request *request;

	list_for (request, requests, node) {
		if (!request->is_logged_in)
			continue;
		enum fate fate = fate_of_client(
		    container_of(request, struct client, request.in_pool));
		company->has_staying = company->has_staying || fate == FATE_STAYS;
		company->has_going = company->has_going || fate == FATE_GOES;
	}
}

/* Looks at the clients of the pool, if that is another one than before: do its resting
 * servers stay for clients that stay, unless other clients
 * need servers at once. */
static bool look_for_company(
    struct company *company, const struct pool *pool, bool is_first)
{
	if (company->pool != pool) {
		*company = (struct company){.pool = pool};
		look_at_asks(company, &pool->clients);
		look_at_asks(company, &pool->waiting);
	}
	return company->has_staying && !(is_first && company->has_going);
}

/* ---- stopping ---- */

struct stop {
	struct handoff_counts *counts; /* NULL: only look, stop nothing */
	struct company company;
	bool is_first, has_more;
};

static void quiesce(struct conn *conn)
{
	if (!conn->is_stopped)
		conn_quiesce(conn);
}

static void count_stopped(struct handoff_counts *counts, const struct conn *conn,
    const struct conn *other, bool is_client)
{
	if (!conn_is_silent(conn) || (other && !conn_is_silent(other))) {
		counts->pending++;
		return;
	}
	counts->silent++;
	counts->clients += is_client;
}

/* It was stopped and has become busy since: lets it continue. */
static void let_run(struct conn *conn)
{
	conn_start(conn);
}

static void stop_client(struct stop *stop, struct client *client)
{
	struct server *server = client_server(client);
	enum fate fate = fate_of_client(client);

	stop->has_more = stop->has_more || fate == FATE_GOES;
	if (!stop->counts)
		return;
	if (fate == FATE_BUSY && client->database->service->moves->loosen(client))
		server = NULL;
	if (fate != FATE_GOES) {
		stop->counts->busy += fate == FATE_BUSY;
		stop->counts->staying += fate == FATE_STAYS;
		let_run(&client->conn);
		if (server)
			let_run(&server->conn);
		return;
	}
	quiesce(&client->conn);
	if (server)
		quiesce(&server->conn);
	count_stopped(stop->counts, &client->conn, server ? &server->conn : NULL, true);
}

static void stop_server(struct stop *stop, struct server *server)
{
	if (server->slot.request)
		return; /* is described with its client */
	if (fate_of_server(server) != FATE_GOES ||
	    look_for_company(&stop->company, server->slot.pool, stop->is_first))
		return;
	stop->has_more = true;
	if (!stop->counts)
		return;
	quiesce(&server->conn);
	count_stopped(stop->counts, &server->conn, NULL, false);
}

static void stop_one(void *ctx, const struct movable *thing)
{
	struct stop *stop = ctx;

	switch (thing->kind) {
	case MOVABLE_LISTENER:
		if (stop->is_first && stop->counts)
			listener_stop(thing->listener);
		break;
	case MOVABLE_CLIENT:
		stop_client(stop, thing->client);
		break;
	case MOVABLE_SERVER:
		stop_server(stop, thing->server);
		break;
	case MOVABLE_LOGIN:
	case MOVABLE_CANCEL:
		break;
	}
}

void handoff_stop(struct site *site, bool is_first, struct handoff_counts *counts)
{
	struct stop stop = {.counts = counts, .is_first = is_first};

	memset(counts, 0, sizeof(*counts));
	movable_walk(site, stop_one, &stop);
}

bool handoff_has_more(struct site *site)
{
	struct stop stop = {.counts = NULL};

	movable_walk(site, stop_one, &stop);
	return stop.has_more;
}

/* ---- describing ---- */

struct offer {
	struct site *site;
	handoff_emit_fn *emit;
	void *ctx;
	struct map *texts;   /* addresses of the texts described so far */
	struct pool *pool;   /* the pool described last */
	struct arena *keys;  /* keys of texts */
	struct arena *arena; /* memory for one client or server */
	bool is_first, has_failed;
};

static void emit(struct offer *offer, const struct record *record, int fd)
{
	if (!offer->has_failed && offer->emit(offer->ctx, record, fd) < 0)
		offer->has_failed = true;
}

/* 0 means "never". */
static uint64_t ago(const struct offer *offer, uint64_t at_us)
{
	uint64_t now = loop_now(offer->site->loop);

	if (!at_us)
		return UINT64_MAX;
	return at_us < now ? now - at_us : 0;
}

static struct record_vars describe_vars(
    struct offer *offer, const struct vars *vars, const struct vars *other)
{
	size_t count = vars_schema_count(offer->site->vars);
	struct record_vars out = {
	    arena_alloc(offer->arena, count * sizeof(*out.list)), count};

	for (size_t i = 0; i < count; i++)
		out.list[i] = (struct record_var){vars_get(vars, i),
		    other ? vars_get(other, i) : NULL, vars_encoding(vars, i),
		    other ? vars_encoding(other, i) : NULL};
	return out;
}

static void offer_text(struct offer *offer, struct prepared_text *text)
{
	const struct record record = {.kind = RECORD_TEXT,
	    .text = {.id = text->stored->id,
		.is_sql = text->registry == offer->site->sql_prepared,
		.reading = prepared_reading(text),
		.key = {text->stored->key, text->stored->len},
		.effects = text->effects}};

	if (map_get(offer->texts, &text, sizeof(text)))
		return;
	struct prepared_text **known = arena_alloc(offer->keys, sizeof(*known));
	*known = text;
	map_put(offer->texts, known, sizeof(*known), text);
	emit(offer, &record, -1);
}

static struct record_statements describe_statements(
    struct offer *offer, const struct prepared_item *items, size_t count)
{
	struct record_statements out = {
	    arena_alloc(offer->arena, count * sizeof(*out.list) + 1), count};

	out.count = 0;
	for (size_t i = 0; i < count; i++) {
		struct prepared_text *text = items[i].text;
		/* the server may have such a text under a name that nobody uses any
		 * more */
		if (text->body)
			continue;
		offer_text(offer, text);
		out.list[out.count++] =
		    (struct record_statement){.id = text->stored->id,
			.name = items[i].name,
			.is_sql = text->registry == offer->site->sql_prepared,
			.is_marked = items[i].is_marked};
	}
	return out;
}

static struct record_statements describe_names(
    struct offer *offer, const struct prepared_names *names)
{
	size_t count = prepared_names_count(names);
	struct prepared_item *items =
	    arena_alloc(offer->arena, count * sizeof(*items) + 1);

	prepared_names_list(names, items);
	return describe_statements(offer, items, count);
}

/* In another process, what is out of date is prepared again. */
static struct record_statements describe_set(
    struct offer *offer, const struct server *server)
{
	const struct prepared_set *set = server->statements;
	size_t count = prepared_set_count(set);
	struct prepared_item *items =
	    arena_alloc(offer->arena, count * sizeof(*items) + 1);
	uint32_t generation = server_generation(server);

	prepared_set_list(set, items);
	for (size_t i = 0; i < count; i++)
		items[i].is_marked |= items[i].generation < generation;
	return describe_statements(offer, items, count);
}

static struct record_conn describe_conn(
    struct offer *offer, const struct conn *conn, struct buf *unread)
{
	buf_init(unread, 0);
	conn_put_unread(conn, unread);
	if (unread->failed)
		offer->has_failed = true;
	return (struct record_conn){.id = conn->id,
	    .age_us = ago(offer, conn->connect_us),
	    .remote = conn->remote,
	    .peer_pid = conn->peer_pid,
	    .unix_port = conn->unix_port,
	    .passing = conn->passing,
	    .unread = {unread->bytes, unread->len}};
}

static void offer_pool(struct offer *offer, struct pool *pool)
{
	const struct login_params *login_params = broker_login_params(pool);
	struct brought_credentials secrets;

	if (offer->pool == pool)
		return;
	offer->pool = pool;
	credentials_of_pool(pool, &secrets);
	struct record record = {.kind = RECORD_POOL,
	    .pool = {.database = pool->database->name,
		.user = pool->user->name,
		.found = secrets.found,
		.found_us = ago(offer, secrets.found_us),
		.has_keys = secrets.has_keys,
		.keys = secrets.keys,
		.remembered = secrets.remembered,
		.entry = pool->database->config->connstr,
		.has_known = login_params != NULL}};

	if (!record.pool.entry)
		record.pool.entry = "";
	if (login_params) {
		record.pool.login_params =
		    describe_vars(offer, &login_params->vars, NULL);
		record.pool.untracked = (struct record_bytes){
		    login_params->untracked.bytes, login_params->untracked.len};
	}
	emit(offer, &record, -1);
	mem_wipe(&record, sizeof(record));
	mem_wipe(&secrets, sizeof(secrets));
}

/* ---- servers ---- */

static struct record_bytes describe_kept(const struct kept_settings *kept)
{
	return kept ? (struct record_bytes){(const uint8_t *)kept->bytes, kept->len}
		    : (struct record_bytes){NULL, 0};
}

static void fill_entries(
    struct offer *offer, const struct pipeline *owed, struct record_server *out)
{
	out->ledger = *owed;
	out->entry_count = pipeline_count(owed);
	out->entries =
	    arena_alloc(offer->arena, out->entry_count * sizeof(*out->entries) + 1);
	for (size_t i = 0; i < out->entry_count; i++)
		out->entries[i] = *pipeline_at(owed, (uint32_t)i);
}

static void fill_server(struct offer *offer, const struct server *server,
    struct record_server *out, struct buf *unread)
{
	*out = (struct record_server){
	    .conn = describe_conn(offer, &server->conn, unread),
	    .database = server->slot.pool->database->name,
	    .user = server->slot.pool->user->name,
	    .slot = server->slot,
	    .last_us = ago(offer, server->last_us),
	    .status = server->status,
	    .is_ready = server->is_ready,
	    .is_unheard = server->is_unheard,
	    .leaks_left = server->leaks_left,
	    .last_tag = server->last_tag,
	    .remote_pid = server->remote_pid,
	    .vars = describe_vars(offer, &server->vars, &server->own),
	    .pinned = server->pinned,
	    .has_own_kept = server->has_own_kept,
	    .is_kept_doubtful = server->is_kept_doubtful,
	    .own_kept = describe_kept(server->own_kept),
	    .kept = describe_kept(server->kept),
	    .statements = describe_set(offer, server),
	    .key = {server->key, server->key_len},
	    .unix_dir = server->unix_dir,
	    .host = server->host,
	    .port = server->port,
	    .is_linked = server->slot.request != NULL,
	    .is_dropping = !server->pipeline.is_amid,
	    .link = server->link,
	    .pin_names = {server->link.pin.names.bytes, server->link.pin.names.len},
	};
	/* the limits of the next process decide */
	out->slot.dirty = server->slot.dirty > DIRTY_SURPLUS ? DIRTY_OLD : DIRTY_NOT;
	out->slot.born_us = ago(offer, server->slot.born_us);
	out->slot.rested_us = ago(offer, server->slot.rested_us);
	out->link.idle_xact_us = ago(offer, server->link.idle_xact_us);
	out->link.since_us = ago(offer, server->link.since_us);
	out->link.pin.since_us = ago(offer, server->link.pin.since_us);
	fill_entries(offer, &server->pipeline, out);
}

/* The next process may use it before this one knows that.  So its notifications are of
 * nobody who is known here. */
static void set_offered(struct server *server)
{
	server->conn.is_offered = true;
	listen_sender_set(server, NULL);
}

static void offer_server(struct offer *offer, struct server *server)
{
	struct record record = {.kind = RECORD_SERVER};
	struct buf unread;

	fill_server(offer, server, &record.server, &unread);
	emit(offer, &record, server->conn.stream.fd);
	set_offered(server);
	buf_wipe_done(&unread);
}

/* ---- clients ---- */

static void fill_client(struct offer *offer, const struct client *client,
    struct record_client *out, struct buf *unread)
{
	*out = (struct record_client){
	    .conn = describe_conn(offer, &client->conn, unread),
	    .database = client->database->name,
	    .user = client->user->name,
	    .vars = describe_vars(offer, &client->params.vars, client->params.asked),
	    .has_asked = client->params.asked != NULL,
	    .requested = client->params.requested,
	    .own = client->params.own,
	    .doubtful = client->params.doubtful,
	    .kept = describe_kept(client->params.kept),
	    .startup = describe_kept(client->params.startup),
	    .reads_sequences = client->params.reads_sequences,
	    .statements = describe_names(offer, client->names),
	    .key = {cancel_key_bytes(&client->cancel_key), client->cancel_key.len},
	    .is_unix_owner = client->is_unix_owner,
	    .is_canceled = client->is_canceled,
	    .is_skipping = client->is_skipping,
	    .is_dropping = client->is_dropping,
	    .was_notified = client->was_notified,
	    .is_linked = client_server(client) != NULL,
	    .block_state = client->block.state,
	    .block_modes = client->block.modes,
	    .block_has_portal = client->block.has_portal,
	    .query_us = ago(offer, client->request.in_pool.query_us),
	    .xact_us = ago(offer, client->xact_us),
	    .last_us = ago(offer, client->request.in_pool.last_us),
	};
}

static void offer_client(struct offer *offer, struct client *client)
{
	const struct service_moves *moves = client->database->service->moves;
	struct server *server = client_server(client);
	struct record record = {.kind = RECORD_CLIENT};
	struct record of_server = {.kind = RECORD_SERVER};
	struct buf unread, server_unread;

	fill_client(offer, client, &record.client, &unread);
	buf_init(&server_unread, 0);
	if (server)
		fill_server(offer, server, &of_server.server, &server_unread);
	moves->describe(client, &record.client, server ? &of_server.server : NULL);
	emit(offer, &record, client->conn.stream.fd);
	client->conn.is_offered = true;
	if (server) {
		emit(offer, &of_server, server->conn.stream.fd);
		set_offered(server);
	}
	buf_wipe_done(&unread);
	buf_wipe_done(&server_unread);
}

/* ---- all of it ---- */

static void offer_one(void *ctx, const struct movable *thing)
{
	struct offer *offer = ctx;
	bool is_pair_part = thing->server && thing->server->slot.request;

	if (thing->listener) {
		const struct record record = {
		    .kind = RECORD_LISTENER, .listener = {thing->listener->is_unix}};
		if (offer->is_first)
			emit(offer, &record, thing->listener->fd);
		return;
	}
	/* SUSPEND may have stopped a login */
	if (thing->kind != MOVABLE_CLIENT && thing->kind != MOVABLE_SERVER)
		return;
	if (!thing->conn->is_stopped || is_pair_part || offer->has_failed)
		return;
	struct server *linked = thing->client ? client_server(thing->client) : NULL;
	if (!conn_is_silent(thing->conn) ||
	    (linked && !conn_is_silent(&linked->conn))) {
		/* its time is over, and it still moves: it continues here */
		conn_start(thing->conn);
		if (linked)
			conn_start(&linked->conn);
		return;
	}
	arena_free(&offer->arena);
	offer->arena = arena_new();
	if (thing->client) {
		offer_pool(offer, thing->client->request.in_pool.pool);
		offer_client(offer, thing->client);
	} else {
		offer_pool(offer, thing->server->slot.pool);
		offer_server(offer, thing->server);
	}
}

static void offer_databases(struct offer *offer)
{
	struct catalog *catalog = offer->site->catalog;
	struct database *db;
	size_t at = 0;

	while ((db = map_next(catalog->databases, &at))) {
		const struct host *elected = db->hosts.elected;
		const struct host *primary = hosts_primary(db);
		const struct record record = {.kind = RECORD_DATABASE,
		    .database = {
			.name = db->name,
			.is_paused = db->paused,
			.is_disabled = db->disabled,
			.has_elected = elected != NULL,
			.elected = elected ? elected->name : NULL,
			.elected_port = elected ? elected->port : 0,
			.has_primary = primary != NULL,
			.primary = primary ? primary->name : NULL,
			.primary_port = primary ? primary->port : 0,
			.timeline = primary ? primary->verdict.highest_timeline : 0,
			.addresses = db->hosts.addresses,
		    }};
		if (!db->is_admin && (db->paused || db->disabled || elected ||
					 primary || db->hosts.addresses))
			emit(offer, &record, -1);
	}
}

int handoff_offer(struct site *site, bool is_first, handoff_emit_fn *emit_fn, void *ctx)
{
	struct offer offer = {.site = site,
	    .emit = emit_fn,
	    .ctx = ctx,
	    .texts = map_new(),
	    .keys = arena_new(),
	    .arena = arena_new(),
	    .is_first = is_first};

	site->catalog->is_offered = true;
	if (is_first)
		offer_databases(&offer);
	movable_walk(site, offer_one, &offer);
	map_free(&offer.texts);
	arena_free(&offer.keys);
	arena_free(&offer.arena);
	return offer.has_failed ? -1 : 0;
}

/* ---- letting go ---- */

static void client_gone(struct conn *conn, const char *reason)
{
	(void)reason;
	client_leave(conn_client(conn));
}

static const struct conn_ops client_gone_ops = {
    .name = "moved",
    .closed = client_gone,
};

static const struct conn_ops server_gone_ops = {
    .name = "moved",
    .closed = server_closed,
};

static void release_server(struct server *server)
{
	conn_hand_on(&server->conn, &server_gone_ops);
	/* no Terminate is sent, because the server connection lives on */
	server->is_cut = true;
	server->slot.was_lent = true;
	pool_abandon(&server->slot, conn_now(&server->conn));
	conn_doom_quietly(&server->conn, "moved to another process");
}

static void release_client(struct client *client)
{
	struct server *server = client_server(client);

	client->database->service->moves->let_go(client);
	if (server)
		release_server(server);
	/* the client leaves the queue first, so that its pool cannot serve it any
	 * more */
	pool_withdraw(&client->request.in_pool);
	conn_hand_on(&client->conn, &client_gone_ops);
	conn_doom_quietly(&client->conn, "moved to another process");
}

static void let_go_one(void *ctx, const struct movable *thing)
{
	(void)ctx;
	if (!thing->conn || !thing->conn->is_offered)
		return;
	if (thing->client)
		release_client(thing->client);
	else
		release_server(thing->server);
}

void handoff_let_go(struct site *site)
{
	movable_walk(site, let_go_one, NULL);
}

static void keep_one(void *ctx, const struct movable *thing)
{
	(void)ctx;
	if (thing->server && thing->conn->is_offered)
		listen_sender_set(thing->server, server_client(thing->server));
}

void handoff_keep(struct site *site)
{
	movable_walk(site, keep_one, NULL);
	site->catalog->is_offered = false;
	movable_start(site);
}
