/*
 * What a client has of its thread is put aside before it leaves, and found again where
 * it arrives: its database and user, its parameters, and the texts of its statements.
 * What its pool has learned from clients' logins goes along, because the pool there may
 * have to log in to a server before anybody has logged in there.
 */
#include "session/client_transfer.h"

#include <string.h>

#include "pool/credentials.h"
#include "session/client.h"
#include "session/client_snapshot.h"
#include "session/conn_move.h"
#include "session/workers.h"
#include "wire/prepared.h"

/* A client with a longer incomplete message, or with more prepared statements, stays:
 * packing it would take longer than a turn should, and it is not urgent. */
enum { HELD_MOST = 64 * 1024, NAMES_MOST = 2000 };

struct client_transfer {
	struct thread_message message;
	struct client *client;
	struct worker *to;
	/* owned, of a client that is logged in: where it counts; else NULL */
	char *database, *user;
	struct brought_credentials credentials; /* with owned texts */
	/* what the service has put aside */
	const struct service_moves *moves;
	void *packed;
	struct buf vars; /* its parameters, and those of its startup packet */
};

static struct client_transfer *transfer_new(struct client *client, struct worker *to)
{
	struct client_transfer *t = mem_zero(sizeof(*t));

	t->client = client;
	t->to = to;
	buf_init(&t->vars, 0);
	return t;
}

static void free_secret(const char *text)
{
	char *own = (char *)(uintptr_t)text;

	if (own)
		mem_wipe(own, strlen(own));
	mem_free(own);
}

static void transfer_free(struct client_transfer *t)
{
	free_secret(t->credentials.found);
	free_secret(t->credentials.remembered);
	mem_wipe(&t->credentials, sizeof(t->credentials));
	buf_wipe_done(&t->vars);
	mem_free(t->database);
	mem_free(t->user);
	mem_free(t);
}

/* ---- arrival ---- */

/* The site is ending. */
static void drop(struct client_transfer *t, struct site *site)
{
	struct client *client = t->client;

	if (t->database)
		catalog_lose_client(site->catalog, t->database, t->user);
	mem_free(t->packed);
	prepared_names_drop_packed(&client->names);
	cancel_keys_remove(site->cancel_keys, &client->cancel_key);
	mem_free(client->params.asked);
	mem_free(client->params.kept);
	mem_free(client->params.startup);
	conn_close_detached(&client->conn);
	client->conn.site = site;
	client_prove(client);
	client->conn.kind->destroy(&client->conn);
}

static int unpack_vars(struct client_transfer *t, struct site *site)
{
	struct client_params *params = &t->client->params;
	const uint8_t *at = t->vars.bytes;

	vars_init(&params->vars, site->vars);
	int failed = vars_take_all(&params->vars, &at);
	if (!params->asked)
		return failed;
	vars_init(params->asked, site->vars);
	return failed | vars_take_all(params->asked, &at);
}

static void join_pool(struct client_transfer *t)
{
	struct client *client = t->client;
	bool is_new;
	struct database *db =
	    catalog_database(t->to->site->catalog, t->database, &is_new);

	if (!db || db->service->moves != t->moves) {
		catalog_lose_client(t->to->site->catalog, t->database, t->user);
		mem_free(t->packed);
		conn_doom(&client->conn, "%s", error_text(ERROR_DATABASE_REMOVED));
		return;
	}
	client->database = db;
	client->user = catalog_user(t->to->site->catalog, t->user);
	database_hold(db);
	database_receive(db);
	user_receive(client->user);
	client->is_counted = true;
	struct pool *pool = catalog_pool(db, client->user);
	credentials_bring(pool, &t->credentials);
	pool_join(pool, &client->request.in_pool);
	client->request.in_pool.is_logged_in = true;
	t->moves->unpack(client, t->packed);
}

