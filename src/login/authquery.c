/*
 * Finds secrets by auth_query: the lookup, its place in the auth user's pool, the
 * answers of its server, and the logins that wait for it.  Whether a client proves the
 * secret is decided in proof.c.
 */
#include "login/authquery.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time_us.h"
#include "broker/broker.h"
#include "login/login_state.h"
#include "pool/credentials.h"
#include "session/server.h"
#include "wire/codec.h"
#include "wire/kept_settings.h"
#include "wire/message.h"

/* A server whose answer contains a longer message is closed. */
enum { ANSWER_MESSAGE_MAX = 1024 * 1024 };
/* How long a query may continue after the last client that waited for it has left.
 * Cutting it off would cost the server connection, so that clients which connect and
 * leave again at once would cause many server logins. */
enum { ABANDONED_US = 5 * 1000000 };

enum lookup_state {
	LOOKUP_QUEUED, /* no server yet */
	LOOKUP_RUNNING,
	LOOKUP_OVER, /* the answer is there; lookup->work tells the logins */
};

struct lookup {
	struct request request;
	struct site *site;
	struct later work;
	char *key;          /* owned: its key in site->lookups */
	char *name;         /* owned: the user name that is looked up */
	struct list logins; /* struct login by .lookup_node: logins that wait */
	/* the clients' database; NULL when no client waits any more */
	struct database *database;
	uint64_t epoch; /* catalog->credentials_epoch when the query began */
	uint64_t sent_us;
	enum lookup_state state;
	/* The answer. */
	char *user;    /* owned; NULL: no row */
	char *secret;  /* owned */
	char *refusal; /* owned: the text of a FATAL error for all that wait; NULL: none
			*/
	char sqlstate[6];
};

static const struct conn_ops query_ops;
static const struct request_ops lookup_request_ops;

void authquery_init(struct site *site)
{
	site->lookups = map_new();
}

void authquery_done(struct site *site)
{
	map_free(&site->lookups);
}

static const char *auth_user_of(const struct database *db)
{
	return text_or_null(scope_auth_user(scope_of_database(db)));
}

bool authquery_is_for(const struct client *client)
{
	const struct database *db = login_asked_database(client);

	return db && auth_user_of(db);
}

/* ---- lookups ---- */

static struct lookup *request_lookup(const struct request *request)
{
	return container_of(request, struct lookup, request);
}

static struct lookup *server_lookup(const struct server *server)
{
	return request_lookup(request_of(server->slot.request));
}

/* The key has the address of the database: it is valid because a database lives as long
 * as its clients. */
static char *lookup_key(const struct client *client)
{
	struct buf key;
	buf_init(&key, 0);
	buf_printf(&key, "%p %s", (const void *)login_asked_database(client),
	    client->login->startup.user);
	char *text = mem_strdup(buf_text(&key));
	buf_done(&key);
	return text;
}

static void lookup_unlist(struct lookup *lookup)
{
	struct map *lookups = lookup->site->lookups;
	/* a newer lookup may have replaced this one in the map */
	if (map_get_str(lookups, lookup->key) == lookup)
		map_del_str(lookups, lookup->key);
}

static void lookup_free(struct lookup *lookup)
{
	struct pool *pool = lookup->request.in_pool.pool;

	later_cancel(lookup->site->loop, &lookup->work);
	if (pool) {
		pool_part(&lookup->request.in_pool);
		pool_free_if_unused(pool);
	}
	lookup_unlist(lookup);
	mem_free_secret(lookup->secret);
	mem_free(lookup->user);
	mem_free(lookup->refusal);
	mem_free(lookup->name);
	mem_free(lookup->key);
	mem_free(lookup);
}

/* ---- the end of a lookup ---- */

static void login_take_found(struct login *login, struct user *user,
    const struct secret *secret, uint64_t asked_us)
{
	if (login->has_found)
		secret_done(&login->found);
	secret_init(&login->found, secret->text);
	login->found_user = user;
	login->found_us = asked_us;
	login->has_found = true;
}

