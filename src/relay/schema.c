#include "relay/schema.h"

#include "relay/replay.h"
#include "wire/kept_settings.h"

void schema_expect(struct server *server, const struct sql_effects *effects)
{
	struct link *link = &server->link;

	link->schema.made_temp |= effects->makes_temp;
	link->schema.sent_cut |= effects->is_cut;
	link->schema.sent |=
	    effects->changes_schema || effects->makes_temp || effects->drops_table;
	link->schema.is_unusual |= effects->is_unusual || effects->is_cut;
	link->schema.is_read_apart |= (effects->leaves & LEAK_READING) != 0;
	/* PostgreSQL itself notices that a table has gone.  Only where it may be made
	 * again, or another one is seen in its place, something else has to be done;
	 * but not for each temporary table. */
	server->changes_schema |= effects->changes_schema ||
				  (effects->drops_table && !link->schema.made_temp);
	if (effects_hide_reading(effects, server->conn.site->vars, &server->vars))
		server->leaks_left |= LEAK_READING;
}

void schema_note_tag(struct server *server, const struct message *m)
{
	bool is_explained = server->link.schema.sent && !server->link.schema.sent_cut;
	size_t len;

	if (server->changes_schema || !message_is_whole(m))
		return;
	len = message_body_len(m);
	server->changes_schema = effects_is_schema_tag(
	    (const char *)message_body(m), len - (len > 0), is_explained);
}

void schema_note_ready(struct server *server)
{
	/* the change may still be on its way, behind what this one answers */
	bool is_pending =
	    server->changes_schema && pipeline_count(&server->pipeline) > 1;

	server_settle_schema(server);
	server->changes_schema = is_pending;
}

void schema_settle(struct server *server)
{
	server->link.schema.sent = server->link.schema.sent_cut = false;
}

bool schema_is_quiet(const struct server *server)
{
	return server->status == 'I' && server->pipeline.syncs == 0 &&
	       !server->changes_schema && !replay_may_have_run(server) &&
	       !(server->leaks_left & LEAK_READING) &&
	       !kept_settings_are_read(server->kept);
}
