/*
 * Intrusive doubly linked list that knows its length.  A node is a member of the object
 * that it links; each node is in at most one list.  A zeroed node is in no list; only
 * the list itself needs list_init.  Every operation is O(1).
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct node {
	struct node *next, *prev;
};

struct list {
	struct node head;
	size_t count;
};

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Makes the list empty.  Nodes that were in it are not unlinked. */
static inline void list_init(struct list *l)
{
	l->head.next = l->head.prev = &l->head;
	l->count = 0;
}

static inline bool list_is_empty(const struct list *l)
{
	return l->count == 0;
}

/* Whether the node is in a list. */
static inline bool node_is_linked(const struct node *n)
{
	return n->next != NULL;
}

/* Inserts n, which must be in no list, in front of pos.  pos is a node of this list, or
 * &l->head, which makes n the last one. */
static inline void list_insert_before(struct list *l, struct node *pos, struct node *n)
{
	n->prev = pos->prev;
	n->next = pos;
	pos->prev->next = n;
	pos->prev = n;
	l->count++;
}

static inline void list_push_front(struct list *l, struct node *n)
{
	list_insert_before(l, l->head.next, n);
}

static inline void list_push_back(struct list *l, struct node *n)
{
	list_insert_before(l, &l->head, n);
}

/* The node must be in this list. */
static inline void list_remove(struct list *l, struct node *n)
{
	assert(n->prev && n->next && l->count);
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->next = n->prev = NULL;
	l->count--;
}

/* The first node, or NULL if the list is empty. */
static inline struct node *list_first(const struct list *l)
{
	return l->count ? l->head.next : NULL;
}

/* The last node, or NULL if the list is empty. */
static inline struct node *list_last(const struct list *l)
{
	return l->count ? l->head.prev : NULL;
}

/* The first and the last node of a list that is not empty. */
static inline struct node *list_front(const struct list *l)
{
	assert(l->count);
	return l->head.next;
}

static inline struct node *list_back(const struct list *l)
{
	assert(l->count);
	return l->head.prev;
}

/* Takes the first node out of the list and returns it.  NULL: the list is empty. */
static inline struct node *list_pop_front(struct list *l)
{
	struct node *n = list_first(l);
	if (n)
		list_remove(l, n);
	return n;
}

/* The node behind n, or NULL if n is the last one. */
static inline struct node *list_next(const struct list *l, const struct node *n)
{
	return n->next == &l->head ? NULL : n->next;
}

/* A walk through a list in several parts, between which the list may change.  Nodes
 * removed meanwhile are not visited, and nodes added at the end are visited last. */
struct list_walk {
	struct node *next; /* NULL: the walk is over */
};

static inline void list_walk_begin(struct list_walk *w, const struct list *l)
{
	w->next = list_first(l);
}

/* Returns the next node, or NULL at the end of the list. */
static inline struct node *list_walk_next(struct list_walk *w, const struct list *l)
{
	struct node *n = w->next;
	if (n)
		w->next = list_next(l, n);
	return n;
}

/* Must be called for every walk before n is removed from the list. */
static inline void list_walk_leave(
    struct list_walk *w, const struct list *l, const struct node *n)
{
	if (w->next == n)
		w->next = list_next(l, n);
}

/* `var` goes through the objects that contain the nodes.  Only within list_for_safe may
 * var be removed. */
#define list_for(var, l, member)                                           \
	for (var = container_of((l)->head.next, __typeof__(*var), member); \
	     &var->member != &(l)->head;                                   \
	     var = container_of(var->member.next, __typeof__(*var), member))

#define list_for_safe(var, tmp, l, member)                                  \
	for (var = container_of((l)->head.next, __typeof__(*var), member),  \
	    tmp = container_of(var->member.next, __typeof__(*var), member); \
	     &var->member != &(l)->head; var = tmp,                         \
	    tmp = container_of(tmp->member.next, __typeof__(*tmp), member))

#endif