/* Tells one login the result.  This may free the login. */
static void lookup_tell(const struct lookup *lookup, struct login *login,
    struct user *user, const struct secret *secret)
{
	struct client *client = login->client;
	char word[LOG_WORD];

	login->lookup = NULL;
	if (client->conn.is_doomed)
		return;
	if (lookup->refusal) {
		client_fatal_text(client, lookup->sqlstate, lookup->refusal);
	} else if (!user) {
		/* The query found no row.  With md5 and trust the client is told at
		 * once, in words that tools know.  Other methods do not tell who
		 * exists: the login goes through the exchange of a user whose proof is
		 * wrong. */
		conn_log(&client->conn, LEVEL_LOG | KIND_AUTH, "login failed: db=%s",
		    conn_log_word(&client->conn, word, login->startup.database));
		if (login->method == AUTH_MD5 || login->method == AUTH_TRUST) {
			client_fatal(client, ERROR_NO_SUCH_USER);
			return;
		}
		login->is_mock = true;
		login->found_user = NULL;
		login->on_found(client);
	} else {
		login_take_found(login, user, secret, lookup->sent_us);
		login->on_found(client);
	}
}

static void lookup_work(struct later *l)
{
	struct lookup *lookup = container_of(l, struct lookup, work);
	struct user *user = NULL;
	struct secret secret;
	struct node *n;

	/* no further login may join it */
	lookup_unlist(lookup);
	if (lookup->user && !lookup->refusal) {
		/* the query returned a row: keeps the secret for later logins and for
		 * the logins of the user's pool to servers */
		struct catalog *catalog = lookup->site->catalog;
		user = catalog_user(catalog, lookup->user);
		struct pool *pool = catalog_find_pool(lookup->database, user);
		secret_init(&secret, lookup->secret);
		if (secret.kind == SECRET_SCRAM)
			rounds_count(
			    &catalog->found_rounds, secret.scram.iterations, 1);
		if (pool)
			credential_keep_for_pool(pool, &secret, lookup->sent_us);
		if (lookup->epoch == catalog->credentials_epoch)
			credential_keep(lookup->database, lookup->name, user, &secret,
			    lookup->sent_us);
	}
	while ((n = list_pop_front(&lookup->logins)))
		lookup_tell(
		    lookup, container_of(n, struct login, lookup_node), user, &secret);
	if (user)
		secret_done(&secret);
	lookup_free(lookup);
}

/* The lookup is over.  The logins that wait are told later in this turn of the loop. */
static void lookup_over(struct lookup *lookup)
{
	lookup->state = LOOKUP_OVER;
	if (list_is_empty(&lookup->logins))
		lookup_free(lookup);
	else
		loop_later(lookup->site->loop, &lookup->work);
}

/* When the lookup is over, all that wait get this FATAL error. */
static void lookup_set_refusal(
    struct lookup *lookup, const char *sqlstate, const char *text)
{
	mem_free(lookup->refusal);
	lookup->refusal = mem_strdup(text);
	snprintf(lookup->sqlstate, sizeof(lookup->sqlstate), "%.5s", sqlstate);
}

static void lookup_note(struct lookup *lookup, const char *failure)
{
	lookup_end_note(&lookup->request.in_pool.pool->lookup_end,
	    loop_now(lookup->site->loop), failure);
}

/* The name cannot be looked up.  The logins that wait are told when the server has
 * answered all of the query and can serve others again. */
static void lookup_refuse_name(struct lookup *lookup)
{
	lookup_set_refusal(
	    lookup, error_sqlstate(ERROR_CONFIG_ERROR), error_text(ERROR_CONFIG_ERROR));
}

static void lookup_refuse(struct lookup *lookup, const char *sqlstate, const char *text)
{
	lookup_set_refusal(lookup, sqlstate, text);
	lookup_over(lookup);
}

