/*
 * The ledger: the list of answers that a server connection still owes, in order.  Every
 * message sent to the server that has an answer is entered; every message from the
 * server is checked against the oldest entry (the head) in O(1).  The ledger follows
 * PostgreSQL's rules for errors (in the extended protocol the server skips everything
 * up to Sync, Query included), for COPY (Sync and Flush are ignored while the server
 * reads COPY data) and for late CopyData, CopyDone and CopyFail (which the server
 * ignores).  PostgreSQL documentation: "Message Flow", sections Simple Query, Extended
 * Query, Pipelining, Function Call, COPY Operations.
 *
 * The ledger knows message types only; it has no content and no sockets.
 */
#ifndef WIRE_PIPELINE_H
#define WIRE_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What to do with the answer to an entry. */
enum owed_to {
	OWED_CLIENT, /* forward it to the client */
	OWED_SELF,   /* swallow it: the pooler itself has asked */
	/* nothing was sent: the pooler makes the answer up when its turn comes */
	OWED_MADE_UP,
};

struct pipeline_entry {
	/* type of the client's message: P B D E C S Q F, or c for the end of a COPY */
	uint8_t type;
	uint8_t to; /* an enum owed_to */
	/* a Sync that the server may ignore because it is reading COPY data */
	uint8_t maybe;
	/* on a c: it was sent before it was known that a COPY had begun */
	uint8_t is_early;
	uint32_t tag; /* chosen by the caller; 0 if none */
};

/* Is called for each entry that gets no answer because an earlier one has failed.  (The
 * failed one itself is reported by pipeline_answer.)  Must not change the ledger. */
typedef void pipeline_drop_fn(void *arg, const struct pipeline_entry *entry);

struct pipeline {
	struct pipeline_entry *ring; /* owned; NULL or small while no answer is owed */
	uint32_t head, count, cap;   /* cap is a power of two */
	/* number of ReadyForQuery messages owed (by entries S, Q and F) */
	uint32_t syncs;
	/* what the server is doing: 0 nothing, 'G' COPY IN, 'H' COPY OUT, 'W' COPY
	 * BOTH */
	uint8_t copy;
	bool copy_open; /* COPY IN or BOTH: the client has not ended its side */
	/* an error was seen; the server skips everything up to a Sync */
	bool skipping;
	/* an ErrorResponse to the Query, FunctionCall or Sync at the head was seen */
	bool failed_head;
	bool in_answer; /* a part of the head's answer (such as T or D) was seen */
	bool is_lost;   /* the answers can no longer be told apart */
	/* the client was sent a part of a message, and the rest has not arrived */
	bool is_amid;
	bool is_over; /* the client was sent a FATAL error, the server's last message */

	/*
	 * The server ignores every Sync that it reads as COPY data.  When the COPY
	 * fails, only the server knows how many it has read.  Each of the other Syncs
	 * ("strays") gets a ReadyForQuery, right after the error.
	 */
	uint32_t maybes;     /* number of entries with .maybe */
	uint32_t early_ends; /* number of entries with .is_early */
	uint32_t strays;     /* at most this many stray ReadyForQuery may still come */
	/* a COPY has failed, and the number of strays is unknown */
	bool is_uncertain;
	/* the messages that find the number out were sent (pipeline_ask) */
	bool is_asked;

	pipeline_drop_fn *on_drop; /* NULL: not needed */
	void *on_drop_arg;         /* borrowed */
};

/* How a message of the server belongs to an entry when no COPY is running and nothing
 * has failed. */
enum { PIPELINE_NO_ANSWER, PIPELINE_PART, PIPELINE_WHOLE };
#define PIPELINE_INDEX(type) ((type)&63)
enum { PIPELINE_TYPES = 64, PIPELINE_ANSWERS = 128 };
/* By PIPELINE_INDEX of the entry's type, and the type of the server's message. */
extern const uint8_t pipeline_ordinary[PIPELINE_TYPES][PIPELINE_ANSWERS];

