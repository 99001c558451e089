/*
 * log_min_duration: what is noted of a client's transaction as long as it runs, and the
 * line of the log about one that took longer.  A client has a struct slow while the
 * setting is in force for it; a transaction that another process has begun has none.
 */
#ifndef RELAY_SLOW_H
#define RELAY_SLOW_H

#include <stdint.h>

#include "session/client.h"
#include "session/server.h"
#include "wire/traceparent.h"

struct prepared_text;

/* Where a transaction or a query began, and the trace it belongs to. */
struct slow_span {
	uint64_t received, sent;            /* of struct slow at its beginning */
	char traceparent[TRACEPARENT_TEXT]; /* "": none was seen in a text */
	/* one reference: bound before any text was seen; NULL: none */
	struct prepared_text *bound;
};

struct slow {
	uint64_t limit_us;
	uint64_t received, sent; /* bytes of messages of the client and to it */
	uint64_t worked_us;      /* with queries that are answered */
	unsigned query_count;
	struct slow_span xact, query;
};

/* A transaction begins: client->slow is there from now on, if it is wanted. */
void slow_begin(struct client *client);
/* For the rest client->slow must be there, but for slow_end and slow_forget. */
void slow_begin_query(struct client *client);
/* A message that may have a text or the name of one goes to the server. */
void slow_look(
    struct client *client, const struct server *server, const struct message *m);
/* All that was asked for is answered: the query, and the transaction if the server says
 * so. */
void slow_answered(struct client *client, const struct server *server, uint64_t now_us);
/* The transaction ends in another way.  server: the one that it had, or NULL. */
void slow_end(struct client *client, const struct server *server, const char *how);
void slow_forget(struct client *client);

#endif
