#include "relay/link.h"

#include "base/mem.h"
#include "pool/pins.h"
#include "relay/clocks.h"
#include "relay/kept.h"
#include "relay/listen_fence.h"
#include "relay/params.h"
#include "relay/pin_question.h"
#include "relay/sequences.h"
#include "relay/session_state.h"
#include "relay/sql_statements.h"
#include "relay/statements.h"
#include "relay/vacate.h"

bool link_begin(struct client *client, struct server *server)
{
	bool must_wait;

	server->link.is_fresh = true;
	server->link.unnamed.is_owned = server->slot.is_replication ||
					(client->unnamed_server == server->conn.id &&
					    server->unnamed_client == client->conn.id);
	server->link.since_us = conn_now(&server->conn);
	server->link.params.is_for_failed = client->block.state == BLOCK_FAILED;
	server_find_schema(server);
	sequences_link(server, client);
	conn_set_deadline(&client->conn, 0);
	statements_link(server);
	if (client->params.kept && !session_state_are_kept(server)) {
		mem_free(client->params.kept);
		client->params.kept = NULL;
	}
	if (kept_has_requested(client) && session_state_are_kept(server) &&
	    kept_take_requested(server, client) < 0)
		client_fatal(client, ERROR_OUT_OF_MEMORY);
	must_wait = listen_fence_link(server, client);
	must_wait = pin_question_ask_own(server) || must_wait;
	must_wait = params_apply(server, client) || must_wait;
	clocks_arm_link(server, client);
	return must_wait;
}

void link_restore(struct client *client, struct server *server, const struct link *was)
{
	server->link = *was;
	server->link.params.has_run = true;
	if (server->link.pin.kinds || server->link.pin.made)
		pins_restore(&server->slot);
	list_init(&server->link.portals);
	list_init(&server->link.name_maps);
	server_find_schema(server);
	listen_fence_restore(server, client);
	statements_link(server);
	server->link.statements.are_tracked = was->statements.are_tracked;
	clocks_arm_link(server, client);
}

static bool link_may_go_on(const struct server *server)
{
	const struct pipeline *owed = &server->pipeline;

	switch ((enum link_hold)server->link.hold) {
	case LINK_OPEN:
		return false;
	case LINK_UNTIL_ANSWERED:
		return pipeline_count(owed) == 0 || pipeline_is_copy_in(owed);
	case LINK_UNTIL_READY:
		return owed->syncs == 0 || pipeline_is_copy_in(owed);
	case LINK_UNTIL_COPY_END:
		return !pipeline_must_wait(owed, server->link.held_type);
	}
	return false;
}

void link_let_go(struct server *server, struct client *client)
{
	if (!link_may_go_on(server))
		return;
	server->link.hold = LINK_OPEN;
	conn_unpark(&client->conn);
}

void link_end(struct client *client, struct server *server)
{
	struct link *link = &server->link;

	listen_fence_unlink(server);
	vacate_settle(server);
	server->leaks_left |= (link->pin.kinds | link->pin.made) & LEAK_KINDS;
	/* the client has gone before the server could be asked */
	if (link->pin.made & (LEAK_UNSEEN | LEAK_PLACEHOLDER))
		server->leaks_left |= LEAK_BIT(SET);
	buf_done(&link->params.refusal);
	buf_done(&link->pin.names);
	buf_done(&link->pin.session);
	buf_done(&link->pin.part);
	server_review_cancels(server);
	statements_unlink(server);
	sql_unlink(server);
	pipeline_unlink(&server->pipeline);
	if (link->holds_client)
		conn_resume(&client->conn);
	if (link->holds_server)
		conn_resume(&server->conn);
	if (link->hold != LINK_OPEN)
		conn_unpark(&client->conn);
	client->request.in_pool.query_us = 0;
	client->xact_us = 0;
	/* where statements are tracked, the client's text is sent again instead */
	bool is_kept = link->unnamed.is_owned && !link->statements.are_tracked;

	server->unnamed_client = is_kept ? client->conn.id : 0;
	client->unnamed_server = is_kept ? server->conn.id : 0;
	*link = (struct link){0};
	list_init(&link->portals);
	list_init(&link->name_maps);
}
