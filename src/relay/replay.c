#include "relay/replay.h"

#include <string.h>

#include "handoff/record.h"
#include "net/block.h"
#include "session/client.h"

enum { REPLAY_MAX = 64 * 1024 };

struct slab *replay_slab(struct mem *mem)
{
	return slab_new(mem, "replay_cache", sizeof(struct replay));
}

static struct replay *new_replay(struct server *server)
{
	struct replay *s = slab_take(server->conn.site->replay_slab);

	s->tag = 0;
	s->is_ended = s->has_run = s->is_told = false;
	buf_init_in(&s->bytes, REPLAY_MAX, s->room, sizeof(s->room));
	buf_init_in(
	    &s->described, REPLAY_MAX, s->described_room, sizeof(s->described_room));
	server->link.replay = s;
	return s;
}

void replay_deliver(struct server *server)
{
	struct replay *s = server->link.replay;
	struct client *client = server_client(server);

	if (s && s->described.len > 0 && client) {
		s->is_told = true;
		client_say(client, &s->described);
	}
}

void replay_tell(
    struct server *server, struct client *client, const uint8_t *answer, size_t len)
{
	struct replay *s = server->link.replay;

	if (s && !s->is_told)
		buf_put(&s->described, answer, len);
	else if (!client->conn.is_doomed)
		stream_put(&client->conn.stream, NULL, answer, len);
}

void replay_drop(struct server *server)
{
	struct replay *s = server->link.replay;

	if (!s)
		return;
	replay_deliver(server);
	buf_done(&s->bytes);
	buf_done(&s->described);
	slab_put(server->conn.site->replay_slab, s);
	server->link.replay = NULL;
}

void replay_end(struct server *server)
{
	server->link.is_replay_spoilt = false;
	replay_drop(server);
}

/* Gives up the replay; none can begin before the next Sync. */
static void spoil(struct server *server)
{
	replay_drop(server);
	server->link.is_replay_spoilt = true;
}

static void drop_ended(struct server *server)
{
	if (server->link.replay && server->link.replay->is_ended)
		replay_drop(server);
}

/* Messages can be sent again only outside a transaction block. */
static bool may_begin(const struct server *server, const struct message *m)
{
	const struct link *link = &server->link;

	return (!link->replay || link->replay->is_ended) && !link->is_replay_spoilt &&
	       server->status == 'I' && m->size <= REPLAY_MAX;
}

bool replay_wants_whole(const struct server *server, const struct message *m)
{
	const struct replay *s = server->link.replay;

	return !message_is_whole(m) && s && !s->is_ended &&
	       m->size <= REPLAY_MAX - s->bytes.len;
}

bool replay_wants_first(const struct server *server, const struct message *m)
{
	return !message_is_whole(m) && may_begin(server, m);
}

void replay_begin(struct server *server, const struct message *m)
{
	if (server->link.is_trying_again)
		return;
	drop_ended(server);
	if (may_begin(server, m))
		(void)new_replay(server);
}

static void append(struct server *server, const struct message *m)
{
	struct replay *s = server->link.replay;

	if (!s)
		return;
	if (!s->tag && m->type != 'P')
		s->tag = server->last_tag;
	buf_put(&s->bytes, m->bytes, m->have);
	s->is_ended = m->type == 'S';
	s->has_run |= m->type == 'E';
	if (s->bytes.failed || !message_is_whole(m))
		spoil(server);
}

void replay_note(struct server *server, const struct message *m)
{
	if (server->link.is_trying_again)
		return;
	if (m->type != 'H')
		drop_ended(server);
	if (!server->link.replay && server->link.is_replay_spoilt && m->type != 'S' &&
	    m->type != 'Q' && m->type != 'F')
		return;
	switch (m->type) {
	case 'H':
		if (server->link.replay && server->link.replay->is_ended)
			return;
		/* the client wants the answers that there are */
		if (server->link.replay && !pipeline_count(&server->pipeline))
			spoil(server);
		break;
	case 'B':
	case 'D':
	case 'E':
		if (!server->link.replay)
			spoil(server);
		break;
	case 'S':
		server->link.is_replay_spoilt = false;
		break;
	case 'P': /* the statement of a Parse may exist in spite of the error */
	case 'C':
		break;
	case 'Q':
	case 'F':
		server->link.is_replay_spoilt = false;
		replay_drop(server);
		return;
	default: /* of a COPY */
		if (server->link.replay || pipeline_ends_run(&server->pipeline))
			spoil(server);
		return;
	}
	append(server, m);
}

