/*
 * The prepared texts that one server connection holds, in order of use.  The caller
 * decides how many it may hold, and sends the messages that make the server forget one.
 */
#include <string.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "wire/prepared.h"

struct prepared_set {
	struct map *by_text; /* owned: address of the text -> struct held_text */
	struct list by_use;  /* the least recently used first; never empty */
};

struct held_text {
	struct node node;           /* in by_use */
	struct prepared_text *text; /* one reference; its address is the key */
	uint32_t generation;
	bool is_spoilt;
};

static struct held_text *at_node(struct node *n)
{
	return container_of(n, struct held_text, node);
}

/* The text used last is asked for most often, so it is compared first, without
 * hashing. */
static struct held_text *find(
    const struct prepared_set *s, const struct prepared_text *text)
{
	if (!s)
		return NULL;
	struct held_text *latest = at_node(list_back(&s->by_use));
	if (latest->text == text)
		return latest;
	return map_get(s->by_text, &text, sizeof(text));
}

bool prepared_set_has(const struct prepared_set *s, const struct prepared_text *text)
{
	return find(s, text) != NULL;
}

bool prepared_set_is_good(
    const struct prepared_set *s, const struct prepared_text *text, uint32_t generation)
{
	const struct held_text *h = find(s, text);

	return h && !h->is_spoilt && h->generation >= generation;
}

void prepared_set_date(
    struct prepared_set *s, const struct prepared_text *text, uint32_t generation)
{
	struct held_text *h = find(s, text);

	if (h)
		h->generation = generation;
}

void prepared_set_touch(struct prepared_set *s, struct prepared_text *text)
{
	struct held_text *h = find(s, text);

	if (!h || &h->node == list_last(&s->by_use))
		return;
	list_remove(&s->by_use, &h->node);
	list_push_back(&s->by_use, &h->node);
}

/* Adds the text, but not to the order of use.  NULL: no memory. */
static struct held_text *hold(struct prepared_set **sp, struct prepared_text *text)
{
	struct held_text *h = mem_try(sizeof(*h));

	if (!h)
		return NULL;
	*h = (struct held_text){.text = prepared_ref(text)};
	text->servers++;
	if (!*sp) {
		*sp = mem_zero(sizeof(**sp));
		(*sp)->by_text = map_new();
		list_init(&(*sp)->by_use);
	}
	map_put((*sp)->by_text, &h->text, sizeof(h->text), h);
	return h;
}

int prepared_set_add(struct prepared_set **sp, struct prepared_text *text)
{
	if (prepared_set_has(*sp, text)) {
		prepared_set_touch(*sp, text);
		return 0;
	}
	struct held_text *h = hold(sp, text);
	if (!h)
		return -1;
	list_push_back(&(*sp)->by_use, &h->node);
	return 0;
}

int prepared_set_restore(struct prepared_set **sp, struct prepared_text *text)
{
	if (prepared_set_has(*sp, text))
		return 0;
	struct held_text *h = hold(sp, text);
	if (!h)
		return -1;
	list_push_front(&(*sp)->by_use, &h->node);
	return 0;
}

static void free_set(struct prepared_set **sp)
{
	map_free(&(*sp)->by_text);
	mem_free(*sp);
	*sp = NULL;
}

/* Removes it from the set; its reference passes to the caller. */
static struct prepared_text *take_out(struct prepared_set **sp, struct held_text *h)
{
	struct prepared_text *text = h->text;

	map_del((*sp)->by_text, &h->text, sizeof(h->text));
	list_remove(&(*sp)->by_use, &h->node);
	mem_free(h);
	text->servers--;
	if (list_is_empty(&(*sp)->by_use))
		free_set(sp);
	return text;
}

void prepared_set_del(struct prepared_set **sp, struct prepared_text *text)
{
	struct held_text *h = find(*sp, text);

	if (h)
		prepared_unref(take_out(sp, h));
}

void prepared_set_spoil(struct prepared_set *s, const struct prepared_text *text)
{
	struct held_text *h = find(s, text);

	if (h)
		h->is_spoilt = true;
}

void prepared_set_spoil_all(struct prepared_set *s)
{
	struct held_text *h;

	if (s)
		list_for (h, &s->by_use, node)
			h->is_spoilt = true;
}

bool prepared_set_is_spoilt(
    const struct prepared_set *s, const struct prepared_text *text)
{
	const struct held_text *h = find(s, text);

	return h && h->is_spoilt;
}

struct prepared_text *prepared_set_find(const struct prepared_set *s, const char *name)
{
	struct held_text *h;

	if (s)
		list_for (h, &s->by_use, node)
			if (strcmp(h->text->name, name) == 0)
				return h->text;
	return NULL;
}

struct prepared_text *prepared_set_oldest(const struct prepared_set *s, size_t max)
{
	return prepared_set_count(s) > max ? at_node(list_front(&s->by_use))->text
					   : NULL;
}

struct prepared_text *prepared_set_evict(struct prepared_set **sp, size_t max)
{
	if (prepared_set_count(*sp) <= max)
		return NULL;
	return take_out(sp, at_node(list_front(&(*sp)->by_use)));
}

void prepared_set_clear(struct prepared_set **sp)
{
	struct prepared_text *text;

	while ((text = prepared_set_evict(sp, 0)))
		prepared_unref(text);
}

size_t prepared_set_count(const struct prepared_set *s)
{
	return s ? s->by_use.count : 0;
}

void prepared_set_list(const struct prepared_set *s, struct prepared_item *items)
{
	struct held_text *h;

	if (s)
		list_for (h, &s->by_use, node)
			*items++ = (struct prepared_item){
			    NULL, h->text, h->is_spoilt, h->generation};
}

/* ---- between threads ---- */

void prepared_set_pack(struct prepared_set **sp)
{
	struct prepared_set *s = *sp;
	struct held_text *h;

	if (!s)
		return;
	list_for (h, &s->by_use, node) {
		struct prepared_text *text = h->text;
		map_del(s->by_text, &h->text, sizeof(h->text));
		h->text = prepared_pack(text);
		text->servers--;
		prepared_unref(text);
	}
}

int prepared_set_unpack(struct prepared_set **sp, struct prepared_registry *registry,
    struct prepared_registry *sql_registry)
{
	struct prepared_set *s = *sp;
	struct held_text *h, *after;
	int failed = 0;

	if (!s)
		return 0;
	list_for_safe (h, after, &s->by_use, node) {
		bool is_sql = prepared_is_of(h->text, sql_registry);
		h->text = prepared_unpack(is_sql ? sql_registry : registry, h->text);
		if (h->text) {
			h->text->servers++;
			map_put(s->by_text, &h->text, sizeof(h->text), h);
		} else {
			list_remove(&s->by_use, &h->node);
			mem_free(h);
			failed = -1;
		}
	}
	if (list_is_empty(&s->by_use))
		free_set(sp);
	return failed;
}

void prepared_set_drop_packed(struct prepared_set **sp)
{
	struct node *node;

	if (!*sp)
		return;
	while ((node = list_pop_front(&(*sp)->by_use))) {
		prepared_drop_packed(at_node(node)->text);
		mem_free(at_node(node));
	}
	free_set(sp);
}
