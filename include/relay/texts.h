/*
 * The text of a Query or Parse on its way to a server: looked at once, for whatever the
 * settings in force need to know of it.  What was found is passed on as an argument.
 */
#ifndef RELAY_TEXTS_H
#define RELAY_TEXTS_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"
#include "wire/effects.h"

/* Is enough of a Query or Parse here to look at it and to send it?  is_tracked: the
 * client's prepared statements are. */
bool texts_have_enough(
    const struct server *server, const struct message *m, bool is_tracked);
struct sql_effects texts_look(
    const struct server *server, const struct message *m, bool is_tracked);

#endif
