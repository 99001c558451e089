#include "wire/prepared_store.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

/* ---- values by reading and key ---- */

struct parse_contexts {
	struct map *by_reading; /* owned: struct parse_context */
};

struct parse_context {
	struct map *values;              /* owned; never empty between two calls */
	struct parse_contexts *contexts; /* borrowed */
	char reading[];
};

struct parse_contexts *parse_contexts_new(void)
{
	struct parse_contexts *s = mem_zero(sizeof(*s));

	s->by_reading = map_new();
	return s;
}

void parse_contexts_free(struct parse_contexts **sp)
{
	struct parse_contexts *s = *sp;

	assert(map_count(s->by_reading) == 0);
	map_free(&s->by_reading);
	mem_free(s);
	*sp = NULL;
}

static struct parse_context *add_context(struct parse_contexts *s, const char *reading)
{
	size_t size = strlen(reading) + 1;
	struct parse_context *context = mem_try(sizeof(*context) + size);

	if (!context)
		return NULL;
	context->values = map_new();
	context->contexts = s;
	memcpy(context->reading, reading, size);
	map_put_str(s->by_reading, context->reading, context);
	return context;
}

static void drop_if_empty(struct parse_context *context)
{
	if (map_count(context->values) > 0)
		return;
	map_del_str(context->contexts->by_reading, context->reading);
	map_free(&context->values);
	mem_free(context);
}

void *parse_contexts_get(
    const struct parse_contexts *s, const char *reading, const void *key, size_t len)
{
	const struct parse_context *context = map_get_str(s->by_reading, reading);

	return context ? map_get(context->values, key, len) : NULL;
}

void *parse_contexts_get_or_put(struct parse_contexts *s, const char *reading,
    const void *key, size_t len, struct parse_context **context, map_make_fn *make,
    void *ctx)
{
	void *value;

	*context = map_get_str(s->by_reading, reading);
	if (!*context)
		*context = add_context(s, reading);
	if (!*context)
		return NULL;
	value = map_get_or_put((*context)->values, key, len, make, ctx);
	drop_if_empty(*context);
	return value;
}

void parse_context_del(struct parse_context *context, uint32_t hash, const void *value)
{
	map_del_made(context->values, hash, value);
	drop_if_empty(context);
}

const char *parse_context_reading(const struct parse_context *context)
{
	return context->reading;
}

enum { GENERATIONS = 1024 };

struct prepared_store {
	pthread_mutex_t lock; /* protects everything below */
	struct parse_contexts
	    *contexts;     /* owned: struct stored_text that others may take */
	struct map *by_id; /* struct stored_text: all of them */
	uint64_t last_id;
	unsigned refs;
	const char *prefix; /* never changes */
	/* By hash of the database's name; these need no lock. */
	atomic_uint generations[GENERATIONS];
};

struct prepared_store *prepared_store_new(const char *prefix)
{
	struct prepared_store *s = mem_zero(sizeof(*s));

	pthread_mutex_init(&s->lock, NULL);
	s->contexts = parse_contexts_new();
	s->by_id = map_new();
	s->refs = 1;
	s->prefix = prefix;
	for (size_t i = 0; i < GENERATIONS; i++)
		atomic_init(&s->generations[i], PREPARED_GENERATION);
	return s;
}

atomic_uint *prepared_store_generation(struct prepared_store *s, const char *database)
{
	uint32_t hash = 2166136261U; /* FNV-1a */

	for (const char *at = database; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 16777619U;
	return &s->generations[(hash ^ hash >> 16) % GENERATIONS];
}

struct prepared_store *prepared_store_ref(struct prepared_store *s)
{
	pthread_mutex_lock(&s->lock);
	s->refs++;
	pthread_mutex_unlock(&s->lock);
	return s;
}

void prepared_store_unref(struct prepared_store **sp)
{
	struct prepared_store *s = *sp;
	bool is_last;

	*sp = NULL;
	pthread_mutex_lock(&s->lock);
	is_last = --s->refs == 0;
	pthread_mutex_unlock(&s->lock);
	if (!is_last)
		return;
	assert(map_count(s->by_id) == 0);
	map_free(&s->by_id);
	parse_contexts_free(&s->contexts);
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
}

/* A text that somebody wants, and what is needed to make it. */
struct wanted {
	struct prepared_store *store;
	struct parse_context *context; /* NULL: nobody else gets it */
	uint64_t id;                   /* 0: take the next one */
	const uint8_t *key;
	size_t len;
};

static struct stored_text *make(const struct wanted *w, uint32_t hash)
{
	struct prepared_store *s = w->store;
	struct stored_text *text =
	    w->len > UINT32_MAX ? NULL : mem_try(sizeof(*text) + w->len + 1);

	if (!text)
		return NULL;
	*text = (struct stored_text){
	    .store = s,
	    .id = w->id ? w->id : ++s->last_id,
	    .context = w->context,
	    .hash = hash,
	    .len = w->len,
	};
	if (w->len)
		memcpy(text->key, w->key, w->len);
	text->key[w->len] = 0;
	snprintf(text->name, sizeof(text->name), "%s%" PRIu64, s->prefix, text->id);
	map_put(s->by_id, &text->id, sizeof(text->id), text);
	return text;
}

static void *make_shared(void *ctx, uint32_t hash, const void **key)
{
	struct stored_text *text = make(ctx, hash);

	if (text)
		*key = text->key;
	return text;
}

const struct stored_text *prepared_store_restore(struct prepared_store *s, uint64_t id,
    const char *reading, const uint8_t *key, size_t len)
{
	struct stored_text *text;

	pthread_mutex_lock(&s->lock);
	struct wanted w = {.store = s, .id = id, .key = key, .len = len};
	text = id ? map_get(s->by_id, &id, sizeof(id)) : NULL;
	bool has_id = text;
	if (has_id && (text->len != len || (len && memcmp(text->key, key, len) != 0)))
		text = NULL;
	else if (!has_id && reading)
		text = parse_contexts_get_or_put(
		    s->contexts, reading, key, len, &w.context, make_shared, &w);

	if (!has_id && (!text || (id && text->id != id))) {
		w.context = NULL;
		text = make(&w, 0);
	}
	if (text)
		text->takers++;
	pthread_mutex_unlock(&s->lock);
	return text;
}

const struct stored_text *prepared_store_take(
    struct prepared_store *s, const char *reading, const uint8_t *key, size_t len)
{
	return prepared_store_restore(s, 0, reading, key, len);
}

void prepared_store_share(const struct stored_text *shared)
{
	atomic_fetch_add(&((struct stored_text *)shared)->takers, 1);
}

void prepared_store_give(const struct stored_text *given)
{
	struct stored_text *text = (struct stored_text *)given;
	struct prepared_store *s = text->store;
	bool is_last;

	pthread_mutex_lock(&s->lock);
	assert(text->takers > 0);
	is_last = --text->takers == 0;
	if (is_last && text->context)
		parse_context_del(text->context, text->hash, text);
	if (is_last)
		map_del(s->by_id, &text->id, sizeof(text->id));
	pthread_mutex_unlock(&s->lock);
	if (is_last)
		mem_free(text);
}

void prepared_store_skip(struct prepared_store *s, uint64_t id)
{
	pthread_mutex_lock(&s->lock);
	if (s->last_id < id)
		s->last_id = id;
	pthread_mutex_unlock(&s->lock);
}

uint64_t prepared_store_last(struct prepared_store *s)
{
	uint64_t id;

	pthread_mutex_lock(&s->lock);
	id = s->last_id;
	pthread_mutex_unlock(&s->lock);
	return id;
}
