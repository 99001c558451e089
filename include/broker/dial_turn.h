/*
 * server_connect_rate: so many connections per second are opened to one host, and more
 * wait for their turn, in the order in which they came.
 */
#ifndef BROKER_DIAL_TURN_H
#define BROKER_DIAL_TURN_H

#include <stdbool.h>

#include "broker/dial_attempt.h"
#include "session/site.h"

/* Opens the connection of a server whose turn has come. */
typedef void dial_go_fn(struct server *server);

void dial_turn_init(struct site *site);
/* Nobody waits any more. */
void dial_turn_done(struct site *site);
/* True: it is this server's turn.  False: it waits, and go is called later, unless
 * dial_turn_leave comes first.  place: the host's name, or the folder of its socket. */
bool dial_turn_take(struct server *server, const char *place, dial_go_fn *go);
/* The attempt ends; harmless for one that does not wait, or is over
 * (NULL). */
void dial_turn_leave(struct dial *dial);
/* The setting may have changed. */
void dial_turn_review(struct site *site);

#endif
