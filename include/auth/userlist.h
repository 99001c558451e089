/*
 * The user list file (auth_file): names of users and their secrets.  A list that is in
 * force does not change, and all threads share it.
 */
#ifndef AUTH_USERLIST_H
#define AUTH_USERLIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/diagnostic.h"
#include "base/err.h"

struct throttle;
struct secret;
struct userlist;

/* The longest name and secret, in bytes between the quotes. */
enum { USERLIST_NAME_MAX = 127, USERLIST_SECRET_MAX = 65530 };
/* Longer names are cut to this, as PostgreSQL and the login cut names of users. */
enum { USERLIST_NAME_USED = 63 };

/* Reads the file.  NULL and err when it cannot be opened ("could not open auth_file F:
 * strerror").  An entry that cannot be read is reported as a fault ("broken auth file:
 * what, and what to do") and ends the reading; earlier entries are kept.  A secret that
 * nothing can match is reported as a warning.  throttle: of the thread, see
 * base/cpu_time.h; may be NULL. */
struct userlist *userlist_load(const char *path, struct throttle *throttle,
    diagnostic_fn *report, void *ctx, struct err *err);
/* Like userlist_load, with the text of the file; path is used in messages only. */
struct userlist *userlist_parse(const char *path, const char *text, size_t len,
    struct throttle *throttle, diagnostic_fn *report, void *ctx);
/* Any thread may take and drop references.  The last one wipes all secrets and frees
 * them. */
struct userlist *userlist_ref(struct userlist *u);
void userlist_unref(struct userlist **u);
/* userlist_unref for a helper thread, which the throttle slows down. */
void userlist_unref_slowly(struct userlist **u, struct throttle *throttle);
/* Names of earlier lists stay known, without a secret: each becomes a former user of
 * this list, which nobody may use yet. */
void userlist_remember(
    struct userlist *u, const struct userlist *earlier, struct throttle *throttle);
/* Appends an entry as a line of the file. */
void userlist_put(struct buf *out, const char *name, const char *secret);
/* The number of users that the file has. */
size_t userlist_count(const struct userlist *u);
/* Returns the user's secret (borrowed), or NULL when the file has no such user. */
const struct secret *userlist_find(const struct userlist *u, const char *name);
/* Are there more SCRAM secrets than plain passwords and md5 hashes? */
bool userlist_is_mostly_scram(const struct userlist *u);
/* The rounds of a SCRAM login for a name that is not listed, see rounds_like; rounds:
 * how many those with plain passwords are asked for. */
uint32_t userlist_rounds_like(const struct userlist *u, uint32_t rounds, uint32_t pick);
/* Visits all users that the file has, in any order: `size_t at = 0; while
 * (userlist_next(u, &at, &name, &secret))`. */
bool userlist_next(const struct userlist *u, size_t *at, const char **name,
    const struct secret **secret);

/* Count, look-up and walk over the users of the file and former ones together. */
size_t userlist_known_count(const struct userlist *u);
bool userlist_knows(const struct userlist *u, const char *name);
const char *userlist_next_known(const struct userlist *u, size_t *at);

#endif