void pipeline_init(struct pipeline *p);
void pipeline_done(struct pipeline *p);
void pipeline_on_drop(struct pipeline *p, pipeline_drop_fn *fn, void *arg);

/* Enters a client's message of this type, which is sent to the server now
 * (OWED_MADE_UP: is not sent).  Types without an answer (H, d, X) are accepted and
 * change nothing; c and f end the client's side of a COPY.  A Sync sent while the
 * server reads COPY data is entered as "maybe".  -1: no memory. */
int pipeline_owe(struct pipeline *p, uint8_t front_type, enum owed_to to, uint32_t tag);

/* Restores a ledger that came from another process.  `p` must be empty.  `entries` has
 * the oldest one first; `state` has all members that are no pointers and cannot be
 * computed from the entries.  The ledger must be certain (not is_uncertain, not
 * is_lost, no strays).  -1: no memory, or the state is impossible. */
int pipeline_restore(struct pipeline *p, const struct pipeline *state,
    const struct pipeline_entry *entries, size_t count);
/* Returns an entry; i = 0 is the oldest. */
const struct pipeline_entry *pipeline_at(const struct pipeline *p, uint32_t i);

enum answer {
	ANSWER_FORWARD,
	ANSWER_SWALLOW,
	/* the server sent what nobody asked for: close this connection */
	ANSWER_BROKEN,
};

/*
 * A message of this type came from the server; status is ReadyForQuery's byte, or 0.
 * Asynchronous ones (N, S, A) are treated like the head: forwarded, unless the head is
 * OWED_SELF (the questions of pipeline_ask do not count).  When nothing is owed they
 * are forwarded too; the caller knows whether there is a client.  An ErrorResponse when
 * nothing is owed is forwarded as well (FATAL before the server closes).  *done, when
 * not NULL, gets the entry that this message completed (type 0 if none).  An
 * ErrorResponse completes P, B, D, E and C; Q, F and S are completed by ReadyForQuery
 * only.  A Query or FunctionCall owes at least one other answer before its
 * ReadyForQuery.
 */
enum answer pipeline_answer(
    struct pipeline *p, uint8_t back_type, uint8_t status, struct pipeline_entry *done);

/* Notes that the client was sent a part of a message, or its rest. */
static inline void pipeline_set_amid(struct pipeline *p, bool is_amid)
{
	p->is_amid = is_amid;
}
/* Notes that the client was sent a FATAL error. */
static inline void pipeline_finish(struct pipeline *p)
{
	p->is_over = true;
}
/* Whether the client may be told something that the server has not sent: not within a
 * message of the server, and not after its last one.  Everybody who says something of
 * the pooler's own asks this, and nobody else knows it. */
static inline bool pipeline_may_speak(const struct pipeline *p)
{
	return !p->is_amid && !p->is_over;
}
/* The client has left: nothing is under way to it. */
static inline void pipeline_unlink(struct pipeline *p)
{
	p->is_amid = p->is_over = false;
}

/* If the head is OWED_MADE_UP and pipeline_may_speak, removes it and fills *entry; the
 * caller then makes up the answer.  To be called until it returns false, after each
 * pipeline_answer, each pipeline_owe, and when the rest of a message was sent. */
bool pipeline_next_made_up(struct pipeline *p, struct pipeline_entry *entry);
/* Whether pipeline_next_made_up would return true. */
static inline bool pipeline_has_made_up(const struct pipeline *p)
{
	return p->count && p->ring[p->head].to == OWED_MADE_UP && pipeline_may_speak(p);
}

/* Whether the server can be lent to another client, provided that its ReadyForQuery
 * said I: no answer is owed, no COPY is running, nothing is uncertain, and the client
 * is not at a point where PostgreSQL skips everything up to a Sync. */
static inline bool pipeline_is_settled(const struct pipeline *p)
{
	return !p->count && !p->copy && !p->skipping && !p->is_uncertain && !p->is_lost;
}
/* Whether the client is at a point where PostgreSQL skips everything up to a Sync.
 * Nothing but a Sync may be sent then. */
