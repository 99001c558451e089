/*
 * Queues of spans, and the shared blocks that they refer to.  Spans that are sent
 * within the turn only borrow blocks.  Small ones that have to wait are copied to
 * blocks of their own, so that a slow peer with little output does not keep large
 * blocks in memory.
 */
#include <assert.h>
#include <string.h>

#include "net/stream_parts.h"

enum {
	CHUNK_SPANS = 8,
	SHARED_WRITE_MOST = 16640, /* longer writes get a block of their own */
	JOINED_MOST = 256,
	COPY_BLOCK = 8192,
};

/* A part of a queue; the first part knows the last one. */
struct stream_queue {
	struct stream_queue *next;
	struct stream_queue *last; /* only in the first part */
	unsigned first, end;       /* the spans [first, end) are in use */
	struct span spans[CHUNK_SPANS];
};

struct slab *stream_queue_slab(struct mem *mem)
{
	return slab_new(mem, "stream_queue", sizeof(struct stream_queue));
}

/* If nobody else holds the current block, it is used again from its beginning, which is
 * likely still in the processor's cache. */
struct block *stream_room(struct net *net, size_t room)
{
	struct block *b = net->current;

	if (b && b->refs == 1)
		b->used = 0;
	if (b && b->cap - b->used >= room)
		return b;
	block_unref(b);
	net->current = block_get(net->blocks);
	return net->current;
}

struct span *stream_queue_last(struct stream_queue *q)
{
	struct stream_queue *last = q ? q->last : NULL;

	return last && last->end > last->first ? &last->spans[last->end - 1] : NULL;
}

static struct span *new_span(struct net *net, struct stream_queue **q)
{
	struct stream_queue *last = *q ? (*q)->last : NULL;

	if (!last || last->end == CHUNK_SPANS) {
		struct stream_queue *chunk = slab_take(net->queues);
		chunk->next = NULL;
		chunk->first = chunk->end = 0;
		if (last)
			last->next = chunk;
		else
			*q = chunk;
		(*q)->last = last = chunk;
	}
	return &last->spans[last->end++];
}

/* Appends a span, or extends the last one; takes a new reference only if needed. */
static void add(struct net *net, struct stream_queue **q, struct block *block,
    const uint8_t *p, size_t len)
{
	net->growing.stream = NULL;
	struct span *last = stream_queue_last(*q);

	if (last && last->block == block && last->bytes + last->len == p) {
		last->len += len;
		return;
	}
	if (block)
		block_ref(block);
	*new_span(net, q) = (struct span){.block = block, .bytes = p, .len = len};
}

/* Appends a copy in a single block: behind the last one if there is room, otherwise in
 * a new block with room for `cap`.  -1: no memory. */
static int add_copy(
    struct net *net, struct stream_queue **q, const uint8_t *p, size_t len, size_t cap)
{
	struct span *last = stream_queue_last(*q);
	struct block *own = last ? last->block : NULL;

	if (own && !own->pool && own->refs == 1 && own->cap - own->used >= len &&
	    last->bytes + last->len == own->bytes + own->used) {
		block_ref(own);
	} else {
		own = block_new(len > cap ? len : cap);
		if (!own)
			return -1;
	}
	uint8_t *to = own->bytes + own->used;
	memcpy(to, p, len);
	own->used += (uint32_t)len;
	add(net, q, own, to, len);
	block_unref(own);
	return 0;
}

/* Copies a small piece behind the last one, if that ends where the current block is
 * free.  One piece is cheaper to send than two, and a message under another name has
 * short ones before and behind it. */
static bool join_last(
    struct net *net, struct stream_queue *q, const uint8_t *p, size_t len)
{
	struct span *last = stream_queue_last(q);
	struct block *b = net->current;

	if (len > JOINED_MOST || !b || !last || last->block != b ||
	    last->bytes + last->len != b->bytes + b->used || b->cap - b->used < len)
		return false;
	net->growing.stream = NULL;
	memcpy(b->bytes + b->used, p, len);
	b->used += (uint32_t)len;
	last->len += len;
	return true;
}

void stream_queue_put(struct net *net, struct stream_queue **q, struct block *block,
    const uint8_t *p, size_t len, bool is_waiting)
{
	bool copy = is_waiting && block && block->pool && len <= STREAM_COPY_MOST;

	if (!is_waiting && join_last(net, *q, p, len))
		return;
	if (!copy || add_copy(net, q, p, len, COPY_BLOCK) < 0)
		add(net, q, block, p, len);
}

