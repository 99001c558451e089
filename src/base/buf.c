#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { BUF_LEAST = 64 };

void buf_init(struct buf *b, size_t max)
{
	memset(b, 0, sizeof(*b));
	b->max = max && max < SIZE_MAX / 2 ? max : SIZE_MAX / 2;
}

void buf_init_in(struct buf *b, size_t max, uint8_t *room, size_t cap)
{
	buf_init(b, max);
	b->bytes = room;
	b->cap = cap;
	b->is_lent = true;
}

void buf_init_sure(struct buf *b)
{
	buf_init(b, 0);
	b->is_sure = true;
}

static void let_go(struct buf *b)
{
	if (!b->is_lent)
		mem_free(b->bytes);
	b->is_lent = false;
}

void buf_done(struct buf *b)
{
	let_go(b);
	buf_init(b, b->max);
}

void buf_wipe_done(struct buf *b)
{
	mem_wipe(b->bytes, b->cap);
	buf_done(b);
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}

void buf_shift(struct buf *b, size_t n)
{
	assert(n <= b->len);
	if (!n)
		return;
	b->len -= n;
	memmove(b->bytes, b->bytes + n, b->len);
}

/* Copies the content to a new block and overwrites the old one, which may hold a
 * secret; realloc would leave the old bytes in freed memory. */
static int move_to(struct buf *b, size_t cap)
{
	uint8_t *bytes = b->is_sure ? mem_alloc(cap) : mem_try(cap);

	if (!bytes)
		return -1;
	if (b->bytes) {
		memcpy(bytes, b->bytes, b->len);
		mem_wipe(b->bytes, b->cap);
		let_go(b);
	}
	b->bytes = bytes;
	b->cap = cap;
	return 0;
}

/* Makes room for n more bytes.  extra is 1 for the NUL behind a text, which does not
 * count against the maximum. */
static __attribute__((noinline)) uint8_t *make_room(
    struct buf *b, size_t n, size_t extra)
{
	if (b->failed)
		return NULL;
	if (n > b->max - b->len) {
		b->failed = true;
		return NULL;
	}
	size_t need = b->len + n + extra;
	if (need > b->cap || !b->bytes) {
		size_t cap = b->cap > SIZE_MAX / 4 ? need : b->cap * 2;
		if (cap > b->max)
			cap = b->max + 1;
		if (cap < BUF_LEAST)
			cap = BUF_LEAST;
		if (cap < need)
			cap = need;
		if (move_to(b, cap)) {
			b->failed = true;
			return NULL;
		}
	}
	return b->bytes + b->len;
}

/* Inline for speed: there is nearly always room, and a message is built of many small
 * pieces. */
static inline uint8_t *reserve(struct buf *b, size_t n, size_t extra)
{
	if (!b->failed && b->bytes && n <= b->max - b->len &&
	    n + extra <= b->cap - b->len)
		return b->bytes + b->len;
	return make_room(b, n, extra);
}

uint8_t *buf_room(struct buf *b, size_t n)
{
	return reserve(b, n, 0);
}

void buf_grow(struct buf *b, size_t n)
{
	assert(n <= b->cap - b->len && n <= b->max - b->len);
	b->len += n;
}

void buf_put(struct buf *b, const void *p, size_t len)
{
	if (!len)
		return;
	uint8_t *to = reserve(b, len, 0);
	if (!to)
		return;
	memcpy(to, p, len);
	b->len += len;
}

void buf_put_u8(struct buf *b, uint8_t v)
{
	uint8_t *to = reserve(b, 1, 0);

	if (!to)
		return;
	*to = v;
	b->len++;
}

void buf_put_u16(struct buf *b, uint16_t v)
{
	uint8_t bytes[2] = {(uint8_t)(v >> 8), (uint8_t)v};

	buf_put(b, bytes, sizeof(bytes));
}

void buf_put_u32(struct buf *b, uint32_t v)
{
	uint8_t *to = reserve(b, 4, 0);

	if (!to)
		return;
	put_u32(to, v);
	b->len += 4;
}

void buf_put_str(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s) + 1);
}

void buf_put_text(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s));
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;

	if (b->failed)
		return;
	va_copy(again, ap);
	int len = vsnprintf(NULL, 0, fmt, ap);
	if (len < 0) {
		b->failed = true;
	} else {
		uint8_t *to = reserve(b, (size_t)len, 1);
		if (to) {
			vsnprintf((char *)to, (size_t)len + 1, fmt, again);
			b->len += (size_t)len;
		}
	}
	va_end(again);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

const char *buf_text(struct buf *b)
{
	if (b->failed || !b->len)
		return "";
	uint8_t *to = reserve(b, 0, 1);
	if (!to)
		return "";
	*to = '\0';
	return (const char *)b->bytes;
}

const uint8_t *cursor_bytes(struct cursor *c, size_t len)
{
	if (c->overrun || len > cursor_left(c)) {
		c->overrun = true;
		return NULL;
	}
	const uint8_t *p = c->at;
	if (len)
		c->at += len;
	return p;
}

uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 1);

	return p ? *p : 0;
}

uint16_t cursor_u16(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 2);

	return p ? (uint16_t)(p[0] << 8 | p[1]) : 0;
}

uint32_t cursor_u32(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 4);

	return p ? get_u32(p) : 0;
}

const char *cursor_str(struct cursor *c)
{
	size_t left = cursor_left(c);
	const uint8_t *nul = c->overrun || !left ? NULL : memchr(c->at, 0, left);

	if (!nul) {
		c->overrun = true;
		return "";
	}
	return (const char *)cursor_bytes(c, (size_t)(nul - c->at) + 1);
}
