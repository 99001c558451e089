/*
 * Limits connects to each host to server_connect_rate per second.  Further attempts
 * wait for their turn, in order of arrival.
 */
#ifndef BROKER_DIAL_TURN_H
#define BROKER_DIAL_TURN_H

#include <stdbool.h>

#include "broker/dial_attempt.h"
#include "session/site.h"

/* Continues the attempt of a server whose turn has come. */
typedef void dial_go_fn(struct server *server);

void dial_turn_init(struct site *site);
/* Call it when no attempt waits any more. */
void dial_turn_done(struct site *site);
/* True: the server may connect now.  False: it waits, and go is called later unless
 * dial_turn_leave is called first.  place: the host's name, or the folder of its
 * socket. */
bool dial_turn_take(struct server *server, const char *place, dial_go_fn *go);
/* The attempt ends.  Does nothing if it does not wait, or if dial is NULL. */
void dial_turn_leave(struct dial *dial);
/* server_connect_rate may have changed. */
void dial_turn_review(struct site *site);

#endif
