/*
 * The pairing heap.  Each node has a list of children, whose keys are not less than its
 * own.
 */
#include "base/heap.h"

#include <assert.h>

static void attach(struct heap_node **place, struct heap_node *n)
{
	*place = n;
	if (n)
		n->place = place;
}

/* Joins two trees into one; either may be NULL.  The caller links the returned root. */
static struct heap_node *meld(struct heap_node *a, struct heap_node *b)
{
	if (!a || !b)
		return a ? a : b;
	if (b->key < a->key) {
		struct heap_node *swap = a;
		a = b;
		b = swap;
	}
	attach(&b->next, a->child);
	attach(&a->child, b);
	return a;
}

/* Joins n and all nodes behind it into one tree: first in pairs, then the pairs with
 * each other. */
static struct heap_node *meld_row(struct heap_node *n)
{
	struct heap_node *pairs = NULL, *all = NULL;

	while (n) {
		struct heap_node *a = n, *b = a->next;
		n = b ? b->next : NULL;
		a->next = NULL;
		if (b)
			b->next = NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct heap_node *rest = pairs->next;
		pairs->next = NULL;
		all = meld(all, pairs);
		pairs = rest;
	}
	return all;
}

void heap_put(struct heap *h, struct heap_node *n, uint64_t key)
{
	assert(!n->place);
	n->key = key;
	n->child = n->next = NULL;
	attach(&h->root, meld(h->root, n));
}

void heap_remove(struct heap *h, struct heap_node *n)
{
	struct heap_node *below = meld_row(n->child);

	assert(n->place);
	attach(n->place, n->next);
	attach(&h->root, meld(h->root, below));
	n->child = n->next = NULL;
	n->place = NULL;
}
