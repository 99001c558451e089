/*
 * Which texts begin or end a transaction block and do nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "wire/xact.h"

#define TEN   "1234567890"
#define FIFTY TEN TEN TEN TEN TEN

/* The copy has the exact size, so that sanitizers see a read past its end. */
static enum xact_verb read_bytes(const char *text, size_t len, uint8_t *modes)
{
	char *copy = malloc(len + 1);
	enum xact_verb verb;

	assert_non_null(copy);
	memcpy(copy, text, len);
	verb = xact_read(copy, len, modes);
	free(copy);
	return verb;
}

static enum xact_verb read(const char *text, uint8_t *modes)
{
	return read_bytes(text, strlen(text) + 1, modes);
}

/* What is sent for a BEGIN. */
static void assert_sends(const char *text, enum xact_verb verb, const char *sql)
{
	uint8_t modes;
	struct buf out;

	assert_int_equal(read(text, &modes), verb);
	buf_init(&out, 0);
	xact_put_begin(modes, &out);
	assert_string_equal(buf_text(&out), sql);
	buf_done(&out);
}

static void these_begin_a_block(void **state)
{
	(void)state;
	assert_sends("BEGIN", XACT_BEGIN, "BEGIN");
	assert_sends("begin;", XACT_BEGIN, "BEGIN");
	assert_sends(" Begin Work ; ;", XACT_BEGIN, "BEGIN");
	assert_sends("BEGIN TRANSACTION;", XACT_BEGIN, "BEGIN");
	assert_sends("/* a /* b */ */ begin -- c", XACT_BEGIN, "BEGIN");
	assert_sends("begin read write", XACT_BEGIN, "BEGIN read write");
	assert_sends(
	    "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE",
	    XACT_START, "BEGIN isolation level serializable read only deferrable");
	assert_sends(
	    "begin transaction not deferrable\nisolation/**/level read uncommitted",
	    XACT_BEGIN, "BEGIN isolation level read uncommitted not deferrable");
	assert_sends("BEGIN ISOLATION LEVEL READ COMMITTED , READ WRITE;", XACT_BEGIN,
	    "BEGIN isolation level read committed read write");
	assert_sends("begin isolation level repeatable read read only", XACT_BEGIN,
	    "BEGIN isolation level repeatable read read only");
}

static void these_end_one(void **state)
{
	static const char *const commits[] = {"commit", "COMMIT;", "end", "End Work",
	    "commit transaction and no chain", "END AND NO CHAIN;"};
	static const char *const rollbacks[] = {"rollback", "ROLLBACK WORK;", "abort",
	    "abort transaction", "/* x */ rollback and no chain -- y"};
	uint8_t modes;

	(void)state;
	for (size_t i = 0; i < sizeof(commits) / sizeof(commits[0]); i++)
		assert_int_equal(read(commits[i], &modes), XACT_COMMIT);
	for (size_t i = 0; i < sizeof(rollbacks) / sizeof(rollbacks[0]); i++)
		assert_int_equal(read(rollbacks[i], &modes), XACT_ROLLBACK);
}

static void these_do_something_else(void **state)
{
	static const char *const texts[] = {"", ";", "select 1", "begin; select 1",
	    "begin;commit", "begin work transaction", "begin x", "beginning",
	    "\"begin\"", "begin 'x'", "begin isolation level", "begin read",
	    "begin, read only", "begin read only,", "begin read only,, read write",
	    "begin read only read only", "begin read only, read write",
	    "begin isolation level serializable isolation level read committed",
	    "begin deferrable not deferrable", "begin not", "start", "start work",
	    "start transaction work", "start transaction read", "begin /* open",
	    "begin /* a /* b */", "begin\vread only", "begin $1", "commit and chain",
	    "commit prepared 'x'", "rollback to s", "rollback prepared 'x'",
	    "commit work transaction", "end and no", "commit and no chain x",
	    "prepare transaction 'x'", "savepoint s", "release s", "abort and chain",
	    "begin -- " FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY};
	uint8_t modes;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(read(texts[i], &modes), XACT_NONE);
	/* a text ends with its NUL */
	assert_int_equal(read_bytes("begin", 5, &modes), XACT_NONE);
	assert_int_equal(read_bytes("begin\0\0", 7, &modes), XACT_NONE);
	assert_int_equal(read_bytes("", 0, &modes), XACT_NONE);
}

static void long_comments_are_read(void **state)
{
	uint8_t modes;

	(void)state;
	assert_int_equal(
	    read("begin /* " FIFTY FIFTY FIFTY FIFTY " */", &modes), XACT_BEGIN);
}

static void tags_are_those_of_postgresql(void **state)
{
	(void)state;
	assert_string_equal(xact_tag(XACT_BEGIN), "BEGIN");
	assert_string_equal(xact_tag(XACT_START), "START TRANSACTION");
	assert_string_equal(xact_tag(XACT_COMMIT), "COMMIT");
	assert_string_equal(xact_tag(XACT_ROLLBACK), "ROLLBACK");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(these_begin_a_block),
	    cmocka_unit_test(these_end_one),
	    cmocka_unit_test(these_do_something_else),
	    cmocka_unit_test(long_comments_are_read),
	    cmocka_unit_test(tags_are_those_of_postgresql),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
