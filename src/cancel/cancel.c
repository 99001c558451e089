/*
 * Cancel requests: from the key to the client whose query it is for, and to the server
 * that runs the query, over a separate connection ("cancel_conn").  A request that
 * comes too late is dropped.  While one is being sent, its target server is not lent to
 * another client.
 */
#include "cancel/cancel.h"

#include <string.h>

#include "broker/broker.h"
#include "broker/dial.h"
#include "broker/server_tls.h"
#include "cancel/cancel_request.h"
#include "cancel/peers.h"
#include "session/client.h"
#include "session/client_transfer.h"
#include "session/server.h"
#include "wire/codec.h"

/* One CancelRequest that is being forwarded to a server. */
struct cancel_job {
	struct cancel_aim aim;
	/* NULL: it is for what a vanished client has left running */
	struct cancel_request *request;
	struct server *sender; /* the connection that sends it; NULL: none yet */
	struct pool *pool;
	struct site *site;
	/* cancel_wait_timeout; runs even when the client socket has closed */
	struct deadline patience;
	struct deadline retry; /* if is_refused: when the next attempt follows */
	uint64_t client_id;    /* id of the client whose query it is for */
	/* start of the query that it is for; a later query is not meant */
	uint64_t query_us;
	bool is_sent;
	bool is_refused; /* the server's Unix socket had no room for the connection */
};

/* Many cancel requests at once can fill the queue of a server's Unix socket, which then
 * refuses connections; it soon has room again. */
enum { RETRY_US = 50000 };

static const struct conn_ops cancel_conn_ops, cancel_conn_asking_ops;

/* ---- keys ---- */

void cancel_give_key(struct client *client, bool is_long)
{
	struct site *site = client->conn.site;
	size_t len = is_long ? CANCEL_KEY_LONG : CANCEL_KEY_LEN;
	uint8_t bytes[CANCEL_KEY_LONG];

	do {
		cancel_key_done(&client->cancel_key);
		mem_draw(&site->mem, bytes, len);
		bytes[0] &= 0x7f;
		peers_mark_key(site, bytes);
		cancel_key_set(&client->cancel_key, bytes, len);
	} while (cancel_keys_add(
		     site->cancel_keys, &client->cancel_key, workers_place(site)) < 0);
	mem_wipe(bytes, sizeof(bytes));
}

/* ---- the job ---- */

/* Ends a request, successful or not, and releases what it has. */
static void job_finish(struct cancel_job *job, const char *reason)
{
	struct pool *pool = job->pool;
	struct server *target = job->aim.target;
	struct server *sender = job->sender;

	later_cancel(job->site->loop, &job->aim.work);
	deadline_clear(job->site->loop, &job->patience);
	deadline_clear(job->site->loop, &job->retry);
	list_remove(sender ? &job->pool->cancels_active : &job->pool->cancels_waiting,
	    &job->aim.pool_node);
	if (job->request)
		cancel_request_end(job->request, job->site, reason);
	if (sender) {
		sender->cancel_job = NULL;
		server_retire(sender, reason);
	}
	if (target) {
		list_remove(&target->cancels, &job->aim.target_node);
		if (job->is_sent)
			broker_cancel_done(target);
		if (target->conn.ops->review)
			target->conn.ops->review(&target->conn);
	}
	mem_free(job);
	broker_schedule(pool);
	pool_free_if_unused(pool);
}

/* Whether the target still runs the query that the request is for. */
static bool job_is_due(const struct cancel_job *job)
{
	const struct server *target = job->aim.target;
	const struct client *client;

	if (!target || target->conn.is_doomed)
		return false;
	if (!job->request)
		return target->is_left && !target->is_drained &&
		       !pipeline_is_settled(&target->pipeline);
	client = server_client(target);
	return client && client->conn.id == job->client_id &&
	       client->request.in_pool.query_us == job->query_us;
}

static void job_note(const struct cancel_job *job, enum cancel_state state)
{
	struct cancel_request *request = job->request;

	if (!request)
		return;
	if (!request->database)
		request->database = mem_strdup(job->pool->database->name);
	atomic_store(&request->state, state);
}

