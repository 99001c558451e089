/*
 * Clients that go to another site of the process as the same object: one whose first
 * packet concerns that site (a console, a cancel request), or one at rest that finds
 * less load there (session/migrate).  It is detached from one loop, posted, and
 * attached to the other.  It counts all the time; what it sends meanwhile stays in its
 * socket or goes along.
 */
#ifndef SESSION_CLIENT_TRANSFER_H
#define SESSION_CLIENT_TRANSFER_H

#include <stdbool.h>

struct client;
struct client_transfer;
struct worker;

/* Does the client rest, so that it can go?  Then it has no server and wants none, and
 * nothing is on its way to it. */
bool client_transfer_is_possible(const struct client *client);
/* Sends such a client.  To be called outside of the client's own handlers. */
void client_transfer_at_rest(struct client *client, struct worker *to);

/* Sends a client later in the turn, together with its first packet, which its handler
 * then parks (STEP_PARK).  The client must not have a login, a pool or a server,
 * nor anything from that packet.
 * workers_ops.readmit gets it at the other site. */
void client_transfer_first_packet(struct client *client, struct worker *to);

#endif
