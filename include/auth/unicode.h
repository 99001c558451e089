/*
 * Properties of Unicode characters for SASLprep.  The tables are packed, and are
 * unpacked only for passwords that are not ASCII; a struct unicode lives for the
 * preparation of one password.
 */
#ifndef AUTH_UNICODE_H
#define AUTH_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unicode_set {
	UNICODE_SPACE,   /* is replaced by a space */
	UNICODE_NOTHING, /* is removed */
	UNICODE_REFUSED, /* is prohibited or unassigned */
	UNICODE_RIGHT,   /* is written from right to left */
	UNICODE_LEFT,    /* is written from left to right */
	UNICODE_CLASS,   /* has a combining class */
	UNICODE_SET_COUNT
};

struct unicode;

struct unicode *unicode_new(void);
void unicode_free(struct unicode **u);

bool unicode_is(const struct unicode *u, enum unicode_set set, uint32_t code);
/* The canonical combining class; 0 for characters that do not combine. */
uint8_t unicode_class(const struct unicode *u, uint32_t code);
/* Returns one step of the compatibility decomposition of a character; NULL: it has
 * none.  Hangul is not in the table. */
const uint32_t *unicode_parts(const struct unicode *u, uint32_t code, size_t *count);
/* Returns the character that two characters compose to, or 0.  Hangul is not in the
 * table. */
uint32_t unicode_pair(const struct unicode *u, uint32_t first, uint32_t second);

#endif