bool replay_may_hold(const struct server *server, const struct message *m)
{
	return m->type == 't' && server->link.replay && m->size <= REPLAY_MAX &&
	       server->link.replay->tag == pipeline_head_tag(&server->pipeline);
}

void replay_hold(struct server *server, const struct message *m)
{
	buf_put(&server->link.replay->described, m->bytes, m->have);
}

bool replay_next(struct block *block, size_t count, size_t *at, struct message *m)
{
	if (*at >= count)
		return false;
	const uint8_t *bytes = block->bytes + *at;
	size_t size = 1 + (size_t)get_u32(bytes + 1);
	*m = (struct message){
	    .type = bytes[0],
	    .bytes = bytes,
	    .have = size,
	    .size = size,
	    .behind = count - *at - size,
	    .block = block,
	};
	*at += size;
	return true;
}

void replay_look(const struct replay *s, struct message *first, bool *is_described)
{
	size_t size = 1 + (size_t)get_u32(s->bytes.bytes + 1);

	*first = (struct message){
	    .type = s->bytes.bytes[0],
	    .bytes = s->bytes.bytes,
	    .have = size,
	    .size = size,
	};
	*is_described = false;
	for (size_t at = 0; at < s->bytes.len && !*is_described;) {
		if (at > 0 && s->bytes.bytes[at] == 'B')
			break;
		*is_described = s->bytes.bytes[at] == 'D';
		at += 1 + (size_t)get_u32(s->bytes.bytes + at + 1);
	}
}

struct block *replay_detach(struct server *server, size_t *count)
{
	struct buf *bytes = &server->link.replay->bytes;
	struct block *block = block_new(bytes->len);

	*count = bytes->len;
	if (block) {
		memcpy(block->bytes, bytes->bytes, bytes->len);
		block->used = (uint32_t)bytes->len;
	}
	/* what was skipped has not changed the unnamed statement */
	server->link.unnamed.is_sent = false;
	/* the repetition brings the same answer again */
	buf_clear(&server->link.replay->described);
	replay_drop(server);
	return block;
}

/* ---- takeover ---- */

void replay_describe(const struct server *server, struct record_server *out)
{
	const struct replay *s = server->link.replay;

	out->replay.is_there = s != NULL;
	if (!s)
		return;
	out->replay.tag = s->tag;
	out->replay.is_ended = s->is_ended;
	out->replay.bytes = (struct record_bytes){s->bytes.bytes, s->bytes.len};
	out->replay.described =
	    (struct record_bytes){s->described.bytes, s->described.len};
}

/* Are the bytes whole messages and nothing else? */
static bool has_messages(const struct record_bytes *bytes)
{
	size_t left = bytes->len;

	while (left >= 5) {
		size_t size = 1 + (size_t)get_u32(bytes->at + bytes->len - left + 1);
		if (size < 5 || size > left)
			return false;
		left -= size;
	}
	return left == 0;
}

int replay_restore(struct server *server, const struct record_server *from)
{
	const struct record_bytes *bytes = &from->replay.bytes;
	const struct record_bytes *described = &from->replay.described;
	struct replay *s;

	if (!from->replay.is_there)
		return 0;
	if (!bytes->len || !has_messages(bytes) || !has_messages(described))
		return -1;
	s = new_replay(server);
	s->tag = from->replay.tag;
	s->is_ended = from->replay.is_ended;
	s->has_run = true; /* not known */
	buf_put(&s->bytes, bytes->at, bytes->len);
	buf_put(&s->described, described->at, described->len);
	return s->bytes.failed || s->described.failed ? -1 : 0;
}
