/*
 * Records changes of names and sets whose message is in flight, so that they can be
 * undone.  The caller makes the changes when it sends the message; a record keeps what
 * was there before.
 *
 * A failed change can be followed, behind a Sync, by a change of the same name or text
 * that succeeds and then counts.  If that one fails as well, the state before the first
 * change is restored.  So the records of each name or text form a chain, which makes an
 * answer cheap: nobody walks over everything that is in flight.
 */
#include <assert.h>
#include <string.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "wire/prepared.h"

struct journal_entry {
	struct node node;           /* in the list open or failed */
	struct prepared_text *text; /* one reference */
	/* The chain of changes of the same name, or of the set for the same text. */
	struct journal_entry *older, *newer;
	uint32_t tag;
	bool is_of_name;
	bool has_failed;
	bool is_kept;   /* set by prepared_journal_forget: this one stays */
	bool was_there; /* undoing puts it back; otherwise undoing removes it */
	bool was_spoilt;
	bool is_muted; /* the server may keep its notices for itself */
	/* of a name: what it had, and, set by prepared_journal_forget, what it has */
	uint32_t generation, kept_generation;
	char name[];
};

struct prepared_journal {
	struct list open;   /* in order of tags */
	struct list failed; /* failed, to be undone */
	/* Name, or address of a text -> its newest record.  NULL until needed. */
	struct map *names, *texts;
};

static struct journal_entry *at_node(struct node *n)
{
	return n ? container_of(n, struct journal_entry, node) : NULL;
}

static void free_if_empty(struct prepared_journal **jp)
{
	struct prepared_journal *j = *jp;

	if (!list_is_empty(&j->open) || !list_is_empty(&j->failed))
		return;
	map_free(&j->names);
	map_free(&j->texts);
	mem_free(j);
	*jp = NULL;
}

/* Makes r the newest record of its chain; returns the one before. */
static struct journal_entry *index_put(
    struct prepared_journal *j, struct journal_entry *r)
{
	struct map **index = r->is_of_name ? &j->names : &j->texts;

	if (!*index)
		*index = map_new();
	if (r->is_of_name)
		return map_put_str(*index, r->name, r);
	return map_put(*index, &r->text, sizeof(r->text), r);
}

static void drop(struct prepared_journal *j, struct journal_entry *r)
{
	if (r->older)
		r->older->newer = r->newer;
	if (r->newer)
		r->newer->older = r->older;
	else if (r->older)
		index_put(j, r->older);
	else if (r->is_of_name)
		map_del_str(j->names, r->name);
	else
		map_del(j->texts, &r->text, sizeof(r->text));
	list_remove(r->has_failed ? &j->failed : &j->open, &r->node);
	prepared_unref(r->text);
	mem_free(r);
}

/* Tags have 31 bits, rise and may overflow. */
static bool is_before(uint32_t tag, uint32_t other)
{
	return (int32_t)((tag - other) << 1) < 0;
}

int prepared_journal_note(struct prepared_journal **jp, uint32_t tag,
    enum prepared_change change, const char *name, struct prepared_text *text)
{
	bool is_of_name =
	    change == PREPARED_NAME_ADDED || change == PREPARED_NAME_REMOVED;
	size_t len = is_of_name ? strnlen(name, PREPARED_NAME_MOST) : 0;
	struct journal_entry *r = mem_try(sizeof(*r) + len + 1);

	if (!r)
		return -1;
	if (!*jp) {
		struct prepared_journal *j = mem_zero(sizeof(*j));
		list_init(&j->open);
		list_init(&j->failed);
		*jp = j;
	}
	struct journal_entry *last = at_node(list_last(&(*jp)->open));
	assert(tag > 0 && (!last || !is_before(tag, last->tag)));
	*r = (struct journal_entry){
	    .text = prepared_ref(text),
	    .tag = tag,
	    .is_of_name = is_of_name,
	    .was_there = change != PREPARED_NAME_ADDED && change != PREPARED_SET_ADDED,
	    .was_spoilt = change == PREPARED_SPOILT_REMOVED,
	};
	if (is_of_name)
		memcpy(r->name, name, len);
	r->name[len] = '\0';
	list_push_back(&(*jp)->open, &r->node);
	r->older = index_put(*jp, r);
	if (r->older)
		r->older->newer = r;
	return 0;
}

void prepared_journal_date(struct prepared_journal *j, uint32_t generation)
{
	at_node(list_back(&j->open))->generation = generation;
}

