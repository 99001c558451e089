/*
 * Making and dropping databases and pools, for catalog_adopt.c and
 * catalog_housekeeping.c.  Private to the pool floor.
 */
#ifndef POOL_CATALOG_PARTS_H
#define POOL_CATALOG_PARTS_H

#include "pool/catalog.h"

/* Makes a database without config and puts it into the map. */
struct database *database_new(struct catalog *c, const char *name);
/* Removes a database from the map and kills its pools; it is freed with the last pool
 * and client.  keep is the snapshot that its config points into. */
void database_drop(struct database *db, struct config *keep, const char *reason);
/* Gives the database another entry.  A forced user stays even if the new entry has
 * none. */
void database_set_config(struct database *db, const struct database_config *config);
/* Makes an auto-database (again) from the template in force.  -1: the template cannot
 * be parsed, and nothing has changed. */
int database_from_template(struct database *db);
void database_mark_dirty(struct database *db);
/* Frees a user, who has left the map. */
void user_free(struct user *user);
/* Give the object what workers share of it. */
void catalog_share_database(struct database *db);
void catalog_share_user(struct user *user);
/* Counts a client, here and for all workers.  False: the limit is exceeded with this
 * client. */
bool catalog_may_enter(struct central_limit *shared, int *count, int limit);
void catalog_leave(struct central_limit *shared, int *count);
/* Frees an empty pool, and a database that is gone with its last pool. */
void pool_free(struct pool *pool);

/* Prints a message to a catalog_note_fn, which may be NULL. */
void catalog_note(catalog_note_fn *note, void *note_ctx, unsigned level,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
