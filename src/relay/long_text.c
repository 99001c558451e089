#include "relay/long_text.h"

#include <string.h>

#include "net/block.h"

/* FREED_MOST: parts freed in one turn.  SHOWN_MOST: bytes that views can show. */
enum { FREED_MOST = 64, SHOWN_MOST = 1024 };

struct long_texts {
	struct loop *loop; /* borrowed */
	struct list gone;  /* struct long_text by .node */
	struct deadline due;
};

struct long_part {
	struct node node;
	struct block *block; /* one reference; it holds nothing else */
};

struct long_text {
	struct prepared_body body; /* first: what wire/prepared knows of the text */
	struct list parts;         /* struct long_part by .node */
	size_t len;
	struct node node;        /* in home->gone, when there are no references */
	struct long_texts *home; /* borrowed */
};

/* ---- freeing ---- */

static void free_some(struct long_texts *all, size_t most)
{
	for (; most > 0 && !list_is_empty(&all->gone); most--) {
		struct node *first = list_first(&all->gone);
		struct long_text *t = container_of(first, struct long_text, node);
		struct node *n = list_pop_front(&t->parts);

		if (n) {
			struct long_part *part =
			    container_of(n, struct long_part, node);
			block_unref(part->block);
			mem_free(part);
		} else {
			list_pop_front(&all->gone);
			mem_free(t);
		}
	}
}

static void arm(struct long_texts *all)
{
	deadline_set(all->loop, &all->due, loop_now(all->loop));
}

static void free_more(struct deadline *d)
{
	struct long_texts *all = container_of(d, struct long_texts, due);

	free_some(all, FREED_MOST);
	if (!list_is_empty(&all->gone))
		arm(all);
}

struct long_texts *long_texts_new(struct loop *loop)
{
	struct long_texts *all = mem_zero(sizeof(*all));

	all->loop = loop;
	list_init(&all->gone);
	deadline_init(&all->due, free_more);
	return all;
}

void long_texts_free(struct long_texts **pall)
{
	struct long_texts *all = *pall;

	if (!all)
		return;
	deadline_clear(all->loop, &all->due);
	free_some(all, SIZE_MAX);
	mem_free(all);
	*pall = NULL;
}

/* ---- one text ---- */

static struct long_text *of_body(const struct prepared_body *body)
{
	return container_of(body, struct long_text, body);
}

static void let_go(struct prepared_body *body)
{
	struct long_text *t = of_body(body);

	list_push_back(&t->home->gone, &t->node);
	arm(t->home);
}

bool long_text_is(const struct prepared_text *text)
{
	return text->body != NULL;
}

/* The last part if it has room, else a new one. */
static struct block *room_in(struct long_text *t)
{
	struct node *last = list_last(&t->parts);
	struct long_part *part =
	    last ? container_of(last, struct long_part, node) : NULL;

	if (part && part->block->used < part->block->cap)
		return part->block;
	struct block *block = block_new(BLOCK_SIZE);
	if (!block)
		return NULL;
	part = mem_zero(sizeof(*part));
	part->block = block;
	list_push_back(&t->parts, &part->node);
	return block;
}

/* -1: no memory. */
static int add(struct prepared_text *text, const uint8_t *p, size_t len)
{
	struct long_text *t = of_body(text->body);

	while (len > 0) {
		struct block *block = room_in(t);
		if (!block)
			return -1;
		size_t room = block->cap - block->used, n = len < room ? len : room;
		memcpy(block->bytes + block->used, p, n);
		block->used += (uint32_t)n;
		t->len += n;
		p += n;
		len -= n;
	}
	return 0;
}

struct prepared_text *long_text_new(const struct site *site,
    const struct sql_effects *effects, const uint8_t *p, size_t len)
{
	struct long_text *t = mem_zero(sizeof(*t));
	struct prepared_text *text;

	list_init(&t->parts);
	t->home = site->long_texts;
	t->body.let_go = let_go;
	text = prepared_intern_body(
	    site->prepared, p, len < SHOWN_MOST ? len : SHOWN_MOST, &t->body);
	if (!text) {
		mem_free(t);
		return NULL;
	}
	text->effects = *effects;
	if (add(text, p, len) == 0)
		return text;
	prepared_unref(text);
	return NULL;
}

size_t long_text_len(const struct prepared_text *text)
{
	return of_body(text->body)->len;
}

void long_text_put(const struct prepared_text *text, struct stream *stream)
{
	const struct long_part *part;

	list_for (part, &of_body(text->body)->parts, node)
		stream_put(stream, part->block, part->block->bytes, part->block->used);
}

/* ---- while it arrives ---- */

void long_text_expect(
    struct server *server, const struct message *m, struct prepared_text *text)
{
	if (!message_is_whole(m))
		server->link.parsing = prepared_ref(text);
}

void long_text_forget(struct server *server)
{
	prepared_unref(server->link.parsing);
	server->link.parsing = NULL;
}

int long_text_part(struct server *server, const uint8_t *p, size_t len, bool is_last)
{
	int failed = server->link.parsing ? add(server->link.parsing, p, len) : 0;

	if (is_last)
		long_text_forget(server);
	return failed;
}
