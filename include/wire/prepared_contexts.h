/*
 * Values by reading (see vars_reading) and key: a context for each reading, which has a
 * map of its own.  Shelves without values are freed.
 */
#ifndef WIRE_PREPARED_CONTEXTS_H
#define WIRE_PREPARED_CONTEXTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct parse_contexts;
struct parse_context;

struct parse_contexts *parse_contexts_new(void);
/* Frees the contexts, which must be empty. */
void parse_contexts_free(struct parse_contexts **contexts);

/* Returns the value, or NULL when there is none. */
void *parse_contexts_get(
    const struct parse_contexts *s, const char *reading, const void *key, size_t len);
/* Returns the value, and makes it with make() if there is none, as map_get_or_put does.
 * *context and the hash that make() is told are for parse_context_del; *context is set
 * before make() runs.  NULL: no memory. */
void *parse_contexts_get_or_put(struct parse_contexts *s, const char *reading,
    const void *key, size_t len, struct parse_context **context, map_make_fn *make,
    void *ctx);
/* Removes a value; the context may be gone afterwards. */
void parse_context_del(struct parse_context *context, uint32_t hash, const void *value);
const char *parse_context_reading(const struct parse_context *context);

#endif
