#include "relay/begin.h"

#include <string.h>

#include "relay/listen.h"
#include "relay/sql_facts.h"
#include "relay/statements.h"
#include "relay/unnamed.h"
#include "wire/codec.h"
#include "wire/message.h"
#include "wire/prepared.h"
#include "wire/sql_scan.h"
#include "wire/xact.h"

enum { HEADER_LEN = 5, READY_SIZE = 6 };

/* The link.begin_type of a block that is made to fail. */
enum { BEGIN_FAILS = '!', BEGIN_IS_CANCELED = '?' };

/* ---- the client's command ---- */

/* A command with the messages around it. */
struct command {
	enum xact_verb verb;
	uint8_t modes;
	const uint8_t *parse, *bind; /* NULL: there is none */
	size_t parse_size;
	bool is_described; /* its portal */
	size_t size;
};

static bool takes(
    const uint8_t **at, size_t *left, const uint8_t *message, size_t message_len)
{
	if (*left < message_len || memcmp(*at, message, message_len) != 0)
		return false;
	*at += message_len;
	*left -= message_len;
	return true;
}

static bool takes_whole(
    const uint8_t **at, size_t *left, uint8_t type, const uint8_t **message)
{
	size_t size = *left && **at == type
			  ? frame_whole(*at, *left, *left, message_front_rows)
			  : 0;

	*message = *at;
	*at += size;
	*left -= size;
	return size > 0;
}

/* key: a text and the types of its parameters, of which there must be none. */
static void read_text(struct command *c, const uint8_t *key, size_t len)
{
	if (len >= 2 && !key[len - 1] && !key[len - 2])
		c->verb = xact_read((const char *)key, len - 2, &c->modes);
}

/* Is it the Bind of an unnamed portal without parameters?  A result format may be
 * given.  Returns the name of the statement; else NULL. */
static const char *plain_bind(const uint8_t *bind, size_t size)
{
	static const uint8_t none[] = {0, 0, 0, 0, 0, 0}, one[] = {0, 0, 0, 0, 0, 1, 0};
	const uint8_t *name = bind + HEADER_LEN + 1, *end = bind + size, *at;
	size_t left;

	at = bind[HEADER_LEN] ? NULL : memchr(name, 0, (size_t)(end - name));
	left = at ? (size_t)(end - at) - 1 : 0;
	if ((left == sizeof(none) && memcmp(at + 1, none, left) == 0) ||
	    (left == sizeof(one) + 1 && memcmp(at + 1, one, sizeof(one)) == 0 &&
		end[-1] <= 1))
		return (const char *)name;
	return NULL;
}

/* Reads [Parse] Bind [Describe] Execute Sync, if the client's statements are tracked:
 * others are known to servers only. */
static void read_replay(
    struct command *c, const struct client *client, const struct message *m)
{
	static const uint8_t describe[] = {'D', 0, 0, 0, 6, 'P', 0};
	static const uint8_t execute[] = {'E', 0, 0, 0, 9, 0, 0, 0, 0, 0};
	static const uint8_t sync[] = {'S', 0, 0, 0, 4};
	const uint8_t *at = m->bytes, *behind;
	size_t left = m->have + conn_behind(&client->conn, &behind);
	const char *name;

	if (left != m->have + m->behind || !statements_are_tracked(client))
		return;
	if (m->type == 'P' && !takes_whole(&at, &left, 'P', &c->parse))
		return;
	c->parse_size = (size_t)(at - m->bytes);
	if (!takes_whole(&at, &left, 'B', &c->bind))
		return;
	name = plain_bind(c->bind, (size_t)(at - c->bind));
	c->is_described = takes(&at, &left, describe, sizeof(describe));
	if (!name || !takes(&at, &left, execute, sizeof(execute)) ||
	    !takes(&at, &left, sync, sizeof(sync)) || left)
		return;
	c->size = (size_t)(at - m->bytes);
	if (c->parse && !*name && !c->parse[HEADER_LEN]) {
		read_text(c, c->parse + HEADER_LEN + 1, c->parse_size - HEADER_LEN - 1);
	} else if (!c->parse && *name) {
		const struct prepared_text *text =
		    prepared_names_find(client->names, name);
		if (text && !text->body)
			read_text(c, text->stored->key, text->stored->len);
	}
}

static struct command read_command(const struct client *client, const struct message *m)
{
	struct command c = {.size = m->have};

