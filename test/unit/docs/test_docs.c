/* Tables of the documents: each has the forms that documents need, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/config.h"
#include "conf/setting_row.h"
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
	prints(docs_databases, "md", "\n* `dbname`: ");
	prints(docs_databases, "man", ".TP\n\\fBpool_size\\fR\n");
	prints(docs_databases, "ini", NULL);
	prints(docs_users, "md", "\n* `pool_mode`: Overrides the setting pool");
	prints(docs_users, "man", ".TP\n\\fBpool_mode\\fR\n");
	prints(docs_peers, "md", "\n* `host`: Where the peer listens");
	prints(docs_peers, "man", ".TP\n\\fBport\\fR\n");
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

static void describes_every_row(void **state)
{
	static const char *const formats[] = {"md", "man", "ini"};
	static const char *const before[] = {"\n#### ", "\n\\fB", "\n;"};
	static const char *const after[] = {"\n", "\\fR\n", " ="};
	const struct setting *row;
	char *text, word[100];
	size_t len;

	(void)state;
	for (int i = 0; i < 3; i++) {
		FILE *out = open_memstream(&text, &len);

		assert_int_equal(docs_settings(out, formats[i]), 0);
		fclose(out);
		for (size_t j = 0; (row = setting_at(j)); j++) {
			snprintf(word, sizeof(word), "%s%s%s", before[i],
			    setting_name(row), after[i]);
			assert_non_null(strstr(text, word));
		}
		free(text);
	}
	assert_int_equal(docs_settings(stdout, "html"), -1);
}

static void no_warning(void *ctx, const char *where, const char *text)
{
	(void)ctx;
	fail_msg("%s: %s", where, text);
}

static struct config *load(const char *text)
{
	char path[] = "/tmp/test-docs-XXXXXX";
	int fd = mkstemp(path);
	struct config *c;
	struct err err;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	c = config_load(path, NULL, NULL, no_warning, NULL, &err);
	unlink(path);
	assert_non_null(c);
	return c;
}

/* The sample file loads, also with every commented default switched on, and then gives
 * the defaults. */
static void sample_of_settings_is_valid(void **state)
{
	const struct setting *row;
	struct settings defaults;
	struct config *c;
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	docs_settings(out, "ini");
	fclose(out);
	c = load(text);
	assert_int_equal(c->settings.global.pool_mode, POOL_MODE_TRANSACTION);
	config_unref(&c);

	for (char *p = text; (p = strstr(p, "\n;")); p++)
		p[1] = ' ';
	/* the active lines would come later, so they are taken out */
	for (char *p = text; (p = strstr(p, "\n")); p++)
		if (p[1] >= 'a' && p[1] <= 'z')
			p[1] = '#';
	c = load(text);
	settings_defaults(&defaults);
	for (size_t i = 0; (row = setting_at(i)); i++)
		if (setting_default(row))
			assert_true(setting_is_equal(row, &c->settings, &defaults));
	config_unref(&c);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(configuration),
	    cmocka_unit_test(describes_every_row),
	    cmocka_unit_test(sample_of_settings_is_valid),
	    cmocka_unit_test(console),
	    cmocka_unit_test(command_line),
	    cmocka_unit_test(what_is_only_in_references),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
