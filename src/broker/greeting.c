/*
 * The welcome of a pool, and its text for other workers.  All workers of a process have
 * the same schema of parameters, so the text has values in that order.
 */
#include "broker/greeting.h"

#include <string.h>

void greeting_init(struct greeting *g, struct vars_schema *schema)
{
	*g = (struct greeting){0};
	vars_init(&g->welcome.vars, schema);
	buf_init(&g->welcome.untracked, 0);
}

void greeting_done(struct greeting *g)
{
	vars_done(&g->welcome.vars);
	buf_done(&g->welcome.untracked);
}

/* ---- the text ---- */

/* What stands before each value. */
enum { VALUE_NONE, VALUE, VALUE_ENCODED };

static void put_text(const struct welcome *welcome, struct buf *text)
{
	size_t count = vars_schema_count(vars_schema(&welcome->vars));

	for (size_t i = 0; i < count; i++) {
		const char *value = vars_get(&welcome->vars, i);
		const char *encoding = vars_encoding(&welcome->vars, i);
		buf_put_u8(text, encoding ? VALUE_ENCODED : value ? VALUE : VALUE_NONE);
		if (value)
			buf_put_str(text, value);
		if (encoding)
			buf_put_str(text, encoding);
	}
	buf_put(text, welcome->untracked.bytes, welcome->untracked.len);
}

static const char *take_string(const uint8_t **at, bool is_there)
{
	const char *string = is_there ? (const char *)*at : NULL;

	*at += string ? strlen(string) + 1 : 0;
	return string;
}

/* ---- changes ---- */

void greeting_follow(struct greeting *g, const struct greeting_place *place)
{
	struct buf text;

	if (central_welcome(place->pool) == g->number)
		return;
	buf_init(&text, 0);
	g->number = central_read_welcome(place->view, place->pool, &text);
	if (g->number && text.len && !text.failed) {
		/* what there is no memory for stays as it was */
		size_t count = vars_schema_count(vars_schema(&g->welcome.vars));
		const uint8_t *at = text.bytes, *end = at + text.len;
		for (size_t i = 0; i < count; i++) {
			uint8_t kind = *at++;
			const char *value = take_string(&at, kind != VALUE_NONE);
			const char *encoding = take_string(&at, kind == VALUE_ENCODED);
			(void)vars_set_in(&g->welcome.vars, i, value, encoding);
		}
		buf_clear(&g->welcome.untracked);
		buf_put(&g->welcome.untracked, at, (size_t)(end - at));
	}
	buf_done(&text);
}

/* Writes the text, which with one worker nobody else reads.  False: another worker has
 * written one meanwhile. */
static bool may_share(struct greeting *g, const struct greeting_place *place)
{
	bool is_shared = place->view->central->worker_count > 1;
	struct buf text;

	buf_init(&text, 0);
	if (is_shared)
		put_text(&g->welcome, &text);
	bool is_done = text.failed || central_write_welcome(place->view, place->pool,
					  &g->number, is_shared ? &text : NULL);
	buf_done(&text);
	return is_done;
}

static bool is_as(
    const struct welcome *welcome, const struct vars *vars, const struct buf *untracked)
{
	return vars_is_equal(&welcome->vars, vars) &&
	       welcome->untracked.len == untracked->len &&
	       (!untracked->len || memcmp(welcome->untracked.bytes, untracked->bytes,
				       untracked->len) == 0);
}

int greeting_replace(struct greeting *g, const struct greeting_place *place,
    const struct vars *vars, const struct buf *untracked)
{
	struct welcome *welcome = &g->welcome;
	const struct vars_schema *schema = vars_schema(vars);

	do {
		greeting_follow(g, place);
		if (g->number && is_as(welcome, vars, untracked))
			return 0;
		for (size_t i = 0; i < vars_schema_count(schema); i++)
			vars_copy(&welcome->vars, vars, i);
		buf_clear(&welcome->untracked);
		buf_put(&welcome->untracked, untracked->bytes, untracked->len);
		if (untracked->failed || welcome->untracked.failed)
			return -1;
	} while (!may_share(g, place));
	return 0;
}

int greeting_set(struct greeting *g, const struct greeting_place *place,
    const struct vars *vars, size_t i)
{
	do {
		greeting_follow(g, place);
		vars_copy(&g->welcome.vars, vars, i);
	} while (!may_share(g, place));
	return 0;
}
