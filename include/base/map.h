/*
 * The hash map of the whole program.  Keys are byte strings, values are pointers.  Keys
 * can come from peers, so they are hashed by SipHash with a random seed per map.  The
 * map grows and shrinks by itself.  It does not copy keys: the caller keeps them alive
 * and unchanged while they are in the map, usually by storing them inside the value.
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

/* Returns the value, or NULL when the key is not in the map. */
void *map_get(const struct map *m, const void *key, size_t key_len);
/* Adds a value, or replaces the value and the key pointer of an equal key.  Returns the
 * old value or NULL. */
void *map_put(struct map *m, const void *key, size_t key_len, void *value);
/* Returns the value of a key.  When the key is not in the map, make() makes the value;
 * it sets *key to equal bytes that live as long as the value, and may keep the hash for
 * map_del_made.  Saves a second hashing.  NULL: make() returned NULL. */
typedef void *map_make_fn(void *ctx, uint32_t hash, const void **key);
void *map_get_or_put(
    struct map *m, const void *key, size_t key_len, map_make_fn *make, void *ctx);
/* Removes a value and returns it, or NULL when there is none. */
void *map_del(struct map *m, const void *key, size_t key_len);
/* Removes a value that is in the map, by the hash that make() was given.  The key,
 * which may be long, is not hashed again. */
void map_del_made(struct map *m, uint32_t hash, const void *value);

/* map_get, map_put and map_del for keys that are C strings. */
void *map_get_str(const struct map *m, const char *key);
void *map_put_str(struct map *m, const char *key, void *value);
void *map_del_str(struct map *m, const char *key);

/* Visits all values: `size_t at = 0; while ((v = map_next(m, &at)))`.  The order is
 * arbitrary.  The entry just returned may be deleted during the walk; entries added
 * meanwhile are not visited. */
void *map_next(const struct map *m, size_t *at);

/* Returns all values in a new array, ordered by compare, which gets pointers to
 * elements as with qsort.  The result is never NULL; the caller frees it with free().
 * *count is set to its length. */
void **map_sorted(
    const struct map *m, size_t *count, int (*compare)(const void *, const void *));

#endif
