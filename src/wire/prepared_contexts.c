#include "wire/prepared_contexts.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

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

	if (!s)
		return;
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