static void arrived(struct thread_message *message)
{
	struct client_transfer *t =
	    container_of(message, struct client_transfer, message);
	struct site *site = t->to->site;
	struct client *client = t->client;

	slab_receive(site->client_slab);
	if (site->shutdown == SHUTDOWN_NOW) {
		drop(t, site);
		transfer_free(t);
		return;
	}
	conn_attach(&client->conn, site);
	client->transfer = NULL;
	client_enlist(client);
	cancel_keys_settle(site->cancel_keys, &client->cancel_key);
	int failed = unpack_vars(t, site) | prepared_names_unpack(&client->names,
						site->prepared, site->sql_prepared);
	if (t->database) {
		site->transfer_counts.clients_in++;
		join_pool(t);
	} else {
		t->to->workers->ops->readmit(client);
	}
	if (failed)
		conn_doom(&client->conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
	transfer_free(t);
}

/* ---- departure ---- */

static void leave_pool(struct client_transfer *t)
{
	struct client *client = t->client;
	struct pool *pool = client->request.in_pool.pool;

	t->database = mem_strdup(client->database->name);
	t->user = mem_strdup(client->user->name);
	credentials_of_pool(pool, &t->credentials);
	if (t->credentials.found)
		t->credentials.found = mem_strdup(t->credentials.found);
	if (t->credentials.remembered)
		t->credentials.remembered = mem_strdup(t->credentials.remembered);
	t->moves = client->database->service->moves;
	t->packed = t->moves->pack(client);
	pool_part(&client->request.in_pool);
	pool_free_if_unused(pool);
	database_carry(client->database);
	user_carry(client->user);
	client->is_counted = false;
	database_release(client->database);
	client->user = NULL;
	client->database = NULL;
	client->conn.site->transfer_counts.clients_out++;
}

/* -1: no memory; the client stays, doomed, and so does t.
 *
 * The message is posted at once after the key's place is known, so a cancel request
 * that asks here from now on arrives there behind the client. */
static int depart(struct client_transfer *t)
{
	struct client *client = t->client;
	struct site *site = client->conn.site;
	struct client_params *params = &client->params;

	vars_put_all(&params->vars, &t->vars);
	if (params->asked)
		vars_put_all(params->asked, &t->vars);
	if (t->vars.failed) {
		conn_doom(&client->conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
		return -1;
	}
	/* as long as it is whole */
	client_snapshot_leave(site, client);
	if (conn_detach(&client->conn) < 0)
		return -1;
	if (client->database)
		leave_pool(t);
	vars_done(&params->vars);
	if (params->asked)
		vars_done(params->asked);
	prepared_names_pack(&client->names);
	client_delist(client);
	slab_send(site->client_slab);
	workers_client_goes(site, t->to);
	cancel_keys_send(site->cancel_keys, &client->cancel_key, t->to->index);
	t->message.handle = arrived;
	workers_post(t->to, &t->message);
	return 0;
}

bool client_transfer_is_possible(const struct client *client)
{
	const struct conn *conn = &client->conn;
	const struct pool_request *request = &client->request.in_pool;

	if (conn->is_doomed || conn->is_parked || conn->is_stopped || conn->passing ||
	    !request->is_logged_in || request->state != REQUEST_RESTING ||
	    request->pool->is_killed || request->query_us || client->xact_us ||
	    client->replication)
		return false;
	if (stream_pending(&conn->stream) ||
	    (conn->stream.tls && !stream_tls(&conn->stream)))
		return false;
	const struct service_moves *moves = client->database->service->moves;
	return moves && moves->is_movable(client) && conn->held_len <= HELD_MOST &&
	       prepared_names_count(client->names) <= NAMES_MOST &&
	       !prepared_names_has_long(client->names);
}

void client_transfer_at_rest(struct client *client, struct worker *to)
{
	struct client_transfer *t = transfer_new(client, to);

	if (depart(t) < 0)
		transfer_free(t);
}

/* ---- with its first packet ---- */

static void client_lost(struct conn *conn, const char *reason)
{
	struct client *client = conn_client(conn);

	(void)reason;
	transfer_free(client->transfer);
	client->transfer = NULL;
	client_leave(client);
}

static void leave(struct conn *conn)
{
	(void)depart(conn_client(conn)->transfer);
}

static void ended(struct conn *conn, const struct err *err)
{
	(void)err;
	if (!conn_client(conn)->is_cancel) /* which goes on without its socket */
		conn_doom_quietly(conn, "client unexpected eof");
}

static const struct conn_ops leaving_ops = {
    .name = "leaving",
    .leaves = leave,
    .malformed = client_malformed,
    .ended = ended,
    .closed = client_lost,
};

void client_transfer_first_packet(struct client *client, struct worker *to)
{
	/* the line about the phase looks at the login, which has the same place */
	conn_hand_on(&client->conn, &leaving_ops);
	client->transfer = transfer_new(client, to);
	conn_leave(&client->conn);
}
