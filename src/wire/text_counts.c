/*
 * A hash table of small buckets.  A text without a place in its bucket takes that of
 * the text with the lowest count, which falls by one for each text that was turned
 * away.
 */
#include "wire/text_counts.h"

#include <stdbool.h>
#include <string.h>

#include "wire/effects.h"
#include "wire/sql_scan.h"

/* Counts end below that of a refused text. */
enum { REFUSED = UINT16_MAX, MOST = UINT16_MAX - 1 };

struct counted {
	uint32_t quick; /* hash of head, tail, length and owner */
	uint32_t whole; /* hash of the text; 0: not known yet */
	uint16_t count; /* 0: the place is free */
};

struct text_counts {
	struct counted places[TEXT_COUNTS_BUCKETS][TEXT_COUNTS_IN_BUCKET];
	struct counted *last; /* NULL: the text has got no place */
};

size_t text_counts_size(void)
{
	return sizeof(struct text_counts);
}

struct text_counts *text_counts_init(void *memory)
{
	struct text_counts *c = memory;

	c->last = NULL;
	return c;
}

/* Mixes two words into one; nothing is promised but speed and few collisions. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 product =
	    (unsigned __int128)(a ^ UINT64_C(0x9e3779b97f4a7c15)) *
	    (b ^ UINT64_C(0xe7037ed1a0b428db));

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash(uint64_t seed, const uint8_t *text, size_t len)
{
	uint64_t words[2];

	for (; len >= sizeof(words); len -= sizeof(words), text += sizeof(words)) {
		memcpy(words, text, sizeof(words));
		seed = mix(seed ^ words[0], words[1]);
	}
	memset(words, 0, sizeof(words));
	memcpy(words, text, len);
	return mix(seed ^ words[0], words[1] ^ len);
}

static bool is_long(size_t len)
{
	return len > TEXT_COUNTS_HEAD + TEXT_COUNTS_TAIL;
}

uint32_t text_counts_add(
    struct text_counts *c, uint64_t owner, const uint8_t *text, size_t len)
{
	struct counted *bucket, *at;
	uint64_t bits;
	uint32_t quick, whole;

	if (is_long(len))
		bits = hash(hash(owner ^ len, text, TEXT_COUNTS_HEAD),
		    text + len - TEXT_COUNTS_TAIL, TEXT_COUNTS_TAIL);
	else
		bits = hash(owner, text, len);
	quick = (uint32_t)(bits >> 32);
	at = bucket = c->places[bits % TEXT_COUNTS_BUCKETS];
	for (size_t i = 0; i < TEXT_COUNTS_IN_BUCKET; i++) {
		if (bucket[i].count && bucket[i].quick == quick) {
			at = &bucket[i];
			break;
		}
		if (bucket[i].count < at->count)
			at = &bucket[i];
	}
	c->last = at;
	if (!at->count || at->quick != quick) {
		if (at->count > 1) {
			at->count--;
			c->last = NULL;
		} else {
			*at = (struct counted){.quick = quick, .count = 1};
		}
		return 1;
	}
	if (at->count == REFUSED)
		return 0;
	if (is_long(len)) {
		whole = (uint32_t)hash(0, text, len) | 1;
		if (at->whole && at->whole != whole)
			at->count = 0;
		at->whole = whole;
	}
	at->count += at->count < MOST;
	return at->count;
}

void text_counts_refuse(struct text_counts *c)
{
	if (c->last)
		c->last->count = REFUSED;
}

/* ---- what Parse makes of a text ---- */

/* NAMEDATALEN - 1; a letter beyond ASCII may have up to four bytes on the server. */
enum { NAME_MOST = 63, WIDE_NAME_MOST = NAME_MOST / 4 };

static bool is_one_of(
    const struct sql_token *t, const char *const words[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (sql_token_is(t, words[i]))
			return true;
	return false;
}

/* before: the token in front of t. */
static bool is_lasting(const struct sql_token *t, const struct sql_token *before)
{
	static const char *const references[] = {"regproc", "regprocedure", "regoper",
	    "regoperator", "regtype", "regrole", "regnamespace", "regconfig",
	    "regdictionary", "regcollation"};
	enum { COUNT = sizeof(references) / sizeof(references[0]) };
	struct sql_token name = *t;
	size_t wide = 0;

	switch (t->kind) {
	case SQL_STRING:
		return before->kind != SQL_STRING && !memchr(t->at, '\\', t->len);
	case SQL_NAME:
		name.kind = SQL_WORD;
		/* fall through */
	case SQL_WORD:
		/* SELECT INTO makes a table */
		if (sql_token_is(t, "into") && !sql_token_is(before, "insert") &&
		    !sql_token_is(before, "merge"))
			return false;
		while (wide < t->len && !(t->at[wide] & 0x80))
			wide++;
		return t->len <= (wide < t->len ? WIDE_NAME_MOST : NAME_MOST) &&
		       !is_one_of(&name, references, COUNT);
	default:
		return true;
	}
}

bool text_counts_is_lasting(const char *text, size_t len)
{
	static const char *const planned[] = {
	    "select", "insert", "update", "delete", "merge", "values", "table", "with"};
	const struct effects_ask ask = {.has_leaves = true, .has_clock = true};
	struct sql_token t, before = {.kind = SQL_END};
	struct sql_effects effects;
	struct sql_scan s;

	sql_scan_init(&s, text, len, false);
	sql_scan_next(&s, &t);
	if (!is_one_of(&t, planned, sizeof(planned) / sizeof(planned[0])))
		return false;
	for (; t.kind != SQL_END; sql_scan_next(&s, &t)) {
		if (!is_lasting(&t, &before))
			return false;
		before = t;
	}
	effects = effects_of_text(text, len, &ask);
	return effects_is_nothing(&effects);
}
