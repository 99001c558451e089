/* Ident files: every field, error text and extension; who may log in as whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/ident.h"
#include "hba_asking.h"

static struct ident *parse_ident(const char *text)
{
	return ident_parse("ident", text, strlen(text), no_note, NULL, NULL);
}

/* Does map "m" of this file allow the login? */
static bool is_mapped(const char *text, const char *system_user, const char *db_user)
{
	struct ident *ident = parse_ident(text);

	assert_true(ident_has_map(ident, "m"));
	bool is_in = ident_may(ident, "m", system_user, db_user);
	ident_free(&ident);
	assert_null(ident);
	return is_in;
}

static void expect_ident_refused(const char *line, const char *why)
{
	char notes[1024];
	struct notes n = {.has_place = true};

	snprintf(notes, sizeof(notes),
	    "ident:1|ident line 1: %s\nident:1|could not parse ident config line 1\n",
	    why);
	buf_init(&n.text, 0);
	struct ident *ident =
	    ident_parse("ident", line, strlen(line), take_note, &n, NULL);
	assert_string_equal(buf_text(&n.text), notes);
	assert_null(ident);
	buf_done(&n.text);
}

static void test_maps(void **state)
{
	static const struct {
		const char *text, *system_user, *db_user;
		bool is_in;
	} cases[] = {
	    {"m joe ann", "joe", "ann", true},
	    {"m joe ann", "joe", "joe", false},
	    {"m joe ann", "ann", "ann", false},
	    {"m joe ann # c", "joe", "ann", true},
	    {"m joe ann#c", "joe", "ann", true},
	    {"m \"j e\" \"a\"\"n\"", "j e", "a\"n", true},
	    {"m joe all", "joe", "anybody", true},
	    {"m joe all", "jo", "anybody", false},
	    {"m joe all x", "joe", "anybody", true},
	    {"m joe all \"x\"", "joe", "anybody", true},
	    {"m joe \"all\"", "joe", "anybody", false},
	    {"m joe \"all\"", "joe", "all", true},
	    {"m all ann", "joe", "ann", false},
	    {"m all ann", "all", "ann", true},
	    {"m joe ann\nm joe eve\nm tom ann", "joe", "eve", true},
	    {"m joe ann\nm joe eve\nm tom ann", "tom", "ann", true},
	    {"m joe ann\nm joe eve\nm tom ann", "tom", "eve", false},
	    {"m joe ann\nn tom eve", "tom", "eve", false},
	    {"m joe \\\n ann\n", "joe", "ann", true},
	    {"m \"\" all", "", "ann", true},
	    {"m joe \"+ann\"", "joe", "+ann", true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (is_mapped(cases[i].text, cases[i].system_user, cases[i].db_user) !=
		    cases[i].is_in)
			fail_msg("%s: %s %s", cases[i].text, cases[i].system_user,
			    cases[i].db_user);
	}
}

static void test_regular_expressions(void **state)
{
	static const struct {
		const char *text, *system_user, *db_user;
		bool is_in;
	} cases[] = {
	    {"m /^(.*)@a\\.com$ \\1", "joe@a.com", "joe", true},
	    {"m /^(.*)@a\\.com$ \\1", "joe@a.com", "jo", false},
	    {"m /^(.*)@a\\.com$ \\1", "joe@a.com", "joee", false},
	    {"m /^(.*)@a\\.com$ \\1", "joe@abcom", "joe", false},
	    {"m /^(.*)@a\\.com$ \\1", "@a.com", "", true},
	    {"m /^(.*)@a$ x\\1y", "joe@a", "xjoey", true},
	    {"m /^(.*)@a$ x\\1y", "joe@a", "joe", false},
	    {"m /^(.*)@a$ x\\1y", "joe@a", "x", false},
	    {"m /^(.*)@a$ x\\1y", "joe@a", "xjoe", false},
	    {"m /^(.*)@a$ \"\\1 x\"", "joe@a", "joe x", true},
	    {"m /^(.*)@a$ \\1\\1", "joe@a", "joe\\1", true},
	    /* The text that an expression has matched is a name, even if it looks like
	     * a keyword. */
	    {"m /^(.*)@a$ \\1", "all@a", "joe", false},
	    {"m /^(.*)@a$ \\1", "/.@a", "joe", false},
	    {"m /^(.*)@a$ \\1", "/.@a", "/.", true},
	    {"m /^(x)?(.*)@a$ y\\1", "xjoe@a", "yx", true},
	    {"m /^(x)?(.*)@a$ y\\1", "joe@a", "y", false},
	    {"m /joe ann", "xjoex", "ann", true},
	    {"m /joe ann", "xjoex", "eve", false},
	    {"m /^joe all", "joex", "eve", true},
	    {"m joe /^a", "joe", "ann", true},
	    {"m joe /^a", "joe", "eve", false},
	    {"m joe /all", "joe", "xallx", true},
	    {"m joe /all", "joe", "x", false},
	    {"m /^(j) /^a", "joe", "ann", true},
	    {"m /^(j) /^a", "joe", "jnn", false},
	    {"m \"/joe\" ann", "xjoex", "ann", false},
	    {"m \"/joe\" ann", "/joe", "ann", true},
	    {"m joe \"/a\"", "joe", "ann", false},
	    {"m /\"^j oe{1,2}$\" ann", "j oee", "ann", true},
	    /* Without an expression, \1 is an ordinary name. */
	    {"m joe \\1", "joe", "\\1", true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (is_mapped(cases[i].text, cases[i].system_user, cases[i].db_user) !=
		    cases[i].is_in)
			fail_msg("%s: %s %s", cases[i].text, cases[i].system_user,
			    cases[i].db_user);
	}
}

static void test_bad_lines(void **state)
{
	static const struct {
		const char *line, *why;
	} cases[] = {
	    {"m a b c", "unsupported parameters"},
	    {"m a b,", "unsupported parameters"},
	    {"m a \"b\" c", "unsupported parameters"},
	    {"m a all b c", "unsupported parameters"},
	    {"m a \"all\" b", "unsupported parameters"},
	    {"m a", "database user is missing"},
	    {"m a # b", "database user is missing"},
	    {"m", "system user is missing"},
	    {"m a,b c", "database user is missing"},
	    {"m , b", "system user is missing"},
	    {"\"m\" a b", "map name is missing or quoted"},
	    {", a b", "map name is missing or quoted"},
	    {"m \"a b", "a quote is not closed"},
	    {"m a \"b", "a quote is not closed"},
	    {"m a all \"b", "unsupported parameters"},
	    {"m a all,", "unsupported parameters"},
	    {"m a b\"c", "a quote is not closed"},
	    {"m /(a b", "invalid regular expression \"(a\": Unmatched ( or \\("},
	    {"m a /[b", "invalid regular expression \"[b\": a bracket is not closed"},
	    {"m a /", "invalid regular expression \"\": it is empty and would find "
		      "every name"},
	    {"m /^a$ x\\1",
		"regular expression \"^a$\" has no subexpressions as requested by "
		"backreference in \"x\\1\""},
	    {"m a +grp",
		"group +grp: membership is not known here; write a line for each "
		"user, or a /regular expression"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		expect_ident_refused(cases[i].line, cases[i].why);
}

/* One line that cannot be read refuses the file, and every such line is reported. */
static void test_bad_among_good(void **state)
{
	static const char text[] = "m joe\n\n# c\nm joe ann\nm a b c\nm tom eve";
	struct notes n = {0};
	struct err err;

	(void)state;
	buf_init(&n.text, 0);
	assert_null(ident_parse("ident", text, strlen(text), take_note, &n, &err));
	assert_string_equal(err.text,
	    "ident config file ident is refused: 2 of its lines cannot be read");
	assert_string_equal(buf_text(&n.text),
	    "ident line 1: database user is missing\n"
	    "could not parse ident config line 1\n"
	    "ident line 5: unsupported parameters\n"
	    "could not parse ident config line 5\n");
	buf_done(&n.text);
}

static void test_without_map(void **state)
{
	struct ident *ident = parse_ident("m joe ann");

	(void)state;
	assert_true(ident_may(ident, NULL, "joe", "joe"));
	assert_false(ident_may(ident, NULL, "joe", "ann"));
	assert_true(ident_may(NULL, NULL, "joe", "joe"));
	assert_false(ident_may(NULL, "m", "joe", "joe"));
	assert_false(ident_may(ident, "none", "joe", "joe"));
	assert_false(ident_has_map(ident, "none"));
	ident_free(&ident);
}

/* ---- several names ---- */

static const char *const some_names[] = {"*.example", "mail.test", NULL};

/* The comparison is not strcmp. */
static bool is_some_name(void *ctx, const char *name)
{
	++*(int *)ctx;
	return strstr(name, ".example") || strcmp(name, "mail.test") == 0;
}

static const char *some_name_at(void *ctx, size_t i)
{
	++*(int *)ctx;
	return some_names[i];
}

static bool is_ann(void *ctx, const char *name)
{
	return strcasecmp(ctx, name) == 0;
}

static const char *ann_at(void *ctx, size_t i)
{
	return i == 0 ? ctx : NULL;
}

/* Plain names in any case, as krb_caseins_users wants it; expressions as they stand. */
static void test_without_case(void **state)
{
	static const char text[] =
	    "m ANN@Example.com Ann\nr /^(.*)@EXAMPLE.COM$ X-\\1\ne joe /^ann$\n";
	struct ident *ident = ident_parse("f", text, strlen(text), no_note, NULL, NULL);
	char principal[] = "ann@EXAMPLE.COM", joe[] = "Joe";
	struct ident_names names = {is_ann, ann_at, principal, true};

	(void)state;
	assert_non_null(ident);
	assert_true(ident_may_any(ident, "m", &names, "ANN"));
	assert_true(ident_may_any(ident, "m", &names, "ann"));
	assert_false(ident_may_any(ident, "m", &names, "anne"));
	assert_true(ident_may_any(ident, "r", &names, "x-Ann"));
	assert_false(ident_may_any(ident, "r", &names, "x-Anne"));
	assert_false(ident_may_any(ident, "r", &names, "x-An"));
	assert_true(ident_may_any(ident, NULL, &names, "ANN@example.COM"));
	names.ctx = joe;
	assert_true(ident_may_any(ident, "e", &names, "ann"));
	assert_false(ident_may_any(ident, "e", &names, "ANN"));
	names.is_caseless = false;
	names.ctx = principal;
	assert_false(ident_may_any(ident, "m", &names, "ANN"));
	assert_false(ident_may_any(ident, "r", &names, "x-ann"));
	assert_true(ident_may_any(ident, "r", &names, "X-ann"));
	ident_free(&ident);
}

static void test_several_names(void **state)
{
	int count = 0;
	struct ident_names names = {is_some_name, some_name_at, &count, false};
	struct ident *ident = parse_ident("m www.example ann\n"
					  "m mail.test eve\n"
					  "m other.test tom\n"
					  "m /^(mail)\\.test$ x\\1\n"
					  "m /^\\*\\.ex star\n");

	(void)state;
	assert_true(ident_may_any(ident, "m", &names, "ann"));
	assert_true(ident_may_any(ident, "m", &names, "eve"));
	assert_true(ident_may_any(ident, "m", &names, "xmail"));
	assert_true(ident_may_any(ident, "m", &names, "star"));
	assert_false(ident_may_any(ident, "m", &names, "tom"));
	assert_true(count > 0);
	assert_true(ident_may_any(ident, NULL, &names, "mail.test"));
	assert_false(ident_may_any(ident, NULL, &names, "other.test"));
	ident_free(&ident);
}

/* ---- files ---- */

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_files(void **state)
{
	char dir[] = "/tmp/auth-ident-XXXXXX", main_path[64], other_path[64], text[256];
	struct err err;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(main_path, sizeof(main_path), "%s/ident", dir);
	snprintf(other_path, sizeof(other_path), "%s/other", dir);
	snprintf(text, sizeof(text),
	    "could not open ident config file %s: No such file or directory",
	    main_path);
	assert_null(ident_load(main_path, no_note, NULL, &err));
	assert_string_equal(err.text, text);
	/* Two fields are an include; three are a line of a map. */
	write_file(main_path, "m joe ann\ninclude other\ninclude tom eve\n");
	write_file(other_path, "m joe eve\n");
	struct ident *ident = ident_load(main_path, no_note, NULL, &err);
	assert_true(ident_may(ident, "m", "joe", "ann"));
	assert_true(ident_may(ident, "m", "joe", "eve"));
	assert_true(ident_may(ident, "include", "tom", "eve"));
	ident_free(&ident);
	unlink(main_path);
	unlink(other_path);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_maps),
	    cmocka_unit_test(test_regular_expressions),
	    cmocka_unit_test(test_bad_lines),
	    cmocka_unit_test(test_bad_among_good),
	    cmocka_unit_test(test_without_map),
	    cmocka_unit_test(test_without_case),
	    cmocka_unit_test(test_several_names),
	    cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests_name("ident", tests, NULL, NULL);
}
