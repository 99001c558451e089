/*
 * The receiving side.  Bits and values of parameters come in the sender's order and are
 * converted to ours; parameters that we do not track are dropped.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "broker/broker.h"
#include "conf/entry.h"
#include "handoff/handoff.h"
#include "pool/credentials.h"
#include "session/cancel_keys.h"
#include "session/client.h"
#include "session/conn_move.h"
#include "session/server.h"
#include "session/server_role.h"
#include "session/workers.h"
#include "wire/codec.h"
#include "wire/kept_settings.h"
#include "wire/prepared.h"

/* While the sender still serves others, it gives new ids to connections and texts.
 * This gap keeps them below ours. */
enum { ID_GAP = 1000000 };

/* A text that was received.  It is made only once; our reference is kept until
 * everything that uses it has come. */
struct known_text {
	uint64_t key; /* the id; the lowest bit says which registry */
	/* the text with exactly the name that servers have; or NULL */
	struct prepared_text *text;
	struct prepared_text *named; /* the text that clients' names refer to */
};

struct handoff {
	struct site *site;
	int *params; /* owned: index of the sender's parameter -> our index, or -1 */
	size_t param_count;
	bool is_same_schema;
	struct map *texts; /* struct known_text by its key */
	/* the last pool whose database entry differs here */
	const struct pool *outdated;
};

/* ---- parameters ---- */

static void map_params(struct handoff *m, const struct record_vars *names)
{
	struct vars_schema *schema = m->site->vars;

	m->param_count = names->count;
	m->params = mem_zero(names->count * sizeof(*m->params) + 1);
	m->is_same_schema = names->count == vars_schema_count(schema);
	for (size_t i = 0; i < names->count; i++) {
		const char *name = names->list[i].value;
		/* servers do not tell what they report once more */
		m->params[i] = !name                  ? -1
			       : names->list[i].other ? vars_schema_learn(schema, name)
						      : vars_schema_find(schema, name);
		m->is_same_schema =
		    m->is_same_schema &&
		    (m->params[i] == (int)i ||
			(name && !*name && vars_schema_is_learned(schema, i)));
	}
}

static uint64_t our_bits(const struct handoff *m, uint64_t theirs)
{
	uint64_t ours = 0;

	if (m->is_same_schema)
		return theirs;
	for (size_t i = 0; i < m->param_count && i < EFFECTS_PARAMETERS; i++)
		if ((theirs >> i & 1) && m->params[i] >= 0 &&
		    m->params[i] < EFFECTS_PARAMETERS)
			ours |= UINT64_C(1) << m->params[i];
	return ours;
}

static void our_resets(const struct handoff *m, struct reset_effects *r)
{
	r->session = our_bits(m, r->session);
	r->local = our_bits(m, r->local);
	r->set = our_bits(m, r->set);
	r->hidden = our_bits(m, r->hidden);
}

static struct sql_effects our_effects(const struct handoff *m, struct sql_effects e)
{
	e.sets_first = our_bits(m, e.sets_first);
	e.sets = our_bits(m, e.sets);
	e.configs = our_bits(m, e.configs);
	our_resets(m, &e.resets);
	return e;
}

/* -1: no memory. */
static int take_vars(const struct handoff *m, const struct record_vars *from,
    struct vars *values, struct vars *others)
{
	for (size_t i = 0; i < from->count && i < m->param_count; i++) {
		const struct record_var *var = &from->list[i];
		if (m->params[i] < 0)
			continue;
		size_t at = (size_t)m->params[i];
		if (var->value &&
		    vars_set_in(values, at, var->value, var->encoding) < 0)
			return -1;
		if (others && var->other &&
		    vars_set_in(others, at, var->other, var->other_encoding) < 0)
			return -1;
	}
	return 0;
}

/* ---- life ---- */

struct handoff *handoff_new(
    struct site *site, const struct record_origin *origin, struct err *err)
{
	struct handoff *m;

	for (size_t i = 0; i < origin->names.count; i++)
		if (!origin->names.list[i].value) {
			err_set(err, "a parameter without a name");
			return NULL;
		}
	m = mem_zero(sizeof(*m));
	m->site = site;
	m->texts = map_new();
	map_params(m, &origin->names);
	/* Texts of the sender keep their ids, and our new ids are greater.  So a server
	 * never has two texts under one name. */
	while (site->next_id < origin->next_id + ID_GAP)
		site->next_id += site->id_step * ID_GAP;
	prepared_registry_skip(site->prepared, origin->last_text + ID_GAP);
	prepared_registry_skip(site->sql_prepared, origin->last_sql_text + ID_GAP);
	return m;
}

