/*
 * Compares sixteen positions of a text at once, with the compiler's vector types.
 */
#include "wire/sql_hint.h"

#include <string.h>

/* A unit test defines this to count the bytes that are looked at. */
#ifndef SQL_SCAN_LOOKED_AT
#	define SQL_SCAN_LOOKED_AT(count) ((void)0)
#endif

enum { WIDTH = SQL_HINT_WIDTH, READ = WIDTH + 2 };

typedef uint8_t bytes __attribute__((vector_size(WIDTH)));
typedef int8_t flags __attribute__((vector_size(WIDTH)));

static bytes load(const void *at)
{
	bytes v;

	memcpy(&v, at, WIDTH);
	return v;
}

/* Requires READ bytes at `at`. */
static bool is_here(const char *at, const struct sql_hint *hints, size_t count)
{
	bytes first = load(at) | 0x20, second = load(at + 1) | 0x20,
	      third = load(at + 2) | 0x20;
	union {
		flags flags;
		uint64_t halves[2];
	} found = {.halves = {0}};

	SQL_SCAN_LOOKED_AT(WIDTH);
	for (size_t i = 0; i < count; i++)
		found.flags |= (first == load(hints[i].letters[0])) &
			       (second == load(hints[i].letters[1])) &
			       (third == load(hints[i].letters[2]));
	return (found.halves[0] | found.halves[1]) != 0;
}

bool sql_hint_is_there(
    const char *text, size_t len, const struct sql_hint *hints, size_t count)
{
	char last[READ] = {0};
	size_t at = 0;

	for (; len - at >= READ; at += WIDTH)
		if (is_here(text + at, hints, count))
			return true;
	memcpy(last, text + at, len - at);
	return is_here(last, hints, count);
}
