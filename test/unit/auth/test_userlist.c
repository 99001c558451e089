/* The user list file: its grammar, its faults, and which users remain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/secret.h"
#include "auth/userlist.h"
#include "base/mem.h"

/* The last fault or warning about a file, as "where: text". */
struct said {
	char text[400];
	enum diagnostic kind;
	unsigned faults, warnings;
};

static void take_report(
    void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	struct said *said = ctx;

	said->faults += kind == DIAGNOSTIC_ERROR;
	said->warnings += kind == DIAGNOSTIC_WARNING;
	snprintf(said->text, sizeof(said->text), "%s: %s", where, text);
}

static struct userlist *parse(const char *text, struct said *said)
{
	memset(said, 0, sizeof(*said));
	return userlist_parse("users.txt", text, strlen(text), NULL, take_report, said);
}

static void expect_user(const struct userlist *u, const char *name, const char *text)
{
	const struct secret *s = userlist_find(u, name);

	assert_non_null(s);
	assert_string_equal(s->text, text);
}

static void test_grammar(void **state)
{
	struct said said;
	struct userlist *u = parse("; comment \"x\" \"y\"\n"
				   "\n"
				   "\"plain\" \"secret\"\n"
				   "\t ; indented comment\n"
				   "  \"lead\"-\"x\"rest \"of\" line\n"
				   "\"empty\" \"\"\r\n"
				   "\"q\"\"uote\" \"a\"\"b\"\"\"\n"
				   "\"two\nlines\" \"se\ncret\"\n"
				   "\"apart\" whatever # ;\n\n ; \"far\" tail\n"
				   "\"\" \"noname\"\n"
				   "\"last\" \"no newline\"",
	    &said);

	(void)state;
	assert_string_equal(said.text, "");
	assert_int_equal(userlist_count(u), 8);
	expect_user(u, "plain", "secret");
	expect_user(u, "lead", "x");
	expect_user(u, "empty", "");
	expect_user(u, "q\"uote", "a\"b\"");
	expect_user(u, "two\nlines", "se\ncret");
	expect_user(u, "apart", "far");
	expect_user(u, "", "noname");
	expect_user(u, "last", "no newline");
	assert_null(userlist_find(u, "x"));
	assert_null(userlist_find(u, "Plain"));
	userlist_unref(&u);
	assert_null(u);
}

static void test_empty(void **state)
{
	static const char *const texts[] = {"", "\n", " \t\r\n", ";", "; x", " ;\n;\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct said said;
		struct userlist *u = parse(texts[i], &said);
		assert_string_equal(said.text, "");
		assert_int_equal(userlist_count(u), 0);
		userlist_unref(&u);
	}
}

static void test_kinds(void **state)
{
	struct said said;
	struct userlist *u = parse("\"none\" \"\"\n\"plain\" \"md5 x\"\n"
				   "\"md5\" \"md50123456789abcdef0123456789abcdef\"\n",
	    &said);

	(void)state;
	assert_int_equal(userlist_find(u, "none")->kind, SECRET_NONE);
	assert_int_equal(userlist_find(u, "plain")->kind, SECRET_PLAIN);
	assert_int_equal(userlist_find(u, "md5")->kind, SECRET_MD5);
	userlist_unref(&u);
}

static void test_last_of_a_name_wins(void **state)
{
	struct said said;
	struct userlist *u =
	    parse("\"a\" \"1\"\n\"b\" \"2\"\n\"a\" \"3\"\n\"a\" \"4\"\n", &said);

	(void)state;
	assert_string_equal(said.text, "");
	assert_int_equal(userlist_count(u), 2);
	expect_user(u, "a", "4");
	expect_user(u, "b", "2");
	userlist_unref(&u);
}

