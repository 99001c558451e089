/*
 * Errors of a server that has lost a statement, or cannot run it any more because of a
 * change of the schema.
 */
#include <string.h>

#include "relay/name_map.h"
#include "relay/replay.h"
#include "relay/statements.h"
#include "wire/codec.h"
#include "wire/prepared.h"

/* Does the error say that the statement does not exist, or could it be one that comes
 * because of a change of the schema?  These are: its result types have changed; a type
 * has gone ("cache lookup failed"); whatever analysis of a text may report, which
 * PostgreSQL repeats with the parameter types that it found first.  Where the client's
 * own Parse can be sent, any error of a value may be one, because the type of a
 * parameter may have changed. */
static bool is_loss(const struct message *m, const struct replay *s)
{
	struct error_fields f;

	if (codec_read_error(message_body(m), message_body_len(m), &f) < 0)
		return false;
	if (s && replay_has_parse(s))
		return strncmp(f.sqlstate, "57", 2) != 0 &&
		       strncmp(f.sqlstate, "53", 2) != 0;
	return strcmp(f.sqlstate, SQLSTATE_INVALID_STATEMENT) == 0 ||
	       strcmp(f.sqlstate, SQLSTATE_FEATURE_NOT_SUPPORTED) == 0 ||
	       strcmp(f.sqlstate, SQLSTATE_INTERNAL_ERROR) == 0 ||
	       (strncmp(f.sqlstate, "42", 2) == 0 &&
		   strcmp(f.sqlstate, SQLSTATE_INSUFFICIENT_PRIVILEGE) != 0);
}

/* Is the error the first answer since the last Sync, is everything since then kept in
 * the replay, and was nothing sent after it? */
static bool has_whole_replay(const struct client *client, const struct server *server,
    const struct pipeline_entry *done)
{
	const struct replay *s = server->link.replay;

	return s && s->tag == done->tag && !s->is_told && server->status == 'I' &&
	       client->conn.passing == 0 && !client->conn.is_doomed &&
	       pipeline_count(&server->pipeline) == s->is_ended &&
	       !pipeline_is_settled(&server->pipeline);
}

bool statements_may_try_again(struct client *client, struct server *server,
    const struct message *m, const struct pipeline_entry *done)
{
	struct prepared_text *text;
	struct message first;
	bool is_described;

	if (m->type != 'E' || !message_is_whole(m))
		return false;
	/* of a Bind or Describe that the server still has */
	const struct name_map *map = done->type == 'B' || done->type == 'D'
					 ? name_map_find(server, done->tag)
					 : NULL;
	text = map ? prepared_set_find(server->statements, map->ours) : NULL;
	if (!text || !is_loss(m, server->link.replay))
		return false;
	prepared_set_spoil(server->statements, text);
	if (!has_whole_replay(client, server, done))
		return false;
	/* the statement is made anew by the client's own Parse */
	if (replay_has_parse(server->link.replay))
		return true;
	replay_look(server->link.replay, &first, &is_described);
	return first.type == 'D' ||
	       prepared_may_bind_again(first.bytes, first.have, text, is_described);
}
