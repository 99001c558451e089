/*
 * Intrusive heap, for finding the object with the least key.  A node is a member of the
 * object; each node is in at most one heap.  A zeroed node is in no heap, and a zeroed
 * heap is empty.  heap_first and heap_put are O(1), heap_remove is O(log n) on average
 * over all calls.  (It is a pairing heap: Fredman, Sedgewick, Sleator, Tarjan, 1986.)
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	uint64_t key;
	struct heap_node *child; /* its first child */
	struct heap_node *next;  /* the next child of the same parent */
	/* the pointer that points to this node; NULL: it is in no heap */
	struct heap_node **place;
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