/* ---- the server's answer ---- */

/* The answer is complete: the server goes back to its pool. */
static enum step query_settled(struct server *server)
{
	struct lookup *lookup = server_lookup(server);

	server->is_ready = true;
	lookup_note(lookup, NULL);
	server_rest(server, 0); /* the pool may lend it to others from here on */
	broker_give(server);
	lookup_over(lookup);
	return STEP_NEXT;
}

static enum step query_refused(struct server *server, const char *reason)
{
	conn_log(&server->conn, LEVEL_ERROR | KIND_AUTH, "%s", reason);
	server_retire(server, reason);
	return STEP_CLOSE;
}

static enum step query_columns(struct server *server, const struct message *m)
{
	char reason[64];
	size_t count = 0;

	if (m->type == 'T' && codec_read_row_description(
				  message_body(m), message_body_len(m), &count) < 0) {
		server_unreadable(server, m);
		return STEP_CLOSE;
	}
	if (count == 2)
		return STEP_NEXT;
	snprintf(reason, sizeof(reason), "expected 2 columns from auth_query, not %zu",
	    count);
	return query_refused(server, reason);
}

/* A field as text. -1: the field is malformed. */
static int query_field(struct cursor *c, char **text, bool *is_null)
{
	const uint8_t *value;
	size_t len;

	*text = NULL;
	*is_null = false;
	if (codec_next_field(c, &value, &len) < 0)
		return -1;
	*is_null = value == NULL;
	if (!value)
		return 0;
	if (memchr(value, '\0', len))
		return -1;
	*text = mem_try(len + 1);
	if (!*text)
		return -1;
	memcpy(*text, value, len);
	(*text)[len] = '\0';
	return 0;
}

/* If the query returns several rows, the last one counts. */
static enum step query_row(struct server *server, const struct message *m)
{
	struct lookup *lookup = server_lookup(server);
	bool has_no_user, has_no_secret;
	struct cursor c;
	size_t count;

	mem_free(lookup->user);
	lookup->user = NULL;
	mem_free_secret(lookup->secret);
	lookup->secret = NULL;
	cursor_init(&c, message_body(m), message_body_len(m));
	if (codec_read_row_count(&c, &count) < 0 || count != 2 ||
	    query_field(&c, &lookup->user, &has_no_user) < 0 ||
	    query_field(&c, &lookup->secret, &has_no_secret) < 0 || cursor_left(&c)) {
		server_unreadable(server, m);
		return STEP_CLOSE;
	}
	/* a function may return such a row for every name that it does not know, so the
	 * server goes on */
	if (has_no_user || !*lookup->user) {
		conn_log(&server->conn, LEVEL_ERROR | KIND_AUTH,
		    "auth_query response contained null user name");
		lookup_refuse_name(lookup);
	}
	/* an empty secret, which no proof fits */
	if (has_no_secret)
		lookup->secret = mem_strdup("");
	return STEP_NEXT;
}

/* Can the name have caused the error?  A function may raise any class; of those of the
 * system itself, 42602 tells that a name is not valid, and 42704 that nobody has it. */
static bool is_about_name(const struct error_fields *f)
{
	static const char systems[][3] = {"42", "53", "57", "58", "XX"};

	if (strcmp(f->severity, "ERROR") != 0)
		return false;
	for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++)
		if (strncmp(f->sqlstate, systems[i], 2) == 0)
			return strcmp(f->sqlstate + 2, "602") == 0 ||
			       strcmp(f->sqlstate + 2, "704") == 0;
	return *f->sqlstate != '\0';
}

/* After an error about the name the server goes on: a stranger, who may send any name,
 * would cost one connection each time. */
static enum step query_error(struct server *server, const struct message *m)
{
	struct lookup *lookup = server_lookup(server);
	struct error_fields f;

