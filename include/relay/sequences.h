/*
 * session_state=keep: currval() and lastval() tell what nextval() has left in the
 * session of the server, which may be another client's number, or an old one of the
 * same client.  A client that has sent such a text gets servers after a DISCARD
 * SEQUENCES, unless nobody but itself has used the server and it has used no other one
 * meanwhile.  All other clients pay nothing.
 */
#ifndef RELAY_SEQUENCES_H
#define RELAY_SEQUENCES_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* Notes at the begin of a link whose numbers are in the server's session. */
static inline void sequences_link(struct server *server, struct client *client)
{
	if (server->sequences_client == client->conn.id &&
	    client->params.sequences_server == server->conn.id)
		return;
	server->sequences_client =
	    server->sequences_client ? SEQUENCES_OF_OTHERS : client->conn.id;
	client->params.sequences_server = server->conn.id;
}

/* Must they be discarded before the client's first message? */
static inline bool sequences_are_due(
    const struct server *server, const struct client *client)
{
	return client->params.reads_sequences &&
	       server->sequences_client == SEQUENCES_OF_OTHERS;
}

/* Appends what discards them. */
void sequences_put_discard(
    struct server *server, const struct client *client, struct buf *sql);

/* Is it a Query with a BEGIN and nothing else? */
bool sequences_is_begin(const struct message *m);
/* A message was forwarded. */
static inline void sequences_forwarded(struct server *server, const struct message *m)
{
	if (!server->link.params.has_run)
		server->link.params.has_run = !sequences_is_begin(m);
}

/* The client's Query or Parse m, whose text calls an unknown function, is about to go
 * to the server.  True: the numbers are being discarded, and m must wait for that. */
bool sequences_must_wait(
    struct client *client, struct server *server, const struct message *m);

#endif