static void job_try(struct cancel_job *job)
{
	uint64_t limit = scope_server_connect_timeout(scope_of_pool(job->pool));
	struct server *sender;
	bool is_full;

	if (!job_is_due(job)) {
		job_finish(
		    job, "not sending cancel request for client that is now idle");
		return;
	}
	if (job->is_refused || !pool_may_dial_cancel(job->pool))
		return;
	sender = dial_beside(job->aim.target, &cancel_conn_ops, &is_full);
	job->is_refused = is_full;
	if (is_full) {
		deadline_set(
		    job->site->loop, &job->retry, loop_now(job->site->loop) + RETRY_US);
		return;
	}
	if (!sender) {
		job_finish(job, "connect failed");
		return;
	}
	list_remove(&job->pool->cancels_waiting, &job->aim.pool_node);
	list_push_back(&job->pool->cancels_active, &job->aim.pool_node);
	sender->cancel_job = job;
	job->sender = sender;
	job_note(job, CANCEL_ACTIVE);
	/* without cancel_wait_timeout, this is the only limit of a connect that hangs
	 */
	if (limit)
		conn_set_deadline(&sender->conn, conn_now(&sender->conn) + limit);
	/* there may be room for the next request, too */
	broker_schedule(job->pool);
}

static void job_retry(struct deadline *d)
{
	struct cancel_job *job = container_of(d, struct cancel_job, retry);

	job->is_refused = false;
	job_try(job);
}

/* Sends the request if that is possible now.  Runs whenever the target gets another
 * client, or the pool may have room. */
static void job_work(struct later *l)
{
	struct cancel_job *job = container_of(l, struct cancel_job, aim.work);
	if (job->is_sent)
		return;
	if (!job->sender)
		job_try(job);
	else if (!job_is_due(job))
		job_finish(
		    job, "not sending cancel request for client that is now idle");
}

/* The time is over.  If the server has not closed the connection, the cancel may still
 * hit, so the target is not lent again. */
static void job_expired(struct deadline *d)
{
	struct cancel_job *job = container_of(d, struct cancel_job, patience);
	if (job->aim.target && job->is_sent)
		pool_mark_slot_dirty(&job->aim.target->slot, DIRTY_OLD);
	job_finish(job, "cancel_wait_timeout");
}

/* ---- the connection that carries it ---- */

static void cancel_conn_send(struct server *sender)
{
	struct cancel_job *job = sender->cancel_job;
	struct buf buf;

	if (!job_is_due(job)) {
		job_finish(
		    job, "not sending cancel request for client that is now idle");
		return;
	}
	job->is_sent = true;
	conn_set_deadline(&sender->conn, 0);
	job->aim.target->slot.cancels_in_flight++;
	buf_init(&buf, 0);
	codec_put_cancel_request(&buf, job->aim.target->key, job->aim.target->key_len);
	conn_send(&sender->conn, &buf);
	buf_done(&buf);
}

/* Is called after each step towards TLS. */
static void cancel_conn_go_on(
    struct server *sender, enum tls_begin begin, const char *reason)
{
	switch (begin) {
	case TLS_BEGIN_CLEAR:
		/* the key is not sent unencrypted if the query's connection is
		 * encrypted */
		if (stream_tls(&sender->cancel_job->aim.target->conn.stream)) {
			job_finish(sender->cancel_job, "server refused SSL");
			break;
		}
		conn_hand_on(&sender->conn, &cancel_conn_ops);
		cancel_conn_send(sender);
		break;
	case TLS_BEGIN_ASKED:
		conn_hand_on(&sender->conn, &cancel_conn_asking_ops);
		break;
	case TLS_BEGIN_STARTED:
		break;
	case TLS_BEGIN_REFUSED:
		job_finish(sender->cancel_job, reason);
	}
}

static const struct database_config *cancel_conn_database(const struct server *sender)
{
	return sender->cancel_job->aim.target->slot.pool->database->config;
}

/* The connection uses TLS like the connection that runs the query. */
static void cancel_conn_connected(struct conn *conn)
{
	struct server *sender = conn_server(conn);
	const struct cancel_job *job = sender->cancel_job;
	const char *reason = NULL;
	enum tls_begin begin;

	if (!job_is_due(job) || !stream_tls(&job->aim.target->conn.stream)) {
		cancel_conn_send(sender);
		return;
	}
	begin = server_tls_begin(
	    &sender->conn, sender->host, cancel_conn_database(sender), &reason);
	cancel_conn_go_on(sender, begin, reason);
}

