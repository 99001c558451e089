/*
 * This code runs for every message of a pipeline and every row of a result, so it reads
 * headers, the first bytes of some bodies, and nothing else.
 */
#include "relay/batch.h"

#include <string.h>

#include "relay/listen_fence.h"
#include "relay/listen_table.h"
#include "relay/name_map.h"
#include "relay/replay.h"
#include "relay/slow_log.h"
#include "relay/statements.h"
#include "relay/unnamed.h"
#include "wire/message.h"

/* ---- requests ---- */

/* What is the same for all messages of one walk. */
struct requests {
	struct client *client;
	struct server *server;
	bool is_tracked; /* prepared statements are */
	bool is_quiet; /* see unnamed_is_quiet; if not tracked: unnamed_is_on_server */
	/* the Parse that may come again without being examined; NULL: none */
	const uint8_t *again;
	size_t again_size;
};

bool batch_is_possible(const struct client *client, const struct server *server)
{
	const struct link *link = &server->link;
	const struct listening *l = client->listening;

	return !client->block.state && !link->begin_type &&
	       !link->statements.has_forgetting_portal &&
	       list_is_empty(&link->portals) && !link->params.put_back.is_there &&
	       !(link->pin.made & LEAK_BIT(LISTEN)) && !(l && l->run.len) &&
	       !effects_is_reset(&link->params.reset) &&
	       pipeline_is_calm(&server->pipeline);
}

static struct requests requests_of(struct client *client, struct server *server)
{
	struct requests r = {
	    .client = client,
	    .server = server,
	    .is_tracked = statements_are_tracked(client),
	};

	if (!r.is_tracked) {
		r.is_quiet = unnamed_is_on_server(server);
	} else {
		r.is_quiet = unnamed_is_quiet(client, server);
		r.again = unnamed_repeatable(client, server, &r.again_size);
	}
	return r;
}

static bool enter(struct requests *r, uint8_t type)
{
	return pipeline_owe_calmly(&r->server->pipeline, type, 0) == 0;
}

static bool enter_parse(struct requests *r, const uint8_t *p, size_t size)
{
	if (!r->again || size != r->again_size || memcmp(p, r->again, size) != 0 ||
	    unnamed_parse_again(r->client, r->server) < 0)
		return false;
	r->is_quiet = true;
	return true;
}

/* A Bind or Describe that names no statement ends what could be sent again. */
static bool enter_use(struct requests *r, uint8_t type, bool is_unnamed, bool is_named)
{
	struct link *link = &r->server->link;

	if (r->is_tracked ? !is_unnamed || !r->is_quiet
			  : link->is_replay_spoilt || !(r->is_quiet || is_named))
		return false;
	link->is_replay_spoilt = link->is_replay_spoilt || r->is_tracked;
	return enter(r, type);
}

/* Enters a whole message, if it concerns only the ledger.  The table of messages says
 * that those with a body have at least two bytes of it. */
static bool enter_request(struct requests *r, const uint8_t *p, size_t size)
{
	struct link *link = &r->server->link;

	switch (*p) {
	case 'E':
		return enter(r, 'E');
	case 'S':
		link->is_replay_spoilt = link->unnamed.is_sent = false;
		r->is_quiet = r->is_quiet && link->unnamed.is_owned;
		return enter(r, 'S');
	case 'P':
		return enter_parse(r, p, size);
	case 'B':
		return enter_use(r, 'B', !p[5] && !p[6], !p[5] && p[6]);
	case 'D':
		/* one that describes a portal, whose statement is known */
		return link->is_replay_spoilt && p[5] == 'P'
			   ? enter(r, 'D')
			   : enter_use(
				 r, 'D', p[5] == 'S' && !p[6], p[5] != 'S' || p[6]);
	case 'C':
		return !r->is_tracked && !link->is_replay_spoilt && enter(r, 'C');
	default:
		return false;
	}
}

/* The number of bytes from the message on, as far as they may be taken together. */
static size_t reach(const struct conn *conn, const struct message *m)
{
	const uint8_t *behind;

	return m->have + conn_behind(conn, &behind);
}

static size_t taken(struct conn *conn, const struct message *m, const uint8_t *end)
{
	size_t len = (size_t)(end - m->bytes);

	if (len > m->have)
		conn_take_behind(conn, len - m->have);
	return len;
}

/* For what may be sent again, and for log_min_duration: the messages from p to end. */
static void note_requests(struct requests *r, const uint8_t *p, const uint8_t *end)
{
	uint64_t max = conn_most(&r->client->conn);
	size_t size;

	for (; p < end; p += size) {
		size = frame_whole(p, (size_t)(end - p), max, message_front_rows);
		const struct message m = {
		    .type = *p, .bytes = p, .have = size, .size = size};
		if (r->server->link.replay)
			replay_note(r->server, &m);
		if (r->client->slow_log)
			slow_log_look(r->client, r->server, &m);
	}
}

