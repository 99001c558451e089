/*
 * Cancel requests: finds the client by its key, and forwards the request to the
 * client's server over a separate connection; clients that wait for a server are
 * answered here.  PostgreSQL documentation: "Canceling Requests in Progress".
 */
#ifndef CANCEL_CANCEL_H
#define CANCEL_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "session/conn.h"

struct client;
struct server;

/* The longest key that a CancelRequest may have, in bytes. */
enum { CANCEL_REQUEST_KEY_MAX = 256 };

/* Makes the key of a client that has logged in, which no other client has.  is_long: as
 * in protocol 3.2. */
void cancel_give_key(struct client *client, bool is_long);

/* A CancelRequest is the first packet of this client.  Its key has at most
 * CANCEL_REQUEST_KEY_MAX bytes.  Takes the client over, or has the packet shown again
 * later, at this site or another one. */
enum step cancel_begin(struct client *client, const struct message *m);

/* Cancels what the vanished client of this server (is_left) has left running.  When the
 * request is over, conn_ops.review of the server is called. */
void cancel_left(struct server *server);

#endif