	codec_read_error(message_body(m), message_body_len(m), &f);
	conn_log(&server->conn, LEVEL_ERROR | KIND_AUTH,
	    "S: error in auth_query: %s: %s", f.severity, f.message);
	if (is_about_name(&f)) {
		lookup_refuse_name(lookup);
		return STEP_NEXT;
	}
	lookup_note(lookup, f.message);
	server_retire(server, "error response from auth_query");
	return STEP_CLOSE;
}

static enum step query_unexpected(struct server *server, const struct message *m)
{
	server_unexpected(server, m, "unexpected response from auth_query");
	return STEP_CLOSE;
}

static enum step query_read(struct server *server, const struct message *m)
{
	switch (m->type) {
	case 'T':
	case 'n':
		return query_columns(server, m);
	case 'D':
		return query_row(server, m);
	case 'E':
		return query_error(server, m);
	case 'Z':
		if (!pipeline_is_settled(&server->pipeline))
			return STEP_NEXT;
		return server->status == 'I'
			   ? query_settled(server)
			   : query_refused(
				 server, "auth_query has left a transaction open");
	case 'S':
		return server_note_parameter(server, m, NULL, NULL) < 0 ? STEP_CLOSE
									: STEP_NEXT;
	case '1':
	case '2':
	case '3':
	case 'C':
	case 'I':
	case 'N':
	case 'A':
		return STEP_NEXT;
	}
	return query_unexpected(server, m);
}

static enum step query_message(struct conn *conn, const struct message *m)
{
	struct server *server = conn_server(conn);
	uint8_t status = 0;

	if (m->size > ANSWER_MESSAGE_MAX) {
		server_unreadable(server, m);
		return STEP_CLOSE;
	}
	if (!message_is_whole(m))
		return STEP_MORE;
	if (m->type == 'Z' &&
	    codec_read_ready(message_body(m), message_body_len(m), &status) < 0) {
		server_unreadable(server, m);
		return STEP_CLOSE;
	}
	server->last_us = conn_now(conn);
	if (pipeline_answer(&server->pipeline, m->type, status, NULL) == ANSWER_BROKEN)
		return query_unexpected(server, m);
	if (m->type == 'Z') {
		server->status = status;
		server->noted = 0;
	}
	return query_read(server, m);
}

static void query_expired(struct conn *conn)
{
	server_retire(conn_server(conn), error_text(ERROR_QUERY_TIMEOUT));
}

static void query_closed(struct conn *conn, const char *reason)
{
	struct server *server = conn_server(conn);
	struct lookup *lookup = server_lookup(server);

	/* an error of the query says more */
	if (lookup->request.in_pool.pool->lookup_end.at_us < lookup->sent_us)
		lookup_note(lookup, reason);
	server_leave(server, reason);
	lookup_refuse_name(lookup);
	lookup_over(lookup);
}

static const struct conn_ops query_ops = {
    .name = "auth_query",
    .message = query_message,
    .expired = query_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = query_closed,
};

/* ---- sending the query ---- */

static uint64_t after(uint64_t start_us, uint64_t limit_us)
{
	return limit_us ? start_us + limit_us : UINT64_MAX;
}

/* Sends Parse, Bind, Describe, Execute and Sync in one write.  No parameters of a
 * client are set on the server before: a client's search_path must not change what the
 * query finds. */
