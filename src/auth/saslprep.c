/*
 * SASLprep: map, check, normalize to NFKC (Unicode Standard Annex 15). Like PostgreSQL,
 * it checks before it normalizes, and a password that cannot be prepared is used as it
 * is. The tables are packed (the program that generates them describes their format),
 * and are unpacked only for passwords that are not ASCII, for the preparation of one
 * password.
 */
#include "auth/saslprep.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- characters of UTF-8, and their normal form ---- */

enum unicode_set {
	UNICODE_SPACE,   /* is replaced by a space */
	UNICODE_NOTHING, /* is removed */
	UNICODE_REFUSED, /* is prohibited or unassigned */
	UNICODE_RIGHT,   /* is written from right to left */
	UNICODE_LEFT,    /* is written from left to right */
	UNICODE_CLASS,   /* has a combining class */
	UNICODE_SET_COUNT
};

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

static struct unicode *unicode_new(void)
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

static void unicode_free(struct unicode **u)
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

static bool unicode_is(const struct unicode *u, enum unicode_set set, uint32_t code)
{
	return set_value(&u->sets[set], code) != 0;
}

static int compare_mapping(const void *key, const void *element)
{
	const uint32_t *code = key;
	const struct mapping *m = element;

	return *code < m->code ? -1 : *code > m->code;
}

/* ---- the profile ---- */

/* Hangul syllables are computed instead of looked up (Unicode 3.12). */
enum {
	HANGUL_FIRST = 0xAC00,
	LEAD_FIRST = 0x1100,
	VOWEL_FIRST = 0x1161,
	TAIL_FIRST = 0x11A7, /* one before the first tail; index 0 means "no tail" */
	LEAD_COUNT = 19,
	VOWEL_COUNT = 21,
	TAIL_COUNT = 28,
	HANGUL_COUNT = LEAD_COUNT * VOWEL_COUNT * TAIL_COUNT,
};

struct code_point {
	uint32_t code;
	uint32_t index; /* position, which makes sorting stable */
	uint8_t class;
};

struct code_points {
	struct code_point *list; /* owned */
	size_t count, cap;
	bool failed; /* there was no memory */
};

static void code_points_done(struct code_points *m)
{
	if (m->list)
		mem_wipe(m->list, m->cap * sizeof(*m->list));
	mem_free(m->list);
}

static void code_points_add(struct code_points *m, uint32_t code, uint8_t class)
{
	if (m->failed)
		return;
	if (m->count == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 64;
		struct code_point *list = mem_try(cap * sizeof(*list));
		if (!list) {
			m->failed = true;
			return;
		}
		if (m->count)
			memcpy(list, m->list, m->count * sizeof(*list));
		/* not a resize, which would leave an unwiped copy */
		code_points_done(m);
		m->list = list;
		m->cap = cap;
	}
	m->list[m->count] = (struct code_point){code, (uint32_t)m->count, class};
	m->count++;
}

