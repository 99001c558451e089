/*
 * Finds the secret of a user who is not in auth_file by running auth_query (protocol.md
 * 5).  The query gets its server from the pool of (auth database, auth user), where it
 * queues like a client.  One query serves all clients of a database that log in as the
 * same user while the query waits or runs.
 *
 * It does not decide whether a client may log in: the secret that was found is in
 * client->login, and the login continues with it.
 */
#ifndef LOGIN_AUTHQUERY_H
#define LOGIN_AUTHQUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "session/client.h"

/* Does auth_query apply to this client if its user is not in auth_file? */
bool authquery_is_for(const struct client *client);

enum authquery {
	AUTHQUERY_FOUND, /* login->found and login->found_user are set */
	AUTHQUERY_WAIT,  /* on_found is called later, or the client gets an error and is
			    doomed */
	AUTHQUERY_REFUSED, /* the client has got an error and is doomed */
};
/* Finds the secret in the cache or by the query.  is_again: the client's proof did not
 * fit the cached secret, so the query runs whatever the cache has. */
enum authquery authquery_begin(
    struct client *client, bool is_again, void (*on_found)(struct client *client));
/* For a client whose query still waits for a server: the time (loop clock,
 * microseconds) at which query_wait_timeout or query_timeout ends the wait; *error says
 * which of the two.  UINT64_MAX, with *error unset, if none does. */
uint64_t authquery_due(const struct client *client, enum error_id *error);
/* The client's login ends: it waits for its query no longer.  Does nothing for a client
 * that does not wait. */
void authquery_leave(struct client *client);

#endif
