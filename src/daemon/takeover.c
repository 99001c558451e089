/*
 * Cancel requests between the two processes of a takeover: who serves a client is known
 * by that process alone.
 */
#include "daemon/takeover.h"

#include "session/client.h"
#include "session/crew.h"

/* On and on in one direction, so that no request goes round. */
bool takeover_may_pass_cancel(struct client *carrier, const uint8_t *packet, size_t len)
{
	struct daemon *d;

	/* Couriers belong to the control site, which is the last to be asked. */
	if (!crew_is_control(carrier->conn.site))
		return false;
	d = site_daemon(carrier->conn.site);
	switch ((enum passed_from)carrier->passed_from) {
	case PASSED_BY_OLDER:
		return takeover_may_pass_to_heir(d, carrier, packet, len);
	case PASSED_BY_NEWER:
		return takeover_may_pass_to_elder(d, carrier, packet, len);
	case PASSED_BY_NOBODY:
		break;
	}
	return takeover_may_pass_to_heir(d, carrier, packet, len) ||
	       takeover_may_pass_to_elder(d, carrier, packet, len);
}
