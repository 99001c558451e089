#include "relay/unnamed.h"

#include <assert.h>
#include <string.h>

#include "handoff/record.h"
#include "relay/long_text.h"
#include "relay/resets.h"
#include "relay/schema.h"
#include "relay/server_prepared.h"
#include "relay/session_state.h"
#include "relay/sql_commands.h"
#include "relay/sql_facts.h"
#include "wire/codec.h"
#include "wire/prepared.h"

/* How many earlier statements are kept per client: each may become the valid one again
 * if later messages are skipped. */
enum { OLDER_MAX = 32 };

/* The text of an unnamed Parse. */
struct unnamed_text {
	/* one reference: the shared text that stands for it, and in which generation
	 * the client has parsed it; NULL: none does, and `parse` has the message */
	struct prepared_text *shared;
	uint32_t generation;
	uint8_t asked;              /* what it was examined for: see sql_facts_asked */
	bool is_quiet;              /* it has no effects to be noted */
	bool is_command;            /* see sql_commands.h */
	struct sql_effects effects; /* of the text */
	/* with is_command: the pooler's name in the rewritten command */
	char ours[PREPARED_NAME_SIZE];
	size_t size;
	uint8_t parse[]; /* the whole message as the client sent it */
};

struct unnamed_statement {
	/* owned: the statement that is valid if this one's message is skipped; NULL:
	 * none */
	struct unnamed_statement *older;
	/* owned; NULL: this stands for a Query or Close that ends the older
	 * statement */
	struct unnamed_text *text;
	unsigned older_count;
	/* the tag of its messages; 0 when all are answered */
	uint32_t tag;
	uint32_t in_flight; /* how many those are */
	bool is_parsed;     /* one of them has succeeded */
};

struct slab *unnamed_slab(struct mem *mem)
{
	return slab_new(mem, "unnamed_cache", sizeof(struct unnamed_statement));
}

static uint32_t next_tag(struct server *server)
{
	return server_next_tag(server) | SERVER_TAG_UNNAMED;
}

static struct slab *slab_of(const struct client *client)
{
	return client->conn.site->unnamed_slab;
}

/* NULL: no memory. */
static struct unnamed_text *new_text(
    const uint8_t *parse, size_t size, const struct sql_effects *effects)
{
	struct unnamed_text *t = mem_try(sizeof(*t) + size);

	if (!t)
		return NULL;
	*t = (struct unnamed_text){
	    .is_quiet = effects_is_nothing(effects),
	    .effects = *effects,
	    .size = size,
	};
	memcpy(t->parse, parse, size);
	return t;
}

static void free_text(struct unnamed_text *t)
{
	if (t)
		prepared_unref(t->shared);
	mem_free(t);
}

static void free_one(struct slab *slab, struct unnamed_statement **up)
{
	struct unnamed_statement *u = *up;

	*up = u->older;
	free_text(u->text);
	slab_put(slab, u);
}

static void free_all(struct slab *slab, struct unnamed_statement **up)
{
	while (*up)
		free_one(slab, up);
}

static void free_older(struct slab *slab, struct unnamed_statement *u)
{
	free_all(slab, &u->older);
	u->older_count = 0;
}

void unnamed_forget(struct client *client)
{
	free_all(slab_of(client), &client->unnamed);
}

/* The pointer to the statement of this tag, or the end of the chain. */
static struct unnamed_statement **find(struct client *client, uint32_t tag)
{
	struct unnamed_statement **up = &client->unnamed;

	while (*up && (*up)->tag != tag)
		up = &(*up)->older;
	return up;
}

void unnamed_parsed(struct client *client, struct server *server, uint32_t tag)
{
	struct unnamed_statement **up, *u;

	if (tag & SERVER_TAG_UNNAMED)
		server->link.unnamed.is_owned = true;
	up = find(client, tag);
	u = *up;
	if (!u)
		return;
	free_older(slab_of(client), u);
	u->is_parsed = true;
	if (--u->in_flight > 0)
		return;
	u->tag = 0; /* tags are valid on one server only */
	if (!u->text)
		free_one(slab_of(client), up);
}

