/*
 * Keeps a copy of what a client sent since its last Sync.  statements.c and back.c
 * decide when it is sent again.
 */
#include "relay/segment.h"

#include <string.h>

#include "moving/parcel.h"
#include "net/block.h"
#include "session/client.h"

enum { SEGMENT_MAX = 64 * 1024 };

struct slab *segment_slab(struct mem *mem)
{
	return slab_new(mem, "segment_cache", sizeof(struct segment));
}

static struct segment *new_segment(struct server *server)
{
	struct segment *s = slab_take(server->conn.site->segment_slab);

	s->tag = 0;
	s->is_ended = s->has_run = s->is_told = false;
	buf_init_in(&s->bytes, SEGMENT_MAX, s->room, sizeof(s->room));
	buf_init_in(
	    &s->described, SEGMENT_MAX, s->described_room, sizeof(s->described_room));
	server->link.segment = s;
	return s;
}

void segment_deliver(struct server *server)
{
	struct segment *s = server->link.segment;
	struct client *client = server_client(server);

	if (s && s->described.len > 0 && client) {
		s->is_told = true;
		client_say(client, &s->described);
	}
}

void segment_tell(
    struct server *server, struct client *client, const uint8_t *answer, size_t len)
{
	struct segment *s = server->link.segment;

	if (s && !s->is_told)
		buf_put(&s->described, answer, len);
	else if (!client->conn.is_doomed)
		stream_put(&client->conn.stream, NULL, answer, len);
}

void segment_drop(struct server *server)
{
	struct segment *s = server->link.segment;

	if (!s)
		return;
	segment_deliver(server);
	buf_done(&s->bytes);
	buf_done(&s->described);
	slab_put(server->conn.site->segment_slab, s);
	server->link.segment = NULL;
}

void segment_end(struct server *server)
{
	server->link.is_segment_spoilt = false;
	segment_drop(server);
}

/* Gives up the segment; none can begin before the next Sync. */
static void spoil(struct server *server)
{
	segment_drop(server);
	server->link.is_segment_spoilt = true;
}

static void drop_ended(struct server *server)
{
	if (server->link.segment && server->link.segment->is_ended)
		segment_drop(server);
}

/* Messages can be sent again only outside a transaction block. */
static bool may_begin(const struct server *server, const struct message *m)
{
	const struct link *link = &server->link;

	return (!link->segment || link->segment->is_ended) &&
	       !link->is_segment_spoilt && server->status == 'I' &&
	       m->size <= SEGMENT_MAX;
}

bool segment_wants_whole(const struct server *server, const struct message *m)
{
	const struct segment *s = server->link.segment;

	return !message_is_whole(m) && s && !s->is_ended &&
	       m->size <= SEGMENT_MAX - s->bytes.len;
}

bool segment_wants_first(const struct server *server, const struct message *m)
{
	return !message_is_whole(m) && may_begin(server, m);
}

void segment_begin(struct server *server, const struct message *m)
{
	if (server->link.is_trying_again)
		return;
	drop_ended(server);
	if (may_begin(server, m))
		(void)new_segment(server);
}

static void append(struct server *server, const struct message *m)
{
	struct segment *s = server->link.segment;

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

void segment_note(struct server *server, const struct message *m)
{
	if (server->link.is_trying_again)
		return;
	if (m->type != 'H')
		drop_ended(server);
	if (!server->link.segment && server->link.is_segment_spoilt && m->type != 'S' &&
	    m->type != 'Q' && m->type != 'F')
		return;
	switch (m->type) {
	case 'H':
		if (server->link.segment && server->link.segment->is_ended)
			return;
		/* the client wants the answers that there are */
		if (server->link.segment && !pipeline_count(&server->pipeline))
			spoil(server);
		break;
	case 'B':
	case 'D':
	case 'E':
		if (!server->link.segment)
			spoil(server);
		break;
	case 'S':
		server->link.is_segment_spoilt = false;
		break;
	case 'P': /* the statement of a Parse may exist in spite of the error */
	case 'C':
		break;
	case 'Q':
	case 'F':
		server->link.is_segment_spoilt = false;
		segment_drop(server);
		return;
	default:
		if (server->link.segment)
			spoil(server);
		return;
	}
	append(server, m);
}

bool segment_may_hold(const struct server *server, const struct message *m)
{
	return m->type == 't' && server->link.segment && m->size <= SEGMENT_MAX &&
	       server->link.segment->tag == pipeline_head_tag(&server->pipeline);
}

void segment_hold(struct server *server, const struct message *m)
{
	buf_put(&server->link.segment->described, m->bytes, m->have);
}

bool segment_next(struct block *block, size_t count, size_t *at, struct message *m)
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

void segment_look(const struct segment *s, struct message *first, bool *is_described)
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

struct block *segment_detach(struct server *server, size_t *count)
{
	struct buf *bytes = &server->link.segment->bytes;
	struct block *block = block_new(bytes->len);

	*count = bytes->len;
	if (block) {
		memcpy(block->bytes, bytes->bytes, bytes->len);
		block->used = (uint32_t)bytes->len;
	}
	/* what was skipped has not changed the unnamed statement */
	server->link.sent_unnamed = false;
	/* the repetition brings the same answer again */
	buf_clear(&server->link.segment->described);
	segment_drop(server);
	return block;
}

/* ---- takeover ---- */

void segment_describe(const struct server *server, struct parcel_server *out)
{
	const struct segment *s = server->link.segment;

	out->segment.is_there = s != NULL;
	if (!s)
		return;
	out->segment.tag = s->tag;
	out->segment.is_ended = s->is_ended;
	out->segment.bytes = (struct parcel_bytes){s->bytes.bytes, s->bytes.len};
	out->segment.described =
	    (struct parcel_bytes){s->described.bytes, s->described.len};
}

/* Are the bytes whole messages and nothing else? */
static bool has_messages(const struct parcel_bytes *bytes)
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

int segment_restore(struct server *server, const struct parcel_server *from)
{
	const struct parcel_bytes *bytes = &from->segment.bytes;
	const struct parcel_bytes *described = &from->segment.described;
	struct segment *s;

	if (!from->segment.is_there)
		return 0;
	if (!bytes->len || !has_messages(bytes) || !has_messages(described))
		return -1;
	s = new_segment(server);
	s->tag = from->segment.tag;
	s->is_ended = from->segment.is_ended;
	s->has_run = true; /* not known */
	buf_put(&s->bytes, bytes->at, bytes->len);
	buf_put(&s->described, described->at, described->len);
	return s->bytes.failed || s->described.failed ? -1 : 0;
}
