/*
 * Salted passwords that were derived lately, so that the next login with the same
 * password, salt and iteration count costs nothing.  Bounded: the one unused for
 * longest goes first.  Passwords are not kept: entries are found by a keyed hash of
 * them.
 *
 * Put in only what has proven right, or the wrong guesses of one client push out the
 * keys of all others.
 */
#ifndef AUTH_KEY_CACHE_H
#define AUTH_KEY_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "auth/scram_keys.h"

enum { KEY_CACHE_ENTRIES = 1024 };

struct key_cache;

struct key_cache *key_cache_new(size_t entries_max);
void key_cache_free(struct key_cache **d); /* wipes */

/* 0 and the salted password, or -1 when it is not known. */
int key_cache_find(
    struct key_cache *d, const struct scram_due *due, uint8_t salted[SCRAM_KEY_LEN]);
void key_cache_put(struct key_cache *d, const struct scram_due *due,
    const uint8_t salted[SCRAM_KEY_LEN]);
/* Forgets and wipes everything: at reload. */
void key_cache_clear(struct key_cache *d);
size_t key_cache_count(const struct key_cache *d);

#endif