static inline bool pipeline_is_skipping(const struct pipeline *p)
{
	return p->skipping && !p->is_uncertain;
}
/* Whether no COPY is running and no error is being skipped, so that a message of the
 * extended protocol can be sent whatever was sent before it. */
static inline bool pipeline_is_calm(const struct pipeline *p)
{
	return !p->copy && !p->skipping && !p->is_uncertain && !p->is_lost &&
	       !p->early_ends && !p->maybes;
}
/* Whether the effect of a message of this type depends on how many Syncs a COPY has
 * eaten, so that it must not be sent before that is known.  To be asked again after
 * each pipeline_answer.  (The server may need a Flush before it answers.) */
/* The uncommon part of pipeline_must_wait; call that instead. */
bool pipeline_may_wait(const struct pipeline *p, uint8_t front_type);
static inline bool pipeline_must_wait(const struct pipeline *p, uint8_t front_type)
{
	return (p->early_ends || p->maybes || p->is_uncertain) &&
	       pipeline_may_wait(p, front_type);
}
/* Whether a COPY has failed and it is unknown how many Syncs it has eaten.  Then send
 * Sync, Close of a statement that does not exist, Sync, and call pipeline_ask (-1: no
 * memory). */
static inline bool pipeline_must_ask(const struct pipeline *p)
{
	return p->is_uncertain && !p->is_asked && !p->is_lost;
}
int pipeline_ask(struct pipeline *p);
/* Whether the server is reading COPY data and the client has not ended its side. */
bool pipeline_is_copy_in(const struct pipeline *p);
static inline size_t pipeline_count(const struct pipeline *p)
{
	return p->count;
}
/* Whether the CopyDone or CopyFail entered last may end the COPY of an Execute.  Then
 * the server may still be in the cycle of that one, because it has read Syncs as data.
 */
bool pipeline_ends_run(const struct pipeline *p);
/* The tag of the entry whose answer comes next; 0 when no answer is owed. */
uint32_t pipeline_head_tag(const struct pipeline *p);

/*
 * For many messages in a row (relay/batch.c).  These functions do what
 * pipeline_owe and pipeline_answer would do, but only in the common cases.
 */

/* Enters a P, B, D, E, C or S whose answer is for the client, while pipeline_is_calm;
 * that stays so.  -1: no memory. */
static inline int pipeline_owe_calmly(struct pipeline *p, uint8_t type, uint32_t tag)
{
	if (p->count == p->cap)
		return pipeline_owe(p, type, OWED_CLIENT, tag);
	p->ring[(p->head + p->count++) & (p->cap - 1)] =
	    (struct pipeline_entry){.type = type, .tag = tag};
	p->syncs += type == 'S';
	return 0;
}
/* Whether answers are owed, no COPY is running and nothing has failed, so that the
 * functions below may be called.  As long as an answer is owed, they do not change
 * that. */
static inline bool pipeline_is_ordinary(const struct pipeline *p)
{
	return p->count && !p->copy && !p->failed_head && !p->is_asked && !p->is_lost;
}
/* What a message is for the head: a part of its answer, the end, or something else,
 * which is also said if the answer is not for the client. */
static inline uint8_t pipeline_ordinarily(const struct pipeline *p, uint8_t back)
{
	const struct pipeline_entry *head = &p->ring[p->head];

	return head->to == OWED_CLIENT && back < PIPELINE_ANSWERS
		   ? pipeline_ordinary[PIPELINE_INDEX(head->type)][back]
		   : PIPELINE_NO_ANSWER;
}
/* Removes the head, a P, B, D, E or C, whose answer is complete.  After the last call
 * in a row, pipeline_trim. */
static inline void pipeline_take_ordinary(struct pipeline *p)
{
	p->head = (p->head + 1) & (p->cap - 1);
	p->count--;
	p->in_answer = false;
}
void pipeline_trim(struct pipeline *p);

#endif