static void lookup_send(struct lookup *lookup)
{
	struct server *server = slot_server(lookup->request.in_pool.slot);
	struct scope scope = scope_of_pool(lookup->request.in_pool.pool);
	const char *name = lookup->name;
	struct buf buf;

	lookup->state = LOOKUP_RUNNING;
	lookup->sent_us = loop_now(lookup->site->loop);
	conn_hand_on(&server->conn, &query_ops);
	conn_set_deadline(&server->conn,
	    time_earlier(after(lookup->sent_us, scope_query_timeout(scope)),
		after(lookup->sent_us, scope_transaction_timeout(scope))));
	buf_init(&buf, 0);
	/* nor are those of an earlier client left in force; should that fail, the next
	 * client takes them back */
	if (kept_settings_put_back(server->kept, NULL, server->own_kept, &buf)) {
		server->is_kept_doubtful = true;
		if (server_command(server, buf_text(&buf), 0) < 0 ||
		    server_sync(server) < 0)
			server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	}
	buf_clear(&buf);
	static const char messages[] = "PBDES";
	for (const char *type = messages; *type; type++)
		if (pipeline_owe(&server->pipeline, (uint8_t)*type, OWED_SELF, 0) < 0)
			server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	codec_put_parse(
	    &buf, "", scope_auth_query(scope_of_database(lookup->database)));
	codec_put_bind_text(&buf, &name, 1);
	codec_put_describe_portal(&buf);
	codec_put_execute(&buf);
	codec_put_sync(&buf);
	server->is_ready = false;
	server->unnamed_client = 0;
	conn_send(&server->conn, &buf);
	buf_done(&buf);
}

static void request_granted(struct request *request)
{
	lookup_send(request_lookup(request));
}

static void request_refused(
    struct request *request, const char *sqlstate, const char *text)
{
	lookup_note(request_lookup(request), text);
	lookup_refuse(request_lookup(request), sqlstate, text);
}

static void request_killed(struct request *request, const char *reason)
{
	struct lookup *lookup = request_lookup(request);
	/* a running query ends when its server closes */
	if (lookup->state == LOOKUP_QUEUED)
		lookup_refuse(lookup, error_sqlstate(error_of_reason(reason)), reason);
}

static const struct conn *request_conn(const struct request *request)
{
	const struct node *first = list_first(&request_lookup(request)->logins);
	return &container_of(first, struct login, lookup_node)->client->conn;
}

static const struct request_ops lookup_request_ops = {
    .granted = request_granted,
    .refused = request_refused,
    .killed = request_killed,
    .conn = request_conn,
};

/* ---- the auth database ---- */

/* NULL: there is no such database, and the client has got an error. */
static struct database *find_database(struct client *client)
{
	struct catalog *catalog = client->conn.site->catalog;
	struct database *db = login_asked_database(client);
	const char *name = text_or_null(scope_auth_dbname(scope_of_database(db)));
	bool is_new = false;

	if (name)
		db = catalog_database(catalog, name, &is_new);
	if (is_new)
		conn_log(&client->conn, LEVEL_LOG | KIND_POOLS,
		    "registered new auto-database: %s", name);
	if (!db) {
		conn_log(&client->conn, LEVEL_ERROR | KIND_AUTH,
		    "authentication database \"%s\" is not configured.", name);
		client_fatal(client, ERROR_CONFIG_ERROR);
		return NULL;
	}
	if (db->is_admin) {
		conn_log(&client->conn, LEVEL_ERROR | KIND_AUTH,
		    "cannot use the reserved \"%s\" database as an auth_dbname",
		    db->name);
		client_fatal(client, ERROR_CONFIG_ERROR);
		return NULL;
	}
	if (db->disabled) {
		client_fatal(client, ERROR_AUTH_DATABASE_DISABLED, db->name);
		return NULL;
	}
	return db;
}

/* ---- clients ---- */

static struct lookup *lookup_new(struct client *client, struct database *db)
{
	struct site *site = client->conn.site;
	struct lookup *lookup = mem_zero(sizeof(*lookup));
	struct user *user =
	    catalog_user(site->catalog, auth_user_of(login_asked_database(client)));

	lookup->site = site;
	lookup->request.ops = &lookup_request_ops;
	lookup->work.run = lookup_work;
	lookup->key = lookup_key(client);
	lookup->name = mem_strdup(client->login->startup.user);
	lookup->database = login_asked_database(client);
	lookup->epoch = site->catalog->credentials_epoch;
	list_init(&lookup->logins);
	map_put_str(site->lookups, lookup->key, lookup);
	pool_join(catalog_pool_as(db, user), &lookup->request.in_pool);
	lookup->request.in_pool.query_us = loop_now(site->loop);
	return lookup;
}