static enum step cancel_conn_tls_answer(
    struct conn *conn, const uint8_t *p, size_t len, size_t *taken)
{
	struct server *sender = conn_server(conn);
	const char *reason = NULL;
	enum tls_begin begin;
	(void)taken;

	conn_hand_on(conn, &cancel_conn_ops);
	if (!job_is_due(sender->cancel_job)) {
		cancel_conn_send(sender); /* reports that to the caller */
		return STEP_NEXT;
	}
	begin = server_tls_answer(
	    &sender->conn, sender->host, cancel_conn_database(sender), p, len, &reason);
	cancel_conn_go_on(sender, begin, reason);
	return STEP_NEXT;
}

static void cancel_conn_secured(struct conn *conn)
{
	cancel_conn_send(conn_server(conn));
}

static enum step cancel_conn_message(struct conn *conn, const struct message *m)
{
	(void)conn;
	(void)m;
	return STEP_NEXT;
}

static void cancel_conn_malformed(struct conn *conn, const uint8_t *bytes, size_t have)
{
	struct server *sender = conn_server(conn);
	(void)bytes;
	(void)have;
	if (sender->cancel_job)
		job_finish(sender->cancel_job, "successfully sent cancel request");
	else
		server_retire(sender, "successfully sent cancel request");
}

static void cancel_conn_ended(struct conn *conn, const struct err *err)
{
	struct server *sender = conn_server(conn);
	struct cancel_job *job = sender->cancel_job;
	if (!job)
		server_retire(sender, error_text(ERROR_SERVER_CRASHED));
	else if (job->is_sent)
		job_finish(job, "successfully sent cancel request");
	else
		job_finish(
		    job, err ? "connect failed" : error_text(ERROR_SERVER_CRASHED));
}

static void cancel_conn_expired(struct conn *conn)
{
	job_finish(conn_server(conn)->cancel_job, "connect timeout");
}

static void cancel_conn_closed(struct conn *conn, const char *reason)
{
	struct server *sender = conn_server(conn);
	if (sender->cancel_job)
		job_finish(sender->cancel_job, reason);
	server_leave(sender, reason);
}

static const struct conn_ops cancel_conn_ops = {
    .name = "cancel connection",
    .message = cancel_conn_message,
    .part = conn_ignore_part,
    .connected = cancel_conn_connected,
    .secured = cancel_conn_secured,
    .expired = cancel_conn_expired,
    .malformed = cancel_conn_malformed,
    .ended = cancel_conn_ended,
    .closed = cancel_conn_closed,
};

static const struct conn_ops cancel_conn_asking_ops = {
    .name = "cancel connection asking for TLS",
    .message = cancel_conn_message,
    .part = conn_ignore_part,
    .raw = cancel_conn_tls_answer,
    .expired = cancel_conn_expired,
    .malformed = cancel_conn_malformed,
    .ended = cancel_conn_ended,
    .closed = cancel_conn_closed,
};

/* ---- arrival ---- */

static struct cancel_job *job_new(struct server *target)
{
	struct cancel_job *job = mem_zero(sizeof(*job));
	uint64_t limit = scope_cancel_wait_timeout(scope_of_pool(target->slot.pool));

	job->site = target->conn.site;
	job->aim.target = target;
	job->pool = target->slot.pool;
	list_push_back(&job->pool->cancels_waiting, &job->aim.pool_node);
	list_push_back(&target->cancels, &job->aim.target_node);
	job->aim.work.run = job_work;
	deadline_init(&job->patience, job_expired);
	deadline_init(&job->retry, job_retry);
	if (limit)
		deadline_set(
		    job->site->loop, &job->patience, conn_now(&target->conn) + limit);
	return job;
}

static void job_begin(
    struct cancel_request *request, struct client *client, struct server *target)
{
	struct cancel_job *job = job_new(target);

	job->request = request;
	job_note(job, CANCEL_WAITING);
	job->client_id = client->conn.id;
	job->query_us = client->request.in_pool.query_us;
	job_try(job);
}

void cancel_left(struct server *server)
{
	job_try(job_new(server));
}

/* The client's query was not sent yet: it is answered at once, as if it had been
 * cancelled. */
static void cancel_unsent(struct client *client)
{
	client->is_canceled = true;
	conn_unpark(&client->conn);
}

