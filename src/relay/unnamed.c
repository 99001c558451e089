/*
 * The unnamed statement: kept as the client sent it, and sent again to whichever server
 * it is used on.
 */
#include "relay/unnamed.h"

#include <string.h>

#include "relay/leaks.h"
#include "relay/params.h"
#include "relay/server_prepared.h"
#include "relay/sql_commands.h"
#include "session/parcel.h"
#include "wire/codec.h"
#include "wire/prepared.h"

/* The longest Parse that is kept for a Bind that comes when the client has another
 * server.  Behind a longer one such a Bind fails, as on a direct connection after the
 * statement is gone. */
enum { UNNAMED_MAX = 16 * 1024 };

/* How many earlier ones are kept per client: each may turn out to be the valid one when
 * later messages fail. */
enum { OLDER_MAX = 32 };

struct unnamed_statement {
	/* owned: the statement that holds if this one's message is skipped; NULL: none
	 */
	struct unnamed_statement *older;
	unsigned older_count;
	uint32_t tag;               /* the tag of its Parse, until that is answered */
	struct sql_effects effects; /* of its text */
	bool is_command;            /* see sql_commands.h */
	bool is_end; /* not a statement: the Query or Close of this tag ends the older
		      * one */
	char ours[sizeof(((struct prepared_text *)0)->name)]; /* the name in the command
							       * that was sent */
	size_t size;
	uint8_t parse[]; /* the whole message, as it came */
};

static void free_all(struct unnamed_statement **up)
{
	struct unnamed_statement *u;

	while ((u = *up)) {
		*up = u->older;
		mem_free(u);
	}
}

static void free_one(struct unnamed_statement **up)
{
	struct unnamed_statement *u = *up;

	*up = u->older;
	mem_free(u);
}

void unnamed_forget(struct client *client)
{
	free_all(&client->unnamed);
}

/* The pointer to the statement of this tag, or the end of the chain. */
static struct unnamed_statement **find(struct client *client, uint32_t tag)
{
	struct unnamed_statement **up = &client->unnamed;

	while (*up && (*up)->tag != tag)
		up = &(*up)->older;
	return up;
}

void unnamed_parsed(struct client *client, uint32_t tag)
{
	struct unnamed_statement **up = find(client, tag), *u = *up;

	if (!u)
		return;
	free_all(&u->older);
	u->older_count = 0;
	u->tag = 0; /* tags of another server mean something else */
	if (u->is_end)
		free_one(up);
}

void unnamed_failed(struct client *client, struct server *server, uint32_t tag)
{
	free_all(find(client, tag));
	if (tag == server->link.unnamed_tag)
		server->link.has_unnamed = false;
}

void unnamed_skipped(struct client *client, struct server *server, uint32_t tag)
{
	struct unnamed_statement **up = find(client, tag);

	if (*up)
		free_one(up);
	if (tag == server->link.unnamed_tag)
		server->link.has_unnamed = false;
}

/* The next message that ends or replaces the statement may be skipped only if something
 * before it may fail. */
static struct unnamed_statement *take_older(
    struct client *client, const struct server *server)
{
	struct unnamed_statement *u = client->unnamed;

	if (u && !u->is_command && pipeline_count(&server->pipeline) == 0)
		free_all(&u);
	if (u && u->older_count >= OLDER_MAX) {
		free_all(&u->older);
		u->older_count = 0;
	}
	client->unnamed = NULL;
	return u;
}

/* Makes an object for the message of this tag, the newest of the chain.  NULL: no
 * memory. */
static struct unnamed_statement *push(
    struct client *client, const struct server *server, uint32_t tag, size_t size)
{
	struct unnamed_statement *u = mem_try(sizeof(*u) + size);

	if (!u)
		return NULL;
	*u = (struct unnamed_statement){.tag = tag, .size = size};
	u->older = take_older(client, server);
	u->older_count = u->older ? u->older->older_count + 1 : 0;
	client->unnamed = u;
	return u;
}

