/*
 * Statements that change a session for longer than their transaction: seen from the
 * words a statement begins with, from the names of set_config and the advisory lock
 * functions, and from CommandComplete tags.  Not a parser: what a function does, or a
 * statement inside a string, is not known.
 *
 * Sets of kinds are bits.  What texts promise ("expected") is taken together with the
 * tags that come; a tag without a text that explains it (a statement prepared long ago)
 * counts where the tag says enough.
 */
#ifndef WIRE_LEAK_H
#define WIRE_LEAK_H

#include <stddef.h>
#include <stdint.h>

#include "wire/vars.h"

enum leak_kind {
#define LEAK(name, ...) LEAK_##name,
#include "wire/leaks.def"
#undef LEAK
	LEAK_KIND_COUNT
};

#define LEAK_BIT(name) (1u << LEAK_##name)

enum {
	LEAK_KINDS = (1 << LEAK_KIND_COUNT) - 1,
	/* a SET that leaves nothing: LOCAL, of a tracked parameter, to its default */
	LEAK_HARMLESS_SET = 1 << 14,
	LEAK_UNLISTEN_ALL = 1 << 15,
	/* for whoever keeps PREPAREs itself: the next ones leave nothing */
	LEAK_HARMLESS_PREPARE = 1 << 13,
};

/* "SET ROLE"; what to do instead. */
const char *leak_name(enum leak_kind kind);
const char *leak_hint(enum leak_kind kind);

struct leak_look {
	uint16_t first; /* kinds the first statement leaves, and functions anywhere */
	uint16_t all;   /* of all statements, with the two bits that are no kinds */
};

/* tracked: parameters that have a value there are followed by whoever asks, and leak
 * nothing; NULL: none are. */
struct leak_look leak_of_text(const char *text, size_t len, const struct vars *tracked);

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