/* Returns NULL when the request will be sent, otherwise the reason why not. */
static const char *cancel_aim(struct cancel_request *request, struct client *client)
{
	struct server *server;

	if (client->database->service->cancel) {
		client->database->service->cancel(client);
		return "cancel request for console client";
	}
	server = client_server(client);
	if (client->request.in_pool.state == REQUEST_WAITING ||
	    (server && server->dial)) {
		/* its query is answered, and it needs no server any more */
		pool_withdraw(&client->request.in_pool);
		conn_set_deadline(&client->conn, 0);
		cancel_unsent(client);
		return "cancel request for waiting client";
	}
	/* The server runs something of ours: SETs, or a question behind a query that
	 * has ended.  What the parked client has sent comes after it.  Outside of a
	 * transaction that can be answered here; in a transaction only PostgreSQL can,
	 * because the transaction fails with it. */
	if (server && server->link.params.is_applying && server->status == 'I') {
		if (!client->conn.is_parked)
			return "cancel request for idle client";
		cancel_unsent(client);
		return "cancel request for waiting client";
	}
	if (!server || !client->request.in_pool.query_us || !server->key)
		return "cancel request for idle client";
	job_begin(request, client, server);
	return NULL;
}

/* The client is at this site. */
static void reach(
    struct cancel_request *request, struct cancel_key *key, struct site *site)
{
	const char *reason =
	    cancel_aim(request, container_of(key, struct client, cancel_key));

	if (reason)
		cancel_request_end(request, site, reason);
}

/* The request has come to where its client was.  While pools are being handed over to
 * another process, it waits until it is clear which process has the client. */
static void opened(struct thread_message *message)
{
	struct cancel_request *request =
	    container_of(message, struct cancel_request, message);
	struct site *site = request->to->site;
	enum cancel_state state = CANCEL_NEW;
	struct cancel_key *key;
	unsigned next;

	if (site->shutdown == SHUTDOWN_NOW || site->catalog->is_offered) {
		cancel_request_end(request, site, NULL);
		return;
	}
	key = cancel_keys_find(
	    site->cancel_keys, request->key, request->len, workers_place(site), &next);
	if (key &&
	    atomic_compare_exchange_strong(&request->state, &state, CANCEL_TAKEN)) {
		reach(request, key, site);
	} else if (key || next == CANCEL_NOWHERE) {
		cancel_request_end(request, site, NULL);
	} else {
		request->to = &site->worker->workers->members[next];
		workers_post(request->to, message);
	}
}

enum step cancel_begin(struct client *client, const struct message *m)
{
	struct site *site = client->conn.site;
	const struct process_verbs *verbs = site->verbs;
	size_t len = (size_t)m->size - 8;
	uint8_t bytes[CANCEL_REQUEST_KEY_MAX];
	unsigned next = CANCEL_NOWHERE;
	struct cancel_key *key = NULL;

	client->is_cancel = true;
	if (site->catalog->is_offered) {
		conn_put_off(&client->conn);
		return STEP_PARK;
	}
	memcpy(bytes, m->bytes + 8, len);
	bool is_foreign = peers_is_foreign(site, bytes, len);
	if (!is_foreign)
		key = cancel_keys_find(
		    site->cancel_keys, bytes, len, workers_place(site), &next);
	/* the control site forwards all requests to peers, so that limits hold for all
	 * workers, and has the connection to the other process of a takeover */
	if (next == CANCEL_NOWHERE && !workers_is_control(site)) {
		client_transfer_first_packet(
		    client, workers_control(site->worker->workers));
		return STEP_PARK;
	}
	if (next == CANCEL_NOWHERE && !is_foreign) {
		if (verbs && verbs->may_pass_cancel &&
		    verbs->may_pass_cancel(client, m->bytes, (size_t)m->size))
			conn_doom_quietly(&client->conn, "cancel request passed on");
		else
			conn_doom(&client->conn, "failed cancel request");
		return STEP_CLOSE;
	}
	struct cancel_request *request = cancel_request_new(client, bytes, len);
	if (is_foreign)
		peers_forward(request, bytes, len);
	else if (key)
		reach(request, key, site);
	else
		cancel_request_send(
		    request, &site->worker->workers->members[next], opened);
	/* what comes behind the request is not read, as PostgreSQL does not */
	return STEP_PARK;
}
