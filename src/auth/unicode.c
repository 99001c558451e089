/*
 * Unpacks the Unicode tables and looks up characters in them.  The program that
 * generates the tables describes their format.
 */
#include "auth/unicode.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

#define SASLPREP_TABLE(name, text) static const char name[] = text;
#include "auth/saslprep_tables.def"
#undef SASLPREP_TABLE

enum { PARTS_MAX = 20 };

struct range {
	uint32_t first, last;
	uint8_t value;
};

struct set {
	struct range *ranges; /* owned */
	size_t count;
};

struct mapping {
	uint32_t code;
	uint32_t at; /* index of its parts */
	uint8_t count;
};

struct pair {
	uint32_t first, second, code;
};

struct unicode {
	struct mapping *mappings;
	uint32_t *parts;
	struct pair *pairs;
	size_t mapping_count, pair_count;
	struct set sets[UNICODE_SET_COUNT];
};

static uint32_t digit_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (uint32_t)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (uint32_t)(c - 'a' + 26);
	if (c >= '0' && c <= '9')
		return (uint32_t)(c - '0' + 52);
	return c == '+' ? 62 : 63;
}

static uint32_t read_number(const char **at)
{
	uint32_t value = 0, digit;
	unsigned shift = 0;

	do {
		digit = digit_value(*(*at)++);
		value |= (digit & 31) << shift;
		shift += 5;
	} while (digit & 32);
	return value;
}

static void unpack_set(struct set *set, const char *at)
{
	uint32_t code = 0;

	set->count = read_number(&at);
	set->ranges = mem_alloc(set->count * sizeof(*set->ranges));
	for (size_t i = 0; i < set->count; i++) {
		struct range *r = &set->ranges[i];
		r->first = code + read_number(&at);
		r->last = r->first + read_number(&at);
		r->value = (uint8_t)read_number(&at);
		code = r->last + 1;
	}
	assert(*at == '\0');
}

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->second < y->second ? -1 : x->second > y->second;
}

static void unpack_mappings(struct unicode *u, const char *at)
{
	uint32_t before[PARTS_MAX] = {0};
	uint32_t code = 0, done = 0, part_count;

	u->mapping_count = read_number(&at);
	part_count = read_number(&at);
	u->mappings = mem_alloc(u->mapping_count * sizeof(*u->mappings));
	u->parts = mem_alloc(part_count * sizeof(*u->parts));
	u->pairs = mem_alloc(u->mapping_count * sizeof(*u->pairs));
	for (size_t i = 0; i < u->mapping_count; i++, code++) {
		struct mapping *m = &u->mappings[i];
		uint32_t count;

		code += read_number(&at);
		count = read_number(&at);
		*m = (struct mapping){code, done, (uint8_t)(count / 2)};
		assert(m->count <= PARTS_MAX && done + m->count <= part_count);
		for (unsigned j = 0; j < m->count; j++) {
			uint32_t base = before[j];
			uint32_t number = read_number(&at);
			before[j] = u->parts[done++] =
			    number & 1 ? base - (number >> 1) : base + (number >> 1);
		}
		if (count & 1)
			u->pairs[u->pair_count++] =
			    (struct pair){u->parts[m->at], u->parts[m->at + 1], code};
	}
	assert(*at == '\0' && done == part_count);
	qsort(u->pairs, u->pair_count, sizeof(*u->pairs), compare_pairs);
}

struct unicode *unicode_new(void)
{
	static const char *const tables[UNICODE_SET_COUNT] = {
	    [UNICODE_SPACE] = space_table,
	    [UNICODE_NOTHING] = nothing_table,
	    [UNICODE_REFUSED] = refused_table,
	    [UNICODE_RIGHT] = right_table,
	    [UNICODE_LEFT] = left_table,
	    [UNICODE_CLASS] = class_table,
	};
	struct unicode *u = mem_zero(sizeof(*u));

	for (size_t i = 0; i < UNICODE_SET_COUNT; i++)
		unpack_set(&u->sets[i], tables[i]);
	unpack_mappings(u, mapping_table);
	return u;
}

void unicode_free(struct unicode **u)
{
	if (!*u)
		return;
	for (size_t i = 0; i < UNICODE_SET_COUNT; i++)
		mem_free((*u)->sets[i].ranges);
	mem_free((*u)->mappings);
	mem_free((*u)->parts);
	mem_free((*u)->pairs);
	mem_free(*u);
	*u = NULL;
}

static int compare_range(const void *key, const void *element)
{
	const uint32_t *code = key;
	const struct range *r = element;

	return *code < r->first ? -1 : *code > r->last;
}

static uint8_t set_value(const struct set *set, uint32_t code)
{
	const struct range *r = bsearch(
	    &code, set->ranges, set->count, sizeof(*set->ranges), compare_range);

	return r ? r->value : 0;
}

bool unicode_is(const struct unicode *u, enum unicode_set set, uint32_t code)
{
	return set_value(&u->sets[set], code) != 0;
}

uint8_t unicode_class(const struct unicode *u, uint32_t code)
{
	return set_value(&u->sets[UNICODE_CLASS], code);
}

static int compare_mapping(const void *key, const void *element)
{
	const uint32_t *code = key;
	const struct mapping *m = element;

	return *code < m->code ? -1 : *code > m->code;
}

const uint32_t *unicode_parts(const struct unicode *u, uint32_t code, size_t *count)
{
	const struct mapping *m = bsearch(&code, u->mappings, u->mapping_count,
	    sizeof(*u->mappings), compare_mapping);

	if (!m)
		return NULL;
	*count = m->count;
	return u->parts + m->at;
}

uint32_t unicode_pair(const struct unicode *u, uint32_t first, uint32_t second)
{
	const struct pair key = {first, second, 0};
	const struct pair *p =
	    bsearch(&key, u->pairs, u->pair_count, sizeof(key), compare_pairs);

	return p ? p->code : 0;
}