size_t batch_requests(
    struct client *client, struct server *server, const struct message *m, size_t most)
{
	const uint8_t *p = m->bytes;
	size_t left = reach(&client->conn, m), size;
	bool is_noted = server->link.replay || client->slow_log;

	if (!batch_is_possible(client, server))
		return 0;
	/* others belong to what may be sent again */
	if (server->link.replay && m->type != 'E' && m->type != 'S')
		return 0;
	if (server->link.replay && most > 1)
		most = 1;
	struct requests r = requests_of(client, server);
	uint64_t max = conn_most(&client->conn);
	for (; most > 0; most--, p += size, left -= size) {
		size = frame_whole(p, left, max, message_front_rows);
		if (!size || !enter_request(&r, p, size))
			break;
	}
	if (is_noted)
		note_requests(&r, m->bytes, p);
	return taken(&client->conn, m, p);
}

/* ---- answers ---- */

bool batch_has_plain_tag(const uint8_t *message, size_t have)
{
	const uint8_t *tag = message + 5;

	if (have < 5 + 3)
		return false;
	switch (tag[0]) {
	case 'I':
	case 'B':
		return true;
	case 'S':
	case 'D':
		return tag[2] == 'L';
	case 'U':
		return tag[1] == 'P';
	case 'C':
		return tag[1] == 'O';
	default:
		return false;
	}
}

/* The types that only the ledger has to see, with exceptions. */
static const bool is_walked[256] = {['1'] = true,
    ['2'] = true,
    ['3'] = true,
    ['C'] = true,
    ['D'] = true,
    ['I'] = true,
    ['T'] = true,
    ['n'] = true,
    ['s'] = true,
    ['t'] = true};

struct answers {
	struct client *client;
	struct server *server;
	bool wants_tags; /* somebody reads the tags of CommandComplete */
};

static bool may_batch_answers(const struct server *server)
{
	const struct link *link = &server->link;

	return !link->sql && !link->journal && !link->is_trying_again &&
	       (!link->replay || !link->replay->described.len) &&
	       pipeline_is_ordinary(&server->pipeline);
}

static struct answers answers_of(struct server *server, struct client *client)
{
	const struct link *link = &server->link;
	const struct listening *l = client->listening;

	return (struct answers){
	    .client = client,
	    .server = server,
	    .wants_tags = link->leaks.watch.expected || link->params.was_reset ||
			  link->params.reset.hidden || listen_fence_wants_tag(server) ||
			  (l && l->run.len), /* a COMMIT puts that in force */
	};
}

/* Ends what waits for the answer with this tag, if it is the Parse of an unnamed
 * statement, or a Bind in which only a name was changed. */
static bool is_tag_ended(struct answers *a, uint8_t type, uint32_t tag)
{
	const struct name_map *name_map = name_map_find(a->server, tag);

	if (type == '1' && !name_map)
		unnamed_parsed(a->client, a->server, tag);
	else if (type == '2' && name_map && name_map->kind == COMMAND_NONE)
		name_map_end(a->server, tag);
	else
		return false;
	return true;
}

/* The head is answered.  False: somebody else has to know that. */
static bool take_head(struct answers *a, uint8_t type)
{
	struct pipeline *owed = &a->server->pipeline;
	uint32_t tag = pipeline_head_tag(owed);

	if (tag && !is_tag_ended(a, type, tag))
		return false;
	pipeline_take_ordinary(owed);
	return true;
}

/* Checks a whole message against the ledger.  False: it may concern more than that, and
 * nothing has changed. */
static bool enter_answer(struct answers *a, const uint8_t *p, size_t size)
{
	struct pipeline *owed = &a->server->pipeline;

	if (!is_walked[*p] ||
	    (*p == 'C' && (a->wants_tags || !batch_has_plain_tag(p, size))))
		return false;
	switch (pipeline_ordinarily(owed, *p)) {
	case PIPELINE_PART:
		/* a repetition may bring another 't' */
		if (*p == 't' && (a->server->link.replay || owed->in_answer))
			return false;
		owed->in_answer = true;
		return true;
	case PIPELINE_WHOLE:
		return take_head(a, *p);
	default:
		return false;
	}
}

size_t batch_answers(
    struct server *server, struct client *client, const struct message *m)
{
	const uint8_t *p = m->bytes;
	size_t left = reach(&server->conn, m), size;

	/* behind a BindComplete no error comes that causes a repetition */
	if (m->type == '2' && server->link.replay)
		replay_deliver(server);
	if (!is_walked[m->type] || !may_batch_answers(server))
		return 0;
	struct answers a = answers_of(server, client);
	uint64_t max = conn_most(&server->conn);
	for (; pipeline_count(&server->pipeline) > 0; p += size, left -= size) {
		size = frame_whole(p, left, max, message_back_rows);
		if (!size || !enter_answer(&a, p, size))
			break;
		if (*p == 'D')
			size += frame_alike(
			    p + size, left - size, max, message_back_rows, 'D');
	}
	pipeline_trim(&server->pipeline);
	return taken(&server->conn, m, p);
}
