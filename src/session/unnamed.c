/*
 * The statement without a name: kept as the client sent it, brought to whichever server
 * it is used on.
 */
#include "session/unnamed.h"

#include <string.h>

#include "session/holdings.h"
#include "session/leaks.h"
#include "session/sql_commands.h"
#include "wire/codec.h"
#include "wire/prepared.h"

/* What was last parsed under no name, for a Bind that comes when the server is another
 * one.  Longer texts are not kept: such a Bind then fails, as without a pooler it fails
 * after the statement is gone. */
enum { UNNAMED_MAX = 16 * 1024 };

struct unnamed_statement {
	/* owned: a command that is still there should its Parse be skipped, or NULL */
	struct unnamed_statement *older;
	uint32_t tag;    /* of its Parse, until that is answered */
	uint16_t leaves; /* struct leak_look.all */
	struct reset_look resets;
	bool is_command;                                      /* see sql_commands.h */
	char ours[sizeof(((struct prepared_text *)0)->name)]; /* what was sent of it */
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

void unnamed_forget(struct client *client)
{
	free_all(&client->unnamed);
}

/* Where the one of this tag hangs, or the end. */
static struct unnamed_statement **find(struct client *client, uint32_t tag)
{
	struct unnamed_statement **up = &client->unnamed;

	while (*up && (*up)->tag != tag)
		up = &(*up)->older;
	return up;
}

void unnamed_parsed(struct client *client, uint32_t tag)
{
	struct unnamed_statement *u = *find(client, tag);

	if (!u)
		return;
	free_all(&u->older);
	u->tag = 0; /* another server's tags are others */
}

void unnamed_failed(struct client *client, struct server *server, uint32_t tag)
{
	free_all(find(client, tag));
	if (tag == server->unnamed_tag)
		server->has_unnamed = false;
}

void unnamed_skipped(struct client *client, struct server *server, uint32_t tag)
{
	struct unnamed_statement **up = find(client, tag), *u = *up;

	if (u) {
		*up = u->older;
		mem_free(u);
	}
	if (tag == server->unnamed_tag)
		server->has_unnamed = false;
}

/* What will still be there if the next Parse is skipped. */
static struct unnamed_statement *take_older(struct client *client)
{
	struct unnamed_statement *u = client->unnamed;

	if (!u || !u->is_command) {
		unnamed_forget(client);
		return NULL;
	}
	client->unnamed = NULL;
	return u;
}

static int keep(struct client *client, const struct server *server,
    const struct message *m, uint32_t tag, const struct sql_command *c)
{
	struct unnamed_statement *u;
	bool is_command = c->sql.kind != PREPARED_SQL_NONE;
	bool is_kept = m->size <= UNNAMED_MAX || is_command;

	if (!is_kept || !message_is_whole(m)) {
		unnamed_forget(client);
		return 0;
	}
	u = try_alloc(sizeof(*u) + m->have);
	if (!u)
		return -1;
	u->older = take_older(client);
	u->tag = tag;
	u->leaves = server->leaks.looked;
	u->resets = server->looked_reset;
	u->is_command = is_command;
	memcpy(u->ours, c->ours, sizeof(u->ours));
	u->size = m->have;
	memcpy(u->parse, m->bytes, m->have);
	client->unnamed = u;
	return 0;
}

/* Of a Parse without a name. */
static const char *text_of(const uint8_t *parse)
{
	return (const char *)parse + 6;
}

/* The command's Parse without a name. */
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

/* When it is skipped, the server still has what it had. */
static int owe_parse(struct server *server)
{
	server->unnamed_tag = holdings_next_tag(server);
	return holdings_owe(server, 'P', OWED_SELF, server->unnamed_tag);
}

static int bring_command(
    struct server *server, struct unnamed_statement *u, const struct sql_command *c)
{
	struct buf parse;
	int failed = sql_command_before(c, server);

