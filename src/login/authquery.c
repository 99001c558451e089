/*
 * Finds secrets by auth_query: the lookups, the logins that wait for them, and what is
 * kept of what they find.  Whether a client proves the secret is decided in proof.c.
 */
#include "login/authquery.h"

#include "base/text.h"
#include "base/time_us.h"
#include "login/authquery_run.h"
#include "login/login_state.h"
#include "pool/credentials.h"

struct lookup {
	struct authquery_run run;
	char *key;          /* owned: its key in site->lookups */
	char *name;         /* owned: the user name that is looked up */
	struct list logins; /* struct login by .lookup_node: logins that wait */
	/* the clients' database; NULL when no client waits any more */
	struct database *database;
	uint64_t epoch; /* catalog->credentials_epoch when the query began */
};

static const struct request_ops lookup_request_ops;

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

static struct lookup *lookup_of(struct login_query *query)
{
	return container_of(query, struct lookup, run.query);
}

/* The key has the address of the database: it is valid because a database lives as long
 * as its clients. */
static char *lookup_key(const struct client *client)
{
	struct buf key;
	buf_init_sure(&key);
	buf_printf(&key, "%p %s", (const void *)login_asked_database(client),
	    client->login->startup.user);
	char *text = mem_strdup(buf_text(&key));
	buf_done(&key);
	return text;
}

static void lookup_unlist(struct lookup *lookup)
{
	struct map *lookups = lookup->run.query.site->lookups;
	/* a newer lookup may have replaced this one in the map */
	if (map_get_str(lookups, lookup->key) == lookup)
		map_del_str(lookups, lookup->key);
}

static void lookup_free(struct lookup *lookup)
{
	lookup_unlist(lookup);
	authquery_run_done(&lookup->run);
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
	if (lookup->run.query.refusal) {
		client_fatal_text(
		    client, lookup->run.query.sqlstate, lookup->run.query.refusal);
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
		login_take_found(login, user, secret, lookup->run.sent_us);
		login->on_found(client);
	}
}

static void lookup_work(struct later *l)
{
	struct lookup *lookup = lookup_of(container_of(l, struct login_query, work));
	const struct authquery_run *run = &lookup->run;
	struct user *user = NULL;
	struct secret secret;
	struct node *n;

	/* no further login may join it */
	lookup_unlist(lookup);
	if (run->user && !run->query.refusal) {
		/* the query returned a row: keeps the secret for later logins and for
		 * the logins of the user's pool to servers */
		struct catalog *catalog = run->query.site->catalog;
		user = catalog_user(catalog, run->user);
		struct pool *pool = catalog_find_pool(lookup->database, user);
		secret_init(&secret, run->secret);
		if (secret.kind == SECRET_SCRAM)
			rounds_count(
			    &catalog->found_rounds, secret.scram.iterations, 1);
		if (pool)
			credential_keep_for_pool(pool, &secret, run->sent_us);
		if (lookup->epoch == catalog->credentials_epoch)
			credential_keep(lookup->database, lookup->name, user, &secret,
			    run->sent_us);
	}
	while ((n = list_pop_front(&lookup->logins)))
		lookup_tell(
		    lookup, container_of(n, struct login, lookup_node), user, &secret);
	if (user)
		secret_done(&secret);
	lookup_free(lookup);
}

/* The lookup is over.  The logins that wait are told later in this turn of the loop. */
static void lookup_over(struct login_query *query)
{
	struct lookup *lookup = lookup_of(query);

	query->state = LOGIN_QUERY_OVER;
	if (list_is_empty(&lookup->logins))
		lookup_free(lookup);
	else
		loop_later(query->site->loop, &query->work);
}

static void lookup_send(struct login_query *query)
{
	struct lookup *lookup = lookup_of(query);

	authquery_run_send(&lookup->run,
	    scope_auth_query(scope_of_database(lookup->database)), lookup->name);
}

static void request_refused(
    struct request *request, const char *sqlstate, const char *text)
{
	authquery_run_note(&lookup_of(login_query_of(request))->run, text);
	login_query_refused(request, sqlstate, text);
}

static const struct conn *request_conn(const struct request *request)
{
	const struct node *first =
	    list_first(&lookup_of(login_query_of(request))->logins);
	return &container_of(first, struct login, lookup_node)->client->conn;
}

static const struct request_ops lookup_request_ops = {
    .granted = login_query_granted,
    .refused = request_refused,
    .killed = login_query_killed,
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

	lookup->run.query.request.ops = &lookup_request_ops;
	lookup->run.query.work.run = lookup_work;
	lookup->run.query.send = lookup_send;
	lookup->run.query.over = lookup_over;
	lookup->key = lookup_key(client);
	lookup->name = mem_strdup(client->login->startup.user);
	lookup->database = login_asked_database(client);
	lookup->epoch = site->catalog->credentials_epoch;
	list_init(&lookup->logins);
	map_put_str(site->lookups, lookup->key, lookup);
	login_query_init(&lookup->run.query, site, catalog_pool_as(db, user));
	return lookup;
}

static void lookup_join(struct lookup *lookup, struct client *client)
{
	struct login *login = client->login;

	login->client = client;
	login->lookup = lookup;
	login->waits_since_us = conn_now(&client->conn);
	/* a query that runs already may not see a secret that has just changed */
	login->may_be_outdated = lookup->run.query.state == LOGIN_QUERY_RUNNING;
	list_push_back(&lookup->logins, &login->lookup_node);
}

static enum authquery lookup_begin(struct client *client)
{
	struct database *db = find_database(client);
	struct lookup *lookup;

	if (!db)
		return AUTHQUERY_REFUSED;
	lookup = lookup_new(client, db);
	lookup_join(lookup, client);
	login_query_ask(&lookup->run.query);
	return AUTHQUERY_WAIT;
}

/* A lookup that began before a reload may have asked another database. */
static bool may_join(const struct lookup *lookup, bool is_again)
{
	return lookup &&
	       lookup->epoch == lookup->run.query.site->catalog->credentials_epoch &&
	       lookup->run.query.state != LOGIN_QUERY_OVER &&
	       !(is_again && lookup->run.query.state == LOGIN_QUERY_RUNNING);
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

	if (!lookup || lookup->run.query.state != LOGIN_QUERY_QUEUED)
		return UINT64_MAX;
	scope = scope_of_database(login_asked_database(client));
	wait = time_limit(login->waits_since_us, scope_query_wait_timeout(scope));
	scope = scope_of_pool(lookup->run.query.request.in_pool.pool);
	query = time_limit(login->waits_since_us, scope_query_timeout(scope));
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
	if (lookup->run.query.state == LOGIN_QUERY_RUNNING) {
		/* its answer is not used */
		login_query_abandon(&lookup->run.query);
		lookup_unlist(lookup);
		lookup->database = NULL;
	} else {
		lookup_free(lookup);
	}
}
