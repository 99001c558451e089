#include "relay/sql_commands.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "relay/kept.h"
#include "relay/name_map.h"
#include "wire/codec.h"

/* The statement that a DEALLOCATE closes in place of the client's, which other clients
 * may need.  It is made only before a DEALLOCATE that has to succeed. */
static const char closed_name[] = "PGBOUNCER_CLOSED";

bool sql_renames(const struct server *server)
{
	struct scope scope = scope_of_pool(server->slot.pool);

	return (scope_track_sql_prepare(scope) ||
		   scope_session_state(scope) == SESSION_STATE_KEEP) &&
	       server->link.statements.are_tracked;
}

bool sql_is_on(const struct server *server)
{
	return scope_track_sql_prepare(scope_of_pool(server->slot.pool)) &&
	       sql_renames(server);
}

/* ---- commands ---- */

static int find_text(struct sql_command *c, const struct client *client,
    const struct server *server, const char *text, const struct sql_effects *effects)
{
	const struct prepared_sql *sql = &c->sql;
	/* the effects of the PREPARE itself are not those of the statement in it */
	const struct sql_effects of_text = {.reads_clock = effects->reads_clock};
	struct prepared_text *named;

	switch (sql->span.kind) {
	case COMMAND_PREPARE:
		c->text =
		    server_prepared_intern(server, server->conn.site->sql_prepared,
			(const uint8_t *)text + sql->span.to,
			sql->span.end - sql->span.to, &of_text);
		if (!c->text)
			return -1;
		break;
	case COMMAND_EXECUTE:
		named = prepared_names_look(client->names, sql->name, &c->generation);
		/* not supported: EXECUTE of a statement that is such a command itself
		 */
		if (!named || named->effects.is_command)
			break;
		c->text = server_prepared_variant(server, named);
		if (!c->text)
			return -1;
		break;
	default:
		snprintf(c->ours, sizeof(c->ours), "%s", closed_name);
		return 0;
	}
	snprintf(
	    c->ours, sizeof(c->ours), "%s", c->text ? c->text->name : PREPARED_NONE);
	return 0;
}

int sql_command_init(struct sql_command *c, const struct client *client,
    const struct server *server, const char *text, const struct sql_effects *effects)
{
	enum command_kind kind = effects->command.kind;
	uint32_t generation;

	*c = (struct sql_command){0};
	if (!server->link.statements.are_tracked || kind == COMMAND_NONE ||
	    kind == COMMAND_DEALLOCATE_ALL)
		return 0;
	prepared_sql_read(text, &effects->command, &c->sql);
	/* with session_state=keep, the server stays with its client for a PREPARE
	 * beside other statements, which nobody follows: an unknown name may be that
	 * one's */
	uint16_t left = server->link.pin.kinds | server->link.pin.made;
	bool has_own = kind != COMMAND_PREPARE && left & LEAK_BIT(PREPARE);
	const struct prepared_text *known =
	    kind != COMMAND_PREPARE
		? prepared_names_look(client->names, c->sql.name, &generation)
		: NULL;
	bool is_known =
	    known && (sql_renames(server) ||
			 prepared_is_of(known, server->conn.site->sql_prepared));
	if (!is_known && (!sql_is_on(server) || has_own)) {
		*c = (struct sql_command){0};
		return 0;
	}
	if (find_text(c, client, server, text, effects) < 0)
		return -1;
	c->move.name = prepared_sql_characters(text, c->sql.span.from);
	c->move.longer = (long)strlen(c->ours) + 2 -
			 (long)prepared_sql_characters(text + c->sql.span.from,
			     c->sql.span.to - c->sql.span.from);
	return 0;
}

void sql_command_done(struct sql_command *c)
{
	prepared_unref(c->text);
	c->text = NULL;
}

void sql_command_put(
    const struct sql_command *c, const char *text, size_t len, struct buf *out)
{
	buf_put(out, text, c->sql.span.from);
	buf_printf(out, "\"%s\"", c->ours);
	buf_put(out, text + c->sql.span.to, len - c->sql.span.to);
}

struct prepared_text *sql_command_text(const struct sql_command *c,
    const struct server *server, const struct prepared_text *text)
{
	const char *sql = prepared_sql(text);
	size_t len = strlen(sql);
	/* a client may send the same text as its own */
	struct sql_effects effects = text->effects;
	struct prepared_text *made = NULL;
	struct buf key;

	buf_init(&key, 0);
	sql_command_put(c, sql, len, &key);
	effects.command.to = c->sql.span.from + (uint32_t)strlen(c->ours) + 2;
	effects.command.end += effects.command.to - c->sql.span.to;
	buf_put(&key, text->stored->key + len, text->stored->len - len);
	if (!key.failed)
		made = server_prepared_intern(
		    server, server->conn.site->prepared, key.bytes, key.len, &effects);
	buf_done(&key);
	return made;
}

int sql_command_send(struct server *server, const struct sql_command *c,
    const struct buf *parse, uint32_t tag)
{
	struct name_map *a = name_map_new(server, tag, c->ours, c->sql.name);

	if (!a || stream_write_buf(&server->conn.stream, parse) < 0)
		return -1;
	a->move = c->move;
	return server_owe(server, 'P', OWED_CLIENT, tag);
}

static int before_execute(
    struct server *server, struct prepared_text *text, uint32_t generation)
{
	const char *sql = prepared_sql(text);

	/* what it sets stands in this text, and not in that of EXECUTE */
	if (scope_session_state(scope_of_pool(server->slot.pool)) == SESSION_STATE_KEEP)
		kept_note_names(server, NULL, sql, strlen(sql), false);
	return server_prepared_ensure(server, text, generation);
}

