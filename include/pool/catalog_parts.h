/*
 * Making and dropping databases and pools: what catalog.c does for catalog_adopt.c and
 * catalog_housekeeping.c.  Private to the pool floor.
 */
#ifndef POOL_CATALOG_PARTS_H
#define POOL_CATALOG_PARTS_H

#include "pool/catalog.h"

/* A new database without config, in the map. */
struct database *database_new(struct catalog *c, const char *name);
/* Out of the map, its pools killed; freed with the last pool and client.  keep: the
 * snapshot its config points into. */
void database_drop(struct database *db, struct config *keep, const char *reason);
/* Take over another entry.  The forced user, once there, cannot be lost. */
void database_set_config(struct database *db, const struct database_config *config);
/* (Re-)make an auto-database from the template in force.  -1: it does not parse, and
 * nothing was changed. */
int database_from_template(struct database *db);
void database_mark_dirty(struct database *db);
/* They have tallies from now on if there are other sites. */
void catalog_share_pool(struct pool *pool);
void catalog_share_database(struct database *db);
void catalog_share_user(struct user *user);
/* A client counts, here and in the tally (NULL: there is none).  False: there is a
 * limit, and with this one it is exceeded. */
bool catalog_may_enter(
    const struct tally_view *view, struct tally *tally, int *count, int limit);
void catalog_leave(const struct tally_view *view, struct tally *tally, int *count);
/* The pool must be empty.  A gone database goes with its last one. */
void pool_free(struct pool *pool);

/* printf for a catalog_note_fn, which may be NULL. */
void catalog_note(catalog_note_fn *note, void *note_ctx, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
