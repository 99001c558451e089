/*
 * Asks a server what it makes of the values of a startup packet, when nobody knows: a
 * client is told the values that PostgreSQL reports, not those that it has written
 * itself.  See broker/login_params.h for what is known.
 */
#ifndef LOGIN_SPELLING_H
#define LOGIN_SPELLING_H

#include <stdint.h>

#include "session/client.h"

struct spelling;

/* Sets the values of the client, of which the parameters in `unknown` are not known, on
 * a server of its pool.  Later, the client's values become those that the server
 * reports, and on_spelled is called; or the client is refused. */
void spelling_begin(
    struct client *client, uint64_t unknown, void (*on_spelled)(struct client *client));
/* The client no longer waits. */
void spelling_leave(struct client *client);

#endif
