/*
 * Describes a link to another process, and makes it again from the description.  A link
 * with many small objects (statements that are being prepared, rewritten commands) is
 * not moved: that state ends soon, at the latest with the transaction.
 */
#include "relay/relay_handoff.h"

#include "moving/parcel.h"
#include "relay/clocks.h"
#include "relay/link.h"
#include "relay/segment.h"
#include "relay/slow_log.h"
#include "relay/unnamed.h"

static bool is_ledger_certain(const struct pipeline *p)
{
	return !p->is_lost && !p->is_uncertain && !p->strays && !p->is_asked &&
	       !p->is_over;
}

static bool is_link_describable(const struct link *link)
{
	return !link->sql && !link->journal && !link->parsing &&
	       list_is_empty(&link->portals) && list_is_empty(&link->name_maps) &&
	       !link->params.is_applying && !link->is_trying_again && !link->begin_type;
}

bool relay_handoff_is_possible(const struct client *client)
{
	const struct server *server = client_server(client);

	if (!unnamed_is_certain(client))
		return false;
	return !server || (is_link_describable(&server->link) &&
			      is_ledger_certain(&server->pipeline));
}

void relay_handoff_describe(const struct client *client, struct parcel_client *out,
    struct parcel_server *server)
{
	unnamed_describe(client, out);
	slow_log_describe(client, out);
	if (server)
		segment_describe(client_server(client), server);
}

void relay_handoff_let_go(struct client *client)
{
	struct server *server = client_server(client);

	/* the other process delivers what is held back of an answer */
	if (server && server->link.segment)
		buf_clear(&server->link.segment->described);
	if (server)
		link_end(client, server);
	unnamed_forget(client);
	slow_log_forget(client);
}

void *relay_handoff_pack(struct client *client)
{
	/* no transaction is running */
	slow_log_forget(client);
	return unnamed_pack(client);
}

void relay_handoff_unpack(struct client *client, void *packed)
{
	clocks_arm_rest(client);
	unnamed_unpack(client, packed);
}

int relay_handoff_take(struct client *client, struct server *server,
    const struct parcel_client *from, const struct parcel_server *from_server)
{
	if (unnamed_restore(client, from) < 0)
		return -1;
	slow_log_restore(client, from);
	if (!server) {
		clocks_arm_rest(client);
		return 0;
	}
	link_restore(client, server, &from_server->link);
	return segment_restore(server, from_server);
}