int stream_queue_write(struct net *net, struct stream_queue **q, const void *p,
    size_t len, bool is_waiting)
{
	if (is_waiting || len > SHARED_WRITE_MOST)
		return add_copy(net, q, p, len, is_waiting ? COPY_BLOCK : len);
	struct block *b = stream_room(net, len);
	uint8_t *to = b->bytes + b->used;
	memcpy(to, p, len);
	b->used += (uint32_t)len;
	add(net, q, b, to, len);
	return 0;
}

static void drop_head(struct net *net, struct stream_queue **q)
{
	struct stream_queue *head = *q;

	*q = head->next;
	if (*q)
		(*q)->last = head->last;
	slab_put(net->queues, head);
}

void stream_queue_consume(struct net *net, struct stream_queue **q, size_t n)
{
	net->growing.stream = NULL;
	while (*q) {
		struct stream_queue *head = *q;
		for (; head->first < head->end; head->first++) {
			struct span *span = &head->spans[head->first];
			if (n < span->len) {
				span->bytes += n;
				span->len -= n;
				return;
			}
			n -= span->len;
			block_unref(span->block);
		}
		drop_head(net, q);
	}
	assert(n == 0);
}

struct span stream_queue_pop(struct net *net, struct stream_queue **q)
{
	struct stream_queue *head = *q;

	net->growing.stream = NULL;
	/* only the last part can be empty, and an empty queue has no part */
	struct span span = head->spans[head->first++];
	if (head->first == head->end)
		drop_head(net, q);
	return span;
}

void stream_queue_drop(struct net *net, struct stream_queue **q)
{
	net->growing.stream = NULL;
	while (*q) {
		struct stream_queue *head = *q;
		for (; head->first < head->end; head->first++)
			block_unref(head->spans[head->first].block);
		drop_head(net, q);
	}
}

/* If the whole content is small, it is copied into one block of its size. */
void stream_queue_settle(struct net *net, struct stream_queue **q, size_t size)
{
	struct stream_queue *old = *q;
	size_t cap = size < COPY_BLOCK ? size : COPY_BLOCK;

	net->growing.stream = NULL;
	*q = NULL;
	while (old) {
		struct stream_queue *chunk = old;
		for (; chunk->first < chunk->end; chunk->first++) {
			struct span *span = &chunk->spans[chunk->first];
			bool copy = span->block && span->block->pool &&
				    span->len <= STREAM_COPY_MOST;
			if (!copy || add_copy(net, q, span->bytes, span->len, cap) < 0)
				add(net, q, span->block, span->bytes, span->len);
			block_unref(span->block);
		}
		old = chunk->next;
		slab_put(net->queues, chunk);
	}
}

int stream_queue_gather(const struct stream_queue *q, struct iovec *iov, size_t *total)
{
	int count = 0;

	*total = 0;
	for (; q && count < STREAM_GATHER_MOST; q = q->next) {
		for (unsigned i = q->first; i < q->end && count < STREAM_GATHER_MOST;
		     i++) {
			iov[count].iov_base = (void *)(uintptr_t)q->spans[i].bytes;
			iov[count++].iov_len = q->spans[i].len;
			*total += q->spans[i].len;
		}
	}
	return count;
}

void stream_queue_copy(const struct stream_queue *q, struct buf *out)
{
	for (; q; q = q->next)
		for (unsigned i = q->first; i < q->end; i++)
			buf_put(out, q->spans[i].bytes, q->spans[i].len);
}

struct block *stream_queue_flatten(const struct stream_queue *q)
{
	size_t size = 0;

	for (const struct stream_queue *part = q; part; part = part->next)
		for (unsigned i = part->first; i < part->end; i++)
			size += part->spans[i].len;
	struct block *b = block_new(size);
	for (; b && q; q = q->next) {
		for (unsigned i = q->first; i < q->end; i++) {
			memcpy(b->bytes + b->used, q->spans[i].bytes, q->spans[i].len);
			b->used += (uint32_t)q->spans[i].len;
		}
	}
	return b;
}

const uint8_t *stream_queue_front(
    const struct stream_queue *q, uint8_t *room, size_t most, size_t *len)
{
	const struct span *first = &q->spans[q->first];
	size_t have = 0;

	if (first->len >= most || (q->first + 1 == q->end && !q->next)) {
		*len = first->len < most ? first->len : most;
		return first->bytes;
	}
	for (; q && have < most; q = q->next) {
		for (unsigned i = q->first; i < q->end && have < most; i++) {
			const struct span *span = &q->spans[i];
			size_t n = span->len < most - have ? span->len : most - have;
			memcpy(room + have, span->bytes, n);
			have += n;
		}
	}
	*len = have;
	return room;
}
