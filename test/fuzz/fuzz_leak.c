/* links: base wire */
/*
 * Query texts and CommandComplete tags as clients and servers may send them: nothing is
 * read past the end, and only known bits come out.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/effects.h"
#include "wire/traceparent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_so)
{
	if (!is_so)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const unsigned known = LEAK_MADE | LEAK_HARMLESS_SET | LEAK_UNLISTEN_ALL;
	/* the copy has the exact size, so that sanitizers see a read past its end */
	char *text = malloc(size ? size : 1);
	struct leak_watch watch;
	uint16_t cleared;

	check(text != NULL);
	if (size)
		memcpy(text, data, size);
	struct vars_schema *schema = vars_schema_new("");
	const struct effects_ask ask = {.schema = schema,
	    .has_leaves = true,
	    .has_clock = size & 1,
	    .has_escapes = size & 2,
	    .is_part = size & 4,
	    .has_calls = size & 8};
	struct sql_effects effects = effects_of_text(text, size, &ask);
	struct leak_look look = effects_leaves(&effects, NULL);
	check(!(look.all & ~known) && !(look.first & ~(unsigned)LEAK_KINDS));
	check(!(look.first & ~look.all));
	check(effects.resets.has_reset || effects.resets.session != UINT64_MAX);
	watch = (struct leak_watch){.expected = look.all};
	for (int i = 0; i < 2; i++)
		check(!(
		    leak_of_tag(&watch, text, size, &cleared) & ~(unsigned)LEAK_KINDS));
	leak_may_matter(text, size);
	char trace[TRACEPARENT_TEXT];
	check(traceparent_find(text, size, size & 2, trace) ==
	      (strnlen(trace, sizeof(trace)) == sizeof(trace) - 1));
	vars_schema_free(&schema);
	free(text);
	return 0;
}
