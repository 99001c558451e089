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

/* ---- changes ---- */

void greeting_follow(struct greeting *g, const struct greeting_place *place)
{
	struct buf text;

	if (central_welcome(place->pool) == g->number)
		return;
	buf_init(&text, 0);
	g->number = central_read_welcome(place->view, place->pool, &text);
	if (g->number && text.len && !text.failed) {
		const uint8_t *at = text.bytes, *end = at + text.len;
		/* without memory they stay as they were */
		(void)vars_take_all(&g->welcome.vars, &at);
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
	if (is_shared) {
		vars_put_all(&g->welcome.vars, &text);
		buf_put(&text, g->welcome.untracked.bytes, g->welcome.untracked.len);
	}
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
