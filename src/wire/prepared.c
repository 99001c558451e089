/*
 * The registry of prepared texts: one object per query text and parameter types, shared
 * by whoever names or holds it.  Who does is not known here, only how many.
 */
#include "wire/prepared.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "wire/codec.h"
#include "wire/prepared_sql.h"

struct prepared_registry {
	struct map *texts; /* owned: key -> struct prepared_text */
	uint64_t last_id;
	const char *prefix; /* of the names */
};

struct prepared_registry *prepared_registry_new_named(const char *prefix)
{
	struct prepared_registry *r = mem_zero(sizeof(*r));

	r->texts = map_new();
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
	assert(map_count(r->texts) == 0);
	map_free(&r->texts);
	mem_free(r);
	*rp = NULL;
}

size_t prepared_registry_count(const struct prepared_registry *r)
{
	return map_count(r->texts);
}

static int compare_ids(const void *a, const void *b)
{
	const struct prepared_text *const *x = a, *const *y = b;

	return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

struct prepared_text **prepared_registry_sorted(
    const struct prepared_registry *r, size_t *count)
{
	return (struct prepared_text **)map_sorted(r->texts, count, compare_ids);
}

/* A NUL that is not counted ends the key, so that even a broken one has a text. */
static struct prepared_text *new_text(
    struct prepared_registry *r, const uint8_t *key, size_t len)
{
	struct prepared_text *t =
	    len > UINT32_MAX ? NULL : try_alloc(sizeof(*t) + len + 1);

	if (!t)
		return NULL;
	*t = (struct prepared_text){
	    .id = ++r->last_id,
	    .key_len = len,
	    .registry = r,
	};
	if (len)
		memcpy(t->key, key, len);
	t->key[len] = 0;
	t->is_command = prepared_sql_begins(prepared_sql(t), strlen(prepared_sql(t)));
	t->forgets = prepared_is_forgetting(prepared_sql(t), strlen(prepared_sql(t)));
	snprintf(t->name, sizeof(t->name), "%s%" PRIu64, r->prefix, t->id);
	map_put(r->texts, t->key, len, t);
	return t;
}

struct prepared_text *prepared_intern(
    struct prepared_registry *r, const uint8_t *key, size_t len)
{
	struct prepared_text *t = map_get(r->texts, key, len);

	if (!t)
		t = new_text(r, key, len);
	return t ? prepared_ref(t) : NULL;
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
	map_del(t->registry->texts, t->key, t->key_len);
	mem_free(t);
}

void prepared_put_parse(const struct prepared_text *t, struct buf *out)
{
	size_t at = codec_begin(out, 'P');

	buf_put_str(out, t->name);
	buf_put(out, t->key, t->key_len);
	codec_end(out, at);
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

/* The cursor stands at the first type; the number never exceeds what is there. */
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
