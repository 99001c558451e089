/*
 * Describes a link to another process, and makes it again from the description.  A link
 * with many small objects (statements that are being prepared, rewritten commands) is
 * not moved: that state ends soon, at the latest with the transaction.
 */
#include "relay/relay_handoff.h"

#include "handoff/record.h"
#include "relay/clocks.h"
#include "relay/kept.h"
#include "relay/link.h"
#include "relay/listen.h"
#include "relay/replay.h"
#include "relay/slow_log.h"
#include "relay/unnamed.h"

bool relay_handoff_is_possible(const struct client *client)
{
	const struct server *server = client_server(client);

	/* what it listens to goes nowhere: it stays until it listens no more */
	if (!unnamed_is_certain(client) || listen_holds(client))
		return false;
	if (!server)
		return true;

	const struct link *link = &server->link;
	const struct pipeline *p = &server->pipeline;

	return !link->sql && !link->journal && !link->parsing &&
	       list_is_empty(&link->portals) && list_is_empty(&link->name_maps) &&
	       !link->params.is_applying && !link->is_trying_again &&
	       !link->begin_type && !p->is_lost && !p->is_uncertain && !p->strays &&
	       !p->is_asked && !p->is_over;
}

void relay_handoff_describe(const struct client *client, struct record_client *out,
    struct record_server *server)
{
	unnamed_describe(client, out);
	slow_log_describe(client, out);
	if (server)
		replay_describe(client_server(client), server);
}

void relay_handoff_let_go(struct client *client)
{
	struct server *server = client_server(client);

	/* the other process delivers what is held back of an answer */
	if (server && server->link.replay)
		buf_clear(&server->link.replay->described);
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
    const struct record_client *from, const struct record_server *from_server)
{
	if (unnamed_restore(client, from) < 0)
		return -1;
	slow_log_restore(client, from);
	if (!server) {
		clocks_arm_rest(client);
		return 0;
	}
	link_restore(client, server, &from_server->link);
	if (from_server->pin_names.len)
		kept_restore_names(
		    server, from_server->pin_names.at, from_server->pin_names.len);
	return replay_restore(server, from_server);
}