static void lookup_join(struct lookup *lookup, struct client *client)
{
	struct login *login = client->login;

	login->client = client;
	login->lookup = lookup;
	login->waits_since_us = conn_now(&client->conn);
	/* a query that runs already may not see a secret that has just changed */
	login->may_be_outdated = lookup->state == LOOKUP_RUNNING;
	list_push_back(&lookup->logins, &login->lookup_node);
}

static enum authquery lookup_begin(struct client *client)
{
	struct database *db = find_database(client);
	const char *sqlstate, *text;
	struct lookup *lookup;

	if (!db)
		return AUTHQUERY_REFUSED;
	lookup = lookup_new(client, db);
	lookup_join(lookup, client);
	switch (broker_ask(&lookup->request, REQUEST_AUTH, &sqlstate, &text)) {
	case BROKER_GRANTED:
		lookup_send(lookup);
		break;
	case BROKER_REFUSED:
	case BROKER_FULL:
		lookup_refuse(lookup, sqlstate, text);
		break;
	case BROKER_WAIT:
		break;
	}
	return AUTHQUERY_WAIT;
}

/* A lookup that began before a reload may have asked another database. */
static bool may_join(const struct lookup *lookup, bool is_again)
{
	return lookup && lookup->epoch == lookup->site->catalog->credentials_epoch &&
	       lookup->state != LOOKUP_OVER &&
	       !(is_again && lookup->state == LOOKUP_RUNNING);
}

enum authquery authquery_begin(
    struct client *client, bool is_again, void (*on_found)(struct client *client))
{
	struct login *login = client->login;
	const struct credential *known;

	login->on_found = on_found;
	known = is_again ? NULL
			 : credential_find(login_asked_database(client),
			       login->startup.user, conn_now(&client->conn));
	if (!known) {
		char *key = lookup_key(client);
		struct lookup *lookup = map_get_str(client->conn.site->lookups, key);
		mem_free(key);
		if (!may_join(lookup, is_again))
			return lookup_begin(client);
		lookup_join(lookup, client);
		return AUTHQUERY_WAIT;
	}
	login_take_found(login, known->user, &known->secret, known->asked_us);
	login->may_be_outdated = true;
	return AUTHQUERY_FOUND;
}

uint64_t authquery_due(const struct client *client, enum error_id *error)
{
	const struct login *login = client->login;
	const struct lookup *lookup = login->lookup;
	struct scope scope;
	uint64_t wait, query;

	if (!lookup || lookup->state != LOOKUP_QUEUED)
		return UINT64_MAX;
	scope = scope_of_database(login_asked_database(client));
	wait = after(login->waits_since_us, scope_query_wait_timeout(scope));
	scope = scope_of_pool(lookup->request.in_pool.pool);
	query = after(login->waits_since_us, scope_query_timeout(scope));
	*error = wait <= query ? ERROR_QUERY_WAIT_TIMEOUT : ERROR_QUERY_TIMEOUT_QUEUED;
	return time_earlier(wait, query);
}

void authquery_leave(struct client *client)
{
	struct login *login = client->login;
	struct lookup *lookup = login ? login->lookup : NULL;

	if (!lookup)
		return;
	list_remove(&lookup->logins, &login->lookup_node);
	login->lookup = NULL;
	if (!list_is_empty(&lookup->logins))
		return;
	if (lookup->state == LOOKUP_RUNNING) {
		/* nobody waits for the running query any more: it may continue for a
		 * while (see ABANDONED_US) and its answer is not used */
		struct conn *conn = &slot_server(lookup->request.in_pool.slot)->conn;
		uint64_t at = conn_now(conn) + ABANDONED_US;
		lookup_unlist(lookup);
		lookup->database = NULL;
		if (at < conn->deadline.at_us)
			conn_set_deadline(conn, at);
	} else {
		lookup_free(lookup);
	}
}