void handoff_free(struct handoff **handoff)
{
	struct known_text *known;
	size_t at = 0;
	struct handoff *m = *handoff;

	if (!m)
		return;
	while ((known = map_next(m->texts, &at))) {
		prepared_unref(known->text);
		prepared_unref(known->named);
		mem_free(known);
	}
	map_free(&m->texts);
	mem_free(m->params);
	mem_free(m);
	*handoff = NULL;
}

/* ---- may it come? ---- */

static struct database *find_database(const struct handoff *m, const char *name)
{
	bool is_new;
	struct database *db = catalog_database(m->site->catalog, name, &is_new);

	return db && !db->is_admin && db->service->moves ? db : NULL;
}

static int check_client(
    const struct handoff *m, const struct record_client *client, struct err *err)
{
	const struct record_bytes *key = &client->key;

	if (!find_database(m, client->database))
		return err_set(err,
		    "the configuration has no database \"%.63s\", and a client of it "
		    "is connected",
		    client->database);
	if (!*client->user ||
	    (key->len != CANCEL_KEY_LEN && key->len != CANCEL_KEY_LONG))
		return err_set(err, "a client without a name or key");
	unsigned place = CANCEL_NOWHERE;
	(void)cancel_keys_find(
	    m->site->cancel_keys, key->at, key->len, workers_place(m->site), &place);
	if (place != CANCEL_NOWHERE)
		return err_set(err, "a client with another client's key");
	return 0;
}

static int check_server(
    const struct handoff *m, const struct record_server *server, struct err *err)
{
	struct pipeline ledger;
	int failed;

	/* a resting server is closed if its database is not known here */
	if (server->is_linked && !find_database(m, server->database))
		return err_set(err,
		    "the configuration has no database \"%.63s\", which has a server "
		    "connection",
		    server->database);
	if (!*server->user || server->key.len > BACKEND_KEY_MAX || !server->status)
		return err_set(err, "a server that has not logged in");
	pipeline_init(&ledger);
	failed = pipeline_restore(
	    &ledger, &server->ledger, server->entries, server->entry_count);
	pipeline_done(&ledger);
	return failed
		   ? err_set(err, "a server has answers pending that no server can owe")
		   : 0;
}

int handoff_check(
    const struct handoff *handoff, const struct record *record, struct err *err)
{
	switch (record->kind) {
	case RECORD_CLIENT:
		return check_client(handoff, &record->client, err);
	case RECORD_SERVER:
		return check_server(handoff, &record->server, err);
	case RECORD_POOL:
	case RECORD_ORIGIN:
	case RECORD_LISTENER:
	case RECORD_DATABASE:
	case RECORD_TEXT:
		break;
	}
	return 0;
}

/* ---- what has no descriptor ---- */

static uint64_t text_key(uint64_t id, bool is_sql)
{
	return id << 1 | is_sql;
}

/* The reading is only valid if both sides track the same parameters. */
static void note_text(struct handoff *m, const struct record_text *from)
{
	struct prepared_registry *registry =
	    from->is_sql ? m->site->sql_prepared : m->site->prepared;
	const char *reading = m->is_same_schema ? from->reading : NULL;
	struct known_text *known = mem_zero(sizeof(*known));

	known->key = text_key(from->id, from->is_sql);
	if (map_get(m->texts, &known->key, sizeof(known->key))) {
		mem_free(known);
		return;
	}
	known->text =
	    prepared_restore(registry, from->id, reading, from->key.at, from->key.len);
	if (known->text)
		known->text->effects = our_effects(m, from->effects);
	known->named =
	    reading ? prepared_intern(registry, reading, from->key.at, from->key.len)
	    : known->text ? prepared_ref(known->text)
			  : NULL;
	if (known->named)
		known->named->effects = our_effects(m, from->effects);
	map_put(m->texts, &known->key, sizeof(known->key), known);
}

static bool is_other_entry(const struct database *db, const char *theirs)
{
	const char *ours = db->config->connstr;
	struct arena *arena;
	struct database_config was;
	struct err ignored;
	bool is_other;

	if (ours && strcmp(ours, theirs) == 0)
		return false;
	arena = arena_new();
	is_other = entry_parse_connstr(&was, db->name, theirs, arena, &ignored) < 0 ||
		   entry_is_obsoleting(&was, db->config);
	arena_free(&arena);
	return is_other;
}

