/* Tables of the documents: each has the forms that documents need, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "docs/docs.h"

/* With wanted NULL the table has no such form. */
static void prints(
    int (*table)(FILE *, const char *), const char *as, const char *wanted)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_int_equal(table(out, as), wanted ? 0 : -1);
	fclose(out);
	if (wanted)
		assert_non_null(strstr(text, wanted));
	else
		assert_string_equal(text, "");
	free(text);
}

static void configuration(void **state)
{
	(void)state;
	prints(docs_settings, "md", "#### auth_file\n");
	prints(docs_settings, "man", "auth_file");
	prints(docs_settings, "ini", "\nlisten_port = 6432\n");
	prints(docs_settings, "txt", NULL);
	prints(docs_databases, "md", "* `param.NAME`");
	prints(docs_databases, "md", "* `weight`: ");
	prints(docs_databases, "man", "param.NAME");
	prints(docs_databases, "ini", NULL);
	prints(docs_users, "md", "* `pool_mode`");
	prints(docs_peers, "md", "* `pool_size`");
}

static void console(void **state)
{
	(void)state;
	prints(docs_commands, "md",
	    "`SHUTDOWN WAIT_FOR_SERVERS\\|WAIT_FOR_CLIENTS` | admin |");
	prints(docs_commands, "man", ".TP\n.B KILL [<db>]\n");
	prints(docs_commands, "ini", NULL);
	prints(docs_views, "md", "\n### SHOW TOTALS\n");
	prints(docs_views, "ini", NULL);
}

static void command_line(void **state)
{
	(void)state;
	prints(docs_options, "md", "| `-d`, `--daemon` | Run in background.");
	prints(
	    docs_options, "man", ".TP\n\\fB\\-u\\fR \\fIUSER\\fR, \\fB\\-\\-user\\fR");
	prints(docs_options, "ini", NULL);
}

static void what_is_only_in_references(void **state)
{
	(void)state;
	prints(docs_errors, "md", "| `no username supplied` | FATAL 28000 |");
	prints(docs_errors, "man", NULL);
	prints(docs_states, "md", "| `idle` |");
	prints(docs_states, "man", NULL);
	prints(docs_metrics, "md", "| histogram |");
	prints(docs_metrics, "man", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(configuration),
	    cmocka_unit_test(console),
	    cmocka_unit_test(command_line),
	    cmocka_unit_test(what_is_only_in_references),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