void prepared_journal_mute(struct prepared_journal *j)
{
	at_node(list_back(&j->open))->is_muted = true;
}

/* The first open record with this tag.  Answers come in order, so it is near the
 * front. */
static struct journal_entry *open_entry(const struct prepared_journal *j, uint32_t tag)
{
	struct journal_entry *r = at_node(list_first(&j->open));

	while (r && is_before(r->tag, tag))
		r = at_node(list_next(&j->open, &r->node));
	return r && r->tag == tag ? r : NULL;
}

void prepared_journal_tell(const struct prepared_journal *j, uint32_t tag)
{
	struct journal_entry *r = j ? open_entry(j, tag) : NULL;

	for (; r && r->tag == tag; r = at_node(list_next(&j->open, &r->node)))
		r->text->is_told |= !r->is_of_name && !r->was_there;
}

void prepared_journal_commit(struct prepared_journal **jp, uint32_t tag)
{
	struct journal_entry *r;

	if (!*jp)
		return;
	while ((r = open_entry(*jp, tag))) {
		r->text->is_silent |= !r->is_of_name && !r->was_there && !r->is_muted &&
				      !r->text->is_told;
		/* earlier failed changes of the same name do not matter any more */
		while (r->older)
			drop(*jp, r->older);
		drop(*jp, r);
	}
	free_if_empty(jp);
}

void prepared_journal_fail(struct prepared_journal **jp, uint32_t tag)
{
	struct journal_entry *r;

	if (!*jp)
		return;
	while ((r = open_entry(*jp, tag))) {
		list_remove(&(*jp)->open, &r->node);
		list_push_back(&(*jp)->failed, &r->node);
		r->has_failed = true;
	}
}

static int bring_back(const struct journal_entry *r, struct prepared_names **names,
    struct prepared_set **set)
{
	if (r->was_there && r->is_of_name)
		return prepared_names_put(names, r->name, r->text, r->generation);
	if (r->was_there) {
		int result = prepared_set_restore(set, r->text);
		if (r->was_spoilt && result == 0)
			prepared_set_spoil(*set, r->text);
		return result;
	}
	if (r->is_of_name)
		prepared_names_del(names, r->name);
	else
		prepared_set_del(set, r->text);
	return 0;
}

int prepared_journal_undo(struct prepared_journal **jp, struct prepared_names **names,
    struct prepared_set **set)
{
	struct journal_entry *r;
	int result = 0;

	if (!*jp)
		return 0;
	while ((r = at_node(list_last(&(*jp)->failed)))) {
		if (r->newer) {
			/* before r is removed from the middle of its chain: the state
			 * before the newer change is now the state before this one */
			struct prepared_text *text = r->newer->text;
			r->newer->was_there = r->was_there;
			r->newer->was_spoilt = r->was_spoilt;
			r->newer->generation = r->generation;
			/* for a set the text is the same, and the key in the index
			 * stays */
			r->newer->text = r->text;
			r->text = text;
		} else if (bring_back(r, names, set))
			result = -1;
		drop(*jp, r);
	}
	free_if_empty(jp);
	return result;
}

static bool is_there(struct journal_entry *r, struct prepared_names *names,
    const struct prepared_set *set)
{
	if (!r->is_of_name)
		return prepared_set_has(set, r->text);
	return prepared_names_look(names, r->name, &r->kept_generation) == r->text;
}

static int keep(const struct journal_entry *r, struct prepared_names **names,
    struct prepared_set **set)
{
	return r->is_of_name
		   ? prepared_names_put(names, r->name, r->text, r->kept_generation)
		   : prepared_set_add(set, r->text);
}

int prepared_journal_forget(struct prepared_journal *j, struct prepared_names **names,
    struct prepared_set **set)
{
	struct journal_entry *r;
	int result = 0;

	if (j)
		list_for (r, &j->open, node)
			r->is_kept = !r->newer && is_there(r, *names, *set);
	prepared_names_clear(names);
	prepared_set_clear(set);
	if (!j)
		return 0;
	list_for (r, &j->open, node) {
		if (!r->older)
			r->was_there = false;
		if (r->is_kept && keep(r, names, set) < 0)
			result = -1;
	}
	return result;
}

void prepared_journal_clear(struct prepared_journal **jp)
{
	struct journal_entry *r;

	if (!*jp)
		return;
	/* The newest first, so that each record dropped is the end of its chain. */
	while ((r = at_node(list_last(&(*jp)->open))) ||
	       (r = at_node(list_last(&(*jp)->failed))))
		drop(*jp, r);
	free_if_empty(jp);
}
