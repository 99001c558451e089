/*
 * Asks: the queue of a pool, and the link between an ask and a seat.  Private to the
 * pool floor.
 */
#ifndef POOL_QUEUE_H
#define POOL_QUEUE_H

#include "pool/pool.h"

/* From resting to waiting, and back. */
void queue_add(struct ask *ask, enum ask_kind kind, uint64_t now_us);
void queue_remove(struct ask *ask);
/* The same, because it is served: its wait is counted. */
void queue_serve(struct ask *ask, uint64_t now_us);

/* An idle seat that may be lent, or NULL. */
struct seat *queue_idle_seat(const struct pool *pool);
/* The first ask that waits for any seat, or NULL. */
struct ask *queue_first_seeker(const struct pool *pool);
/* Both become each other's; ask may have waited.  The seat's state is the caller's. */
void queue_link(struct ask *ask, struct seat *seat, uint64_t now_us);
void queue_unlink(struct seat *seat);
/* Link them and say so. */
struct verdict queue_grant(struct ask *ask, struct seat *seat, uint64_t now_us);
/* The ask leaves the queue if it is in it, and is told text. */
struct verdict queue_refuse(struct ask *ask, const char *text, const char *sqlstate);
/* The same with text and SQLSTATE of a row. */
struct verdict queue_refuse_for(struct ask *ask, enum error_id id);

/* Other sites see since when somebody waits here for a server, and who waits for the
 * welcome. */
void queue_note_waiting(struct pool *pool);

#endif
