/*
 * Cancel requests: from the key to the client whose query it is for, and to the server
 * that runs the query, over a separate connection ("messenger").  A request that comes
 * too late is dropped.  While one is being sent, its target server is not lent to
 * another client.
 */
#include "cancel/cancel.h"

#include <string.h>

#include "broker/broker.h"
#include "broker/dial.h"
#include "broker/server_tls.h"
#include "cancel/peers.h"
#include "session/cancel_keys.h"
#include "session/client.h"
#include "session/passing.h"
#include "session/server.h"
#include "wire/codec.h"

/* Many cancel requests at once can fill the queue of a server's Unix socket, which then
 * refuses connections; it soon has room again. */
enum { RETRY_US = 50000 };

static const struct conn_ops messenger_ops, messenger_asking_ops;

/* ---- keys ---- */

void cancel_give_key(struct client *client, bool is_long)
{
	struct site *site = client->conn.site;
	uint8_t *key = client->cancel_key;
	size_t len;

	if (is_long) {
		key = client->long_key = mem_alloc(CANCEL_KEY_LONG);
		client->has_long_key = true;
	}
	client_cancel_key(client, &len);
	do {
		mem_draw(&site->mem, key, len);
		key[0] &= 0x7f;
		peers_mark_key(site, key);
	} while (cancel_keys_find(site->cancel_keys, key, len));
	cancel_keys_add(site->cancel_keys, client);
	client->has_key = true;
}

/* ---- the job ---- */

static struct list *job_list(const struct cancel_job *job)
{
	return job->messenger ? &job->pool->cancels_active
			      : &job->pool->cancels_waiting;
}

/* Ends a request, successful or not, and releases the carrier, the messenger and the
 * target. */
static void job_finish(struct cancel_job *job, const char *reason)
{
	struct pool *pool = job->pool;
	struct server *target = job->aim.target;
	struct server *messenger = job->messenger;

	later_cancel(job->site->loop, &job->aim.work);
	deadline_clear(job->site->loop, &job->patience);
	deadline_clear(job->site->loop, &job->retry);
	list_remove(job_list(job), &job->aim.pool_node);
	carrier_release(&job->carried, reason);
	if (messenger) {
		messenger->errand = NULL;
		server_retire(messenger, reason);
	}
	if (target) {
		list_remove(&target->cancels, &job->aim.target_node);
		if (job->is_sent)
			broker_cancel_done(target);
		if (target->conn.ops->review)
			target->conn.ops->review(&target->conn);
	}
	mem_free(job);
	broker_kick(pool);
	pool_free_if_unused(pool);
}

/* Whether the target still runs the query that the request is for. */
static bool job_is_due(const struct cancel_job *job)
{
	const struct server *target = job->aim.target;
	const struct client *client;

	if (!target || target->conn.is_doomed)
		return false;
	if (job->is_for_left)
		return target->is_left && !target->is_drained &&
		       !pipeline_is_settled(&target->pipeline);
	client = server_client(target);
	return client && client->conn.id == job->client_id &&
	       client->request.ask.query_us == job->query_us;
}

/* Without cancel_wait_timeout, this is the only limit of a connect that hangs. */
static void messenger_start_clock(struct server *messenger)
{
	uint64_t limit =
	    scope_server_connect_timeout(scope_of_pool(messenger->seat.pool));

	if (limit)
		conn_set_deadline(&messenger->conn, conn_now(&messenger->conn) + limit);
}

static void job_try(struct cancel_job *job)
{
	struct server *messenger;
	bool is_full;

	if (!job_is_due(job)) {
		job_finish(
		    job, "not sending cancel request for client that is now idle");
		return;
	}
	if (job->is_refused || !pool_may_dial_cancel(job->pool))
		return;
	messenger = dial_beside(job->aim.target, &messenger_ops, &is_full);
	job->is_refused = is_full;
	if (is_full) {
		deadline_set(
		    job->site->loop, &job->retry, loop_now(job->site->loop) + RETRY_US);
		return;
	}
	if (!messenger) {
		job_finish(job, "connect failed");
		return;
	}
	list_remove(&job->pool->cancels_waiting, &job->aim.pool_node);
	list_push_back(&job->pool->cancels_active, &job->aim.pool_node);
	messenger->errand = job;
	job->messenger = messenger;
	messenger_start_clock(messenger);
	/* there may be room for the next request, too */
	broker_kick(job->pool);
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
	if (!job->messenger)
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
		job->aim.target->seat.is_dirty = true;
	job_finish(job, "cancel_wait_timeout");
}

