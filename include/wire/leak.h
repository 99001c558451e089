/*
 * Kinds of session state that statements leave behind for longer than their
 * transaction.  A kind is recognized from what a text promises (wire/effects) together
 * with the CommandComplete tag that the server sends.  A tag that no text explains
 * counts where the tag alone says enough.
 *
 * Sets of kinds are bits.
 */
#ifndef WIRE_LEAK_H
#define WIRE_LEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum leak_kind {
#define LEAK(name, ...) LEAK_##name,
#include "wire/leaks.def"
#undef LEAK
	LEAK_KIND_COUNT
};

#define LEAK_BIT(name) (1u << LEAK_##name)

enum { LEAK_KINDS = (1 << LEAK_KIND_COUNT) - 1 };

/* Bits beside those of kinds. */
enum leak_flag {
	/* A SET leaves nothing: it is LOCAL, of a tracked parameter, to its default. */
	LEAK_HARMLESS_SET = 1 << 14,
	LEAK_UNLISTEN_ALL = 1 << 15,
	/* The pooler keeps the PREPAREs itself, so that they leave nothing. */
	LEAK_HARMLESS_PREPARE = 1 << 13,
};

/* "SET ROLE"; what to do instead. */
const char *leak_name(enum leak_kind kind);
const char *leak_hint(enum leak_kind kind);

/* Kinds that a FunctionCall of this built-in function leaves. */
uint16_t leak_of_function(uint32_t oid);

/* Expectations for what is in flight on one connection. */
struct leak_watch {
	uint16_t expected; /* of texts sent */
	uint16_t met;      /* of them, those a tag was found for */
};

/* A statement was completed with this tag.  Returns the kinds it leaves; *cleared gets
 * those that are gone. */
uint16_t leak_of_tag(
    struct leak_watch *watch, const char *tag, size_t len, uint16_t *cleared);
/* Could this tag, with nothing expected, matter?  For a quick way past most of them. */
bool leak_may_matter(const char *tag, size_t len);

#endif
