/*
 * The registry of prepared texts of one thread: one object for each combination of
 * query text, parameter types and reading, shared by all names and sets that refer to
 * it.  It knows how many those are, but not which.
 */
#include "wire/prepared.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "wire/codec.h"
#include "wire/prepared_store.h"

struct prepared_registry {
	struct prepared_store *store;    /* one reference */
	struct parse_contexts *contexts; /* owned: struct prepared_text */
	struct map *by_id; /* owned: id -> struct prepared_text; has all texts */
};

struct prepared_registry *prepared_registry_new(struct prepared_store *store)
{
	struct prepared_registry *r = mem_zero(sizeof(*r));

	r->store = store;
	r->contexts = parse_contexts_new();
	r->by_id = map_new();
	return r;
}

void prepared_registry_free(struct prepared_registry **rp)
{
	struct prepared_registry *r = *rp;

	assert(map_count(r->by_id) == 0);
	parse_contexts_free(&r->contexts);
	map_free(&r->by_id);
	prepared_store_unref(&r->store);
	mem_free(r);
	*rp = NULL;
}

size_t prepared_registry_count(const struct prepared_registry *r)
{
	return map_count(r->by_id);
}

atomic_uint *prepared_registry_generation(
    const struct prepared_registry *r, const char *database)
{
	return prepared_store_generation(r->store, database);
}

static int compare_ids(const void *a, const void *b)
{
	const struct prepared_text *const *x = a, *const *y = b;

	uint64_t i = (*x)->stored->id, j = (*y)->stored->id;

	return (i > j) - (i < j);
}

struct prepared_text **prepared_registry_sorted(
    const struct prepared_registry *r, size_t *count)
{
	return (struct prepared_text **)map_sorted(r->by_id, count, compare_ids);
}

/* ---- finding and making ---- */

/* What make_text needs. */
struct wanted {
	struct prepared_registry *registry;
	struct parse_context *context;    /* NULL: the text is private */
	const struct stored_text *stored; /* NULL: it has to be taken from the store */
	const uint8_t *key;
	size_t len;
};

/* Makes the text of w->stored. */
static struct prepared_text *new_text(const struct wanted *w, uint32_t hash)
{
	struct prepared_registry *r = w->registry;
	struct prepared_text *t = w->stored ? mem_try(sizeof(*t)) : NULL;

	if (!t)
		return NULL;
	*t = (struct prepared_text){
	    .stored = w->stored,
	    .name = w->stored->name,
	    .hash = hash,
	    .registry = r,
	    .context = w->context,
	};
	void *old = map_put(r->by_id, &t->stored->id, sizeof(t->stored->id), t);
	assert(!old);
	return t;
}

static void *make_shared(void *ctx, uint32_t hash, const void **key)
{
	struct wanted *w = ctx;
	struct prepared_text *t;

	if (!w->stored)
		w->stored = prepared_store_take(w->registry->store,
		    parse_context_reading(w->context), w->key, w->len);
	t = new_text(w, hash);
	if (t)
		*key = t->stored->key;
	return t;
}

/* A reference for the caller; what was taken from the store in vain is given back. */
static struct prepared_text *hand_out(const struct wanted *w, struct prepared_text *t)
{
	if (w->stored && (!t || t->stored != w->stored))
		prepared_store_give(w->stored);
	return t ? prepared_ref(t) : NULL;
}

/* Returns the text that stands for these bytes under this reading. */
static struct prepared_text *get_shared(struct wanted *w, const char *reading)
{
	return hand_out(w, parse_contexts_get_or_put(w->registry->contexts, reading,
			       w->key, w->len, &w->context, make_shared, w));
}

static struct prepared_text *make_private(
    struct prepared_registry *r, const struct stored_text *stored)
{
	struct wanted w = {.registry = r, .stored = stored};

	return hand_out(&w, new_text(&w, 0));
}

