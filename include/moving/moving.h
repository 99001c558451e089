/*
 * Moves clients, servers and listening sockets to another process.  The sender stops
 * what can be moved, describes it by parcels (moving/parcel.h), and then either drops
 * it or lets it continue; the receiver turns each parcel into the same object again.
 * The daemon transports parcels and decides when (daemon/takeover).
 *
 * Some objects stay and are served by the old process until they end: connections with
 * TLS, replication, logins, console clients.
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
	size_t pending; /* stopped, but some of their bytes are still being sent */
	size_t busy;    /* cannot be described at the moment */
	size_t staying; /* clients that can never be moved */
	size_t clients; /* how many of the silent ones are clients */
};

/* Stops what can be moved.  format: that of the parcels.  is_first: the listeners too.
 * In later rounds, resting servers needed by clients that stay are not moved.  To be
 * called repeatedly until nothing is pending, and busy ones have had enough time. */
void moving_stop(
    struct site *site, int format, bool is_first, struct moving_counts *counts);
/* Whether another round could move something.  Stops nothing. */
bool moving_has_more(struct site *site, int format);

/* Is given one parcel and its descriptor (-1: none).  -1: no more parcels are taken. */
typedef int moving_emit_fn(void *ctx, const struct parcel *parcel, int fd);
/* Describes everything silent and lets the rest continue.  From now on until
 * moving_keep no pool grants, refuses, opens or closes anything by itself, and cancel
 * requests wait, because the other process may begin to use what was described before
 * we know of it.  -1: emit has returned -1. */
int moving_offer(struct site *site, bool is_first, moving_emit_fn *emit, void *ctx);
/* Another process has taken over what was offered: closes it here silently.
 * moving_keep follows. */
void moving_let_go(struct site *site);
/* Everything that still exists here continues; all pools have to be kicked
 * afterwards. */
void moving_keep(struct site *site);

/* ---- the side that takes ---- */

struct moving; /* the receiver's state for one sender */

/* NULL and err: the sender's parcels cannot be understood. */
struct moving *moving_new(
    struct site *site, const struct parcel_origin *origin, struct err *err);
void moving_free(struct moving **moving);

/* Whether the parcel can be accepted.  Changes nothing, except that an auto-database
 * may be made.  -1 and err. */
int moving_check(
    const struct moving *moving, const struct parcel *parcel, struct err *err);
/* Accepts a parcel without a descriptor: a database, pool or text.  Texts are kept
 * until moving_forget_texts. */
void moving_note(struct moving *moving, const struct parcel *parcel);
void moving_forget_texts(struct moving *moving);
/* Makes a client, and the server it is linked to (NULL: none); takes the descriptors
 * over. */
struct client *moving_take_client(struct moving *moving,
    const struct parcel_client *from, int fd, const struct parcel_server *server,
    int server_fd);
/* Makes a resting server.  Its database must be known here. */
struct server *moving_take_server(
    struct moving *moving, const struct parcel_server *from, int fd);
/* Does the configuration have the database of this resting server?  If not, it is
 * closed: its sender has let go of it. */
bool moving_has_place(const struct moving *moving, const struct parcel_server *from);
void moving_dismiss_server(
    const struct moving *moving, const struct parcel_server *from, int fd);

#endif