static void note_secrets(
    const struct handoff *m, struct pool *pool, const struct record_pool *from)
{
	uint64_t now = loop_now(m->site->loop);
	struct brought_credentials brought = {
	    .found = from->found,
	    .found_us = from->found_us < now ? now - from->found_us : 1,
	    .has_keys = from->has_keys,
	    .keys = from->keys,
	    .remembered = from->remembered,
	};

	credentials_bring(pool, &brought);
	mem_wipe(&brought, sizeof(brought));
}

static struct pool *find_pool(
    const struct handoff *m, const char *database, const char *user)
{
	return catalog_pool_as(
	    find_database(m, database), catalog_user(m->site->catalog, user));
}

static void note_pool(struct handoff *m, const struct record_pool *from)
{
	struct vars login_params;

	/* only resting servers use it, which are closed */
	if (!find_database(m, from->database))
		return;
	struct pool *pool = find_pool(m, from->database, from->user);
	note_secrets(m, pool, from);
	m->outdated = is_other_entry(pool->database, from->entry) ? pool : NULL;
	if (m->outdated || !from->has_known)
		return;
	vars_init(&login_params, m->site->vars);
	/* without memory for them a new server has to tell them: its servers make room
	 * for it, in a pool that is full */
	if (take_vars(m, &from->login_params, &login_params, NULL) < 0 ||
	    broker_restore_login_params(m->site, pool, &login_params,
		from->untracked.at, from->untracked.len) < 0)
		m->outdated = pool;
	vars_done(&login_params);
}

static void note_database(const struct handoff *m, const struct record_database *from)
{
	struct database *db = find_database(m, from->name);
	struct host *primary;

	if (!db)
		return;
	db->paused = db->paused || from->is_paused;
	db->disabled = db->disabled || from->is_disabled;
	if (from->addresses)
		database_spread(db, from->addresses);
	if (from->has_elected)
		hosts_elect(
		    db, hosts_find(&db->hosts, from->elected, from->elected_port));
	primary = from->has_primary
		      ? hosts_find(&db->hosts, from->primary, from->primary_port)
		      : NULL;
	if (primary) {
		primary->was_primary = true;
		primary->was_timeline = from->timeline;
	}
}

void handoff_note(struct handoff *handoff, const struct record *record)
{
	switch (record->kind) {
	case RECORD_DATABASE:
		note_database(handoff, &record->database);
		break;
	case RECORD_POOL:
		note_pool(handoff, &record->pool);
		break;
	case RECORD_TEXT:
		note_text(handoff, &record->text);
		break;
	case RECORD_ORIGIN:
	case RECORD_LISTENER:
	case RECORD_CLIENT:
	case RECORD_SERVER:
		break;
	}
}

/* ---- what both have ---- */

/* Converts "how long ago" to a time; 0: never. */
static uint64_t at_us(const struct handoff *m, uint64_t ago_us)
{
	uint64_t now = loop_now(m->site->loop);

	if (ago_us == UINT64_MAX)
		return 0;
	return ago_us < now ? now - ago_us : 1;
}

static void fill_conn(
    const struct handoff *m, struct conn *conn, const struct record_conn *from)
{
	conn->id = from->id;
	conn->connect_us = at_us(m, from->age_us);
	conn->remote = from->remote;
	conn->peer_pid = from->peer_pid;
	conn->unix_port = from->unix_port;
}

/* From here on the loop delivers what comes.  If memory was lacking for any part of the
 * connection, it is closed. */
static void open_conn(
    struct conn *conn, const struct record_conn *from, int fd, bool has_failed)
{
	int failed =
	    conn_restore(conn, fd, from->passing, from->unread.at, from->unread.len);

