/*
 * Clients, servers and listening sockets on their way to another process (or, one day,
 * to another loop of this one): what can go is stopped, described by parcels, and then
 * either let go or started again; on the other side each parcel becomes what it was.
 * Who carries parcels, and when it is decided, is daemon/takeover's.
 *
 * What stays is served here: connections over TLS, replication, logins, clients of the
 * console.
 */
#ifndef MOVING_MOVING_H
#define MOVING_MOVING_H

#include <stdbool.h>
#include <stddef.h>

#include "moving/parcel.h"
#include "session/site.h"

/* ---- the side that gives ---- */

struct moving_counts {
	size_t silent;  /* clients and servers that can be described now */
	size_t pending; /* stopped, but a byte of them is still on its way */
	size_t busy;    /* cannot be described just now */
	size_t staying; /* clients that never can */
	size_t clients; /* of the silent ones */
};

/* Stops what can go.  is_first: the listeners too.  In a later round the servers at
 * rest of clients that stay remain with them.  To be called again until nothing is
 * pending, and what is busy was given time enough. */
void moving_stop(struct site *site, bool is_first, struct moving_counts *counts);
/* Without stopping anything: is there something that could go in another round? */
bool moving_has_more(struct site *site);

/* Takes one parcel and the descriptor (-1: none) that belongs to it.  -1: no more. */
typedef int moving_emit_fn(void *ctx, const struct parcel *parcel, int fd);
/* Describes all that is silent; what is not goes on.  From here on until moving_keep no
 * pool grants, refuses, opens or closes anything by itself, and cancel requests wait:
 * what the other process was told stays true, and it may begin to use it before we
 * know.  -1: emit said so. */
int moving_offer(struct site *site, bool is_first, moving_emit_fn *emit, void *ctx);
/* One server that has left its pool to go to another site of this process (seat.h says
 * as what it comes): what it needs there, then itself, all without descriptors.  The
 * pool alone.  -1: emit said so. */
int moving_offer_server(
    struct site *site, struct server *server, moving_emit_fn *emit, void *ctx);
int moving_offer_pool(
    struct site *site, struct pool *pool, moving_emit_fn *emit, void *ctx);
/* What was offered is another process's: it ends here without a word.  moving_keep
 * follows. */
void moving_let_go(struct site *site);
/* What there is stays here, and goes on; all pools have to be kicked then. */
void moving_keep(struct site *site);

/* ---- the side that takes ---- */

struct moving; /* what is known of the sender */

/* NULL and err: the parcel is from a process that cannot be understood. */
struct moving *moving_new(
    struct site *site, const struct parcel_origin *origin, struct err *err);
/* The sender is another site of this process. */
struct moving *moving_new_within(struct site *site);
void moving_free(struct moving **moving);

/* Could it be taken?  Nothing is changed but that an auto-database may be made.  -1 and
 * err. */
int moving_check(
    const struct moving *moving, const struct parcel *parcel, struct err *err);
/* What has no descriptor: databases, pools, texts.  A text is kept until
 * moving_forget_texts. */
void moving_note(struct moving *moving, const struct parcel *parcel);
void moving_forget_texts(struct moving *moving);
/* They go on here from now on; the descriptors are ours.  server: NULL, or the one that
 * the client is linked to. */
void moving_take_client(struct moving *moving, const struct parcel_client *from, int fd,
    const struct parcel_server *server, int server_fd);
/* A server at rest. */
struct server *moving_take_server(
    struct moving *moving, const struct parcel_server *from, int fd);

#endif
