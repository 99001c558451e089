/* links: wire base */
/*
 * How much work a hostile text makes, counted in bytes that the scanner looks at.  An
 * input is the beginning of a statement, a line break, and what is repeated behind it
 * up to the size of a large message, which arrives in blocks.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static size_t looked_at;

/* The scanner reports how many bytes it looks at. */
#define SQL_SCAN_LOOKED_AT(count) (looked_at += (size_t)(count))
#include "../../src/wire/sql_hint.c"
#include "../../src/wire/sql_scan.c"
#include "wire/effects.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	TEXT = 300 * 1024,
	BLOCK = 16 * 1024,
	/* The scanner may look at a byte this often: for a hint to each of two
	 * questions, as a class and as a part of a token, in the body of a DO and in a
	 * string of that; each token has a fixed cost whatever its length. */
	MOST = 16,
	FIXED = 1024,
};

static void check(bool is_so)
{
	if (!is_so)
		abort();
}

/* Returns a text of TEXT bytes in a block of its own. */
static char *build(const uint8_t *data, size_t size)
{
	const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
	size_t first = line ? (size_t)(line - data) + 1 : 0, at = first;
	char *text = malloc(TEXT);

	check(text != NULL);
	memset(text, ' ', TEXT);
	if (first)
		memcpy(text, data, first);
	while (size > first && at + (size - first) <= TEXT) {
		memcpy(text + at, data + first, size - first);
		at += size - first;
	}
	return text;
}

static size_t looked_at_by(const char *text, size_t len, const struct effects_ask *ask)
{
	looked_at = 0;
	effects_of_text(text, len, ask);
	return looked_at;
}

/* Scans a text that is complete, and one that is the beginning of a longer text. */
static void look(const char *text, size_t len, struct vars_schema *schema)
{
	for (unsigned how = 0; how < 16; how++) {
		const struct effects_ask ask = {.schema = schema,
		    .has_escapes = how & 1,
		    .has_leaves = how & 2,
		    .has_clock = how & 4,
		    .is_part = how & 8};
		size_t most = len < EFFECTS_COMMAND_MAX ? len : EFFECTS_COMMAND_MAX;
		check(looked_at_by(text, len, &ask) <= MOST * most + FIXED);
	}
}

/* Scans a text as it arrives: the caller looks again when twice as much is here. */
static void arrive(const char *text, size_t len)
{
	looked_at = 0;
	for (size_t have = BLOCK; have < len; have *= 2)
		effects_may_be_command(text, have);
	check(looked_at <= 2 * MOST * len + FIXED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vars_schema *schema = vars_schema_new("");
	char *text = build(data, size > TEXT ? TEXT : size);

	look(text, TEXT, schema);
	look(text, BLOCK, schema);
	look(text, size < TEXT ? size : TEXT, schema);
	arrive(text, TEXT);
	free(text);
	vars_schema_free(&schema);
	return 0;
}