	if (!message_is_whole(m))
		return c;
	if (m->type == 'Q' && !m->behind)
		c.verb = xact_read((const char *)m->bytes + HEADER_LEN,
		    m->have - HEADER_LEN, &c.modes);
	else if (m->type == 'P' || m->type == 'B')
		read_replay(&c, client, m);
	return c;
}

/* ---- the answer ---- */

void begin_put_ready(struct client *client)
{
	static const uint8_t ready[][READY_SIZE] = {
	    [BLOCK_NONE] = {'Z', 0, 0, 0, 5, 'I'},
	    [BLOCK_BEGUN] = {'Z', 0, 0, 0, 5, 'T'},
	    [BLOCK_FAILED] = {'Z', 0, 0, 0, 5, 'E'},
	};
	const struct server *server = client_server(client);
	bool has_failed = server && server->status == 'E';

	if (!client->conn.is_doomed)
		stream_put(&client->conn.stream, NULL,
		    ready[has_failed ? BLOCK_FAILED : client->block.state], READY_SIZE);
}

static bool may_defer(const struct client *client)
{
	struct scope scope = scope_of_pool(client->request.in_pool.pool);

	return scope_defer_begin(scope) &&
	       scope_pool_mode(scope) == POOL_MODE_TRANSACTION && !client->replication;
}

/* What becomes of the block; false: the command needs a server. */
static bool change_block(struct client *client, const struct command *c)
{
	bool ends = c->verb == XACT_COMMIT || c->verb == XACT_ROLLBACK;

	if (c->verb == XACT_NONE || ends != (client->block.state != BLOCK_NONE) ||
	    (!ends && !may_defer(client)))
		return false;
	/* a block that got no server was a transaction, too */
	if (client->block.state == BLOCK_BEGUN)
		client->request.in_pool.pool->stats.xact_count++;
	client->block.state = ends ? BLOCK_NONE : BLOCK_BEGUN;
	client->block.modes = c->modes;
	client->block.has_portal = c->bind != NULL;
	return true;
}

/* The unnamed statement is the client's last one. */
static int keep_statement(struct client *client, const struct command *c)
{
	client->unnamed_server = 0;
	if (c->bind && !c->parse)
		return 0;
	unnamed_forget(client);
	return c->parse ? unnamed_parsed_at_rest(client, c->parse, c->parse_size) : 0;
}

bool begin_answer(struct client *client, const struct message *m)
{
	struct stats *stats = &client->request.in_pool.pool->stats;
	bool has_failed = client->block.state == BLOCK_FAILED;
	struct command c;
	struct buf answer;

	if (!client->block.state && !may_defer(client))
		return false;
	c = read_command(client, m);
	if (!change_block(client, &c))
		return false;
	buf_init(&answer, 0);
	if (c.parse)
		codec_put_empty(&answer, '1');
	if (c.bind)
		codec_put_empty(&answer, '2');
	if (c.is_described)
		codec_put_empty(&answer, 'n');
	codec_put_command_complete(
	    &answer, xact_tag(has_failed ? XACT_ROLLBACK : c.verb));
	if (keep_statement(client, &c) < 0)
		answer.failed = true;
	stats->query_count++;
	stats->bind_count += c.bind && !c.parse;
	stats->bytes_received += c.size;
	stats->bytes_sent += answer.len + READY_SIZE;
	client->request.in_pool.pool->balance.own_bytes += answer.len + READY_SIZE;
	conn_take_behind(&client->conn, c.size - m->have);
	client_say(client, &answer);
	begin_put_ready(client);
	buf_done(&answer);
	return true;
}

/* ---- a block that has failed ---- */

/* Does PostgreSQL take no statement with this text in such a block?  It looks at what
 * the text is, not at what it does there. */
static bool is_refused_text(const char *text, size_t len)
{
	static const char *const ends[] = {
	    "commit", "end", "rollback", "abort", "prepare"};
	struct sql_token t;
	struct sql_scan s;

	sql_scan_init(&s, text, len, false);
	sql_scan_next(&s, &t);
	if (t.kind == SQL_END)
		return false; /* an empty text */
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (sql_token_is(&t, ends[i]))
			return false;
	return true;
}

