/*
 * Numbers, lists, quoting, reading files, tokens.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"

static void integers(void **state)
{
	static const char *const bad[] = {"", " ", "x", "1x", "1 ", "0x", "2147483648",
	    "-2147483649", "99999999999999999999", "08", "1.0"};
	int v = 5;
	unsigned u = 5;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(text_int(bad[i], &v), -1);
	assert_int_equal(v, 5);
	assert_int_equal(text_int("0777", &v), 0);
	assert_int_equal(v, 511);
	assert_int_equal(text_int(" -0x10", &v), 0);
	assert_int_equal(v, -16);
	assert_int_equal(text_int("-2147483648", &v), 0);
	assert_int_equal(v, INT_MIN);
	assert_int_equal(text_uint("4294967295", &u), 0);
	assert_int_equal(u, UINT_MAX);
	assert_int_equal(text_uint("4294967296", &u), -1);
	assert_int_equal(text_uint("-1", &u), -1);
	assert_int_equal(text_uint("-18446744073709551615", &u), -1);
	assert_int_equal(text_uint("", &u), -1);
}

static void seconds(void **state)
{
	static const char *const bad[] = {"", ".", "-1", "+1", "5s", "1min", "1e",
	    "1e+", "1e1x", "1e99", "1e500", "e3", " 1", "1 ", "nan", "inf", "1,5",
	    "1.5.", "18446744073710", "99999999999999999999"};
	static const struct {
		const char *text;
		uint64_t us;
	} good[] = {{"0", 0}, {"1", 1000000}, {"0.5", 500000}, {".25", 250000},
	    {"3.", 3000000}, {"0.0000019", 1}, {"120", 120000000},
	    {"18446744073709.551615", UINT64_MAX}, {"1e2", 100000000},
	    {"1.5E+1", 15000000}, {"5e-1", 500000}, {"1e-9", 0}, {"0e90", 0}};
	uint64_t us = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(text_seconds(bad[i], &us), -1);
	assert_int_equal(text_seconds("18446744073709.551616", &us), -1);
	assert_int_equal(us, 7);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(text_seconds(good[i].text, &us), 0);
		assert_true(us == good[i].us);
	}
	char out[32];
	text_print_seconds(3600000000, out, sizeof(out));
	assert_string_equal(out, "3600");
	text_print_seconds(500000, out, sizeof(out));
	assert_string_equal(out, "0.5");
}

static void comparing(void **state)
{
	(void)state;
	assert_true(text_equal_nocase("TimeZone", "timezone"));
	assert_false(text_equal_nocase("TimeZone", "timezones"));
	assert_true(text_has_prefix("unix:/tmp", "unix:"));
	assert_true(text_has_prefix("x", ""));
	assert_false(text_has_prefix("uni", "unix"));
}

static void lists(void **state)
{
	const char *at = " a b ,, c,\t,d\n", *item;
	size_t len;

	(void)state;
	assert_true(text_list_has("a, bob c", "bob"));
	assert_true(text_list_has("bob", "bob"));
	assert_true(text_list_has("x\tbob", "bob"));
	assert_false(text_list_has("bobby,abob", "bob"));
	assert_false(text_list_has("Bob", "bob"));
	assert_false(text_list_has("", "bob"));
	assert_false(text_list_has(NULL, "bob"));
	assert_false(text_list_has("a,,b", ""));
	assert_false(text_list_has("a b", "a b"));

	static const char *const items[] = {"a b", "c", "d"};
	for (size_t i = 0; i < 3; i++) {
		assert_true(text_list_next(&at, &item, &len));
		assert_int_equal(len, strlen(items[i]));
		assert_memory_equal(item, items[i], len);
	}
	assert_false(text_list_next(&at, &item, &len));
	assert_false(text_list_next(&at, &item, &len));
	at = NULL;
	assert_false(text_list_next(&at, &item, &len));
}

static void expect_quoted(
    void (*put)(struct buf *, const char *), const char *value, const char *wanted)
{
	struct buf b;

	buf_init(&b, 0);
	put(&b, value);
	assert_string_equal(buf_text(&b), wanted);
	buf_done(&b);
}

static void quoting(void **state)
{
	(void)state;
	expect_quoted(text_put_literal, "", "''");
	expect_quoted(text_put_literal, "it's", "'it''s'");
	expect_quoted(text_put_literal, "''", "''''''");
	expect_quoted(text_put_literal, "a\\'b", "E'a\\\\''b'");
	expect_quoted(text_put_literal, "\\", "E'\\\\'");
	expect_quoted(text_put_ascii_literal, "it's", "'it''s'");
	expect_quoted(text_put_ascii_literal, "a\\b", "E'a\\\\b'");
	expect_quoted(text_put_ascii_literal, "\xc3'\\", "E'\\xc3''\\\\'");
}

/* wanted has one letter per token (word, quoted, character, line, bad), and the line
 * number where it changes. */