static void test_broken_entries(void **state)
{
	static const struct {
		const char *text, *start;
	} cases[] = {
	    {"# \"x\" \"y\"\n\"late\" \"x\"\n",
		"users.txt:2: broken auth file: a line begins"},
	    {"name secret\n\"late\" \"x\"\n",
		"users.txt:2: broken auth file: a line begins"},
	    {"'x' 'y'", "users.txt:2: broken auth file: a line begins"},
	    {"x \"late\" \"y\"", "users.txt:2: broken auth file: a line begins"},
	    {"\n;\n, \"late\" \"y\"", "users.txt:4: broken auth file: a line begins"},
	    {"\"", "users.txt:2: broken auth file: closing quote after user name"},
	    {"\"late\"\"",
		"users.txt:2: broken auth file: closing quote after user name"},
	    {"\"late\"", "users.txt:2: broken auth file: no secret follows"},
	    {"\"late\" secret\n\n\n",
		"users.txt:2: broken auth file: no secret follows"},
	    {"\"late\" \"",
		"users.txt:2: broken auth file: closing quote after secret"},
	    {"\"late\"\n\"x\"\"\n\n",
		"users.txt:3: broken auth file: closing quote after secret"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct said said;
		struct userlist *u;
		char text[200];

		snprintf(
		    text, sizeof(text), "\"early\" \"hunter2\"\n%s", cases[i].text);
		u = parse(text, &said);
		assert_memory_equal(said.text, cases[i].start, strlen(cases[i].start));
		assert_int_equal(said.faults, 1);
		/* No content of the file reaches the log. */
		assert_null(strstr(said.text, "hunter2"));
		assert_null(strstr(said.text, "late"));
		assert_int_equal(userlist_count(u), 1);
		expect_user(u, "early", "hunter2");
		userlist_unref(&u);
	}
}

/* Every line of a good file, broken in turn, is reported with its place. */
static void test_every_line_broken(void **state)
{
	enum { LINES = 5 };

	(void)state;
	for (unsigned broken = 0; broken <= LINES; broken++) {
		char text[200] = "", place[32];
		struct said said;
		for (unsigned i = 0; i < LINES; i++)
			sprintf(text + strlen(text), "%s\"u%u\" \"secret\"\n",
			    i == broken ? "x" : "", i);
		struct userlist *u = parse(text, &said);
		assert_int_equal(said.faults, broken < LINES);
		assert_int_equal(userlist_count(u), broken);
		snprintf(place, sizeof(place), "users.txt:%u: ", broken + 1);
		if (said.faults)
			assert_memory_equal(said.text, place, strlen(place));
		userlist_unref(&u);
	}
}

static void test_malformed_secrets_are_told(void **state)
{
	struct said said;
	struct userlist *u = parse("\"a\" \"x\"\n\"b\" \"md5123\"\n", &said);

	(void)state;
	assert_string_equal(said.text,
	    "users.txt:2: the secret of user \"b\" begins like an md5 or SCRAM-SHA-256 "
	    "secret, but it is malformed: no password matches it; copy it again from "
	    "pg_authid");
	assert_int_equal(said.warnings, 1);
	assert_int_equal(userlist_find(u, "b")->kind, SECRET_MALFORMED);
	userlist_unref(&u);
}

/* Writes n characters in quotes; returns their end. */
static char *put_quoted(char *at, size_t n)
{
	*at++ = '"';
	memset(at, 'x', n);
	at += n;
	*at++ = '"';
	return at;
}

static void test_limits(void **state)
{
	static const struct {
		size_t name_len, secret_len;
		const char *start;
	} cases[] = {
	    {127, 65530, ""},
	    {128, 1, "f:1: username too long in auth file: 128 bytes, shorten"},
	    {1, 65531, "f:1: password too long in auth file: 65531 bytes"},
	    {100000, 1, "f:1: username too long in auth file: 100000 bytes"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t size = cases[i].name_len + cases[i].secret_len + 10;
		char *text = mem_alloc(size), *at = put_quoted(text, cases[i].name_len);
		struct said said = {0};
		struct userlist *u;

		*at++ = ' ';
		at = put_quoted(at, cases[i].secret_len);
		u = userlist_parse(
		    "f", text, (size_t)(at - text), NULL, take_report, &said);
		assert_int_equal(userlist_count(u), *cases[i].start ? 0 : 1);
		assert_memory_equal(said.text, cases[i].start,
		    strlen(cases[i].start) + !*cases[i].start);
		userlist_unref(&u);
		mem_free(text);
	}
}

/* Doubled quotes count as two characters: the limit is on the raw text. */
static void test_limit_is_of_raw_text(void **state)
{
	char text[300] = "\"";
	struct said said;
	struct userlist *u;

	(void)state;
	for (int i = 0; i < 64; i++)
		strcat(text, "\"\"");
	strcat(text, "\" \"s\"");
	u = parse(text, &said);
	assert_int_equal(userlist_count(u), 0);
	userlist_unref(&u);
	assert_non_null(strstr(said.text, "username too long in auth file: 128"));
}

static void test_nul_ends_the_file(void **state)
{
	static const char text[] = "\"a\" \"1\"\n\0\"b\" \"2\"\n";
	struct said said = {0};
	struct userlist *u =
	    userlist_parse("f", text, sizeof(text) - 1, NULL, take_report, &said);

	(void)state;
	assert_string_equal(said.text, "");
	assert_int_equal(userlist_count(u), 1);
	userlist_unref(&u);
}

static void test_walk(void **state)
{
	char text[20 * 300] = "";
	struct said said;
	struct userlist *u;
	const struct secret *secret;
	const char *name;
	size_t at = 0, sum = 0, count = 0;

	(void)state;
	for (int i = 0; i < 300; i++)
		sprintf(text + strlen(text), "\"u%d\" \"%d\"\n", i, i);
	u = parse(text, &said);
	while (userlist_next(u, &at, &name, &secret)) {
		assert_string_equal(name + 1, secret->text);
		sum += (size_t)atoi(secret->text);
		count++;
	}
	assert_int_equal(count, 300);
	assert_int_equal(sum, 300 * 299 / 2);
	userlist_unref(&u);
}

static void test_former_users(void **state)
{
	struct said said;
	struct userlist *first = parse("\"a\" \"1\"\n\"b\" \"2\"\n", &said);
	struct userlist *second = parse("\"b\" \"3\"\n", &said);
	struct userlist *third = parse("\"c\" \"\"\n\"a\" \"4\"\n", &said);
	const struct secret *secret;
	const char *name;
	size_t at = 0, listed = 0, known = 0;

	(void)state;
	userlist_remember(second, first, NULL);
	assert_true(userlist_knows(second, "a"));
	assert_null(userlist_find(second, "a"));
	assert_string_equal(userlist_find(second, "b")->text, "3");
	assert_int_equal(userlist_count(second), 1);
	assert_int_equal(userlist_known_count(second), 2);
	/* Former users of a former list are known as well. */
	userlist_remember(third, second, NULL);
	assert_string_equal(userlist_find(third, "a")->text, "4");
	assert_true(userlist_knows(third, "b"));
	assert_false(userlist_knows(third, "d"));
	while (userlist_next(third, &at, &name, &secret)) {
		assert_string_not_equal(name, "b");
		listed++;
	}
	for (at = 0; userlist_next_known(third, &at);)
		known++;
	assert_int_equal(listed, 2);
	assert_int_equal(known, 3);
	userlist_unref(&first);
	userlist_unref(&second);
	userlist_unref(&third);
}

static void test_counts_of_kinds(void **state)
{
	struct said said;
	static const char scram[] = "SCRAM-SHA-256$4096:c2FsdA==$"
				    "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=:"
				    "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
	char text[1000];

	(void)state;
	snprintf(text, sizeof(text), "\"a\" \"%s\"\n\"b\" \"\"\n", scram);
	struct userlist *u = parse(text, &said);
	assert_true(userlist_is_mostly_scram(u));
	userlist_unref(&u);
	strcat(text, "\"c\" \"plain\"\n");
	u = parse(text, &said);
	assert_false(userlist_is_mostly_scram(u));
	userlist_unref(&u);
	/* the last secret of a user counts */
	snprintf(text + strlen(text), 300, "\"c\" \"%s\"\n", scram);
	u = parse(text, &said);
	assert_true(userlist_is_mostly_scram(u));
	struct userlist *same = userlist_ref(u);
	userlist_unref(&u);
	assert_int_equal(userlist_count(same), 3);
	userlist_unref(&same);
}

static void test_load(void **state)
{
	char path[] = "/tmp/test_userlist.XXXXXX";
	int fd = mkstemp(path);
	struct said said = {0};
	struct userlist *u;
	char wanted[200];
	struct err err;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "\"a\" \"1\"\nb\n", 10), 10);
	close(fd);
	u = userlist_load(path, NULL, take_report, &said, &err);
	snprintf(wanted, sizeof(wanted), "%s:2: broken auth file: ", path);
	assert_memory_equal(said.text, wanted, strlen(wanted));
	expect_user(u, "a", "1");
	userlist_unref(&u);
	unlink(path);
	said.faults = 0;
	assert_null(userlist_load(path, NULL, take_report, &said, &err));
	snprintf(wanted, sizeof(wanted),
	    "could not open auth_file %s: No such file or directory", path);
	assert_string_equal(err.text, wanted);
	assert_int_equal(said.faults, 0);
}

