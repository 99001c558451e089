/*
 * Passes cancel requests between the two processes of a takeover, because each process
 * knows only its own clients.
 */
#include "daemon/takeover.h"

#include "session/client.h"
#include "session/crew.h"

/* A request that has come from another process goes on in the same direction only, so
 * that it cannot travel in a circle. */
bool takeover_may_pass_cancel(struct client *carrier, const uint8_t *packet, size_t len)
{
	struct daemon *d;

	/* the control site has the couriers, and is asked after all other sites */
	if (!crew_is_control(carrier->conn.site))
		return false;
	d = site_daemon(carrier->conn.site);
	switch ((enum passed_from)carrier->passed_from) {
	case PASSED_BY_OLDER:
		return takeover_may_pass_to_newer(d, carrier, packet, len);
	case PASSED_BY_NEWER:
		return takeover_may_pass_to_older(d, carrier, packet, len);
	case PASSED_BY_NOBODY:
		break;
	}
	return takeover_may_pass_to_newer(d, carrier, packet, len) ||
	       takeover_may_pass_to_older(d, carrier, packet, len);
}
