/*
 * The hash map that everything uses: its keys are byte strings, its values pointers.
 * Keys come from peers, so they are hashed by SipHash with a random seed per map.  The
 * map grows and shrinks by itself.  Keys are borrowed: the caller keeps them alive and
 * unchanged while they are in the map, usually by storing them inside the value.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct map;

struct map *map_new(void);
/* Frees the map only, not the values. */
void map_free(struct map **m);

size_t map_count(const struct map *m);

/* NULL when absent. */
void *map_get(const struct map *m, const void *key, size_t key_len);
/* Adds a value, or replaces one and its key; returns the old value or NULL. */
void *map_put(struct map *m, const void *key, size_t key_len, void *value);
/* The value of a key; when it is absent, what make() makes for it, which also sets the
 * key to borrow, with the same bytes, and may keep its hash.  Hashes the key once.
 * NULL: make() made none. */
typedef void *map_make_fn(void *ctx, uint32_t hash, const void **key);
void *map_get_or_put(
    struct map *m, const void *key, size_t key_len, map_make_fn *make, void *ctx);
/* Removes a value and returns it, or NULL when there is none. */
void *map_del(struct map *m, const void *key, size_t key_len);
/* Removes a value that is there, by the hash that make() was told: the key, which may
 * be long, is not looked at. */
void map_del_made(struct map *m, uint32_t hash, const void *value);

/* Keys that are C strings. */
void *map_get_str(const struct map *m, const char *key);
void *map_put_str(struct map *m, const char *key, void *value);
void *map_del_str(struct map *m, const char *key);

/* Walk: `size_t at = 0; while ((v = map_next(m, &at)))`.  The order is arbitrary.  The
 * entry just returned may be deleted during the walk; one that is added is not walked
 * over. */
void *map_next(const struct map *m, size_t *at);

/* All values in a new array, ordered by compare (qsort's contract over void **).
 * Caller frees with free(); count goes to *count; never NULL. */
void **map_sorted(
    const struct map *m, size_t *count, int (*compare)(const void *, const void *));

#endif