/* A Parse of the pooler with this tag had no effect: a rewritten command is sent again
 * before its next use. */
static void lose_command(struct client *client, uint32_t tag)
{
	struct unnamed_statement *u = client->unnamed;

	if (tag & SERVER_TAG_UNNAMED && u && u->text && u->text->is_command)
		u->text->ours[0] = '\0';
}

void unnamed_failed(struct client *client, uint32_t tag)
{
	struct unnamed_statement **up = find(client, tag), *u = *up;

	if (!u) {
		lose_command(client, tag);
	} else if (u->in_flight > 1) {
		/* behind the next Sync it may be parsed again */
		free_older(slab_of(client), u);
		u->is_parsed = false;
		u->in_flight--;
	} else {
		free_all(slab_of(client), up);
	}
}

void unnamed_skipped(struct client *client, uint32_t tag)
{
	struct unnamed_statement **up = find(client, tag), *u = *up;

	if (!u) {
		lose_command(client, tag);
	} else if (--u->in_flight == 0) {
		u->tag = 0;
		if (!u->is_parsed)
			free_one(slab_of(client), up);
	}
}

/* Will the server run the next message whatever came before it? */
static bool is_run_next(const struct server *server)
{
	return pipeline_count(&server->pipeline) == 0 && !server->pipeline.skipping;
}

/* Takes the chain of statements off the client.  They are kept only if the next message
 * may be skipped, which needs an earlier message in flight that may fail. */
static struct unnamed_statement *take_older(
    struct client *client, const struct server *server)
{
	struct unnamed_statement *u = client->unnamed;
	bool is_command = u && u->text && u->text->is_command;

	if (u && !is_command && is_run_next(server))
		free_all(slab_of(client), &u);
	if (u && u->older_count >= OLDER_MAX)
		free_older(slab_of(client), u);
	client->unnamed = NULL;
	return u;
}

/* Adds the newest statement to the chain, for the message of this tag.  It takes over
 * the reference to the text. */
static void push(struct client *client, const struct server *server, uint32_t tag,
    struct unnamed_text *text)
{
	struct unnamed_statement *u = slab_get(slab_of(client));

	*u = (struct unnamed_statement){.tag = tag, .in_flight = 1, .text = text};
	u->older = take_older(client, server);
	u->older_count = u->older ? u->older->older_count + 1 : 0;
	client->unnamed = u;
}

static void keep_end(struct client *client, const struct server *server, uint32_t tag)
{
	if (!client->unnamed || is_run_next(server))
		unnamed_forget(client);
	else
		push(client, server, tag, NULL);
}

int unnamed_end(struct client *client, struct server *server, const struct message *m)
{
	uint32_t tag = m->type == 'C' ? next_tag(server) : server_next_tag(server);

	server->link.unnamed.is_sent |= m->type == 'C';
	keep_end(client, server, tag);
	return server_owe(server, m->type, OWED_CLIENT, tag);
}

void unnamed_replaced(struct client *client, struct server *server, uint8_t type)
{
	const struct pipeline *owed = &server->pipeline;

	server->link.unnamed.is_sent |= type == 'P';
	if (client->unnamed && owed->count)
		push(client, server, pipeline_at(owed, owed->count - 1)->tag, NULL);
}

static int keep(struct client *client, const struct server *server,
    const struct message *m, uint32_t tag, const struct sql_command *c,
    const struct text_facts *facts)
{
	struct unnamed_text *t;
	bool is_command = c->sql.span.kind != COMMAND_NONE;

	/* after it, a Bind that comes when the client has another server fails, as if
	 * the statement did not exist */
	if (m->size > LONG_TEXT_MORE_THAN && !is_command) {
		keep_end(client, server, tag);
		return 0;
	}
	t = new_text(m->bytes, m->have, &facts->effects);
	if (!t)
		return -1;
	t->asked = facts->asked;
	t->is_command = is_command;
	memcpy(t->ours, c->ours, sizeof(t->ours));
	push(client, server, tag, t);
	return 0;
}

