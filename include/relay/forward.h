/*
 * The way of a client's message to its server: as it is, under other names, with
 * messages of our own around it, or not at all.
 */
#ifndef RELAY_FORWARD_H
#define RELAY_FORWARD_H

#include "session/client.h"
#include "session/server.h"

/* Forward a message of a client that is linked to server: enter it in the ledger, count
 * it, see to statements, parameters and state that would be left behind.  PARK: it must
 * wait (server->link.hold). */
enum step forward_message(
    struct client *client, struct server *server, const struct message *m);
/* The same without counting: a message that is sent once more. */
enum step forward_again(
    struct client *client, struct server *server, const struct message *m);
/* So many answers are owed that the client must wait; while the server reads COPY data
 * it may go on all the same. */
bool forward_may_go_on(const struct server *server);
/* It waits until all is answered, whatever it waits for itself. */
enum step forward_hold(struct server *server);
/* Bytes for the server; the client waits when the server takes no more. */
void forward_bytes(struct client *client, struct server *server, struct block *block,
    const uint8_t *p, size_t len);

#endif