struct prepared_text *prepared_find(
    struct prepared_registry *r, const char *reading, const uint8_t *key, size_t len)
{
	struct prepared_text *t = parse_contexts_get(r->contexts, reading, key, len);

	return t ? prepared_ref(t) : NULL;
}

bool prepared_is_unshared(const struct prepared_text *t)
{
	return t->refs == 1;
}

struct prepared_text *prepared_intern(
    struct prepared_registry *r, const char *reading, const uint8_t *key, size_t len)
{
	struct wanted w = {.registry = r, .key = key, .len = len};

	return get_shared(&w, reading);
}

struct prepared_text *prepared_intern_private(
    struct prepared_registry *r, const uint8_t *key, size_t len)
{
	return make_private(r, prepared_store_take(r->store, NULL, key, len));
}

struct prepared_text *prepared_intern_body(struct prepared_registry *r,
    const uint8_t *begin, size_t len, struct prepared_body *body)
{
	struct prepared_text *t = prepared_intern_private(r, begin, len);

	if (t)
		t->body = body;
	return t;
}

/* ---- texts that come from elsewhere ---- */

void prepared_registry_skip(struct prepared_registry *r, uint64_t id)
{
	prepared_store_skip(r->store, id);
}

uint64_t prepared_registry_last(const struct prepared_registry *r)
{
	return prepared_store_last(r->store);
}

/* This thread's text for a stored one, which the caller has taken and now gives away.
 */
static struct prepared_text *text_for(
    struct prepared_registry *r, const struct stored_text *stored)
{
	struct prepared_text *t = map_get(r->by_id, &stored->id, sizeof(stored->id));
	struct wanted w = {
	    .registry = r, .stored = stored, .key = stored->key, .len = stored->len};

	if (t) {
		prepared_store_give(stored);
		return prepared_ref(t);
	}
	return stored->context ? get_shared(&w, parse_context_reading(stored->context))
			       : make_private(r, stored);
}

struct prepared_text *prepared_restore(struct prepared_registry *r, uint64_t id,
    const char *reading, const uint8_t *key, size_t len)
{
	const struct stored_text *stored =
	    prepared_store_restore(r->store, id, reading, key, len);

	return stored ? text_for(r, stored) : NULL;
}

struct prepared_text *prepared_pack(const struct prepared_text *t)
{
	struct prepared_text *packed = mem_dup(t, sizeof(*t));

	prepared_store_share(packed->stored);
	packed->registry = NULL;
	packed->context = NULL;
	packed->body = NULL;
	return packed;
}

bool prepared_is_of(const struct prepared_text *t, const struct prepared_registry *r)
{
	return t->stored->store == r->store;
}

void prepared_drop_packed(struct prepared_text *packed)
{
	prepared_store_give(packed->stored);
	mem_free(packed);
}

struct prepared_text *prepared_unpack(
    struct prepared_registry *r, struct prepared_text *packed)
{
	struct prepared_text *t = text_for(r, packed->stored);

	if (t)
		t->effects = packed->effects;
	mem_free(packed);
	return t;
}

/* Stands between a reading, which ends with a comma, and its generation. */
enum { GENERATION_MARK = '#' };

void prepared_put_reading(const char *reading, uint32_t generation, struct buf *out)
{
	buf_put_text(out, reading);
	if (generation != PREPARED_GENERATION)
		buf_printf(out, "%c%" PRIu32, GENERATION_MARK, generation);
	buf_put_u8(out, 0);
}

bool prepared_is_read_as(const struct prepared_text *t, const char *reading)
{
	if (!t->context)
		return true;
	if (!reading)
		return false;
	const char *at = parse_context_reading(t->context);
	size_t len = strlen(reading);
	return strncmp(at, reading, len) == 0 &&
	       (!at[len] || at[len] == GENERATION_MARK);
}

const char *prepared_reading(const struct prepared_text *t)
{
	return t->context ? parse_context_reading(t->context) : NULL;
}

