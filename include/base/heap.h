/*
 * Intrusive heap: which object has the least key.  A node is a member of the object; an
 * object is in at most one heap per node.  A zeroed node is "in no heap", a zeroed heap
 * is empty.  heap_first and heap_put are O(1), heap_remove is O(log n) on average over
 * all calls.  (A pairing heap: Fredman, Sedgewick, Sleator, Tarjan, 1986.)
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	uint64_t key;
	struct heap_node *child;  /* the first of those below it */
	struct heap_node *next;   /* beside it, below the same parent */
	struct heap_node **place; /* what points to it; NULL: it is in no heap */
};

struct heap {
	struct heap_node *root;
};

static inline bool heap_is_empty(const struct heap *h)
{
	return !h->root;
}

static inline bool heap_has(const struct heap_node *n)
{
	return n->place != NULL;
}

/* The node with the least key, or NULL. */
static inline struct heap_node *heap_first(const struct heap *h)
{
	return h->root;
}

/* n must be in no heap. */
void heap_put(struct heap *h, struct heap_node *n, uint64_t key);
/* n must be in h. */
void heap_remove(struct heap *h, struct heap_node *n);

#endif