/* A client without a statement, for which nothing is in flight, has this one. */
static void hold(struct client *client, struct unnamed_text *t)
{
	t->asked = TEXTS_ASKED_ELSEWHERE;
	client->unnamed = slab_get(slab_of(client));
	*client->unnamed = (struct unnamed_statement){.text = t, .is_parsed = true};
}

int unnamed_parsed_at_rest(struct client *client, const uint8_t *parse, size_t size)
{
	const struct sql_effects none = {0};
	struct unnamed_text *t = new_text(parse, size, &none);

	if (!t)
		return -1;
	hold(client, t);
	return 0;
}

/* ---- shared texts ---- */

int unnamed_share(struct client *client, struct server *server,
    struct prepared_text *text, uint32_t tag)
{
	struct unnamed_statement *u = client->unnamed;
	struct unnamed_text *t;

	/* what the server has as its unnamed statement is not the client's any more */
	server->link.unnamed.is_owned = server->link.unnamed.is_sent = false;
	if (!u || u->older || u->in_flight || !u->text || !u->text->shared) {
		t = mem_try(sizeof(*t));
		if (!t)
			return -1;
		*t = (struct unnamed_text){.is_quiet = true};
		push(client, server, tag, t);
		u = client->unnamed;
	}
	t = u->text;
	prepared_unref(t->shared);
	t->shared = prepared_ref(text);
	t->generation = server_generation(server);
	u->tag = tag;
	u->in_flight = tag != 0;
	u->is_parsed = !tag;
	/* the client has been told that it has this one */
	if (!tag)
		free_older(slab_of(client), u);
	return 0;
}

struct prepared_text *unnamed_shared(
    const struct client *client, uint32_t *generation, uint32_t *tag)
{
	const struct unnamed_statement *u = client->unnamed;

	if (!u || !u->text || !u->text->shared)
		return NULL;
	*generation = u->text->generation;
	*tag = u->tag;
	return u->text->shared;
}

/* The text of a Parse without a name. */
static const char *text_of(const uint8_t *parse)
{
	return (const char *)parse + 6;
}

const char *unnamed_text(const struct client *client)
{
	const struct unnamed_statement *u = client->unnamed;

	if (!u || !u->text)
		return NULL;
	return u->text->shared ? prepared_sql(u->text->shared)
			       : text_of(u->text->parse);
}

/* ---- the same Parse again ---- */

/* The text of the client's statement if it has no effects to be noted; else NULL. */
static struct unnamed_text *quiet_text(const struct client *client)
{
	const struct unnamed_statement *u = client->unnamed;

	return u && u->text && u->text->is_quiet && !u->text->is_command &&
		       !u->text->shared
		   ? u->text
		   : NULL;
}

const uint8_t *unnamed_repeatable(
    const struct client *client, const struct server *server, size_t *size)
{
	const struct unnamed_text *t = quiet_text(client);

	if (!t || t->asked & TEXTS_ASKED_COUNTED || t->asked != sql_facts_asked(server))
		return NULL;
	*size = t->size;
	return t->parse;
}

int unnamed_parse_again(struct client *client, struct server *server)
{
	struct unnamed_statement *u = client->unnamed;

	if (u->in_flight++ == 0)
		u->tag = next_tag(server);
	server->link.unnamed.is_sent = true;
	server->slot.pool->stats.repeated_parse_count++;
	return server_owe(server, 'P', OWED_CLIENT, u->tag);
}

bool unnamed_is_quiet(const struct client *client, const struct server *server)
{
	return unnamed_is_on_server(server) && quiet_text(client);
}

/* ---- what is sent ---- */

/* Appends the unnamed Parse of the rewritten command. */
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

/* Enters a Parse of the pooler in the ledger.  If it is skipped, the server still has
 * its earlier statement. */
