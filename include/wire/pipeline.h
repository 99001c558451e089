/*
 * The ledger of one server connection: the answers still owed on it, in order.  Every
 * message sent to the server that owes an answer is entered; every message from the
 * server is checked against the head in O(1).  It follows PostgreSQL's rules for
 * errors (in extended protocol the server skips everything up to Sync, Query included),
 * for COPY (Sync and Flush are eaten while the server reads COPY data) and for late
 * CopyData/CopyDone/CopyFail (ignored by the server).  Documentation: "Message Flow",
 * sections Simple Query, Extended Query, Pipelining, Function Call, COPY Operations.
 *
 * It knows message types only: no content, no sockets.
 */
#ifndef WIRE_PIPELINE_H
#define WIRE_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What becomes of the answer to an entry. */
enum owed_to {
	OWED_CLIENT,  /* forward it */
	OWED_SELF,    /* our own request: swallow it */
	OWED_MADE_UP, /* nothing was sent: we make the answer up when its turn comes */
};

struct pipeline_entry {
	uint8_t
	    type; /* front message type: P B D E C S Q F, or c for the end of a COPY */
	uint8_t to;       /* enum owed_to */
	uint8_t maybe;    /* a Sync the server may have eaten while reading COPY data */
	uint8_t is_early; /* c: sent before the COPY was known to have begun */
	uint32_t tag;     /* the caller's, 0 if none */
};

/* Told of each entry that will get no answer because an earlier one failed (the one
 * that failed is reported by pipeline_answer).  Must not touch the ledger. */
typedef void pipeline_drop_fn(void *arg, const struct pipeline_entry *entry);

struct pipeline {
	struct pipeline_entry *ring; /* owned; NULL or small while nothing is owed */
	uint32_t head, count, cap;   /* cap is a power of two */
	uint32_t syncs;              /* ReadyForQuery messages owed (entries S Q F) */
	uint8_t copy; /* 0 none, 'G' in, 'H' out, 'W' both: what the server is doing */
	bool copy_open; /* the client has not ended its side of a COPY IN/BOTH */
	bool skipping;  /* the head run failed: its entries were dropped up to a Sync */
	bool failed_head; /* ErrorResponse seen for the Query/FunctionCall/Sync at the
			     head */
	bool in_answer;   /* part of the head's answer (T, D, ...) has been seen */
	bool is_lost;     /* no answer can be told from another any more */

	/*
	 * The server eats the Syncs it reads as COPY data.  When the COPY fails nobody
	 * but the server knows how many it had read: the others ("strays") get a
	 * ReadyForQuery each, after the error and before anything else.
	 */
	uint32_t maybes;     /* entries with .maybe */
	uint32_t early_ends; /* entries with .is_early */
	uint32_t strays;     /* at most so many may still come */
	bool is_uncertain;   /* a COPY failed: how many, is not yet known */
	bool is_asked;       /* our question about it is on its way */

	pipeline_drop_fn *on_drop; /* NULL: nobody wants to know */
	void *on_drop_arg;         /* borrowed */
};

void pipeline_init(struct pipeline *p);
void pipeline_done(struct pipeline *p);
void pipeline_on_drop(struct pipeline *p, pipeline_drop_fn *fn, void *arg);

/* A front message of this type goes to the server now (or, OWED_MADE_UP, does not).
 * Types that owe nothing (H, d, X) are accepted and ignored; c and f close the COPY.
 * -1: no memory.  A Sync sent while the server reads COPY data is entered as "maybe".
 */
int pipeline_owe(struct pipeline *p, uint8_t front_type, enum owed_to to, uint32_t tag);

/* Make a ledger that is certain (nothing is_uncertain, is_lost or a stray) again in
 * another process: its entries, the oldest first, and of `state` all that is no pointer
 * and does not follow from them.  The one to be filled owes nothing.  -1: no memory, or
 * no ledger is ever like that. */
