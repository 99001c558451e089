/*
 * The login parameters of a pool, and its text for other workers.  All workers of a
 * process have the same schema of parameters, so the text has values in that order.
 */
#include "broker/login_params.h"

#include <string.h>

void shared_params_init(struct shared_params *g, struct vars_schema *schema)
{
	*g = (struct shared_params){0};
	vars_init(&g->login_params.vars, schema);
	buf_init(&g->login_params.untracked, 0);
}

void shared_params_done(struct shared_params *g)
{
	vars_done(&g->login_params.vars);
	buf_done(&g->login_params.untracked);
}

/* ---- changes ---- */

void shared_params_follow(
    struct shared_params *g, const struct shared_params_place *place)
{
	struct buf text;

	if (central_login_params(place->pool) == g->number)
		return;
	buf_init(&text, 0);
	g->number = central_read_login_params(place->view, place->pool, &text);
	if (g->number && text.len && !text.failed) {
		const uint8_t *at = text.bytes, *end = at + text.len;
		/* without memory they stay as they were */
		(void)vars_take_all(&g->login_params.vars, &at);
		buf_clear(&g->login_params.untracked);
		buf_put(&g->login_params.untracked, at, (size_t)(end - at));
	}
	buf_done(&text);
}

/* Writes the text, which with one worker nobody else reads.  False: another worker has
 * written one meanwhile. */
static bool may_share(struct shared_params *g, const struct shared_params_place *place)
{
	bool is_shared = place->view->central->worker_count > 1;
	struct buf text;

	buf_init(&text, 0);
	if (is_shared) {
		vars_put_all(&g->login_params.vars, &text);
		buf_put(&text, g->login_params.untracked.bytes,
		    g->login_params.untracked.len);
	}
	bool is_done =
	    text.failed || central_write_login_params(place->view, place->pool,
			       &g->number, is_shared ? &text : NULL);
	buf_done(&text);
	return is_done;
}

int shared_params_replace(struct shared_params *g,
    const struct shared_params_place *place, const struct vars *vars,
    const struct buf *untracked)
{
	struct login_params *login_params = &g->login_params;
	const struct vars_schema *schema = vars_schema(vars);

	do {
		shared_params_follow(g, place);
		if (g->number && vars_is_equal(&login_params->vars, vars) &&
		    login_params->untracked.len == untracked->len &&
		    (!untracked->len || memcmp(login_params->untracked.bytes,
					    untracked->bytes, untracked->len) == 0)) {
			central_confirm_login_params(place->view, place->pool);
			return 0;
		}
		for (size_t i = 0; i < vars_schema_count(schema); i++)
			vars_copy(&login_params->vars, vars, i);
		buf_clear(&login_params->untracked);
		buf_put(&login_params->untracked, untracked->bytes, untracked->len);
		if (untracked->failed || login_params->untracked.failed)
			return -1;
	} while (!may_share(g, place));
	return 0;
}

int shared_params_set(struct shared_params *g, const struct shared_params_place *place,
    const struct vars *vars, size_t i)
{
	do {
		shared_params_follow(g, place);
		vars_copy(&g->login_params.vars, vars, i);
	} while (!may_share(g, place));
	return 0;
}
