/*
 * The names that one client gave to prepared statements.  A client without names has no
 * object.  The caller decides whether a name may be given twice.
 */
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "wire/prepared.h"

struct prepared_names {
	struct map *by_name; /* owned: name -> struct given_name; never empty */
	/* the name that was looked for last, which is compared first, without hashing;
	 * or NULL */
	struct given_name *latest;
};

struct given_name {
	struct prepared_text *text; /* one reference */
	uint32_t generation;
	bool is_doubtful;
	char name[]; /* also the key in the map */
};

/* text may be NULL: see prepared_names_unpack. */
static void let_text_go(struct prepared_text *text)
{
	if (text)
		text->clients--;
	prepared_unref(text);
}

static struct given_name *find(struct prepared_names *n, const char *name)
{
	if (!n)
		return NULL;
	if (!n->latest || strncmp(n->latest->name, name, PREPARED_NAME_MOST) != 0)
		n->latest =
		    map_get(n->by_name, name, strnlen(name, PREPARED_NAME_MOST));
	return n->latest;
}

struct prepared_text *prepared_names_find(struct prepared_names *n, const char *name)
{
	const struct given_name *g = find(n, name);

	return g ? g->text : NULL;
}

struct prepared_text *prepared_names_look(
    struct prepared_names *n, const char *name, uint32_t *generation)
{
	const struct given_name *g = find(n, name);

	*generation = g ? g->generation : 0;
	return g ? g->text : NULL;
}

static struct given_name *add(struct prepared_names **np, const char *name)
{
	size_t len = strnlen(name, PREPARED_NAME_MOST);
	struct given_name *g = mem_try(sizeof(*g) + len + 1);

	if (!g)
		return NULL;
	memcpy(g->name, name, len);
	g->name[len] = '\0';
	if (!*np) {
		*np = mem_zero(sizeof(**np));
		(*np)->by_name = map_new();
	}
	map_put_str((*np)->by_name, g->name, g);
	return g;
}

int prepared_names_put(struct prepared_names **np, const char *name,
    struct prepared_text *text, uint32_t generation)
{
	struct given_name *g = find(*np, name);
	struct prepared_text *old = g ? g->text : NULL;

	if (!g)
		g = add(np, name);
	if (!g)
		return -1;
	g->text = prepared_ref(text);
	text->clients++;
	g->generation = generation;
	g->is_doubtful = false;
	if (old)
		let_text_go(old);
	return 0;
}

void prepared_names_doubt(struct prepared_names *n)
{
	struct given_name *g;
	size_t at = 0;

	while (n && (g = map_next(n->by_name, &at)))
		g->is_doubtful = true;
}

bool prepared_names_is_doubtful(struct prepared_names *n, const char *name)
{
	const struct given_name *g = find(n, name);

	return g && g->is_doubtful;
}

static void free_names(struct prepared_names **np)
{
	map_free(&(*np)->by_name);
	mem_free(*np);
	*np = NULL;
}

bool prepared_names_del(struct prepared_names **np, const char *name)
{
	struct given_name *g = find(*np, name);

	if (!g)
		return false;
	map_del_str((*np)->by_name, g->name);
	(*np)->latest = NULL;
	let_text_go(g->text);
	mem_free(g);
	if (map_count((*np)->by_name) == 0)
		free_names(np);
	return true;
}

static void clear(
    struct prepared_names **np, void (*let_go)(struct prepared_text *text))
{
	struct given_name *g;
	size_t at = 0;

	if (!*np)
		return;
	while ((g = map_next((*np)->by_name, &at))) {
		let_go(g->text);
		mem_free(g);
	}
	free_names(np);
}

void prepared_names_clear(struct prepared_names **np)
{
	clear(np, let_text_go);
}

void prepared_names_drop_packed(struct prepared_names **np)
{
	clear(np, prepared_drop_packed);
}

bool prepared_names_has_long(const struct prepared_names *n)
{
	const struct given_name *g;
	size_t at = 0;

	while (n && (g = map_next(n->by_name, &at)))
		if (g->text->body)
			return true;
	return false;
}

void prepared_names_pack(struct prepared_names **np)
{
	struct given_name *g;
	size_t at = 0;

	while (*np && (g = map_next((*np)->by_name, &at))) {
		struct prepared_text *text = g->text;
		g->text = prepared_pack(text);
		let_text_go(text);
	}
}

int prepared_names_unpack(struct prepared_names **np,
    struct prepared_registry *registry, struct prepared_registry *sql_registry)
{
	struct given_name *g;
	size_t at = 0;
	int failed = 0;

	while (*np && (g = map_next((*np)->by_name, &at))) {
		bool is_sql = prepared_is_of(g->text, sql_registry);
		g->text = prepared_unpack(is_sql ? sql_registry : registry, g->text);
		if (g->text)
			g->text->clients++;
		else
			failed = -1;
	}
	return failed;
}

void prepared_names_list(const struct prepared_names *n, struct prepared_item *items)
{
	struct given_name *g;
	size_t at = 0;

	while (n && (g = map_next(n->by_name, &at)))
		*items++ = (struct prepared_item){
		    g->name, g->text, g->is_doubtful, g->generation};
}

size_t prepared_names_count(const struct prepared_names *n)
{
	return n ? map_count(n->by_name) : 0;
}
