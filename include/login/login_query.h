/*
 * A query that the pooler itself runs on a server of a pool, because logins wait for
 * its answer.  It queues for the server like a client.
 */
#ifndef LOGIN_LOGIN_QUERY_H
#define LOGIN_LOGIN_QUERY_H

#include "session/request.h"
#include "session/server.h"

enum login_query_state {
	LOGIN_QUERY_QUEUED, /* no server yet */
	LOGIN_QUERY_RUNNING,
	/* the answer is there, but another query undoes what the first has set */
	LOGIN_QUERY_RESTORING,
	LOGIN_QUERY_OVER, /* the server has gone back or was lost */
};

struct login_query {
	struct request request;
	struct site *site;
	struct later work; /* tells those that wait, later in a turn of the loop */
	enum login_query_state state;
	/* There is a server: sends the query to it. */
	void (*send)(struct login_query *query);
	/* It is over for want of a server; the refusal is set. */
	void (*over)(struct login_query *query);
	char *refusal; /* owned: the text of a FATAL error for all that wait; NULL: none
			*/
	char sqlstate[6];
};

static inline struct login_query *login_query_of(const struct request *request)
{
	return container_of(request, struct login_query, request);
}
static inline struct login_query *login_query_of_server(const struct server *server)
{
	return login_query_of(request_of(server->slot.request));
}

/* Joins the pool.  The owner has set the operations and work.run. */
void login_query_init(struct login_query *query, struct site *site, struct pool *pool);
void login_query_done(struct login_query *query);
/* Requests a server, and calls send or over, now or later. */
void login_query_ask(struct login_query *query);
/* When the query is over, all that wait get this FATAL error. */
void login_query_refuse(
    struct login_query *query, const char *sqlstate, const char *text);

/* Members of the request_ops of such a query. */
void login_query_granted(struct request *request);
void login_query_refused(
    struct request *request, const char *sqlstate, const char *text);
void login_query_killed(struct request *request, const char *reason);

/* Gives the query's server to these operations, until query_timeout or
 * transaction_timeout at most. */
void login_query_hand_on(struct login_query *query, const struct conn_ops *ops);
/* Enters a message of the server in its ledger.  STEP_NEXT: it is whole, and in order;
 * otherwise the caller returns the result.  unexpected: the reason to close the server
 * with if it is out of order. */
enum step login_query_take(
    struct server *server, const struct message *m, const char *unexpected);
/* The answer is complete: the server goes back to its pool. */
void login_query_give_back(struct server *server);
/* Nobody waits for the running query any more.  It may continue for a while: to cut it
 * off would cost the server connection, so that clients which connect and leave again
 * at once would cause many server logins. */
void login_query_abandon(struct login_query *query);

#endif
