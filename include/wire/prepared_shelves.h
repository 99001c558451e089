/*
 * Values by reading (see vars_reading) and key: a shelf for each reading, which has a
 * map of its own.  Shelves without values are freed.
 */
#ifndef WIRE_PREPARED_SHELVES_H
#define WIRE_PREPARED_SHELVES_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct shelves;
struct shelf;

struct shelves *shelves_new(void);
/* Frees the shelves, which must be empty. */
void shelves_free(struct shelves **shelves);

/* Returns the value, or NULL when there is none. */
void *shelves_get(
    const struct shelves *s, const char *reading, const void *key, size_t len);
/* Returns the value, and makes it with make() if there is none, as map_get_or_put does.
 * *shelf and the hash that make() is told are for shelf_del; *shelf is set before
 * make() runs.  NULL: no memory. */
void *shelves_get_or_put(struct shelves *s, const char *reading, const void *key,
    size_t len, struct shelf **shelf, map_make_fn *make, void *ctx);
/* Removes a value; the shelf may be gone afterwards. */
void shelf_del(struct shelf *shelf, uint32_t hash, const void *value);
const char *shelf_reading(const struct shelf *shelf);

#endif
