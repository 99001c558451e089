/*
 * A segment: the messages of a client since its last Sync, from the first use of a
 * prepared statement on.  They are kept until they are answered, so that they can be
 * sent again if the server turns out to have lost that statement.  None of them has run
 * then, because PostgreSQL skips everything after an error up to the Sync.
 */
#ifndef RELAY_SEGMENT_H
#define RELAY_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "session/server.h"

struct segment {
	uint32_t tag;     /* that of its first message for the server in the ledger */
	bool is_ended;    /* the Sync is in it */
	bool has_run;     /* an Execute is in it */
	bool is_told;     /* something that was held back has been delivered */
	struct buf bytes; /* as the client sent them */
	/* what is held back, because an error may follow and then the repetition brings
	 * another one: a ParseComplete of the pooler, a ParameterDescription */
	struct buf described;
	/* hold the bytes if they are few, as they are mostly */
	uint8_t room[256], described_room[32];
};
struct slab *segment_slab(struct mem *mem);

/* Must the rest of this message be waited for, because the segment would keep it? */
bool segment_wants_whole(const struct server *server, const struct message *m);
/* The same for a Bind or Describe of a prepared statement, which may begin one. */
bool segment_wants_first(const struct server *server, const struct message *m);
/* A Bind or Describe of a prepared statement is about to be sent, or a Parse is
 * answered by the pooler: begins a segment if it is the first message since the last
 * Sync that the server has to answer. */
void segment_begin(struct server *server, const struct message *m);
/* Holds back an answer of the pooler, if there is a segment that has no answer yet, or
 * else gives it to the client. */
void segment_tell(
    struct server *server, struct client *client, const uint8_t *answer, size_t len);
/* A message of the client was sent: adds it to the segment, if there is one.  If it
 * begins the segment, its tag in the ledger is server->last_tag. */
void segment_note(struct server *server, const struct message *m);
/* May a statement have been run since the client's last Sync? */
static inline bool segment_may_have_run(const struct server *server)
{
	const struct segment *s = server->link.segment;

	return server->link.is_segment_spoilt || (s && !s->is_ended && s->has_run);
}
/* Describes the segment for a takeover. */
void segment_describe(const struct server *server, struct parcel_server *out);
/* -1: no memory, or the description is not valid. */
int segment_restore(struct server *server, const struct parcel_server *from);
/* Everything is answered: frees the segment. */
void segment_end(struct server *server);
/* Sends the client what was held back of the answer, and frees the segment. */
void segment_drop(struct server *server);
/* Must this answer be held back until the next message comes?  Then it must be whole.
 */
bool segment_may_hold(const struct server *server, const struct message *m);
/* May an answer that is no error be forwarded without the segment's functions? */
static inline bool segment_lets_pass(
    const struct server *server, const struct message *m)
{
	const struct segment *s = server->link.segment;

	return !s || (m->type != 't' && !s->described.len);
}
void segment_hold(struct server *server, const struct message *m);
/* Sends the client what was held back of the answer. */
void segment_deliver(struct server *server);
/* Does it begin with a Parse? */
static inline bool segment_has_parse(const struct segment *s)
{
	return s->bytes.len > 0 && s->bytes.bytes[0] == 'P';
}
/* Returns its first message, and whether it describes the statement that it runs. */
void segment_look(const struct segment *s, struct message *first, bool *is_described);
/* Takes the segment from the server to send it again: its messages, *count bytes, in a
 * block of their own.  NULL: no memory. */
struct block *segment_detach(struct server *server, size_t *count);
/* Reads the message at *at of so many bytes, and moves on to the next.  False: there is
 * none. */
bool segment_next(struct block *block, size_t count, size_t *at, struct message *m);

#endif
