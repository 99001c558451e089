/*
 * Kinds of session state that statements leave behind for longer than their
 * transaction.  A kind is recognized from the statement's text (wire/effects) together
 * with the CommandComplete tag that the server sends.  A tag that fits no text counts
 * by itself where it is unambiguous.  Sets of kinds are bits.
 */
#ifndef WIRE_LEAK_H
#define WIRE_LEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum leak_kind {
#define LEAK(name, ...) LEAK_##name,
#include "wire/leak_kinds.def"
#undef LEAK
	LEAK_KIND_COUNT
};

#define LEAK_BIT(name) (1u << LEAK_##name)

enum { LEAK_KINDS = (1 << LEAK_KIND_COUNT) - 1 };
/* Settings of the session. */
enum {
	LEAK_SETTINGS =
	    LEAK_BIT(SET) | LEAK_BIT(ROLE) | LEAK_BIT(AUTHORIZATION) | LEAK_BIT(CONFIG)
};

/* Bits in a set of kinds that are no kinds themselves. */
enum leak_flag {
	/* A SET that leaves nothing behind: it is LOCAL, of a tracked parameter, or to
	 * the default. */
	LEAK_HARMLESS_SET = 1 << 14,
	LEAK_UNLISTEN_ALL = 1 << 15,
	/* The pooler handles PREPARE itself, so that it leaves nothing behind. */
	LEAK_HARMLESS_PREPARE = 1 << 13,
	/* A parameter on which the meaning of texts depends, and which the server does
	 * not report, may have been set.  Of a text: one of vars_is_silently_read, also
	 * for the transaction only. */
	LEAK_READING = 1 << 12,
	/* A call, or a statement, of which only the server can tell what it leaves
	 * behind.  Only with effects_ask.has_calls. */
	LEAK_UNSEEN = 1 << 11,
	/* A parameter may have been set that no view of the server lists, because
	 * nobody has defined it: its name has a dot.  See kept_settings.h. */
	LEAK_PLACEHOLDER = 1 << 10,
};

/* What a text may have made. */
enum { LEAK_MADE = LEAK_KINDS | LEAK_UNSEEN | LEAK_PLACEHOLDER };

/* leak_name: the kind as users see it, such as "SET ROLE".  leak_hint: what to do
 * instead. */
const char *leak_name(enum leak_kind kind);
const char *leak_hint(enum leak_kind kind);

/* The kinds that a FunctionCall of the built-in function with this oid leaves
 * behind. */
uint16_t leak_of_function(uint32_t oid);

/* The kinds expected from the texts in flight on one server connection. */
struct leak_watch {
	uint16_t expected; /* kinds that the texts sent may leave behind */
	uint16_t met;      /* those of them for which a tag has arrived */
};

/* A statement was completed with this tag.  Returns the kinds that it leaves behind;
 * *cleared gets the kinds that it removed. */
uint16_t leak_of_tag(
    struct leak_watch *watch, const char *tag, size_t len, uint16_t *cleared);
/* Whether this tag can matter when nothing is expected.  Most tags do not, which this
 * finds out quickly. */
bool leak_may_matter(const char *tag, size_t len);

#endif
