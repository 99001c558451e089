/*
 * The bytes and names of prepared texts, which exist once for all threads.  A server
 * connection that goes from thread to thread so has each text under one name only.
 *
 * Each thread has a registry of its own (wire/prepared), which counts references and
 * uses without asking anybody.  It takes a text from the store when it meets it for the
 * first time, and gives it back when it needs it no more; only these two take a lock.
 */
#ifndef WIRE_PREPARED_STORE_H
#define WIRE_PREPARED_STORE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

/* Bytes of the longest name, with its NUL. */
enum { PREPARED_NAME_SIZE = 32 };

struct prepared_store;
struct parse_context;

/* A text: immutable while anybody has it, except for the fields that are marked as the
 * store's. */
struct stored_text {
	struct prepared_store *store;  /* borrowed */
	uint64_t id;                   /* counts from 1 */
	char name[PREPARED_NAME_SIZE]; /* the prefix and the id */
	struct parse_context
	    *context;  /* borrowed; the store's; NULL: it belongs to one taker */
	uint32_t hash; /* the store's */
	/* the store's; given back under its lock */
	_Atomic uint32_t takers;
	/* query text with its NUL, then the types as in Parse.  A NUL stands behind the
	 * key, so that even a malformed one ends like a string. */
	size_t len;
	uint8_t key[];
};

/* Names begin with the prefix, which must be short and constant.  The caller has a
 * reference. */
struct prepared_store *prepared_store_new(const char *prefix);
struct prepared_store *prepared_store_ref(struct prepared_store *s);
/* Frees the store with its last reference; then nobody may have a text of it. */
void prepared_store_unref(struct prepared_store **s);

/* Takes the text of these bytes under this reading, and makes it if nobody has it.
 * reading NULL: makes a text that nobody else gets.  Any thread may call it, as the
 * next ones.  NULL: no memory. */
const struct stored_text *prepared_store_take(
    struct prepared_store *s, const char *reading, const uint8_t *key, size_t len);
/* Takes a text that comes from another thread or process and has its id already.  If
 * these bytes have another id here, it is one that only those get who have this id.
 * NULL: no memory, or the id stands for other bytes. */
const struct stored_text *prepared_store_restore(struct prepared_store *s, uint64_t id,
    const char *reading, const uint8_t *key, size_t len);
/* Takes a text once more that the caller has.  It needs no lock. */
void prepared_store_share(const struct stored_text *text);
/* Gives back what was taken. */
void prepared_store_give(const struct stored_text *text);

/*
 * The generation of a database's schema: a number that rises whenever its tables, types
 * or functions may have changed.  A statement that was prepared before that may mean
 * something else now.  Generations are even; a transaction that has changed the schema
 * and is not over uses the odd number above.  They begin with PREPARED_GENERATION.
 * Databases are known by their names on the server; those with equal hashes share a
 * generation, which only causes more Parses.
 */
enum { PREPARED_GENERATION = 2 };
/* The generation of this database.  It is valid as long as the store, and any thread
 * may read it, and add 2. */
atomic_uint *prepared_store_generation(struct prepared_store *s, const char *database);

/* Ids of new texts will be greater than this one. */
void prepared_store_skip(struct prepared_store *s, uint64_t id);
/* The id given last. */
uint64_t prepared_store_last(struct prepared_store *s);

/* ---- values by reading and key ---- */

/* A context for each reading (see vars_reading), which has a map of its own.
 * Shelves without values are freed. */

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