int pipeline_restore(struct pipeline *p, const struct pipeline *state,
    const struct pipeline_entry *entries, size_t count);
/* The i-th entry, 0: the oldest. */
const struct pipeline_entry *pipeline_at(const struct pipeline *p, uint32_t i);

enum answer {
	ANSWER_FORWARD,
	ANSWER_SWALLOW,
	ANSWER_BROKEN, /* unasked, or out of order: never use this connection again */
};

/*
 * A back message of this type arrived; status is ReadyForQuery's byte (otherwise 0).
 * Asynchronous ones (N, S, A) follow the head: forward, unless the head is OWED_SELF
 * (our question of pipeline_ask has none of its own);
 * with nothing owed they are forwarded too (the caller knows whether anyone listens).
 * An ErrorResponse with nothing owed is forwarded (FATAL before the connection ends).
 * *done, when not NULL, gets the entry that this message completed (type 0 if none); an
 * ErrorResponse completes P B D E C, while Q F S are completed by ReadyForQuery alone.
 * A Query or FunctionCall owes at least one other answer before its ReadyForQuery.
 */
enum answer pipeline_answer(
    struct pipeline *p, uint8_t back_type, uint8_t status, struct pipeline_entry *done);

/* If the head is OWED_MADE_UP take it off and fill *entry: the caller makes up its
 * answer now.  Call until false: after each pipeline_answer and each pipeline_owe. */
bool pipeline_next_made_up(struct pipeline *p, struct pipeline_entry *entry);
/* Would it be true? */
static inline bool pipeline_has_made_up(const struct pipeline *p)
{
	return p->count && p->ring[p->head].to == OWED_MADE_UP;
}

/* Nothing is owed, no COPY is on, nothing is uncertain, the client is not where
 * PostgreSQL skips all up to a Sync: the server can be lent to another client (if its
 * ReadyForQuery said I). */
static inline bool pipeline_is_settled(const struct pipeline *p)
{
	return !p->count && !p->copy && !p->skipping && !p->is_uncertain && !p->is_lost;
}
/* The client is where PostgreSQL skips all up to a Sync: send nothing but that. */
static inline bool pipeline_is_skipping(const struct pipeline *p)
{
	return p->skipping && !p->is_uncertain;
}
/* No COPY is on or was, and nothing failed that is not over: a message of the extended
 * protocol can be sent, whatever was sent before it. */
static inline bool pipeline_is_calm(const struct pipeline *p)
{
	return !p->copy && !p->skipping && !p->is_uncertain && !p->is_lost &&
	       !p->early_ends && !p->maybes;
}
/* What a message of this type does hangs on how many Syncs a COPY has eaten: it must
 * not be sent before that is known.  Ask again after each pipeline_answer.  (The server
 * may need a Flush to tell.) */
/* (For this question alone: the rest of it, once it is in doubt.) */
bool pipeline_may_wait(const struct pipeline *p, uint8_t front_type);
static inline bool pipeline_must_wait(const struct pipeline *p, uint8_t front_type)
{
	return (p->early_ends || p->maybes || p->is_uncertain) &&
	       pipeline_may_wait(p, front_type);
}
/* A COPY failed and it is not known how many Syncs it has eaten: send Sync, Close of a
 * statement that is not there, Sync, and call pipeline_ask (-1: no memory). */
static inline bool pipeline_must_ask(const struct pipeline *p)
{
	return p->is_uncertain && !p->is_asked && !p->is_lost;
}
int pipeline_ask(struct pipeline *p);
/* The server is reading COPY data and the client has not ended it. */
bool pipeline_is_copy_in(const struct pipeline *p);
static inline size_t pipeline_count(const struct pipeline *p)
{
	return p->count;
}
/* The tag of the entry whose answer comes next; 0 when nothing is owed. */
uint32_t pipeline_head_tag(const struct pipeline *p);

#endif
