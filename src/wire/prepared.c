/*
 * The registry of prepared texts: one object for each combination of query text,
 * parameter types and reading, shared by all names and sets that refer to it.  It knows
 * how many those are, but not which.
 */
#include "wire/prepared.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "wire/codec.h"

struct prepared_registry {
	struct map *shelves; /* owned: reading -> struct prepared_shelf */
	struct map *by_id;   /* owned: id -> struct prepared_text; has all texts */
	uint64_t last_id;
	const char *prefix; /* the beginning of statement names */
};

struct prepared_shelf {
	struct map *texts; /* owned: key -> struct prepared_text; never empty */
	struct prepared_registry *registry; /* borrowed */
	char reading[];
};

struct prepared_registry *prepared_registry_new_named(const char *prefix)
{
	struct prepared_registry *r = mem_zero(sizeof(*r));

	r->shelves = map_new();
	r->by_id = map_new();
	r->prefix = prefix;
	return r;
}

struct prepared_registry *prepared_registry_new(void)
{
	return prepared_registry_new_named("PGBOUNCER_");
}

void prepared_registry_free(struct prepared_registry **rp)
{
	struct prepared_registry *r = *rp;

	if (!r)
		return;
	assert(map_count(r->by_id) == 0 && map_count(r->shelves) == 0);
	map_free(&r->shelves);
	map_free(&r->by_id);
	mem_free(r);
	*rp = NULL;
}

size_t prepared_registry_count(const struct prepared_registry *r)
{
	return map_count(r->by_id);
}