	if (failed || has_failed)
		conn_doom(conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
	else
		conn_log(conn, LEVEL_DEBUG | KIND_TAKEOVER, "taken over");
}

static struct prepared_text *find_text(
    const struct handoff *m, const struct record_statement *s)
{
	uint64_t key = text_key(s->id, s->is_sql);
	const struct known_text *known = map_get(m->texts, &key, sizeof(key));

	if (!known)
		return NULL;
	return s->name ? known->named : known->text;
}

/* ---- clients ---- */

/* For clients that close before they have an owner. */
static void client_gone(struct conn *conn, const char *reason)
{
	(void)reason;
	client_leave(conn_client(conn));
}

static const struct conn_ops client_coming_ops = {
    .name = "coming",
    .malformed = client_malformed,
    .closed = client_gone,
};

static void enter_client(const struct handoff *m, struct client *client,
    const struct record_client *from, struct pool *pool)
{
	client_settle(client);
	client->database = find_database(m, from->database);
	database_hold(client->database);
	client->user = catalog_user(m->site->catalog, from->user);
	(void)database_enter(client->database, true);
	(void)user_may_enter(client->user, true);
	client->is_counted = true;
	if (!pool)
		pool = catalog_pool(client->database, client->user);
	pool_join(pool, &client->request.in_pool);
	client->request.in_pool.is_logged_in = true;
}

/* The generation of what has arrived.  Another process has counted in another way; what
 * was out of date there is marked. */
static uint32_t generation_of(const struct prepared_text *text, uint32_t present)
{
	uint32_t generation = prepared_generation(text);

	return generation < present ? generation : present;
}

static int take_names(const struct handoff *m, struct client *client,
    const struct record_statements *from)
{
	bool has_doubt = false;

	for (size_t i = 0; i < from->count; i++) {
		const struct record_statement *s = &from->list[i];
		struct prepared_text *text = s->name ? find_text(m, s) : NULL;
		if (!text || prepared_names_put(&client->names, s->name, text,
				 generation_of(
				     text, atomic_load(prepared_registry_generation(
					       client->conn.site->prepared,
					       client->database->config->dbname)))) < 0)
			return -1;
		has_doubt = has_doubt || s->is_marked;
	}
	/* the doubt only causes more checks than needed */
	if (has_doubt)
		prepared_names_doubt(client->names);
	return 0;
}

static int take_client_vars(
    const struct handoff *m, struct client *client, const struct record_client *from)
{
	client->params.requested = our_bits(m, from->requested);
	client->params.own = our_bits(m, from->own);
	client->params.doubtful = our_bits(m, from->doubtful);
	client->params.kept = kept_settings_new(from->kept.at, from->kept.len);
	client->params.startup = kept_settings_new(from->startup.at, from->startup.len);
	client->params.reads_sequences = from->reads_sequences;
	if (from->has_asked) {
		client->params.asked = mem_zero(sizeof(*client->params.asked));
		vars_init(client->params.asked, m->site->vars);
	}
	return take_vars(m, &from->vars, &client->params.vars, client->params.asked);
}

static struct client *make_client(const struct handoff *m,
    const struct record_client *from, struct pool *pool, bool *has_failed)
{
	struct client *client = client_new(m->site, &client_coming_ops);

	fill_conn(m, &client->conn, &from->conn);
	enter_client(m, client, from, pool);
	cancel_key_set(&client->cancel_key, from->key.at, from->key.len);
	(void)cancel_keys_add(
	    m->site->cancel_keys, &client->cancel_key, workers_place(m->site));
	client->request.in_pool.query_us = at_us(m, from->query_us);
	client->request.in_pool.last_us = at_us(m, from->last_us);
	client->xact_us = at_us(m, from->xact_us);
	client->is_unix_owner = from->is_unix_owner;
	client->is_canceled = from->is_canceled;
	client->is_skipping = from->is_skipping;
	client->is_dropping = from->is_dropping;
	client->was_notified = from->was_notified;
	client->block.state = from->block_state;
	client->block.modes = from->block_modes;
	client->block.has_portal = from->block_has_portal;
	*has_failed = take_client_vars(m, client, from) < 0 ||
		      take_names(m, client, &from->statements) < 0;
	return client;
}

/* ---- servers ---- */

static const struct conn_ops server_coming_ops = {
    .name = "coming",
    .malformed = server_malformed,
    .closed = server_closed,
};

/* The server has statements under names that cannot be made again here.  They would
 * clash with ours, so no other client may use this server. */
static int take_set(const struct handoff *m, struct server *server,
    const struct record_statements *from)
{
	for (size_t i = 0; i < from->count; i++) {
		struct prepared_text *text = find_text(m, &from->list[i]);
		if (!text || prepared_set_add(&server->statements, text) < 0)
			return -1;
		if (from->list[i].is_marked)
			prepared_set_spoil(server->statements, text);
	}
	return 0;
}

static char *dup_text(const char *text)
{
	return text ? mem_strdup(text) : NULL;
}

static void fill_server(
    const struct handoff *m, struct server *server, const struct record_server *from)
{
	fill_conn(m, &server->conn, &from->conn);
	server->last_us = at_us(m, from->last_us);
	server->status = from->status;
	server->is_ready = from->is_ready;
	server->is_unheard = from->is_unheard;
	server->leaks_left = from->leaks_left;
	server->last_tag = from->last_tag;
	server->remote_pid = from->remote_pid;
	server->pinned = our_bits(m, from->pinned);
	server->has_own_kept = from->has_own_kept;
	server->is_kept_doubtful = from->is_kept_doubtful;
	server->sequences_client = SEQUENCES_OF_OTHERS;
	server->own_kept = kept_settings_new(from->own_kept.at, from->own_kept.len);
	server->kept = kept_settings_new(from->kept.at, from->kept.len);
	server->port = from->port;
	server->host = dup_text(from->host);
	server->unix_dir = dup_text(from->unix_dir);
	if (!from->key.len)
		return;
	server->key = mem_dup(from->key.at, from->key.len);
	server->key_len = from->key.len;
}

static struct server *make_server(const struct handoff *m,
    const struct record_server *from, struct pool *pool, struct pool_request *request,
    bool *has_failed)
{
	struct server *server = server_new(m->site, &server_coming_ops);
	struct slot was = from->slot;

	server->may_notify = true;
	fill_server(m, server, from);
	was.born_us = at_us(m, was.born_us);
	was.rested_us = at_us(m, was.rested_us);
	*has_failed = take_vars(m, &from->vars, &server->vars, &server->own) < 0 ||
		      pipeline_restore(&server->pipeline, &from->ledger, from->entries,
			  from->entry_count) < 0;
	pipeline_set_amid(
	    &server->pipeline, from->conn.passing > 0 && !from->is_dropping);
	if (take_set(m, server, &from->statements) < 0 || pool == m->outdated)
		was.dirty = DIRTY_OLD;
	pool_move_in(pool, &server->slot, request, &was, from->host, from->port,
	    loop_now(m->site->loop));
	size_t count = prepared_set_count(server->statements);
	struct prepared_item *items = mem_alloc(count * sizeof(*items) + 1);

	prepared_set_list(server->statements, items);
	for (size_t i = 0; i < count; i++)
		prepared_set_date(server->statements, items[i].text,
		    generation_of(items[i].text, server_generation(server)));
	mem_free(items);
	server_role_follow(server, &server->own);
	return server;
}

static struct record_server in_our_bits(
    const struct handoff *m, const struct record_server *from)
{
	struct record_server ours = *from;

	ours.link.idle_xact_us = at_us(m, from->link.idle_xact_us);
	ours.link.since_us = at_us(m, from->link.since_us);
	ours.link.pin.since_us = at_us(m, from->link.pin.since_us);
	ours.link.params.reported = our_bits(m, from->link.params.reported);
	ours.link.params.apply_local = our_bits(m, from->link.params.apply_local);
	ours.link.params.settling.unsettled =
	    our_bits(m, from->link.params.settling.unsettled);
	our_resets(m, &ours.link.params.reset);
	our_resets(m, &ours.link.params.put_back.parsed);
	our_resets(m, &ours.link.params.put_back.bound);
	ours.link.schema.is_read_apart = from->link.schema.is_unusual;
	return ours;
}

struct client *handoff_take_client(struct handoff *handoff,
    const struct record_client *from, int fd, const struct record_server *from_server,
    int server_fd)
{
	struct record_client ours = *from;
	struct record_server linked;
	struct pool *pool =
	    from_server ? find_pool(handoff, from_server->database, from_server->user)
			: NULL;
	bool has_failed = false, server_failed = false;
	struct client *client = make_client(handoff, from, pool, &has_failed);
	struct server *server = NULL;

	ours.unnamed.effects = our_effects(handoff, from->unnamed.effects);
	if (from_server) {
		linked = in_our_bits(handoff, from_server);
		server = make_server(
		    handoff, &linked, pool, &client->request.in_pool, &server_failed);
	}
	if (client->database->service->moves->take(
		client, &ours, server ? &linked : NULL) < 0)
		has_failed = true;
	if (server)
		open_conn(&server->conn, &from_server->conn, server_fd, server_failed);
	open_conn(&client->conn, &from->conn, fd, has_failed);
	return client;
}

bool handoff_has_place(const struct handoff *handoff, const struct record_server *from)
{
	return find_database(handoff, from->database) != NULL;
}

void handoff_dismiss_server(
    const struct handoff *handoff, const struct record_server *from, int fd)
{
	struct buf terminate;

	buf_init(&terminate, 0);
	codec_put_terminate(&terminate);
	(void)send(fd, terminate.bytes, terminate.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	buf_done(&terminate);
	close(fd);
	log_put(handoff->site->log, LEVEL_LOG | KIND_TAKEOVER, NULL,
	    "closed a server connection of database \"%.63s\", which the configuration "
	    "does not have",
	    from->database);
}

struct server *handoff_take_server(
    struct handoff *handoff, const struct record_server *from, int fd)
{
	bool has_failed = false;
	struct server *server = make_server(handoff, from,
	    find_pool(handoff, from->database, from->user), NULL, &has_failed);

	handoff->site->server_events->review(server);
	open_conn(&server->conn, &from->conn, fd, has_failed);
	return server;
}
