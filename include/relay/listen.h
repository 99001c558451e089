/*
 * LISTEN and UNLISTEN of clients in transaction and statement mode, with
 * session_state=keep.  The client's server runs them, so errors and transactions are
 * PostgreSQL's own.  When the server tells after a commit that it listens
 * (pin_question.h), the pool's connection LISTENs to the same channels, then the server
 * sends a mark, which both get, and UNLISTENs, and only then the client gets its
 * ReadyForQuery.  Up to the mark the client gets what the server sends, and from there
 * on what the connection sends.
 *
 * A server that another client had does not listen for this one, so that an UNLISTEN
 * does nothing there: the names are read from the texts, and count when the transaction
 * is committed.
 */
#ifndef RELAY_LISTEN_H
#define RELAY_LISTEN_H

#include "relay/listen_table.h"

/* May a LISTEN of this server's client keep no server, because there is a connection
 * that listens for the pool? */
bool listen_is_shared(const struct server *server);

/* Must the text wait until everything before it is answered?  It has an UNLISTEN, and
 * what the client then sends is not for itself: at the answers of what was sent before
 * nobody could tell. */
bool listen_must_wait(const struct client *client, const struct server *server,
    const char *text, size_t len, bool has_escapes);
/* A text of the client goes to the server, or a Bind of it: notes its UNLISTENs.  owed:
 * how many ReadyForQuery come before the one that is behind it. */
void listen_note_text(struct client *client, const char *text, size_t len,
    bool has_escapes, uint32_t owed);
/* A statement was completed with this tag, or failed (NULL). */
void listen_note_tag(struct client *client, const char *tag, size_t len);
/* ReadyForQuery with this status. */
void listen_note_ready(struct client *client, uint8_t status);
/* It is about to be sent: outside of a transaction, sends the notifications that have
 * come, and ends what was UNLISTENed. */
void listen_end_transaction(const struct server *server, struct client *client);

/* The server has told that it listens to this channel. */
void listen_note_channel(struct client *client, const char *channel, size_t len);
/* All that the server has told is there.  *kinds: what it has left there; LISTEN is
 * taken out if the pool's connection does it from now on.  True: this is called again
 * after another ReadyForQuery of the server. */
bool listen_settle(struct client *client, struct server *server, uint16_t *kinds);

/* Its own server has sent the client a notification, which is told as the pool's
 * connection would tell it, and not again if that one has sent it already.  False: it
 * can go to the client as it is. */
bool listen_tell(
    struct client *client, const struct server *server, const struct message *m);

/* The client closes, or is taken over by another process. */
void listen_forget(struct client *client);
/* Does the client listen, so that it stays in this process and at its worker? */
static inline bool listen_holds(const struct client *client)
{
	return client->listening &&
	       (client->listening->pool || client->listening->was_lost ||
		   client->listening->phase != LISTEN_AT_REST);
}

#endif
