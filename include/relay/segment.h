/*
 * What a client sent since its last Sync, from the first use of a prepared statement
 * on: kept as long as it is in flight, so that it can be sent once more when the server
 * turns out to have lost that statement.  Nothing of it has run then, for PostgreSQL
 * skips all that follows an error up to the Sync.
 */
#ifndef RELAY_SEGMENT_H
#define RELAY_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "session/server.h"

struct segment {
	uint32_t tag;     /* the tag of its first message in the ledger */
	bool is_ended;    /* the Sync is in it */
	struct buf bytes; /* the client's own */
	/* a ParameterDescription that is held back: an error may still follow, and then
	 * another one */
	struct buf described;
};

/* A Bind or Describe of a prepared statement is about to go to the server: if it is the
 * first that the server has to answer since the last Sync, a segment begins. */
void segment_begin(struct server *server, const struct message *m);
/* A message of the client went to the server; in the ledger it has server->last_tag if
 * it began a segment. */
void segment_note(struct server *server, const struct message *m);
/* For a takeover. */
void segment_describe(const struct server *server, struct parcel_server *out);
/* -1: no memory, or no segment is ever like that. */
int segment_restore(struct server *server, const struct parcel_server *from);
/* All is answered. */
void segment_end(struct server *server);
/* Frees the segment; what was held back of the answer goes to the client first. */
void segment_drop(struct server *server);
/* Must this answer be held back until the next message comes?  It is needed whole then.
 */
bool segment_may_hold(const struct server *server, const struct message *m);
/* Is an answer other than an error no matter of the segment's? */
static inline bool segment_lets_pass(
    const struct server *server, const struct message *m)
{
	const struct segment *s = server->link.segment;

	return !s || (m->type != 't' && !s->described.len);
}
void segment_hold(struct server *server, const struct message *m);
/* What was held back of the answer goes to the client. */
void segment_deliver(struct server *server);
/* Returns its first message, and whether it describes the statement that it runs. */
void segment_look(const struct segment *s, struct message *first, bool *is_described);
/* Takes the segment from the server to send it again: its messages, *count bytes, in a
 * block of their own.  NULL: no memory. */
struct block *segment_detach(struct server *server, size_t *count);
/* Reads the message at *at of so many bytes, and moves on to the next.  False: there is
 * none. */
bool segment_next(struct block *block, size_t count, size_t *at, struct message *m);

#endif
