/*
 * Moves clients, servers and listening sockets to another process.  The sender stops
 * what can be moved, describes it by records (handoff/record.h), and then either drops
 * it or lets it continue; the receiver turns each record into the same object again.
 * The daemon transports records and decides when (daemon/takeover).
 *
 * Some objects stay and are served by the old process until they end: connections with
 * TLS, replication, logins, console clients.
 */
#ifndef HANDOFF_HANDOFF_H
#define HANDOFF_HANDOFF_H

#include <stdbool.h>
#include <stddef.h>

#include "handoff/record.h"
#include "session/site.h"

/* ---- the side that gives ---- */

struct handoff_counts {
	size_t silent;  /* clients and servers that can be described now */
	size_t pending; /* stopped, but some of their bytes are still being sent */
	size_t busy;    /* cannot be described at the moment */
	size_t staying; /* clients that can never be moved */
	size_t clients; /* how many of the silent ones are clients */
};

/* Stops what can be moved.  is_first: the listeners too.
 * In later rounds, resting servers needed by clients that stay are not moved.  To be
 * called repeatedly until nothing is pending, and busy ones have had enough time. */
void handoff_stop(struct site *site, bool is_first, struct handoff_counts *counts);
/* Whether another round could move something.  Stops nothing. */
bool handoff_has_more(struct site *site);

/* Is given one record and its descriptor (-1: none).  -1: no more records are taken. */
typedef int handoff_emit_fn(void *ctx, const struct record *record, int fd);
/* Describes everything silent and lets the rest continue.  From now on until
 * handoff_keep no pool grants, refuses, opens or closes anything by itself, and cancel
 * requests wait, because the other process may begin to use what was described before
 * we know of it.  -1: emit has returned -1. */
int handoff_offer(struct site *site, bool is_first, handoff_emit_fn *emit, void *ctx);
/* Another process has taken over what was offered: closes it here silently.
 * handoff_keep follows. */
void handoff_let_go(struct site *site);
/* Everything that still exists here continues; all pools have to be scheduled
 * afterwards. */
void handoff_keep(struct site *site);

/* ---- the side that takes ---- */

struct handoff; /* the receiver's state for one sender */

/* NULL and err: the sender's records cannot be understood. */
struct handoff *handoff_new(
    struct site *site, const struct record_origin *origin, struct err *err);
void handoff_free(struct handoff **handoff);

/* Whether the record can be accepted.  Changes nothing, except that an auto-database
 * may be made.  -1 and err. */
int handoff_check(
    const struct handoff *handoff, const struct record *record, struct err *err);
/* Accepts a record without a descriptor: a database, pool or text.  Texts are kept
 * until handoff_free. */
void handoff_note(struct handoff *handoff, const struct record *record);
/* Makes a client, and the server it is linked to (NULL: none); takes the descriptors
 * over. */
struct client *handoff_take_client(struct handoff *handoff,
    const struct record_client *from, int fd, const struct record_server *server,
    int server_fd);
/* Makes a resting server.  Its database must be known here. */
struct server *handoff_take_server(
    struct handoff *handoff, const struct record_server *from, int fd);
/* Does the configuration have the database of this resting server?  If not, it is
 * closed: its sender has let go of it. */
bool handoff_has_place(const struct handoff *handoff, const struct record_server *from);
void handoff_dismiss_server(
    const struct handoff *handoff, const struct record_server *from, int fd);

#endif