	if (failed || (server->has_unnamed && strcmp(u->ours, c->ours) == 0))
		return failed;
	server->has_unnamed = true;
	memcpy(u->ours, c->ours, sizeof(u->ours));
	buf_init(&parse, 0);
	put_command(c, u->parse, u->size, &parse);
	failed = parse.failed ||
		 stream_write(&server->conn.stream, parse.bytes, parse.len) < 0;
	buf_done(&parse);
	return failed ? -1 : owe_parse(server);
}

/* What this server has under no name may be somebody else's: it is replaced by the
 * client's own, or closed so that PostgreSQL says that there is none. */
static int bring(
    struct client *client, struct server *server, const struct sql_command *c)
{
	struct unnamed_statement *u = client->unnamed;

	if (c->sql.kind != PREPARED_SQL_NONE)
		return bring_command(server, u, c);
	if (server->has_unnamed)
		return 0;
	server->has_unnamed = true;
	if (!u) {
		server->unnamed_tag = holdings_next_tag(server);
		return holdings_close(server, "", server->unnamed_tag);
	}
	if (stream_write(&server->conn.stream, u->parse, u->size) < 0)
		return -1;
	server->seat.pool->stats.server_parse_count++;
	return owe_parse(server);
}

static int parse_command(struct client *client, struct server *server,
    const struct message *m, const struct sql_command *c)
{
	struct buf parse;
	uint32_t tag;
	int failed = sql_command_before(c, server);

	if (failed)
		return failed;
	tag = holdings_next_tag(server);
	buf_init(&parse, 0);
	put_command(c, m->bytes, m->have, &parse);
	failed = keep(client, server, m, tag, c);
	if (!failed)
		failed = sql_command_send(server, c, &parse, tag);
	buf_done(&parse);
	return failed;
}

static bool may_be_command(const struct server *server, const char *text, size_t len)
{
	return sql_is_on(server) && prepared_sql_begins(text, len);
}

bool unnamed_has_enough(
    const struct server *server, const struct message *m, size_t text_at)
{
	const char *text = (const char *)m->bytes + text_at;

	if (message_is_whole(m))
		return true;
	return m->size > UNNAMED_MAX &&
	       !may_be_command(server, text, m->have - text_at);
}

int unnamed_parse(struct client *client, struct server *server, const struct message *m,
    size_t text_at)
{
	const char *text = (const char *)m->bytes + text_at;
	size_t len = strnlen(text, m->have - text_at);
	struct sql_command command = {0};
	int result = 0;

	if (prepared_is_forgetting(text, len))
		server->has_forgetting_portal = true;
	server->has_unnamed = true;
	if (len < m->have - text_at && may_be_command(server, text, len))
		result = sql_command_init(&command, client, server, text, len);
	if (!result && command.sql.kind != PREPARED_SQL_NONE) {
		result = parse_command(client, server, m, &command) < 0 ? -1 : 1;
	} else if (!result) {
		uint32_t tag = holdings_next_tag(server);
		result = keep(client, server, m, tag, &command);
		if (!result)
			result = holdings_owe(server, 'P', OWED_CLIENT, tag);
	}
	sql_command_done(&command);
	return result;
}

int unnamed_use(struct client *client, struct server *server, const struct message *m)
{
	const struct unnamed_statement *u = client->unnamed;
	struct sql_command command = {0};
	int failed = 0;

	if (u && u->is_command && m->type == 'B' && !sql_portal_may_be_made(server))
		return 1;
	if (u && u->is_command)
		failed = sql_command_init(&command, client, server, text_of(u->parse),
		    strlen(text_of(u->parse)));
	if (!failed)
		failed = bring(client, server, &command);
	if (!failed && m->type == 'B')
		failed = sql_portal_note(server, m, &command);
	if (m->type == 'B' && u) {
		leaks_expect(server, u->leaves);
		reset_add(&server->reset, &u->resets);
	}
	sql_command_done(&command);
	return failed;
}
