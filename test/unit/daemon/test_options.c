/* The command line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/options.h"

enum { WORDS_MAX = 8 };

/* The text that was written to stderr meanwhile. */
static char said[1024];

/* Parses the command line "pgbouncer WORDS", cut at spaces. */
static int parse(struct options *o, char *words)
{
	char program[] = "pgbouncer", *argv[WORDS_MAX] = {program}, *word;
	int argc = 1, kept = dup(STDERR_FILENO), pipes[2], rc;

	while ((word = strsep(&words, " ")) && argc < WORDS_MAX - 1)
		if (*word)
			argv[argc++] = word;
	assert_int_equal(pipe(pipes), 0);
	dup2(pipes[1], STDERR_FILENO);
	rc = options_parse(o, argc, argv);
	dup2(kept, STDERR_FILENO);
	close(kept);
	close(pipes[1]);
	ssize_t len = read(pipes[0], said, sizeof(said) - 1);
	said[len > 0 ? len : 0] = '\0';
	close(pipes[0]);
	return rc;
}

#define PARSE(o, literal)        \
	char words_[] = literal; \
	struct options o;        \
	int rc = parse(&o, words_)

static void all_of_them(void **state)
{
	(void)state;
	PARSE(o, "-dqv -v -u me file.ini -R");

	assert_int_equal(rc, 0);
	assert_int_equal(o.action, OPTIONS_RUN);
	assert_true(o.is_daemon && o.is_quiet && o.is_reboot);
	assert_int_equal(o.verbose, 2);
	assert_string_equal(o.user, "me");
	assert_string_equal(o.file, "file.ini");
	assert_string_equal(said, "");
}

static void abbreviations(void **state)
{
	(void)state;
	PARSE(o, "--user=me --verb --che file.ini");

	assert_int_equal(rc, 0);
	assert_int_equal(o.action, OPTIONS_CHECK);
	assert_int_equal(o.verbose, 1);
	assert_string_equal(o.user, "me");
}

static void old_abbreviation_of_daemon(void **state)
{
	(void)state;
	PARSE(o, "--d file.ini");

	assert_int_equal(rc, 0);
	assert_true(o.is_daemon);
}

static void help_and_version_need_no_file(void **state)
{
	(void)state;
	{
		PARSE(o, "-V");
		assert_int_equal(rc, 0);
		assert_int_equal(o.action, OPTIONS_VERSION);
	}
	{
		PARSE(o, "-h --nonsense");
		assert_int_equal(rc, 0);
		assert_int_equal(o.action, OPTIONS_HELP);
	}
	{
		PARSE(o, "--make-userlist host=a -o list");
		assert_int_equal(rc, 0);
		assert_int_equal(o.action, OPTIONS_MAKE_USERLIST);
		assert_string_equal(o.conninfo, "host=a");
		assert_string_equal(o.output, "list");
	}
	{
		PARSE(o, "--reload host=a");
		assert_int_equal(rc, 0);
		assert_int_equal(o.action, OPTIONS_RELOAD);
		assert_string_equal(o.conninfo, "host=a");
	}
}

static void misuse(void **state)
{
	char no_file[] = "-v", two[] = "a b", unknown[] = "-z a", bare[] = "a -u",
	     vague[] = "--ver a", list[] = "--make-userlist a b", output[] = "-o a b";
	char *const wrong[] = {no_file, two, unknown, bare, vague, list, output};
	struct options o;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(parse(&o, wrong[i]), -1);
		assert_non_null(
		    strstr(said, "\nTry \"pgbouncer --help\" for more information.\n"));
	}
	char none[] = "";
	assert_int_equal(parse(&o, none), -1);
	assert_string_equal(said, "pgbouncer: no configuration file specified\n"
				  "Try \"pgbouncer --help\" for more information.\n");
}

static void help_has_every_option(void **state)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	options_help(out, "pgbouncer");
	fclose(out);
	assert_non_null(strstr(text, "  -u, --user=USER  "));
	assert_non_null(strstr(text, "  -t, --check-config  "));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_of_them),
	    cmocka_unit_test(abbreviations),
	    cmocka_unit_test(old_abbreviation_of_daemon),
	    cmocka_unit_test(help_and_version_need_no_file),
	    cmocka_unit_test(misuse),
	    cmocka_unit_test(help_has_every_option),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