static int owe_parse(struct server *server)
{
	server->link.unnamed.is_sent = true;
	return server_owe(server, 'P', OWED_SELF, next_tag(server));
}

static int bring_command(
    struct server *server, struct unnamed_text *u, const struct sql_command *c)
{
	struct buf parse;
	int failed = sql_command_before(c, server);

	if (failed || (unnamed_is_on_server(server) && strcmp(u->ours, c->ours) == 0))
		return failed;
	memcpy(u->ours, c->ours, sizeof(u->ours));
	buf_init(&parse, 0);
	put_command(c, u->parse, u->size, &parse);
	failed = stream_write_buf(&server->conn.stream, &parse);
	buf_done(&parse);
	return failed ? -1 : owe_parse(server);
}

/* Replaces the server's unnamed statement, which may be another client's, by that of
 * the client, or closes it so that PostgreSQL reports that there is none. */
static int bring_to_server(
    struct server *server, struct unnamed_text *u, const struct sql_command *c)
{
	if (c->sql.span.kind != COMMAND_NONE)
		return bring_command(server, u, c);
	if (unnamed_is_on_server(server))
		return 0;
	if (!u) {
		server->link.unnamed.is_sent = true;
		return server_prepared_close(server, "", next_tag(server));
	}
	if (stream_write(&server->conn.stream, u->parse, u->size) < 0)
		return -1;
	server->slot.pool->stats.server_parse_count++;
	return owe_parse(server);
}

static int parse_command(struct client *client, struct server *server,
    const struct message *m, const struct sql_command *c,
    const struct text_facts *facts)
{
	struct buf parse;
	uint32_t tag;
	int failed = sql_command_before(c, server);

	if (failed)
		return failed;
	tag = next_tag(server);
	buf_init(&parse, 0);
	put_command(c, m->bytes, m->have, &parse);
	failed = keep(client, server, m, tag, c, facts);
	if (!failed)
		failed = sql_command_send(server, c, &parse, tag);
	buf_done(&parse);
	return failed;
}

int unnamed_parse(struct client *client, struct server *server, const struct message *m,
    size_t text_at, const struct text_facts *facts)
{
	const char *text = (const char *)m->bytes + text_at;
	const struct sql_effects *effects = &facts->effects;
	struct sql_command command = {0};
	int result = 0;

	if (effects->forgets || effects->hides_forgetting)
		server->link.statements.has_forgetting_portal = true;
	server->link.unnamed.is_sent = true;
	if (message_is_whole(m))
		result = sql_command_init(&command, client, server, text, effects);
	if (!result && command.sql.span.kind != COMMAND_NONE) {
		result = parse_command(client, server, m, &command, facts) < 0 ? -1 : 1;
	} else if (!result) {
		uint32_t tag = next_tag(server);
		result = keep(client, server, m, tag, &command, facts);
		if (!result)
			result = server_owe(server, 'P', OWED_CLIENT, tag);
	}
	sql_command_done(&command);
	return result;
}

int unnamed_parse_untracked(struct server *server, const struct message *m)
{
	uint32_t tag = server->link.unnamed.is_owned ? 0 : SERVER_TAG_UNNAMED;

	server->link.unnamed.is_sent = true;
	return pipeline_owe(&server->pipeline, m->type, OWED_CLIENT, tag);
}

/* May the client's last Parse, behind which it has sent a Sync, still turn out to have
 * been skipped, so that another client's statement is still there? */
static bool is_doubtful(const struct server *server)
{
	return !unnamed_is_on_server(server) && server->pipeline.syncs > 0;
}

int unnamed_bring_untracked(struct server *server)
{
	const struct sql_command none = {0};

	return is_doubtful(server) ? 1 : bring_to_server(server, NULL, &none);
}