static void expect_tokens(
    const struct token_rules *rules, const char *text, const char *wanted)
{
	/* The heap block has the exact size, so that a read past it is seen. */
	size_t len = strlen(text);
	char *copy = mem_dup(text, len);
	struct tokenizer t;
	struct buf got;
	unsigned line = 1;

	buf_init(&got, 0);
	tokenizer_init(&t, rules, copy, len);
	while (tokenizer_next(&t) != TOKEN_END) {
		if (t.line != line)
			buf_printf(&got, "@%u ", t.line);
		line = t.line;
		if (t.kind == TOKEN_LINE)
			buf_put_text(&got, "L ");
		else
			buf_printf(
			    &got, "%c:%s ", "?LWQCB"[t.kind], tokenizer_text(&t));
		assert_true(t.start >= copy && t.start < t.at);
	}
	assert_int_equal(tokenizer_next(&t), TOKEN_END);
	assert_string_equal(tokenizer_text(&t), "");
	assert_string_equal(buf_text(&got), wanted);
	tokenizer_done(&t);
	buf_done(&got);
	mem_free(copy);
}

static void tokens_of_lines(void **state)
{
	static const struct token_rules hba = {.blanks = " \t\r\n",
	    .quotes = "\"",
	    .singles = ",",
	    .comment = "#",
	    .lines = true};

	(void)state;
	expect_tokens(&hba, "", "");
	expect_tokens(&hba, "  # only", "");
	expect_tokens(&hba, "host a,\"b\"\"c\" x#no\r\n\nlocal\n",
	    "W:host W:a C:, Q:b\"c W:x L @2 L @3 W:local L ");
	expect_tokens(&hba, "a \"# , b\" c", "W:a Q:# , b W:c ");
	expect_tokens(&hba, "\"\"", "Q: ");
	expect_tokens(&hba, "a \"open\nb", "W:a B:open L @2 W:b ");
	expect_tokens(&hba, "a \"open\"\"", "W:a B:open\" ");
	expect_tokens(&hba, "it\"s", "W:it\"s ");
}

static void tokens_without_lines(void **state)
{
	static const struct token_rules pairs = {
	    .blanks = " \t", .quotes = "'\"", .singles = "="};
	static const struct token_rules none = {0};

	(void)state;
	expect_tokens(&pairs, "host=a\n port='it''s \"x\"'\n\n=\"a'b\"",
	    "W:host C:= W:a @2 W:port C:= Q:it's \"x\" @4 C:= Q:a'b ");
	expect_tokens(&pairs, "'a\nb' c 'd", "Q:a\nb @2 W:c B:d ");
	expect_tokens(&none, "a b;'c' #d\ne", "W:a b;'c' #d @2 W:e ");
}

static void quotes_inside_words(void **state)
{
	static const struct token_rules rules = {.blanks = " ",
	    .quotes = "\"",
	    .singles = ",",
	    .comment = "#",
	    .lines = true,
	    .inner_quotes = true};

	(void)state;
	expect_tokens(&rules, "a\"b c\"d,e", "W:ab cd C:, W:e ");
	expect_tokens(&rules, "/\"x,\"\"#\" y", "W:/x,\"# W:y ");
	expect_tokens(&rules, "a\"\" b", "W:a W:b ");
	expect_tokens(&rules, "\"a\"b \"c\"", "Q:a W:b Q:c ");
	expect_tokens(&rules, "a\"open\nb", "B:aopen L @2 W:b ");
	expect_tokens(&rules, "a\"", "B:a ");
}

static void bytes_that_are_no_text(void **state)
{
	static const struct token_rules rules = {
	    .blanks = " ", .quotes = "'", .singles = "=", .comment = "#"};
	struct tokenizer t;

	(void)state;
	tokenizer_init(&t, &rules, "\0 \xff\0'", 5);
	assert_int_equal(tokenizer_next(&t), TOKEN_WORD);
	assert_int_equal(t.at - t.start, 1);
	assert_int_equal(tokenizer_next(&t), TOKEN_WORD);
	assert_int_equal(t.at - t.start, 3);
	assert_int_equal(tokenizer_next(&t), TOKEN_END);
	tokenizer_done(&t);
}

/* The text is cut at the end of the buffer, always with a NUL. */
static void texts_put_together(void **state)
{
	(void)state;
	char room[12], *at = room;
	const char *end = room + sizeof(room);

	at = text_append(at, end, "n=");
	at = text_append_number(at, end, 0);
	at = text_append_number(at, end, 907);
	assert_string_equal(room, "n=0907");
	assert_ptr_equal(at, room + 6);
	at = text_append(at, end, "");
	at = text_append_hex(at, end, 0xfe10);
	assert_string_equal(room, "n=0907fe10");
	at = text_append(at, end, "xyz");
	assert_string_equal(room, "n=0907fe10x");
	assert_ptr_equal(text_append_number(at, end, 5), room + 11);
	assert_string_equal(room, "n=0907fe10x");

	char large[32];
	text_append_number(large, large + sizeof(large), UINT64_MAX);
	assert_string_equal(large, "18446744073709551615");
	text_append_hex(large, large + sizeof(large), UINT64_MAX);
	assert_string_equal(large, "ffffffffffffffff");
}

static __attribute__((format(printf, 3, 4))) char *vprint(
    char *at, const char *end, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	at = text_vprint(at, end, fmt, ap);
	va_end(ap);
	return at;
}