static int keep_end(struct client *client, const struct server *server, uint32_t tag)
{
	struct unnamed_statement *u;

	if (!client->unnamed || pipeline_count(&server->pipeline) == 0) {
		unnamed_forget(client);
		return 0;
	}
	u = push(client, server, tag, 0);
	if (u)
		u->is_end = true;
	return u ? 0 : -1;
}

int unnamed_end(struct client *client, struct server *server, const struct message *m)
{
	uint32_t tag = server_next_tag(server);

	server->link.has_unnamed = true;
	server->link.unnamed_tag = tag;
	if (keep_end(client, server, tag) < 0)
		return -1;
	return server_owe(server, m->type, OWED_CLIENT, tag);
}

static int keep(struct client *client, const struct server *server,
    const struct message *m, uint32_t tag, const struct sql_command *c,
    const struct sql_effects *effects)
{
	struct unnamed_statement *u;
	bool is_command = c->sql.span.kind != COMMAND_NONE;
	bool is_kept = m->size <= UNNAMED_MAX || is_command;

	if (!is_kept || !message_is_whole(m))
		return keep_end(client, server, tag);
	u = push(client, server, tag, m->have);
	if (!u)
		return -1;
	u->effects = *effects;
	u->is_command = is_command;
	memcpy(u->ours, c->ours, sizeof(u->ours));
	memcpy(u->parse, m->bytes, m->have);
	return 0;
}

/* The text of a Parse without a name. */
static const char *text_of(const uint8_t *parse)
{
	return (const char *)parse + 6;
}

/* Appends the command's Parse without a name. */
static void put_command(
    const struct sql_command *c, const uint8_t *parse, size_t size, struct buf *out)
{
	const char *text = text_of(parse);
	size_t len = strlen(text), at = codec_begin(out, 'P');

	buf_put_str(out, "");
	sql_command_put(c, text, len, out);
	buf_put(out, text + len, size - (size_t)(text + len - (const char *)parse));
	codec_end(out, at);
}

/* When the Parse is skipped, the server still has what it had. */
static int owe_parse(struct server *server)
{
	server->link.unnamed_tag = server_next_tag(server);
	return server_owe(server, 'P', OWED_SELF, server->link.unnamed_tag);
}

static int bring_command(
    struct server *server, struct unnamed_statement *u, const struct sql_command *c)
{
	struct buf parse;
	int failed = sql_command_before(c, server);

	if (failed || (server->link.has_unnamed && strcmp(u->ours, c->ours) == 0))
		return failed;
	server->link.has_unnamed = true;
	memcpy(u->ours, c->ours, sizeof(u->ours));
	buf_init(&parse, 0);
	put_command(c, u->parse, u->size, &parse);
	failed = parse.failed ||
		 stream_write(&server->conn.stream, parse.bytes, parse.len) < 0;
	buf_done(&parse);
	return failed ? -1 : owe_parse(server);
}

/* The unnamed statement of this server may be another client's: it is replaced by the
 * client's own, or closed so that PostgreSQL reports that there is none. */
static int bring(
    struct server *server, struct unnamed_statement *u, const struct sql_command *c)
{
	if (c->sql.span.kind != COMMAND_NONE)
		return bring_command(server, u, c);
	if (server->link.has_unnamed)
		return 0;
	server->link.has_unnamed = true;
	if (!u) {
		server->link.unnamed_tag = server_next_tag(server);
		return server_prepared_close(server, "", server->link.unnamed_tag);
	}
	if (stream_write(&server->conn.stream, u->parse, u->size) < 0)
		return -1;
	server->seat.pool->stats.server_parse_count++;
	return owe_parse(server);
}

static int parse_command(struct client *client, struct server *server,
    const struct message *m, const struct sql_command *c,
    const struct sql_effects *effects)
{
	struct buf parse;
	uint32_t tag;
	int failed = sql_command_before(c, server);

	if (failed)
		return failed;
	tag = server_next_tag(server);
	buf_init(&parse, 0);
	put_command(c, m->bytes, m->have, &parse);
	failed = keep(client, server, m, tag, c, effects);
	if (!failed)
		failed = sql_command_send(server, c, &parse, tag);
	buf_done(&parse);
	return failed;
}