/* Reads one UTF-8 character; 0 at the end or when it is invalid. */
static uint32_t read_utf8(const char **at)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const uint8_t *p = (const uint8_t *)*at;
	unsigned len = *p < 0x80   ? 1
		       : *p < 0xC2 ? 0
		       : *p < 0xE0 ? 2
		       : *p < 0xF0 ? 3
				   : 4;
	uint32_t code = len == 1 ? *p : *p & (0x7Fu >> len);

	if (len == 0 || *p > 0xF4)
		return 0;
	for (unsigned i = 1; i < len; i++) {
		if ((p[i] & 0xC0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3Fu);
	}
	if (code < least[len] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
		return 0;
	*at += len;
	return code;
}

static char *put_utf8(char *out, uint32_t code)
{
	if (code < 0x80) {
		*out++ = (char)code;
		return out;
	}
	if (code < 0x800) {
		*out++ = (char)(0xC0 | code >> 6);
	} else {
		if (code < 0x10000) {
			*out++ = (char)(0xE0 | code >> 12);
		} else {
			*out++ = (char)(0xF0 | code >> 18);
			*out++ = (char)(0x80 | (code >> 12 & 0x3F));
		}
		*out++ = (char)(0x80 | (code >> 6 & 0x3F));
	}
	*out++ = (char)(0x80 | (code & 0x3F));
	return out;
}

/* The step "map" of RFC 4013.  -1: the text is not UTF-8, or nothing is left of it, or
 * there is no memory. */
static int read_mapped(const struct unicode *u, const char *at, struct code_points *out)
{
	while (*at) {
		uint32_t code = read_utf8(&at);
		if (code == 0)
			return -1;
		if (unicode_is(u, UNICODE_SPACE, code))
			code_points_add(out, ' ', 0);
		else if (!unicode_is(u, UNICODE_NOTHING, code))
			code_points_add(out, code, 0);
	}
	return out->failed || out->count == 0 ? -1 : 0;
}

static bool has_any(
    const struct unicode *u, enum unicode_set set, const struct code_points *m)
{
	for (size_t i = 0; i < m->count; i++)
		if (unicode_is(u, set, m->list[i].code))
			return true;
	return false;
}

/* RFC 3454 section 6: a text with right-to-left characters has no left-to-right ones,
 * and begins and ends with a right-to-left one. */
static bool is_direction_mixed(const struct unicode *u, const struct code_points *m)
{
	if (!has_any(u, UNICODE_RIGHT, m))
		return false;
	return has_any(u, UNICODE_LEFT, m) ||
	       !unicode_is(u, UNICODE_RIGHT, m->list[0].code) ||
	       !unicode_is(u, UNICODE_RIGHT, m->list[m->count - 1].code);
}

/* Recursive; the tables nest less than five levels deep. */
static void decompose(const struct unicode *u, uint32_t code, struct code_points *out)
{
	const struct mapping *m;

	if (code >= HANGUL_FIRST && code < HANGUL_FIRST + HANGUL_COUNT) {
		uint32_t index = code - HANGUL_FIRST;
		code_points_add(
		    out, LEAD_FIRST + index / (VOWEL_COUNT * TAIL_COUNT), 0);
		code_points_add(out, VOWEL_FIRST + index / TAIL_COUNT % VOWEL_COUNT, 0);
		if (index % TAIL_COUNT)
			code_points_add(out, TAIL_FIRST + index % TAIL_COUNT, 0);
		return;
	}
	m = bsearch(&code, u->mappings, u->mapping_count, sizeof(*u->mappings),
	    compare_mapping);
	if (!m) {
		/* 0 for characters that do not combine */
		code_points_add(out, code, set_value(&u->sets[UNICODE_CLASS], code));
		return;
	}
	for (size_t i = 0; i < m->count; i++)
		decompose(u, u->parts[m->at + i], out);
}

static int compare_marks(const void *a, const void *b)
{
	const struct code_point *x = a, *y = b;

	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static uint32_t compose_pair(const struct unicode *u, uint32_t first, uint32_t second)
{
	uint32_t syllable = first - HANGUL_FIRST, tail = second - TAIL_FIRST;
	uint32_t lead = first - LEAD_FIRST, vowel = second - VOWEL_FIRST;

	if (lead < LEAD_COUNT && vowel < VOWEL_COUNT)
		return HANGUL_FIRST + (lead * VOWEL_COUNT + vowel) * TAIL_COUNT;
	if (syllable < HANGUL_COUNT && syllable % TAIL_COUNT == 0 && tail > 0 &&
	    tail < TAIL_COUNT)
		return first + tail;
	/* returns the character that two characters compose to, or 0.  Hangul is not in
	 * the table. */
	const struct pair key = {first, second, 0};
	const struct pair *p =
	    bsearch(&key, u->pairs, u->pair_count, sizeof(key), compare_pairs);

	return p ? p->code : 0;
}

/* Composes in place: a mark is joined with the last starter (a character that does not
 * combine) unless a mark of the same or a higher class stands between them. */
static void compose(const struct unicode *u, struct code_points *m)
{
	struct code_point *starter = NULL;
	int between = -1; /* class of the last mark kept behind the starter */
	size_t kept = 0;

	for (size_t i = 0; i < m->count; i++) {
		struct code_point mark = m->list[i];
		uint32_t joined =
		    starter && between < (int)mark.class ? compose_pair(u,
							       starter->code, mark.code)
							 : 0;
		if (joined) {
			starter->code = joined;
			continue;
		}
		m->list[kept] = mark;
		between = mark.class;
		if (mark.class == 0) {
			starter = &m->list[kept];
			between = -1;
		}
		kept++;
	}
	m->count = kept;
}

static char *write_utf8(const struct code_points *m)
{
	char *text = mem_try(m->count * 4 + 1), *at = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < m->count; i++)
		at = put_utf8(at, m->list[i].code);
	*at = '\0';
	return text;
}

static bool is_ascii(const char *text)
{
	for (; *text; text++)
		if ((uint8_t)*text >= 0x80)
			return false;
	return true;
}

int saslprep(const char *password, char **prepared)
{
	struct code_points mapped = {0}, normal = {0};
	bool is_without_memory = true;
	struct unicode *u;

	*prepared = NULL;
	if (is_ascii(password)) {
		size_t size = strlen(password) + 1;
		*prepared = mem_try(size);
		if (*prepared)
			memcpy(*prepared, password, size);
		return *prepared ? 0 : -1;
	}
	u = unicode_new();
	if (read_mapped(u, password, &mapped) < 0 ||
	    has_any(u, UNICODE_REFUSED, &mapped) || is_direction_mixed(u, &mapped)) {
		is_without_memory = mapped.failed;
		goto out;
	}
	for (size_t i = 0; i < mapped.count; i++)
		decompose(u, mapped.list[i].code, &normal);
	if (normal.failed)
		goto out;
	/* sorts each sequence of combining marks by class */
	for (size_t i = 0; i < normal.count; i++) {
		size_t start = i;
		while (i < normal.count && normal.list[i].class != 0)
			i++;
		if (i - start > 1)
			qsort(normal.list + start, i - start, sizeof(*normal.list),
			    compare_marks);
	}
	compose(u, &normal);
	*prepared = write_utf8(&normal);
	is_without_memory = !*prepared;
out:
	code_points_done(&mapped);
	code_points_done(&normal);
	unicode_free(&u);
	return is_without_memory ? -1 : 0;
}
