/*
 * Chooses the client that gives way.  One that waits for the pooler has sent all of its
 * message.
 */
#include "login/long_parts.h"

void long_parts_make_room(const struct client *keeper, size_t len)
{
	struct client *client, *oldest = NULL;
	unsigned count = 0;

	if (len <= LONG_PARTS_FROM)
		return;
	list_for (client, &keeper->conn.site->login_clients, site_node) {
		const struct conn *conn = &client->conn;
		if (conn->is_doomed || conn->is_parked ||
		    conn->held_len <= LONG_PARTS_FROM)
			continue;
		oldest = oldest ? oldest : client;
		if (++count < LONG_PARTS_MOST)
			continue;
		client_fatal(oldest, ERROR_TOO_MANY_LONG_LOGINS);
		return;
	}
}
