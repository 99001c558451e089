/*
 * Finds the secret of a user who is not in auth_file by running auth_query (protocol.md
 * 5), as an inner client of the pool of (auth database, auth user).  One query serves
 * all clients of a database who want to log in as the same user while it waits or runs.
 *
 * It lets nobody in: what was found is in client->login, and login goes on with it.
 */
#ifndef LOGIN_AUTHQUERY_H
#define LOGIN_AUTHQUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "session/client.h"

void authquery_init(struct site *site);
void authquery_done(struct site *site);

/* Is somebody to be asked for this client's secret, should it have none of its own? */
bool authquery_is_for(const struct client *client);

enum authquery {
	AUTHQUERY_FOUND, /* login->found and login->found_user are set */
	AUTHQUERY_WAIT,  /* login->on_found follows, or the client is told and doomed */
	AUTHQUERY_REFUSED, /* the client was told and is doomed */
};
/* is_again: what was found did not fit, ask anew. */
enum authquery authquery_begin(
    struct client *client, bool is_again, void (*on_found)(struct client *client));
/* While it waits: when the limits of a queue are over that hold until the query runs
 * (UINT64_MAX: never), and by which of them. */
uint64_t authquery_due(const struct client *client, enum error_id *error);
/* The client waits no more.  Harmless for one that does not. */
void authquery_leave(struct client *client);

#endif
