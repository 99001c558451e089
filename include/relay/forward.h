/*
 * A client's message on its way to the server: sent as it is, under other names, with
 * messages of the pooler before it, or not at all.
 */
#ifndef RELAY_FORWARD_H
#define RELAY_FORWARD_H

#include "session/client.h"
#include "session/server.h"

/* Forwards a message of a client that is linked to server: enters it in the ledger,
 * counts it, and handles prepared statements, parameters and session state that it
 * would leave behind.  STEP_PARK: it must wait (server->link.hold). */
enum step forward_message(
    struct client *client, struct server *server, const struct message *m);
/* Forwards a message that is sent once more, so it is not counted again. */
enum step forward_again(
    struct client *client, struct server *server, const struct message *m);
/* May more be read from the client?  Not while too many answers are owed, unless the
 * server reads COPY data. */
bool forward_may_go_on(const struct server *server);
/* Makes the client wait until everything is answered; returns STEP_PARK. */
enum step forward_hold(struct server *server);
/* Sends bytes to the server.  Nothing more is read from the client while the server's
 * output queue is full. */
void forward_bytes(struct client *client, struct server *server, struct block *block,
    const uint8_t *p, size_t len);
/* Forwards more bytes of a message whose first part was forwarded. */
enum step forward_part(struct client *client, struct server *server,
    struct block *block, const uint8_t *p, size_t len);

#endif