/* Notes the effects of the text, which take place from its Bind on. */
static int note_bind(struct client *client, struct server *server,
    const struct message *m, const struct unnamed_text *u,
    const struct sql_command *command)
{
	if (u && u->effects.hides_forgetting) {
		server_prepared_doubt(server);
		prepared_names_doubt(client->names);
	}
	if (u) {
		const char *text = unnamed_text(client);
		assert(text);
		session_state_expect(server, &u->effects, m, text, strlen(text));
		schema_expect(server, &u->effects);
		resets_bound(server, m, &u->effects);
		/* its Parse may have been in an earlier transaction */
		if (u->effects.forgets || u->effects.hides_forgetting)
			server->link.statements.has_forgetting_portal = true;
	}
	return sql_portal_note(server, m, command);
}

int unnamed_bring(struct client *client, struct server *server, const struct message *m)
{
	struct unnamed_text *u = client->unnamed ? client->unnamed->text : NULL;
	struct sql_command command = {0};
	int failed = 0;

	if (is_doubtful(server) ||
	    (u && u->is_command && m->type == 'B' && !sql_portal_may_be_made(server)))
		return 1;
	if (u && u->is_command)
		failed = sql_command_init(
		    &command, client, server, text_of(u->parse), &u->effects);
	if (!failed)
		failed = bring_to_server(server, u, &command);
	if (!failed && m->type == 'B')
		failed = note_bind(client, server, m, u, &command);
	sql_command_done(&command);
	return failed;
}

/* ---- takeover ---- */

bool unnamed_is_certain(const struct client *client)
{
	const struct unnamed_statement *u = client->unnamed;

	return !u || (!u->tag && !u->older && u->text);
}

/* Keeps the text as the client has sent it, instead of one that is shared.  NULL:
 * there is none, or without memory it is gone. */
static struct unnamed_text *make_own(struct unnamed_statement *u)
{
	struct unnamed_text *t = u ? u->text : NULL;
	struct buf parse;

	if (!t || !t->shared)
		return t;
	buf_init(&parse, 0);
	size_t at = codec_begin(&parse, 'P');
	buf_put_str(&parse, "");
	buf_put(&parse, t->shared->stored->key, t->shared->stored->len);
	codec_end(&parse, at);
	u->text = parse.failed ? NULL : new_text(parse.bytes, parse.len, &t->effects);
	buf_done(&parse);
	free_text(t);
	return u->text;
}

void unnamed_describe(const struct client *client, struct record_client *out)
{
	struct unnamed_text *t = make_own(client->unnamed);

	out->unnamed.is_there = t != NULL;
	if (!t)
		return;
	out->unnamed.is_command = t->is_command;
	out->unnamed.ours = t->ours;
	out->unnamed.effects = t->effects;
	out->unnamed.parse = (struct record_bytes){t->parse, t->size};
}

void *unnamed_pack(struct client *client)
{
	struct unnamed_text *t = make_own(client->unnamed);

	if (t)
		client->unnamed->text = NULL;
	unnamed_forget(client);
	return t;
}

void unnamed_unpack(struct client *client, void *packed)
{
	if (packed)
		hold(client, packed);
}

/* Is it a complete unnamed Parse? */
static bool is_parse(const struct record_bytes *parse)
{
	return parse->len > 6 && parse->at[0] == 'P' && !parse->at[5] &&
	       1 + (size_t)get_u32(parse->at + 1) == parse->len &&
	       memchr(text_of(parse->at), 0, parse->len - 6);
}

int unnamed_restore(struct client *client, const struct record_client *from)
{
	const struct record_bytes *parse = &from->unnamed.parse;
	struct unnamed_text *t;

	if (!from->unnamed.is_there)
		return 0;
	if (!is_parse(parse) || strlen(from->unnamed.ours) >= sizeof(t->ours))
		return -1;
	t = new_text(parse->at, parse->len, &from->unnamed.effects);
	if (!t)
		return -1;
	hold(client, t);
	t->is_command = from->unnamed.is_command;
	memcpy(t->ours, from->unnamed.ours, strlen(from->unnamed.ours) + 1);
	return 0;
}
