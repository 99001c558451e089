/*
 * log_min_duration: keeps notes of a client's running transaction, and logs a line
 * about it if it took longer.  A client has a struct slow_log while the setting is in
 * force for it.  The notes of a running transaction go along when another process takes
 * the client over, and are used there if the setting is in force there as well.
 */
#ifndef RELAY_SLOW_LOG_H
#define RELAY_SLOW_LOG_H

#include <stdint.h>

#include "base/buf.h"
#include "session/client.h"
#include "session/server.h"
#include "wire/traceparent.h"

struct record_client;
struct prepared_text;

/* The beginning of a transaction or a query, and the trace that it belongs to. */
struct slow_log_span {
	uint64_t received, sent; /* the values of struct slow_log at the beginning */
	char traceparent[TRACEPARENT_TEXT]; /* "": none was found in a text yet */
	/* one reference: a statement that was bound before any text was seen; NULL:
	 * none */
	struct prepared_text *bound;
};

struct slow_log {
	uint64_t limit_us;
	uint64_t received, sent; /* bytes of messages from the client and to it */
	uint64_t worked_us;      /* time of all queries that are answered */
	unsigned query_count;
	struct slow_log_span xact, query;
	/* with log_slow_text, as it may be logged: the beginning of the running query's
	 * first text, and of that of the query on which the server has worked longest
	 */
	struct buf text, longest;
	uint64_t longest_us;
};

/* A transaction begins: makes client->slow if the setting is in force. */
void slow_log_begin(struct client *client);
/* Except for slow_log_end and slow_log_forget, the following functions need
 * client->slow. */
void slow_log_begin_query(struct client *client);
/* A message that may have a text, or name one, is about to go to the server: looks for
 * a trace in it. */
void slow_log_look(
    struct client *client, const struct server *server, const struct message *m);
/* Everything is answered: ends the query, and the transaction if the server's status
 * says so. */
void slow_log_answered(
    struct client *client, const struct server *server, uint64_t now_us);
/* The transaction ends in another way, which `how` describes.  server: the one that it
 * had, or NULL. */
void slow_log_end(struct client *client, const struct server *server, const char *how);
void slow_log_forget(struct client *client);
/* For a move to another process.  The texts that they give are valid as long as the
 * client is not used. */
void slow_log_describe(const struct client *client, struct record_client *out);
void slow_log_restore(struct client *client, const struct record_client *from);

#endif