static __attribute__((format(printf, 3, 4))) char *vprint_escaped(
    char *at, const char *end, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	at = text_vprint_escaped(at, end, fmt, ap);
	va_end(ap);
	return at;
}

static void escapes(void **state)
{
	char room[128], *end = room + sizeof(room), one[] = "?", wanted[8];

	(void)state;
	vprint_escaped(room, end, "a\n%s\t%d", "b\n\r\t\x1b\x07\x7f \\\"", -7);
	assert_string_equal(room, "a\nb\\n\\r\\t\\x1b\\x07\\x7f \\\"\t-7");
	/* what readers of UTF-8 take for control characters or line ends, and others */
	vprint_escaped(room, end, "%s", "\xc2\x85\xc2\x9f\xe2\x80\xa8\xe2\x80\xa9");
	assert_string_equal(room, "\\u0085\\u009f\\u2028\\u2029");
	vprint_escaped(room, end, "%s", "\xc2\xa0\xe2\x80\xa7\xff\xc2");
	assert_string_equal(room, "\xc2\xa0\xe2\x80\xa7\xff\xc2");
	vprint_escaped(room, end, "%s", "\xe2\x80");
	assert_string_equal(room, "\xe2\x80");
	/* libc prints the second one */
	vprint_escaped(room, end, "%s\n%.3s|", "x\n", "y\nzz");
	assert_string_equal(room, "x\\n\ny\\nz|");
	for (int c = 1; c < 256; c++) {
		one[0] = (char)c;
		vprint_escaped(room, end, "%s", one);
		snprintf(wanted, sizeof(wanted),
		    c == '\n'              ? "\\n"
		    : c == '\r'            ? "\\r"
		    : c == '\t'            ? "\\t"
		    : c < ' ' || c == 0x7f ? "\\x%02x"
					   : "%c",
		    c);
		assert_string_equal(room, wanted);
		assert_int_equal(text_hidden_len(one), c < ' ' || c == 0x7f);
	}
	/* cut, also within an escape */
	char small[4];
	assert_ptr_equal(vprint_escaped(small, small + 4, "%s", "a\x1b"), small + 3);
	assert_string_equal(small, "a\\x");
}

static void prints(void **state)
{
	char room[16];
	const char *end = room + sizeof(room);
	const char *volatile nothing = NULL;

	(void)state;
	assert_ptr_equal(vprint(room, end, "plain"), room + 5);
	assert_string_equal(room, "plain");
	assert_ptr_equal(vprint(room + 5, end, "%s=%llu.", "", 70ULL), room + 9);
	assert_string_equal(room, "plain=70.");
	vprint(room, end, "<%s>", nothing);
	assert_string_equal(room, "<(null)>");
	/* all other formats */
	assert_ptr_equal(vprint(room, end, "%s %d%%", "at", -5), room + 6);
	assert_string_equal(room, "at -5%");
	vprint(room, end, "%-3s|%5.1f", "a", 2.0);
	assert_string_equal(room, "a  |  2.0");
	/* the result is cut */
	assert_ptr_equal(vprint(room, end, "%s%s", "123456789", "0abcdefg"), room + 15);
	assert_string_equal(room, "1234567890abcde");
	assert_ptr_equal(vprint(room, end, "%s%d", "123456789", 123456789), room + 15);
	assert_string_equal(room, "123456789123456");
}

static void files(void **state)
{
	char path[] = "/tmp/test_text.XXXXXX";
	int fd = mkstemp(path);
	struct err e;
	size_t len = 0;

	(void)state;
	assert_true(fd >= 0);
	char *text = text_read_file(path, &len, &e);
	assert_string_equal(text, "");
	assert_int_equal(len, 0);
	mem_free(text);

	for (int i = 0; i < 5000; i++)
		assert_int_equal(write(fd, "0123456789", 10), 10);
	text = text_read_file(path, &len, &e);
	assert_int_equal(len, 50000);
	assert_int_equal(strlen(text), 50000);
	mem_free(text);

	assert_int_equal(pwrite(fd, "", 1, 7), 1);
	text = text_read_file(path, &len, &e);
	assert_string_equal(text, "0123456");
	assert_int_equal(len, 50000);
	mem_free(text);
	close(fd);
	unlink(path);

	assert_null(text_read_file(path, &len, &e));
	assert_string_equal(e.text, "No such file or directory");
	assert_null(text_read_file("/tmp", &len, &e));
	assert_string_equal(e.text, "Is a directory");
	assert_null(text_read_file(path, &len, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(integers),
	    cmocka_unit_test(seconds),
	    cmocka_unit_test(comparing),
	    cmocka_unit_test(lists),
	    cmocka_unit_test(quoting),
	    cmocka_unit_test(tokens_of_lines),
	    cmocka_unit_test(tokens_without_lines),
	    cmocka_unit_test(quotes_inside_words),
	    cmocka_unit_test(bytes_that_are_no_text),
	    cmocka_unit_test(texts_put_together),
	    cmocka_unit_test(escapes),
	    cmocka_unit_test(prints),
	    cmocka_unit_test(files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
