/*
 * A client's message on its way to the server: sent as it is, under other names, with
 * messages of the pooler before it, or not at all.
 */
#ifndef RELAY_FORWARD_H
#define RELAY_FORWARD_H

#include "session/client.h"
#include "session/server.h"

/* Forward a message of a client that is linked to server: enter it in the ledger, count
 * it, and take care of statements, parameters and state that would be left behind.
 * STEP_PARK: it must wait (server->link.hold). */
enum step forward_message(
    struct client *client, struct server *server, const struct message *m);
/* The same without counting: a message that is sent once more. */
enum step forward_again(
    struct client *client, struct server *server, const struct message *m);
/* May the client send more?  Not while too many answers are owed, unless the server
 * reads COPY data. */
bool forward_may_go_on(const struct server *server);
/* The client waits until everything is answered. */
enum step forward_hold(struct server *server);
/* Send bytes to the server; the client waits when the server takes no more. */
void forward_bytes(struct client *client, struct server *server, struct block *block,
    const uint8_t *p, size_t len);
/* More bytes of a message of which the beginning was forwarded. */
enum step forward_part(struct client *client, struct server *server,
    struct block *block, const uint8_t *p, size_t len);

#endif
