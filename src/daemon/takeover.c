/*
 * Passes cancel requests between the two processes of a takeover, because each process
 * knows only its own clients.
 */
#include "daemon/takeover.h"

#include "session/client.h"

/* A request that has come from another process goes on in the same direction only, so
 * that it cannot travel in a circle. */
bool takeover_may_pass_cancel(struct client *client, const uint8_t *packet, size_t len)
{
	struct daemon *d = site_daemon(client->conn.site);

	switch ((enum passed_from)client->passed_from) {
	case PASSED_BY_OLDER:
		return takeover_may_pass_to_newer(d, client, packet, len);
	case PASSED_BY_NEWER:
		return takeover_may_pass_to_older(d, client, packet, len);
	case PASSED_BY_NOBODY:
		break;
	}
	return takeover_may_pass_to_newer(d, client, packet, len) ||
	       takeover_may_pass_to_older(d, client, packet, len);
}
