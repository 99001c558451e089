/*
 * SASLprep: map, check, normalize to NFKC (Unicode Standard Annex 15).  Like
 * PostgreSQL, it checks before it normalizes, and a password that cannot be prepared is
 * used as it is.
 */
#include "auth/saslprep.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/unicode.h"
#include "base/mem.h"

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

/* The step "map" of RFC 4013.  -1: the text is not UTF-8, or nothing is left of it. */
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
	const uint32_t *parts;
	size_t count;

	if (code >= HANGUL_FIRST && code < HANGUL_FIRST + HANGUL_COUNT) {
		uint32_t index = code - HANGUL_FIRST;
		code_points_add(
		    out, LEAD_FIRST + index / (VOWEL_COUNT * TAIL_COUNT), 0);
		code_points_add(out, VOWEL_FIRST + index / TAIL_COUNT % VOWEL_COUNT, 0);
		if (index % TAIL_COUNT)
			code_points_add(out, TAIL_FIRST + index % TAIL_COUNT, 0);
		return;
	}
	parts = unicode_parts(u, code, &count);
	if (!parts) {
		code_points_add(out, code, unicode_class(u, code));
		return;
	}
	for (size_t i = 0; i < count; i++)
		decompose(u, parts[i], out);
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
	return unicode_pair(u, first, second);
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

char *saslprep(const char *password)
{
	struct code_points mapped = {0}, normal = {0};
	struct unicode *u;
	char *prepared = NULL;

	if (is_ascii(password)) {
		size_t size = strlen(password) + 1;
		char *copy = mem_try(size);
		if (copy)
			memcpy(copy, password, size);
		return copy;
	}
	u = unicode_new();
	if (read_mapped(u, password, &mapped) < 0 ||
	    has_any(u, UNICODE_REFUSED, &mapped) || is_direction_mixed(u, &mapped))
		goto out;
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
	prepared = write_utf8(&normal);
out:
	code_points_done(&mapped);
	code_points_done(&normal);
	unicode_free(&u);
	return prepared;
}
