/*
 * Parameters between a client and the server that it is linked to.  A value that the
 * client asked for at its login, or has set itself, is in force for it on every server.
 * For all other parameters the server's own value is in force, which the administrator
 * may change at any time.
 */
#ifndef RELAY_PARAMS_H
#define RELAY_PARAMS_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* Sets the client's values on the server.  True if SETs were sent: the client must wait
 * until params_applied is called for their ReadyForQuery. */
bool params_apply(struct server *server, struct client *client);
/* Sets them between two requests of a client that keeps its server, also in a
 * transaction: the client's unnamed statement is left alone. */
bool params_apply_again(struct server *server, struct client *client);
/* The pooler's SETs were answered.  -1: one has failed, and the server is being closed.
 * 1: the client does not go on with this server: it must get another one, or ends, and
 * this one can be given back. */
int params_applied(struct server *server, struct client *client);
/* An ErrorResponse to one of these SETs.  True: it is told to the client, which waits
 * for the ReadyForQuery of its RESET. */
bool params_failed(struct server *server, const struct message *m);
/* Notes a ParameterStatus for server and client.  -1: the server is being closed. */
int params_report(
    struct server *server, struct client *client, const struct message *m);
/* Notes from a CommandComplete whether the command may have changed parameters. */
void params_note_tag(struct server *server, const struct message *m);

#endif
