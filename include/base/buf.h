/*
 * Growable bytes with a hard maximum, and a cursor to read bytes that came from a
 * peer.  Both have a sticky failure flag that is checked once at the end.
 * Integers are in network byte order.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *bytes; /* NULL while empty and unallocated */
	size_t len;
	size_t cap;
	size_t max; /* len never exceeds this */
	/* a put did not fit or memory ran out; the content must not be used */
	bool failed;
	bool is_lent; /* bytes is the room of buf_init_in */
	bool is_sure; /* without memory the process ends, as with mem_alloc */
};

/* Makes an empty buffer without allocating anything.  A max of 0 means SIZE_MAX/2. */
void buf_init(struct buf *b, size_t max);
/* Makes an empty buffer whose first bytes go to `room`, of `cap` bytes, which the
 * caller owns and which must be there as long as the buffer is in use.  Only a longer
 * content is allocated. */
void buf_init_in(struct buf *b, size_t max, uint8_t *room, size_t cap);
/* Makes an empty buffer for a short text: it never fails. */
void buf_init_sure(struct buf *b);
/* frees the bytes; the buffer is empty and can be used again */
void buf_done(struct buf *b);
/* like buf_done, but overwrites the content before it is freed */
void buf_wipe_done(struct buf *b);
void buf_clear(struct buf *b); /* len = 0, failed = false; memory is kept */
/* Drops n bytes at the front (n <= len). */
void buf_shift(struct buf *b, size_t n);

/* Makes room for n more bytes and returns where they go; the caller writes them there
 * and then calls buf_grow.  NULL (and failed is set) when there is no room. */
uint8_t *buf_room(struct buf *b, size_t n);
void buf_grow(struct buf *b, size_t n);

void buf_put(struct buf *b, const void *p, size_t len);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_str(struct buf *b, const char *s);  /* with its NUL */
void buf_put_text(struct buf *b, const char *s); /* without NUL */
void buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* without NUL */
void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
/* Puts a NUL behind the bytes, which len does not count, and returns them as a string.
 * Returns "" when the buffer has failed or is empty. */
const char *buf_text(struct buf *b);

struct cursor {
	const uint8_t *at, *end;
	/* a get wanted more bytes than were left; all later gets return 0 or "" */
	bool overrun;
};

static inline void cursor_init(struct cursor *c, const void *p, size_t len)
{
	c->at = p;
	c->end = len ? c->at + len : c->at; /* p may be NULL then */
	c->overrun = false;
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->at);
}

uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_u16(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
/* Returns len bytes and moves past them; NULL on overrun. */
const uint8_t *cursor_bytes(struct cursor *c, size_t len);
/* Returns a NUL-terminated string and moves past its NUL; "" and overrun when there is
 * no NUL. */
const char *cursor_str(struct cursor *c);

/* Network-order integers at any address. */
static inline uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void put_u32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

#endif