/* Which part of all names that are not listed gets these rounds, in percent. */
static unsigned share_of(const struct userlist *u, uint32_t rounds)
{
	unsigned count = 0;

	for (uint64_t i = 0; i < 100; i++)
		count += userlist_rounds_like(
			     u, 4096, (uint32_t)((i << 32) / 100 + 1)) == rounds;
	return count;
}

static void unknown_names_have_rounds_like_users(void **state)
{
	static const char plain[] = "\"p\" \"secret\"\n\"q\" \"secret\"\n";
	struct buf text;
	struct userlist *u;
	(void)state;

	buf_init(&text, 0);
	u = userlist_parse("f", "", 0, NULL, NULL, NULL);
	assert_int_equal(share_of(u, 4096), 100);
	userlist_unref(&u);
	buf_put_text(&text, plain);
	for (int i = 0; i < 5; i++) {
		buf_printf(
		    &text, "\"user%d\" \"SCRAM-SHA-256$%d:", i, i < 3 ? 9000 : 8000);
		buf_put_text(&text,
		    "c2FsdA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"
		    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"\n");
	}
	u = userlist_parse("f", buf_text(&text), text.len, NULL, NULL, NULL);
	assert_in_range(share_of(u, 4096), 28, 29);
	assert_in_range(share_of(u, 8000), 28, 29);
	assert_in_range(share_of(u, 9000), 42, 43);
	userlist_unref(&u);
	/* a user who is listed twice counts once */
	buf_put_text(&text, "\"user0\" \"secret\"\n");
	u = userlist_parse("f", buf_text(&text), text.len, NULL, NULL, NULL);
	assert_in_range(share_of(u, 4096), 42, 43);
	assert_in_range(share_of(u, 9000), 28, 29);
	userlist_unref(&u);
	buf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unknown_names_have_rounds_like_users),
	    cmocka_unit_test(test_grammar),
	    cmocka_unit_test(test_empty),
	    cmocka_unit_test(test_kinds),
	    cmocka_unit_test(test_last_of_a_name_wins),
	    cmocka_unit_test(test_broken_entries),
	    cmocka_unit_test(test_every_line_broken),
	    cmocka_unit_test(test_malformed_secrets_are_told),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_limit_is_of_raw_text),
	    cmocka_unit_test(test_nul_ends_the_file),
	    cmocka_unit_test(test_walk),
	    cmocka_unit_test(test_former_users),
	    cmocka_unit_test(test_counts_of_kinds),
	    cmocka_unit_test(test_load),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