/* Where the generation stands in the reading of a shared text; NULL: it has none. */
static const char *mark_of(const struct prepared_text *t)
{
	const char *mark = strrchr(parse_context_reading(t->context), GENERATION_MARK);

	return mark && !strchr(mark, ',') ? mark : NULL;
}

uint32_t prepared_generation(const struct prepared_text *t)
{
	const char *mark = t->context ? mark_of(t) : NULL;

	return mark ? (uint32_t)strtoul(mark + 1, NULL, 10) : PREPARED_GENERATION;
}

/* The text of these bytes under this reading, in the generation of t. */
static struct prepared_text *intern_again(
    const struct prepared_text *t, const char *reading)
{
	const char *mark = mark_of(t);
	struct prepared_text *made = NULL;
	struct buf room;

	buf_init(&room, 0);
	buf_put_text(&room, reading);
	if (mark)
		buf_put_text(&room, mark);
	buf_put_u8(&room, 0);
	if (!room.failed)
		made = prepared_intern(
		    t->registry, buf_text(&room), t->stored->key, t->stored->len);
	buf_done(&room);
	return made;
}

struct prepared_text *prepared_variant(struct prepared_text *t, const char *reading)
{
	struct prepared_text *made;

	if (prepared_is_read_as(t, reading))
		return prepared_ref(t);
	made = reading ? intern_again(t, reading)
		       : prepared_intern_private(
			     t->registry, t->stored->key, t->stored->len);
	if (made && prepared_is_unshared(made))
		made->effects = t->effects;
	return made;
}

struct prepared_text *prepared_ref(struct prepared_text *t)
{
	t->refs++;
	return t;
}

void prepared_unref(struct prepared_text *t)
{
	if (!t)
		return;
	assert(t->refs > 0);
	if (--t->refs)
		return;
	assert(t->clients == 0 && t->servers == 0);
	map_del(t->registry->by_id, &t->stored->id, sizeof(t->stored->id));
	if (t->context)
		parse_context_del(t->context, t->hash, t);
	if (t->body)
		t->body->let_go(t->body);
	prepared_store_give(t->stored);
	mem_free(t);
}

void prepared_put_parse(const struct prepared_text *t, struct buf *out)
{
	size_t at = codec_begin(out, 'P');

	assert(!t->body);
	buf_put_str(out, t->name);
	buf_put(out, t->stored->key, t->stored->len);
	codec_end(out, at);
}

void prepared_put_parse_begin(
    const struct prepared_text *t, size_t body_len, struct buf *out)
{
	uint64_t len = sizeof(uint32_t) + strlen(t->name) + 1 + (uint64_t)body_len;

	if (len > INT32_MAX)
		out->failed = true;
	buf_put_u8(out, 'P');
	buf_put_u32(out, (uint32_t)len);
	buf_put_str(out, t->name);
}

void prepared_put_close(const char *name, struct buf *out)
{
	size_t at = codec_begin(out, 'C');

	buf_put_u8(out, 'S');
	buf_put_str(out, name);
	codec_end(out, at);
}

const char *prepared_sql(const struct prepared_text *t)
{
	return (const char *)t->stored->key;
}

/* Places the cursor at the first type and returns the number of types, which is never
 * more than there are bytes for. */
static size_t begin_types(const struct prepared_text *t, struct cursor *c)
{
	cursor_init(c, t->stored->key, t->stored->len);
	cursor_str(c);
	size_t count = cursor_u16(c), there = cursor_left(c) / sizeof(uint32_t);
	return count < there ? count : there;
}

size_t prepared_type_count(const struct prepared_text *t)
{
	struct cursor c;

	return begin_types(t, &c);
}

uint32_t prepared_type(const struct prepared_text *t, size_t i)
{
	struct cursor c;
	size_t count = begin_types(t, &c);

	assert(i < count);
	(void)count;
	return get_u32(c.at + i * sizeof(uint32_t));
}
