/*
 * The properties of characters that SASLprep needs.  The tables are packed, and are
 * unpacked only for passwords that are not ASCII: a struct unicode lives for one
 * preparation.
 */
#ifndef AUTH_UNICODE_H
#define AUTH_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unicode_set {
	UNICODE_SPACE,   /* becomes a space */
	UNICODE_NOTHING, /* is left out */
	UNICODE_REFUSED, /* prohibited or unassigned */
	UNICODE_RIGHT,   /* written from right to left */
	UNICODE_LEFT,    /* written from left to right */
	UNICODE_CLASS,   /* has a combining class */
	UNICODE_SET_COUNT
};

struct unicode;

struct unicode *unicode_new(void);
void unicode_free(struct unicode **u);

bool unicode_is(const struct unicode *u, enum unicode_set set, uint32_t code);
/* Canonical combining class, 0 for starters. */
uint8_t unicode_class(const struct unicode *u, uint32_t code);
/* One step of the compatibility decomposition of this code; NULL when it has none.
 * Hangul is not in the table. */
const uint32_t *unicode_parts(const struct unicode *u, uint32_t code, size_t *count);
/* The code that the two compose to, or 0.  Hangul is not in the table. */
uint32_t unicode_pair(const struct unicode *u, uint32_t first, uint32_t second);

#endif
