/*
 * Markdown tables printed as a manual page.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tools/troff.h"

static void becomes(const char *markdown, const char *wanted)
{
	char text[512], *page = NULL;
	size_t len;
	FILE *out = open_memstream(&page, &len);

	snprintf(text, sizeof(text), "%s", markdown);
	troff_from_markdown(out, text);
	fclose(out);
	assert_string_equal(page, wanted);
	free(page);
}

static void headings_and_text(void **state)
{
	(void)state;
	becomes("# One\n\nsome `--code`\n.dot\n### Deep\n",
	    ".SH One\n.PP\nsome \\-\\-code\n\\&.dot\n.SS Deep\n");
	becomes("", "");
}

static void tables(void **state)
{
	(void)state;
	becomes("| name | a | b |\n|---|---|---|\n| `x` | 1 | |\n| y\\|z | 2 | 3 |\n",
	    ".TP\n\\fBx\\fR\na: 1\n.br\n.TP\n\\fBy|z\\fR\na: 2\n.br\nb: 3\n.br\n");
	/* rows with more and with fewer cells than columns, and one without cells */
	becomes("| n | a |\n|--|\n| x | 1 | 2 |\n| y |\n|\n",
	    ".TP\n\\fBx\\fR\na: 1\n.br\n.TP\n\\fBy\\fR\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(headings_and_text),
	    cmocka_unit_test(tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