int unnamed_parse(struct client *client, struct server *server, const struct message *m,
    size_t text_at, const struct sql_effects *effects)
{
	const char *text = (const char *)m->bytes + text_at;
	struct sql_command command = {0};
	int result = 0;

	if (effects->forgets || effects->hides_forgetting)
		server->link.has_forgetting_portal = true;
	server->link.has_unnamed = true;
	if (message_is_whole(m))
		result = sql_command_init(&command, client, server, text, effects);
	if (!result && command.sql.span.kind != COMMAND_NONE) {
		result =
		    parse_command(client, server, m, &command, effects) < 0 ? -1 : 1;
	} else if (!result) {
		uint32_t tag = server_next_tag(server);
		server->link.unnamed_tag = tag;
		result = keep(client, server, m, tag, &command, effects);
		if (!result)
			result = server_owe(server, 'P', OWED_CLIENT, tag);
	}
	sql_command_done(&command);
	return result;
}

/* The effects of the text count from its Bind on. */
static int note_bind(struct client *client, struct server *server,
    const struct message *m, const struct unnamed_statement *u,
    const struct sql_command *command)
{
	if (u && u->effects.hides_forgetting) {
		server_prepared_doubt(server);
		prepared_names_doubt(client->names);
	}
	if (u) {
		leaks_expect(server, &u->effects);
		params_expect(server, &u->effects);
	}
	return sql_portal_note(server, m, command);
}

int unnamed_bring(struct client *client, struct server *server, const struct message *m)
{
	struct unnamed_statement *u = client->unnamed;
	struct sql_command command = {0};
	int failed = 0;

	if (u && u->is_end)
		u = NULL;
	if (u && u->is_command && m->type == 'B' && !sql_portal_may_be_made(server))
		return 1;
	if (u && u->is_command)
		failed = sql_command_init(
		    &command, client, server, text_of(u->parse), &u->effects);
	if (!failed)
		failed = bring(server, u, &command);
	if (!failed && m->type == 'B')
		failed = note_bind(client, server, m, u, &command);
	sql_command_done(&command);
	return failed;
}

/* ---- from one process to another ---- */

bool unnamed_is_certain(const struct client *client)
{
	const struct unnamed_statement *u = client->unnamed;

	return !u || (!u->tag && !u->older && !u->is_end);
}

void unnamed_describe(const struct client *client, struct parcel_client *out)
{
	const struct unnamed_statement *u = client->unnamed;

	out->unnamed.is_there = u != NULL;
	if (!u)
		return;
	out->unnamed.is_command = u->is_command;
	out->unnamed.ours = u->ours;
	out->unnamed.effects = u->effects;
	out->unnamed.parse = (struct parcel_bytes){u->parse, u->size};
}

/* A Parse without a name, whose text has an end. */
static bool is_parse(const struct parcel_bytes *parse)
{
	return parse->len > 6 && parse->at[0] == 'P' && !parse->at[5] &&
	       1 + (size_t)get_u32(parse->at + 1) == parse->len &&
	       memchr(text_of(parse->at), 0, parse->len - 6);
}

int unnamed_restore(struct client *client, const struct parcel_client *from)
{
	const struct parcel_bytes *parse = &from->unnamed.parse;
	struct unnamed_statement *u;

	if (!from->unnamed.is_there)
		return 0;
	if (!is_parse(parse) || strlen(from->unnamed.ours) >= sizeof(u->ours))
		return -1;
	u = mem_try(sizeof(*u) + parse->len);
	if (!u)
		return -1;
	*u = (struct unnamed_statement){.size = parse->len,
	    .effects = from->unnamed.effects,
	    .is_command = from->unnamed.is_command};
	memcpy(u->ours, from->unnamed.ours, strlen(from->unnamed.ours) + 1);
	memcpy(u->parse, parse->at, parse->len);
	client->unnamed = u;
	return 0;
}
