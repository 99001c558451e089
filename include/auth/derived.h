/*
 * Salted passwords that were derived lately, so that the next login with the same
 * password, salt and iteration count costs nothing.  Bounded: the one unused for
 * longest goes first.  Passwords are not kept: entries are found by a keyed hash of
 * them.
 *
 * Put in only what has proven right, or the wrong guesses of one client push out the
 * keys of all others.
 */
#ifndef AUTH_DERIVED_H
#define AUTH_DERIVED_H

#include <stddef.h>
#include <stdint.h>

#include "auth/scram_keys.h"

enum { DERIVED_ENTRIES = 1024 };

struct derived;

struct derived *derived_new(size_t entries_max);
void derived_free(struct derived **d); /* wipes */

/* 0 and the salted password, or -1 when it is not known. */
int derived_find(
    struct derived *d, const struct scram_due *due, uint8_t salted[SCRAM_KEY_LEN]);
void derived_put(struct derived *d, const struct scram_due *due,
    const uint8_t salted[SCRAM_KEY_LEN]);
/* Forgets and wipes everything: at reload. */
void derived_clear(struct derived *d);
size_t derived_count(const struct derived *d);

#endif
