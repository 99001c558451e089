/*
 * What is sent for a client's unnamed statement that a shared one stands for.  The
 * ParseComplete that the pooler makes up is held back with the replay until the server
 * has answered the next message: if that fails because the statement is out of date,
 * the client's messages are sent as they are, and PostgreSQL's answer to its Parse
 * counts.
 */
#include "relay/shared_unnamed.h"

#include "relay/name_map.h"
#include "relay/replay.h"
#include "relay/server_prepared.h"
#include "relay/sql_commands.h"
#include "relay/unnamed.h"

int shared_unnamed_parse(struct client *client, struct server *server,
    const struct message *m, struct prepared_text *text)
{
	static const uint8_t parse_complete[] = {'1', 0, 0, 0, 4};
	uint32_t generation = server_generation(server), tag;
	size_t rest;
	struct stats *stats = &server->slot.pool->stats;

	text->unnamed_parses++;
	stats->repeated_parse_count++;
	if (server_prepared_is_held(server, text, generation)) {
		prepared_set_touch(server->statements, text);
		text->saved_parses++;
		stats->saved_parse_count++;
		replay_begin(server, m);
		replay_tell(server, client, parse_complete, sizeof(parse_complete));
		return unnamed_share(client, server, text, 0);
	}
	if (server_prepared_drop(server, text) < 0)
		return -1;
	tag = server_next_tag(server);
	if (unnamed_share(client, server, text, tag) < 0 ||
	    server_prepared_add(server, text, tag) < 0 ||
	    name_map_send(server, m, text->name, tag, &rest) < 0)
		return -1;
	stats->server_parse_count++;
	stream_put(&server->conn.stream, m->block, m->bytes + rest, m->have - rest);
	return server_prepared_make_room(server, 0);
}

int shared_unnamed_use(
    struct client *client, struct server *server, const struct message *m, size_t *rest)
{
	uint32_t generation, tag;
	struct prepared_text *text = unnamed_shared(client, &generation, &tag), *ours;
	int failed;

	if (!text)
		return SHARED_UNNAMED_NONE;
	if (replay_wants_first(server, m))
		return SHARED_UNNAMED_MORE;
	/* what was sent before the last Sync may have been skipped */
	if (server->pipeline.syncs > 0 && (tag || server->link.journal))
		return SHARED_UNNAMED_WAIT;
	ours = server_prepared_variant(server, text);
	if (!ours)
		return -1;
	failed = server_prepared_ensure(server, ours, generation);
	text->hits += !server->link.is_trying_again;
	text->last_use_us = conn_now(&server->conn);
	if (!failed && m->type == 'B')
		failed = sql_portal_note(server, m, NULL);
	replay_begin(server, m);
	if (!failed)
		failed = name_map_send_back(server, m, ours->name, "", rest);
	prepared_unref(ours);
	return failed;
}