static int compare_ids(const void *a, const void *b)
{
	const struct prepared_text *const *x = a, *const *y = b;

	return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

struct prepared_text **prepared_registry_sorted(
    const struct prepared_registry *r, size_t *count)
{
	return (struct prepared_text **)map_sorted(r->by_id, count, compare_ids);
}

/* Allocates the text with a NUL behind its key, so that even a malformed key ends like
 * a string. */
static struct prepared_text *new_text(
    struct prepared_registry *r, uint64_t id, const uint8_t *key, size_t len)
{
	struct prepared_text *t =
	    len > UINT32_MAX ? NULL : mem_try(sizeof(*t) + len + 1);

	if (!t)
		return NULL;
	*t = (struct prepared_text){
	    .id = id,
	    .key_len = len,
	    .registry = r,
	};
	if (len)
		memcpy(t->key, key, len);
	t->key[len] = 0;
	snprintf(t->name, sizeof(t->name), "%s%" PRIu64, r->prefix, t->id);
	map_put(r->by_id, &t->id, sizeof(t->id), t);
	return t;
}

/* ---- shelves ---- */

static struct prepared_shelf *add_shelf(
    struct prepared_registry *r, const char *reading)
{
	size_t size = strlen(reading) + 1;
	struct prepared_shelf *shelf = mem_try(sizeof(*shelf) + size);

	if (!shelf)
		return NULL;
	shelf->texts = map_new();
	shelf->registry = r;
	memcpy(shelf->reading, reading, size);
	map_put_str(r->shelves, shelf->reading, shelf);
	return shelf;
}

static void drop_shelf_if_empty(struct prepared_shelf *shelf)
{
	if (map_count(shelf->texts) > 0)
		return;
	map_del_str(shelf->registry->shelves, shelf->reading);
	map_free(&shelf->texts);
	mem_free(shelf);
}

struct wanted {
	struct prepared_shelf *shelf;
	uint64_t id; /* 0: take the next id */
	const uint8_t *key;
	size_t len;
};

static void *make_text(void *ctx, uint32_t hash, const void **key)
{
	const struct wanted *w = ctx;
	struct prepared_registry *r = w->shelf->registry;
	struct prepared_text *t =
	    new_text(r, w->id ? w->id : ++r->last_id, w->key, w->len);

	if (!t)
		return NULL;
	t->shelf = w->shelf;
	t->key_hash = hash;
	*key = t->key;
	return t;
}

static struct prepared_text *get_text(
    struct prepared_shelf *shelf, uint64_t id, const uint8_t *key, size_t len)
{
	struct wanted w = {shelf, id, key, len};
	struct prepared_text *t = map_get_or_put(shelf->texts, key, len, make_text, &w);

	drop_shelf_if_empty(shelf);
	return t;
}

struct prepared_text *prepared_find(
    struct prepared_registry *r, const char *reading, const uint8_t *key, size_t len)
{
	struct prepared_shelf *shelf = map_get_str(r->shelves, reading);
	struct prepared_text *t = shelf ? map_get(shelf->texts, key, len) : NULL;

	return t ? prepared_ref(t) : NULL;
}

bool prepared_is_unshared(const struct prepared_text *t)
{
	return t->refs == 1;
}

struct prepared_text *prepared_intern(
    struct prepared_registry *r, const char *reading, const uint8_t *key, size_t len)
{
	struct prepared_shelf *shelf = map_get_str(r->shelves, reading);
	struct prepared_text *t = NULL;

	if (!shelf)
		shelf = add_shelf(r, reading);
	if (shelf)
		t = get_text(shelf, 0, key, len);
	return t ? prepared_ref(t) : NULL;
}

struct prepared_text *prepared_intern_private(
    struct prepared_registry *r, const uint8_t *key, size_t len)
{
	struct prepared_text *t = new_text(r, ++r->last_id, key, len);

	return t ? prepared_ref(t) : NULL;
}

struct prepared_text *prepared_intern_body(struct prepared_registry *r,
    const uint8_t *begin, size_t len, struct prepared_body *body)
{
	struct prepared_text *t = prepared_intern_private(r, begin, len);

	if (t)
		t->body = body;
	return t;
}

/* ---- texts of another process ---- */

void prepared_registry_skip(struct prepared_registry *r, uint64_t id)
{
	if (r->last_id < id)
		r->last_id = id;
}

uint64_t prepared_registry_last(const struct prepared_registry *r)
{
	return r->last_id;
}

static bool is_same(const struct prepared_text *t, const uint8_t *key, size_t len)
{
	return t->key_len == len && (!len || memcmp(t->key, key, len) == 0);
}

struct prepared_text *prepared_restore(struct prepared_registry *r, uint64_t id,
    const char *reading, const uint8_t *key, size_t len)
{
	struct prepared_shelf *shelf =
	    reading ? map_get_str(r->shelves, reading) : NULL;
	struct prepared_text *t = map_get(r->by_id, &id, sizeof(id));

	if (t)
		return is_same(t, key, len) ? prepared_ref(t) : NULL;
	if (reading && !shelf)
		shelf = add_shelf(r, reading);
	if (shelf && !map_get(shelf->texts, key, len))
		t = get_text(shelf, id, key, len);
	else
		t = new_text(r, id, key, len);
	return t ? prepared_ref(t) : NULL;
}

bool prepared_is_read_as(const struct prepared_text *t, const char *reading)
{
	return !t->shelf || (reading && strcmp(t->shelf->reading, reading) == 0);
}

const char *prepared_reading(const struct prepared_text *t)
{
	return t->shelf ? t->shelf->reading : NULL;
}

struct prepared_text *prepared_variant(struct prepared_text *t, const char *reading)
{
	struct prepared_text *made;

	if (prepared_is_read_as(t, reading))
		return prepared_ref(t);
	made = reading ? prepared_intern(t->registry, reading, t->key, t->key_len)
		       : prepared_intern_private(t->registry, t->key, t->key_len);
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
	map_del(t->registry->by_id, &t->id, sizeof(t->id));
	if (t->shelf) {
		map_del_made(t->shelf->texts, t->key_hash, t);
		drop_shelf_if_empty(t->shelf);
	}
	if (t->body)
		t->body->let_go(t->body);
	mem_free(t);
}

void prepared_put_parse(const struct prepared_text *t, struct buf *out)
{
	size_t at = codec_begin(out, 'P');

	assert(!t->body);
	buf_put_str(out, t->name);
	buf_put(out, t->key, t->key_len);
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
	return (const char *)t->key;
}

/* Places the cursor at the first type and returns the number of types, which is never
 * more than there are bytes for. */
static size_t begin_types(const struct prepared_text *t, struct cursor *c)
{
	cursor_init(c, t->key, t->key_len);
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
