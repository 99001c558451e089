/*
 * Command lines: which texts fit a form, which do not, and which are too long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "admin/command.h"

struct line {
	const char *text;
	enum command_form form;
	const char *word, *argument, *value;
};

static const struct line lines[] = {
    {"SHOW POOLS", COMMAND_WORDS, "SHOW", "POOLS", ""},
    {"show pools;", COMMAND_WORDS, "show", "pools", ""},
    {" \t\r\n reload \n ; \n", COMMAND_WORDS, "reload", "", ""},
    {"pause \"my db\"", COMMAND_WORDS, "pause", "my db", ""},
    {"pause \"a\"\"b\" ;", COMMAND_WORDS, "pause", "a\"b", ""},
    {"\"pause\" x_9", COMMAND_WORDS, "pause", "x_9", ""},
    {"pause \"\"", COMMAND_INVALID, "", "", ""},
    {"set a", COMMAND_WORDS, "set", "a", ""},
    {"set a=b", COMMAND_SET, "set", "a", "b"},
    {"SET a = 'b c''d' ;", COMMAND_SET, "SET", "a", "b c'd"},
    {"set \"a\" to \"x.y\"", COMMAND_SET, "set", "a", "x.y"},
    {"set a TO '1.5'", COMMAND_SET, "set", "a", "1.5"},
    {"set a TO'1.5'", COMMAND_INVALID, "", "", ""},
    {"set a=''", COMMAND_SET, "set", "a", ""},
    {"", COMMAND_INVALID, "", "", ""},
    {" ", COMMAND_INVALID, "", "", ""},
    {";", COMMAND_INVALID, "", "", ""},
    {"reload;;", COMMAND_INVALID, "", "", ""},
    {"; reload", COMMAND_INVALID, "", "", ""},
    {"reload; reload", COMMAND_INVALID, "", "", ""},
    {"show pools extra", COMMAND_INVALID, "", "", ""},
    {"show pools -- comment", COMMAND_INVALID, "", "", ""},
    {"select version()", COMMAND_INVALID, "", "", ""},
    {"show\"pools\"", COMMAND_INVALID, "", "", ""},
    {"\"show\"pools", COMMAND_INVALID, "", "", ""},
    {"show 'pools'", COMMAND_INVALID, "", "", ""},
    {"pause \"open", COMMAND_INVALID, "", "", ""},
    {"pause a-b", COMMAND_INVALID, "", "", ""},
    {"pause a\vb", COMMAND_INVALID, "", "", ""},
    {"set a = -1", COMMAND_INVALID, "", "", ""},
    {"set a = 1.5", COMMAND_INVALID, "", "", ""},
    {"set a b", COMMAND_INVALID, "", "", ""},
    {"set a = b c", COMMAND_INVALID, "", "", ""},
    {"set a = = b", COMMAND_INVALID, "", "", ""},
    {"set 'a' = b", COMMAND_INVALID, "", "", ""},
    {"set a \"to\" b", COMMAND_INVALID, "", "", ""},
    {"set a = 'b", COMMAND_INVALID, "", "", ""},
    {"get a = b", COMMAND_INVALID, "", "", ""},
    {"a = b", COMMAND_INVALID, "", "", ""},
    {"switchover d", COMMAND_WORDS, "switchover", "d", ""},
    {"SWITCHOVER \"d\" to a.b:5432;", COMMAND_SWITCHOVER, "SWITCHOVER", "d",
	"a.b:5432"},
    {"switchover d-e TO '/run/pg:1'", COMMAND_SWITCHOVER, "switchover", "d-e",
	"/run/pg:1"},
    {"switchover d to", COMMAND_INVALID, "", "", ""},
    {"switchover d at a", COMMAND_INVALID, "", "", ""},
    {"explain login u d", COMMAND_EXPLAIN, "explain", "login", ""},
    {"EXPLAIN LOGIN \"u\"\"v\" d ::1 ;", COMMAND_EXPLAIN, "EXPLAIN", "LOGIN", "::1"},
    {"explain login u-v d.e '10.0.0.1'", COMMAND_EXPLAIN, "explain", "login",
	"10.0.0.1"},
    {"explain login u", COMMAND_INVALID, "", "", ""},
    {"explain login", COMMAND_WORDS, "explain", "login", ""},
    {"explain login u d a b", COMMAND_INVALID, "", "", ""},
    {"explain login u d = a", COMMAND_INVALID, "", "", ""},
    {"explain u d a", COMMAND_INVALID, "", "", ""},
    {"\xc3\xa4", COMMAND_INVALID, "", "", ""},
};

static void test_forms(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct command command;
		command_parse(lines[i].text, &command);
		if (command.form != lines[i].form)
			fail_msg("%s: form %d", lines[i].text, command.form);
		assert_string_equal(command.word, lines[i].word);
		assert_string_equal(command.argument, lines[i].argument);
		assert_string_equal(command.value, lines[i].value);
	}
}

/* A line made of fixed text around n letters. */
static enum command_form form_with(const char *before, int n, const char *after)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
	char line[5000];
	struct command command;
	size_t at = (size_t)snprintf(line, sizeof(line), "%s", before);

	for (int i = 0; i < n; i++)
		line[at++] = letters[i % 26];
	snprintf(line + at, sizeof(line) - at, "%s", after);
	command_parse(line, &command);
	return command.form;
}

static void test_lengths(void **state)
{
	(void)state;
	assert_int_equal(form_with("", 15, ""), COMMAND_WORDS);
	assert_int_equal(form_with("", 16, ""), COMMAND_TOO_LONG);
	assert_int_equal(form_with("show ", 63, ""), COMMAND_WORDS);
	assert_int_equal(form_with("show ", 64, ";"), COMMAND_TOO_LONG);
	/* the quotes count as characters */
	assert_int_equal(form_with("show \"", 61, "\""), COMMAND_WORDS);
	assert_int_equal(form_with("show \"", 62, "\""), COMMAND_TOO_LONG);
	assert_int_equal(form_with("set ", 63, "=x"), COMMAND_SET);
	assert_int_equal(form_with("set ", 64, "=x"), COMMAND_TOO_LONG);
	assert_int_equal(form_with("set a=", 255, ""), COMMAND_SET);
	assert_int_equal(form_with("set a=", 256, ""), COMMAND_TOO_LONG);
	assert_int_equal(form_with("set a='", 253, "'"), COMMAND_SET);
	assert_int_equal(form_with("set a='", 254, "'"), COMMAND_TOO_LONG);
	assert_int_equal(form_with("set a='", 4000, "'"), COMMAND_TOO_LONG);
	assert_int_equal(form_with("", 4000, " b c d e f g"), COMMAND_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_forms),
	    cmocka_unit_test(test_lengths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