bool begin_refuses(struct client *client, const struct message *m)
{
	const struct prepared_text *named = NULL;
	enum prepared_target kind;
	const char *text = NULL;
	size_t len = 0;

	switch (m->type) {
	case 'B':
	case 'D':
		kind = prepared_look(m->bytes, m->have, m->size, &text, NULL);
		if (kind == PREPARED_NAMED)
			named = prepared_names_find(client->names, text);
		text = named                      ? prepared_sql(named)
		       : kind == PREPARED_UNNAMED ? unnamed_text(client)
						  : NULL;
		return text && is_refused_text(text, strlen(text));
	case 'P':
	case 'Q':
		if (!sql_facts_find(m, &text, &len) || !is_refused_text(text, len))
			return false;
		/* PostgreSQL forgets the unnamed statement before it fails */
		if (m->type == 'Q' || !m->bytes[HEADER_LEN])
			unnamed_forget(client);
		return true;
	default:
		return m->type == 'S' || m->type == 'F';
	}
}

void begin_fail(struct server *server)
{
	/* It fails before it has a portal, which the client would see. */
	server_query(server, "BEGIN;SELECT pgbouncer_failed_block");
	server->link.begin_type = BEGIN_FAILS;
	server->link.hold = LINK_UNTIL_ANSWERED;
}

/* ---- on the server ---- */

int begin_send(struct client *client, struct server *server, const struct message *m)
{
	uint8_t sql_room[128];
	struct buf sql, out;
	/* Behind the client's Query there was no portal.  Another Query does not end
	 * one before it is planned. */
	const char *types = client->block.has_portal ? "PBE" : "PBEC";
	int failed = 0;

	if (client->block.state != BLOCK_BEGUN)
		return 0;
	buf_init_in(&sql, 0, sql_room, sizeof(sql_room));
	xact_put_begin(client->block.modes, &sql);
	buf_init(&out, 0);
	codec_put_parse(&out, "", buf_text(&sql));
	codec_put_bind_text(&out, NULL, 0);
	codec_put_execute(&out);
	if (types[3])
		codec_put_close_portal(&out);
	failed = out.failed || sql.failed ? -1 : 0;
	conn_send(&server->conn, &out);
	buf_done(&out);
	buf_done(&sql);
	for (const char *type = types; *type && !failed; type++)
		failed = pipeline_owe(&server->pipeline, (uint8_t)*type, OWED_SELF, 0);
	client->block.state = BLOCK_NONE;
	server->link.begin_type = m->type;
	server->link.unnamed.is_owned = server->link.unnamed.is_sent = false;
	/* what is sent now is sent in the block */
	server->status = 'T';
	server->is_ready = false;
	return failed;
}

void begin_go_on(struct server *server, struct client *client)
{
	struct link *link = &server->link;

	if (!link->begin_type || client->block.state != BLOCK_FAILED ||
	    !pipeline_is_skipping(&server->pipeline) ||
	    !pipeline_may_speak(&server->pipeline) || client_is_sending_message(client))
		return;
	if (server_sync(server) < 0)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	/* for the server the block is over; its ROLLBACK is answered here */
	if (client->listening)
		listen_note_ready(client, 'I');
	if (link->begin_type == 'Q' || link->begin_type == 'F') {
		begin_put_ready(client);
	} else {
		client->is_skipping = true;
	}
	link->begin_type = 0;
	link->hold = LINK_UNTIL_ANSWERED;
}

bool begin_answered(
    struct server *server, struct client *client, const struct message *m)
{
	struct link *link = &server->link;

	if (!link->begin_type)
		return false;
	if (link->begin_type == BEGIN_FAILS || link->begin_type == BEGIN_IS_CANCELED) {
		struct error_fields f;
		bool is_canceled = link->begin_type == BEGIN_IS_CANCELED;
		if (m->type == 'E') {
			codec_read_error(message_body(m), message_body_len(m), &f);
			if (strcmp(f.sqlstate, error_sqlstate(ERROR_QUERY_CANCELED)) ==
			    0)
				link->begin_type = BEGIN_IS_CANCELED;
		}
		if (m->type != 'Z')
			return false;
		link->begin_type = 0;
		/* a block that was cancelled before it began is begun again */
		if (server->status == 'E')
			client->block.state = BLOCK_NONE;
		else if (!is_canceled)
			server_retire(server, error_text(ERROR_UNKNOWN_PACKET));
		return false;
	}
	if (m->type == 'E')
		client->block.state = BLOCK_FAILED;
	if (m->type == 'C' || m->type == 'Z')
		link->begin_type = 0;
	/* the server may have a block all the same */
	if (m->type == 'Z' && server->status != 'I')
		client->block.state = BLOCK_NONE;
	if (m->type != 'Z' || client->block.state != BLOCK_FAILED)
		return false;
	begin_put_ready(client);
	return true;
}
