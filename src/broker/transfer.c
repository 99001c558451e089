/*
 * What a server has of its thread is put aside before it leaves, and found again where
 * it arrives: its place in the pool, its parameters, and the texts of its statements.
 */
#include "broker/transfer.h"

#include "pool/notes.h"
#include "session/conn_move.h"
#include "session/server.h"
#include "session/server_role.h"
#include "session/workers.h"
#include "wire/prepared.h"

struct transfer {
	struct thread_message message;
	struct server *server;
	struct worker *to;
	unsigned after;            /* the last broadcast when it left its pool */
	struct central_pool *pool; /* one reference: where it counts */
	struct buf vars;           /* its parameters, and its own values */
};

/* At either of its sites. */
static void transfer_free(struct transfer *t, struct site *site)
{
	t->server->transfer = NULL;
	buf_done(&t->vars);
	central_pool_unref(&site->catalog->view, &t->pool);
	mem_free(t);
}

/* ---- arrival ---- */

static const struct conn_ops arriving_ops = {
    .name = "arriving",
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = server_closed,
};

static void join_pool(struct transfer *t, struct pool *pool)
{
	struct server *server = t->server;
	struct site *site = server->conn.site;
	struct slot was = server->slot;
	struct buf unread;

	was.state = was.carried_as;
	was.is_carried = true;
	/* not all of it has arrived; RECONNECT, or another configuration */
	if (server->conn.is_doomed || workers_has_missed(t->to, t->after))
		was.dirty = DIRTY_OLD;
	/* the next client would take what nobody has asked for as its answer */
	buf_init(&unread, 0);
	conn_put_unread(&server->conn, &unread);
	if (unread.failed || !server_may_send_any_time(unread.bytes, unread.len))
		was.dirty = DIRTY_OLD;
	buf_done(&unread);
	site->transfer_counts.in++;
	site->transfer_counts.waits_served += !list_is_empty(&pool->part.waiters);
	server->slot = (struct slot){.pool = NULL};
	pool_move_in(pool, &server->slot, NULL, &was, server->host, server->port,
	    conn_now(&server->conn));
	server_role_follow(server, &server->own);
	site->server_events->review(server);
	/* the site was suspended while the server was on its way */
	if (site->catalog->suspended && server->slot.state == SLOT_IDLE)
		conn_quiesce(&server->conn);
}

static void arrived(struct thread_message *message)
{
	struct transfer *t = container_of(message, struct transfer, message);
	struct site *site = t->to->site;
	struct server *server = t->server;
	const uint8_t *at = t->vars.bytes;

	slab_receive(site->server_slab);
	if (site->shutdown == SHUTDOWN_NOW) {
		central_host_carried(&site->catalog->view, &server->slot.carried_from);
		transfer_free(t, site);
		conn_close_detached(&server->conn);
		prepared_set_drop_packed(&server->statements);
		pipeline_done(&server->pipeline);
		server->conn.site = site;
		server->conn.kind->destroy(&server->conn);
		return;
	}
	site->server_count++;
	conn_attach(&server->conn, site);
	conn_hand_on(&server->conn, &arriving_ops);
	vars_init(&server->vars, site->vars);
	vars_init(&server->own, site->vars);
	int failed = vars_take_all(&server->vars, &at);
	failed |= vars_take_all(&server->own, &at);
	failed |= prepared_set_unpack(
	    &server->statements, site->prepared, site->sql_prepared);
	/* before it could be lent */
	if (failed)
		conn_doom(&server->conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
	struct pool *pool = notes_pool(site->catalog, t->pool);
	if (pool) {
		join_pool(t, pool);
	} else {
		notes_lost(site->catalog, t->pool, &server->slot);
		conn_doom(&server->conn, "%s", error_text(ERROR_DATABASE_REMOVED));
	}
	transfer_free(t, site);
}

/* ---- departure ---- */

static void server_lost(struct conn *conn, const char *reason)
{
	transfer_free(conn_server(conn)->transfer, conn->site);
	server_leave(conn_server(conn), reason);
}

static void leave(struct conn *conn)
{
	struct server *server = conn_server(conn);
	struct transfer *t = server->transfer;
	struct site *site = conn->site;

	vars_put_all(&server->vars, &t->vars);
	vars_put_all(&server->own, &t->vars);
	if (t->vars.failed) {
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
		return;
	}
	if (conn_detach(conn) < 0)
		return;
	struct pool *pool = server->slot.pool;
	pool_carried(&server->slot);
	pool_gone(&server->slot, conn_now(conn));
	pool_free_if_unused(pool);
	server_lose_cancels(server);
	vars_done(&server->vars);
	vars_done(&server->own);
	prepared_set_pack(&server->statements);
	/* what was found with sets of this thread */
	server->fitted.client_id = 0;
	site->server_count--;
	slab_send(site->server_slab);
	site->transfer_counts.out++;
	workers_post(t->to, &t->message);
}

static const struct conn_ops leaving_ops = {
    .name = "leaving",
    .leaves = leave,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = server_lost,
};

void transfer_begin(struct server *server, unsigned worker)
{
	struct site *site = server->conn.site;
	struct transfer *t = mem_zero(sizeof(*t));

	t->message.handle = arrived;
	t->server = server;
	t->to = &site->worker->workers->members[worker];
	t->after = site->worker->broadcast;
	t->pool = central_pool_ref(&site->catalog->view, server->slot.pool->part.whole);
	buf_init(&t->vars, 0);
	server->transfer = t;
	conn_hand_on(&server->conn, &leaving_ops);
	conn_leave(&server->conn);
}
