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

/* Is auth_query configured for this client, in case it has no secret of its own? */
bool authquery_is_for(const struct client *client);

enum authquery {
	AUTHQUERY_FOUND,   /* login->found and login->found_user are set */
	AUTHQUERY_WAIT,    /* login->on_found is called later, or the client is told and
			    * doomed */
	AUTHQUERY_REFUSED, /* the client was told and is doomed */
};
/* is_again: the kept answer did not fit; the query runs again. */
enum authquery authquery_begin(
    struct client *client, bool is_again, void (*on_found)(struct client *client));
/* While it waits for the query to run: when the limits of a queue are reached
 * (UINT64_MAX: never), and which of them is reached first. */
uint64_t authquery_due(const struct client *client, enum error_id *error);
/* The client waits no more.  Harmless for one that does not wait. */
void authquery_leave(struct client *client);

#endif