int sql_command_before(const struct sql_command *c, struct server *server)
{
	if (c->sql.span.kind != COMMAND_EXECUTE || !c->text)
		return 0;
	return before_execute(server, c->text, c->generation);
}

/* ---- running ---- */

static int before_deallocate(struct server *server, bool is_known)
{
	struct buf buf;
	int failed;

	if (server_prepared_close(server, closed_name, 0) < 0)
		return -1;
	if (!is_known)
		return 0;
	buf_init(&buf, 0);
	codec_put_parse(&buf, closed_name, "");
	failed = buf.failed;
	conn_send(&server->conn, &buf);
	buf_done(&buf);
	return failed ? -1 : server_owe(server, 'P', OWED_SELF, 0);
}

int sql_before_run(const struct client *client, struct server *server,
    enum command_kind kind, const char *name, struct prepared_text *text)
{
	uint32_t generation;
	bool is_known = prepared_names_look(client->names, name, &generation);

	switch (kind) {
	case COMMAND_PREPARE:
		if (is_known)
			return server_prepared_block(server, text);
		if (server_prepared_drop(server, text) < 0)
			return -1;
		return server_prepared_make_room(server, 1);
	case COMMAND_EXECUTE:
		return text ? before_execute(server, text, generation) : 0;
	case COMMAND_DEALLOCATE:
		return before_deallocate(server, is_known);
	default:
		return 0;
	}
}

int sql_completed(struct client *client, struct server *server, const struct message *m,
    enum command_kind kind, const char *name, struct prepared_text *text)
{
	if (kind == COMMAND_DEALLOCATE && server_has_tag(m, "DEALLOCATE"))
		prepared_names_del(&client->names, name);
	if (kind != COMMAND_PREPARE || !server_has_tag(m, "PREPARE"))
		return 0;
	if (prepared_set_add(&server->statements, text) < 0)
		return -1;
	prepared_set_date(server->statements, text, server_generation(server));
	if (prepared_names_find(client->names, name)) {
		/* it should have failed because the name is in use, so the server has
		 * lost that statement */
		prepared_set_spoil(server->statements, text);
		return 0;
	}
	return prepared_names_put(
	    &client->names, name, text, server_generation(server));
}

/* "cached plan must not change result type" in any language. */
static bool is_stale(const struct message *m, const struct error_fields *f)
{
	static const char routine[] = "\0RRevalidateCachedQuery";

	return strcmp(f->sqlstate, SQLSTATE_FEATURE_NOT_SUPPORTED) == 0 &&
	       memmem(message_body(m), message_body_len(m), routine, sizeof(routine));
}

bool sql_has_lost(struct server *server, const struct message *m,
    enum command_kind kind, struct prepared_text *text)
{
	struct error_fields f;

	if (kind != COMMAND_EXECUTE || !text || !message_is_whole(m) ||
	    codec_read_error(message_body(m), message_body_len(m), &f) < 0)
		return false;
	if (strcmp(f.sqlstate, SQLSTATE_INVALID_STATEMENT) == 0 &&
	    strstr(f.message, text->name))
		prepared_set_del(&server->statements, text);
	else if (is_stale(m, &f))
		prepared_set_spoil(server->statements, text);
	else
		return false;
	return true;
}

/* ---- portals ---- */

struct sql_portal *sql_portal_find(const struct server *server, const char *name)
{
	return server->link.portal_names ? map_get_str(server->link.portal_names, name)
					 : NULL;
}

static void drop_portal(struct server *server, struct sql_portal *p)
{
	map_del_str(server->link.portal_names, p->name);
	list_remove(&server->link.portals, &p->node);
	prepared_unref(p->text);
	mem_free(p);
	if (list_is_empty(&server->link.portals))
		map_free(&server->link.portal_names);
}

void sql_portal_drop(struct server *server, const char *name)
{
	struct sql_portal *p = sql_portal_find(server, name);

	if (p)
		drop_portal(server, p);
}

static int add_portal(
    struct server *server, const char *name, const struct sql_command *c)
{
	struct sql_portal *p = mem_try(sizeof(*p) + strlen(name) + 1);

	if (!p)
		return -1;
	*p = (struct sql_portal){
	    .kind = c->sql.span.kind,
	    .text = c->text ? prepared_ref(c->text) : NULL,
	    .move = c->move,
	};
	memcpy(p->ours, c->ours, sizeof(p->ours));
	memcpy(p->theirs, c->sql.name, sizeof(p->theirs));
	memcpy(p->name, name, strlen(name) + 1);
	list_push_back(&server->link.portals, &p->node);
	if (!server->link.portal_names)
		server->link.portal_names = map_new();
	map_put_str(server->link.portal_names, p->name, p);
	/* messages after its Execute depend on its outcome */
	if (p->kind != COMMAND_EXECUTE)
		server->link.statements.has_forgetting_portal = true;
	return 0;
}

bool sql_portal_may_be_made(const struct server *server)
{
	return server->pipeline.syncs == 0;
}

int sql_portal_note(
    struct server *server, const struct message *m, const struct sql_command *c)
{
	const char *portal = (const char *)m->bytes + 5;

	if (!list_is_empty(&server->link.portals))
		sql_portal_drop(server, portal);
	return c && c->sql.span.kind != COMMAND_NONE ? add_portal(server, portal, c)
						     : 0;
}

void sql_portals_clear(struct server *server)
{
	struct node *n;

	while ((n = list_first(&server->link.portals)))
		drop_portal(server, container_of(n, struct sql_portal, node));
}