/* ---- the connection that carries it ---- */

static void messenger_send(struct server *messenger)
{
	struct cancel_job *job = messenger->errand;
	struct buf buf;

	if (!job_is_due(job)) {
		job_finish(
		    job, "not sending cancel request for client that is now idle");
		return;
	}
	job->is_sent = true;
	conn_set_deadline(&messenger->conn, 0);
	job->aim.target->seat.cancels_in_flight++;
	buf_init(&buf, 0);
	codec_put_cancel_request(&buf, job->aim.target->key, job->aim.target->key_len);
	conn_send(&messenger->conn, &buf);
	buf_done(&buf);
}

/* Is called after each step towards TLS. */
static void messenger_go_on(
    struct server *messenger, enum tls_begin begin, const char *reason)
{
	switch (begin) {
	case TLS_BEGIN_CLEAR:
		/* the key is not sent unencrypted if the query's connection is
		 * encrypted */
		if (stream_tls(&messenger->errand->aim.target->conn.stream)) {
			job_finish(messenger->errand, "server refused SSL");
			break;
		}
		conn_hand_on(&messenger->conn, &messenger_ops);
		messenger_send(messenger);
		break;
	case TLS_BEGIN_ASKED:
		conn_hand_on(&messenger->conn, &messenger_asking_ops);
		break;
	case TLS_BEGIN_STARTED:
		break;
	case TLS_BEGIN_REFUSED:
		job_finish(messenger->errand, reason);
	}
}

static const struct database_config *messenger_database(const struct server *messenger)
{
	return messenger->errand->aim.target->seat.pool->database->config;
}

/* The messenger uses TLS like the connection that runs the query. */
static void messenger_connected(struct conn *conn)
{
	struct server *messenger = conn_server(conn);
	const struct cancel_job *job = messenger->errand;
	const char *reason = NULL;
	enum tls_begin begin;

	if (!job_is_due(job) || !stream_tls(&job->aim.target->conn.stream)) {
		messenger_send(messenger);
		return;
	}
	begin = server_tls_begin(
	    &messenger->conn, messenger->host, messenger_database(messenger), &reason);
	messenger_go_on(messenger, begin, reason);
}

static enum step messenger_tls_answer(
    struct conn *conn, const uint8_t *p, size_t len, size_t *taken)
{
	struct server *messenger = conn_server(conn);
	const char *reason = NULL;
	enum tls_begin begin;
	(void)taken;

	conn_hand_on(conn, &messenger_ops);
	if (!job_is_due(messenger->errand)) {
		messenger_send(messenger); /* reports that to the caller */
		return STEP_NEXT;
	}
	begin = server_tls_answer(&messenger->conn, messenger->host,
	    messenger_database(messenger), p, len, &reason);
	messenger_go_on(messenger, begin, reason);
	return STEP_NEXT;
}

static void messenger_secured(struct conn *conn)
{
	messenger_send(conn_server(conn));
}

static enum step messenger_message(struct conn *conn, const struct message *m)
{
	(void)conn;
	(void)m;
	return STEP_NEXT;
}

static void messenger_malformed(struct conn *conn, const uint8_t *bytes, size_t have)
{
	struct server *messenger = conn_server(conn);
	(void)bytes;
	(void)have;
	if (messenger->errand)
		job_finish(messenger->errand, "successfully sent cancel request");
	else
		server_retire(messenger, "successfully sent cancel request");
}

static void messenger_ended(struct conn *conn, const struct err *err)
{
	struct server *messenger = conn_server(conn);
	struct cancel_job *job = messenger->errand;
	if (!job)
		server_retire(messenger, error_text(ERROR_SERVER_CRASHED));
	else if (job->is_sent)
		job_finish(job, "successfully sent cancel request");
	else
		job_finish(
		    job, err ? "connect failed" : error_text(ERROR_SERVER_CRASHED));
}

static void messenger_expired(struct conn *conn)
{
	job_finish(conn_server(conn)->errand, "connect timeout");
}

static void messenger_closed(struct conn *conn, const char *reason)
{
	struct server *messenger = conn_server(conn);
	if (messenger->errand)
		job_finish(messenger->errand, reason);
	server_leave(messenger, reason);
}

