/*
 * The login parameters of a pool, and its text for other workers. All workers of a
 * process have the same schema of parameters, so the text has values in that order. And
 * how PostgreSQL spells values: what needs no server, and a memory of what servers have
 * answered.
 */
#include "broker/login_params.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/codec.h"
#include "wire/effects.h"

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

/* ---- how PostgreSQL spells values ---- */

/* KEPT_MOST: the number of answers; KEY_MOST and VALUE_MOST: their size.  They bound
 * what a user can make the pooler keep. */
enum { KEPT_MOST = 128, KEY_MOST = 256, VALUE_MOST = 128 };

/* The longest name that PostgreSQL keeps. */
enum { NAME_MOST = 63 };

/* Since this version PostgreSQL shows a byte outside ASCII as \xHH, not as `?`. */
enum { HEX_VERSION = 16 };

struct answer {
	struct node node;
	size_t key_len;
	char *value; /* points into bytes, behind the key */
	char bytes[];
};

struct spellings {
	struct map *answers;
	struct list used; /* struct answer by .node, the last used one first */
	struct buf key;
};

struct spellings *spellings_new(void)
{
	struct spellings *s = mem_zero(sizeof(*s));

	s->answers = map_new();
	list_init(&s->used);
	buf_init(&s->key, 0);
	return s;
}

static void forget(struct spellings *s, struct answer *a)
{
	map_del(s->answers, a->bytes, a->key_len);
	list_remove(&s->used, &a->node);
	mem_free(a);
}

void spellings_free(struct spellings **sp)
{
	struct spellings *s = *sp;
	struct answer *a, *next;

	if (!s)
		return;
	list_for_safe (a, next, &s->used, node)
		forget(s, a);
	map_free(&s->answers);
	buf_done(&s->key);
	mem_free(s);
	*sp = NULL;
}

static struct answer *find(
    struct spellings *s, size_t i, const char *base, const char *asked)
{
	buf_clear(&s->key);
	buf_put_u32(&s->key, (uint32_t)i);
	buf_put_str(&s->key, base);
	buf_put_text(&s->key, asked);
	return s->key.failed ? NULL : map_get(s->answers, s->key.bytes, s->key.len);
}

void spellings_keep(struct spellings *s, size_t i, const char *base, const char *asked,
    const char *value)
{
	struct answer *old = find(s, i, base, asked);
	size_t key_len = s->key.len, value_len = strlen(value);

	if (old)
		forget(s, old);
	if (s->key.failed || key_len > KEY_MOST || value_len > VALUE_MOST)
		return;
	struct node *last = list_last(&s->used);
	if (last && s->used.count >= KEPT_MOST)
		forget(s, container_of(last, struct answer, node));
	struct answer *a = mem_zero(sizeof(*a) + key_len + value_len + 1);
	memcpy(a->bytes, s->key.bytes, key_len);
	a->key_len = key_len;
	a->value = a->bytes + key_len;
	memcpy(a->value, value, value_len + 1);
	map_put(s->answers, a->bytes, key_len, a);
	list_push_front(&s->used, &a->node);
}

/* ---- without a server ---- */

/* The value of a parameter that is not tracked, or NULL. */
static const char *untracked_value(const struct buf *untracked, const char *wanted)
{
	enum { HEADER_LEN = 5 };
	const uint8_t *at = untracked->bytes, *end = at + untracked->len;

	while (end - at > HEADER_LEN) {
		const char *name, *value;
		size_t size = (size_t)get_u32(at + 1) + 1;
		if (size <= HEADER_LEN || size > (size_t)(end - at) ||
		    codec_read_parameter_status(
			at + HEADER_LEN, size - HEADER_LEN, &name, &value) < 0)
			return NULL;
		if (strcmp(name, wanted) == 0)
			return value;
		at += size;
	}
	return NULL;
}

/* Appends the name as PostgreSQL shows it: a byte that is not printable ASCII is
 * replaced. */
static void put_clean_name(const char *name, bool is_hex, struct buf *out)
{
	for (const char *at = name; *at; at++) {
		uint8_t c = (uint8_t)*at;
		size_t len = is_hex && !text_is_printable(c) ? 4 : 1;
		if (out->len + len > NAME_MOST)
			return;
		if (len > 1)
			buf_printf(out, "\\x%02x", c);
		else
			buf_put_u8(out, text_is_printable(c) ? c : '?');
	}
}

/* application_name is mostly another one for each client, so that no memory of answers
 * would help. */
static int apply_name(const struct login_params *login_params, struct vars *asked)
{
	const char *name = vars_get(asked, VAR_APPLICATION_NAME);
	const char *version;
	struct buf clean;
	int result;

	const char *text = name;
	while (text_is_printable((uint8_t)*text))
		text++;
	if (!*text && strlen(name) <= NAME_MOST)
		return 0;
	version = untracked_value(&login_params->untracked, "server_version");
	buf_init(&clean, 0);
	put_clean_name(name, version && atoi(version) >= HEX_VERSION, &clean);
	result =
	    clean.failed ? -1 : vars_set(asked, VAR_APPLICATION_NAME, buf_text(&clean));
	buf_done(&clean);
	return result;
}

/* Does PostgreSQL read the parameter's value without regard to case? */
static bool has_no_case(const struct vars_schema *schema, size_t i)
{
	static const char *const others[] = {
	    "IntervalStyle", "default_transaction_read_only"};

	if (i < VAR_BUILTIN_COUNT)
		return i != VAR_APPLICATION_NAME;
	for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
		if (text_equal_nocase(vars_schema_name(schema, i), others[k]))
			return true;
	return false;
}

/* Returns what PostgreSQL reports for this value, or NULL. */
static const char *known(struct spellings *s, const struct vars_schema *schema,
    size_t i, const char *base, const char *value)
{
	if (strcmp(value, base) == 0 ||
	    (has_no_case(schema, i) && text_equal_nocase(value, base)))
		return base;
	struct answer *a = s ? find(s, i, base, value) : NULL;
	if (!a)
		return NULL;
	list_remove(&s->used, &a->node);
	list_push_front(&s->used, &a->node);
	return a->value;
}

uint64_t spellings_apply(struct spellings *s, const struct login_params *login_params,
    struct vars *asked, int *failed)
{
	const struct vars_schema *schema = vars_schema(asked);
	size_t count = vars_schema_count(schema);
	uint64_t unknown = 0;

	for (size_t i = 0; i < count && i < EFFECTS_PARAMETERS && !*failed; i++) {
		const char *value = vars_get(asked, i);
		const char *base = vars_get(&login_params->vars, i);
		/* what servers do not report is never set */
		if (!value || !base)
			continue;
		if (i == VAR_APPLICATION_NAME) {
			*failed = apply_name(login_params, asked);
			continue;
		}
		/* a startup value is in the encoding of the database */
		const char *reported = vars_is_outside_ascii(&login_params->vars, i)
					   ? NULL
					   : known(s, schema, i, base, value);
		if (reported)
			*failed = vars_set(asked, i, reported);
		else
			unknown |= UINT64_C(1) << i;
	}
	return unknown;
}
