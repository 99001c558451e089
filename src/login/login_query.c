/*
 * What queries for logins have in common: their place in the pool, their time, and the
 * ledger of their server.
 */
#include "login/login_query.h"

#include <stdio.h>

#include "base/time_us.h"
#include "broker/broker.h"
#include "wire/codec.h"

/* A server whose answer contains a longer message is closed. */
enum { ANSWER_MESSAGE_MAX = 1024 * 1024 };
/* How long a query may continue after the last client that waited for it has left. */
enum { ABANDONED_US = 5 * 1000000 };

void login_query_init(struct login_query *query, struct site *site, struct pool *pool)
{
	query->site = site;
	pool_join(pool, &query->request.in_pool);
	query->request.in_pool.query_us = loop_now(site->loop);
}

void login_query_done(struct login_query *query)
{
	struct pool *pool = query->request.in_pool.pool;

	later_cancel(query->site->loop, &query->work);
	pool_part(&query->request.in_pool);
	pool_free_if_unused(pool);
	mem_free(query->refusal);
}

void login_query_refuse(
    struct login_query *query, const char *sqlstate, const char *text)
{
	mem_free(query->refusal);
	query->refusal = mem_strdup(text);
	snprintf(query->sqlstate, sizeof(query->sqlstate), "%.5s", sqlstate);
}

void login_query_ask(struct login_query *query)
{
	const char *sqlstate, *text;

	switch (broker_ask(&query->request, REQUEST_AUTH, &sqlstate, &text)) {
	case BROKER_GRANTED:
		query->send(query);
		break;
	case BROKER_REFUSED:
	case BROKER_FULL:
		login_query_refused(&query->request, sqlstate, text);
		break;
	case BROKER_WAIT:
		break;
	}
}

/* ---- the request ---- */

void login_query_granted(struct request *request)
{
	struct login_query *query = login_query_of(request);

	query->send(query);
}

void login_query_refused(
    struct request *request, const char *sqlstate, const char *text)
{
	struct login_query *query = login_query_of(request);

	login_query_refuse(query, sqlstate, text);
	query->over(query);
}

void login_query_killed(struct request *request, const char *reason)
{
	/* a running query ends when its server closes */
	if (login_query_of(request)->state == LOGIN_QUERY_QUEUED)
		login_query_refused(
		    request, error_sqlstate(error_of_reason(reason)), reason);
}

/* ---- the server ---- */

void login_query_hand_on(struct login_query *query, const struct conn_ops *ops)
{
	struct conn *conn = &slot_server(query->request.in_pool.slot)->conn;
	struct scope scope = scope_of_pool(query->request.in_pool.pool);

	query->state = LOGIN_QUERY_RUNNING;
	conn_hand_on(conn, ops);
	conn_set_deadline(
	    conn, time_earlier(time_limit(conn_now(conn), scope_query_timeout(scope)),
		      time_limit(conn_now(conn), scope_transaction_timeout(scope))));
}

enum step login_query_take(
    struct server *server, const struct message *m, const char *unexpected)
{
	uint8_t status = 0;

	if (m->size <= ANSWER_MESSAGE_MAX && !message_is_whole(m))
		return STEP_MORE;
	if (m->size > ANSWER_MESSAGE_MAX ||
	    (m->type == 'Z' &&
		codec_read_ready(message_body(m), message_body_len(m), &status) < 0)) {
		server_unreadable(server, m);
		return STEP_CLOSE;
	}
	server->last_us = conn_now(&server->conn);
	if (pipeline_answer(&server->pipeline, m->type, status, NULL) ==
	    ANSWER_BROKEN) {
		server_unexpected(server, m, unexpected);
		return STEP_CLOSE;
	}
	if (m->type == 'Z') {
		server->status = status;
		server->noted = 0;
	}
	return STEP_NEXT;
}

void login_query_give_back(struct server *server)
{
	server->is_ready = true;
	server_rest(server, 0); /* the pool may lend it to others from here on */
	broker_give(server);
}

void login_query_abandon(struct login_query *query)
{
	struct conn *conn = &slot_server(query->request.in_pool.slot)->conn;
	uint64_t at_us = conn_now(conn) + ABANDONED_US;

	if (at_us < conn->deadline.at_us)
		conn_set_deadline(conn, at_us);
}