static const struct conn_ops messenger_ops = {
    .name = "cancel messenger",
    .message = messenger_message,
    .part = conn_ignore_part,
    .connected = messenger_connected,
    .secured = messenger_secured,
    .expired = messenger_expired,
    .malformed = messenger_malformed,
    .ended = messenger_ended,
    .closed = messenger_closed,
};

static const struct conn_ops messenger_asking_ops = {
    .name = "cancel messenger asking for TLS",
    .message = messenger_message,
    .part = conn_ignore_part,
    .raw = messenger_tls_answer,
    .expired = messenger_expired,
    .malformed = messenger_malformed,
    .ended = messenger_ended,
    .closed = messenger_closed,
};

/* ---- arrival ---- */

static struct cancel_job *job_new(struct server *target)
{
	struct cancel_job *job = mem_zero(sizeof(*job));
	uint64_t limit = scope_cancel_wait_timeout(scope_of_pool(target->seat.pool));

	job->site = target->conn.site;
	job->aim.target = target;
	job->pool = target->seat.pool;
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
    struct client *carrier, struct client *client, struct server *target)
{
	struct cancel_job *job = job_new(target);

	carrier_bind(carrier, &job->carried, job->pool);
	job->client_id = client->conn.id;
	job->query_us = client->request.ask.query_us;
	job_try(job);
}

void cancel_left(struct server *server)
{
	struct cancel_job *job = job_new(server);

	job->is_for_left = true;
	job_try(job);
}

/* The client's query was not sent yet: it is answered at once, as if it had been
 * cancelled. */
static void cancel_unsent(struct client *client)
{
	client->is_canceled = true;
	conn_unpark(&client->conn);
}

/* The client waits in the queue: its query is answered, and it needs no server any
 * more. */
static void cancel_queued(struct client *client)
{
	pool_withdraw(&client->request.ask);
	conn_set_deadline(&client->conn, 0);
	cancel_unsent(client);
}

/* Returns NULL when the request will be sent, otherwise the reason why not. */
static const char *cancel_aim(struct client *carrier, struct client *client)
{
	struct server *server;

	if (!client)
		return "failed cancel request";
	if (client->database->service->cancel) {
		client->database->service->cancel(client);
		return "cancel request for console client";
	}
	server = client_server(client);
	if (client->request.ask.state == ASK_WAITING || (server && server->dial)) {
		cancel_queued(client);
		return "cancel request for waiting client";
	}
	/* The server is still applying our SETs, and the query of the parked client
	 * comes after them.  Outside of a transaction the query can be answered here;
	 * in a transaction only PostgreSQL can, because the transaction fails with
	 * it. */
	if (server && server->link.is_applying && client->conn.is_parked &&
	    server->status == 'I') {
		cancel_unsent(client);
		return "cancel request for waiting client";
	}
	/* what runs is the pooler's question, the client's query has ended */
	if (server && server->link.settling.sources)
		return "cancel request for idle client";
	if (!server || !client->request.ask.query_us || !server->key)
		return "cancel request for idle client";
	job_begin(carrier, client, server);
	return NULL;
}

static bool is_passed_on(struct client *carrier, const struct message *m)
{
	const struct process_verbs *verbs = carrier->conn.site->verbs;

	if (passing_may_ask_next(carrier, m->bytes, (size_t)m->size))
		return true;
	return verbs && verbs->may_pass_cancel &&
	       verbs->may_pass_cancel(carrier, m->bytes, (size_t)m->size);
}

void cancel_begin(struct client *carrier, const struct message *m)
{
	struct site *site = carrier->conn.site;
	uint8_t key[CANCEL_REQUEST_KEY_MAX];
	size_t len = (size_t)m->size - 8;
	struct client *client;
	const char *reason;

	carrier_begin(carrier);
	memcpy(key, m->bytes + 8, len);
	/* one site forwards all requests to peers, so that limits hold for all
	 * workers */
	if (peers_is_foreign(site, key, len)) {
		if (passing_may_ask_control(carrier, m->bytes, (size_t)m->size))
			conn_doom_quietly(&carrier->conn, "cancel request passed on");
		else
			peers_forward(carrier, key, len);
		return;
	}
	client = cancel_keys_find(site->cancel_keys, key, len);
	if (!client && is_passed_on(carrier, m)) {
		conn_doom_quietly(&carrier->conn, "cancel request passed on");
		return;
	}
	reason = cancel_aim(carrier, client);
	if (reason)
		conn_doom(&carrier->conn, "%s", reason);
}
