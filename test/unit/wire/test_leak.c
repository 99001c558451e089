/*
 * Session state that CommandComplete tags and functions leave behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/leak.h"

#define BIT         LEAK_BIT
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static void functions_called_by_number(void **state)
{
	(void)state;
	for (uint32_t oid = 2880; oid < 2890; oid++)
		assert_int_equal(leak_of_function(oid),
		    oid == 2884 || oid == 2885 ? 0 : BIT(ADVISORY));
	assert_int_equal(leak_of_function(2078), BIT(CONFIG));
	assert_int_equal(leak_of_function(0), 0);
	assert_int_equal(leak_of_function(2879), 0);
	assert_int_equal(leak_of_function(2890), 0);
	assert_int_equal(leak_of_function(UINT32_MAX), 0);
}

static unsigned cleared; /* the kinds that the last tag cleared */

static unsigned tagged(struct leak_watch *watch, const char *tag)
{
	uint16_t gone;
	unsigned left = leak_of_tag(watch, tag, strlen(tag), &gone);
	cleared = gone;
	return left;
}

static unsigned alone(unsigned expected, const char *tag)
{
	struct leak_watch watch = {.expected = (uint16_t)expected};
	return tagged(&watch, tag);
}

static void tags(void **state)
{
	(void)state;
	assert_int_equal(alone(0, "SET"), BIT(SET));
	assert_int_equal(alone(LEAK_HARMLESS_SET, "SET"), 0);
	assert_int_equal(alone(BIT(ROLE), "SET"), BIT(ROLE));
	assert_int_equal(alone(BIT(ROLE), "SET CONSTRAINTS"), 0);
	assert_int_equal(alone(0, "LISTEN"), BIT(LISTEN));
	assert_int_equal(alone(0, "LOAD"), BIT(LOAD));
	assert_int_equal(alone(0, "PREPARE"), BIT(PREPARE));
	assert_int_equal(alone(0, "PREPARE TRANSACTION"), 0);
	assert_int_equal(alone(LEAK_HARMLESS_PREPARE, "PREPARE"), 0);
	assert_int_equal(alone(0, "DECLARE CURSOR"), 0);
	assert_int_equal(alone(BIT(CURSOR), "DECLARE CURSOR"), BIT(CURSOR));
	assert_int_equal(alone(0, "CREATE TABLE"), 0);
	assert_int_equal(alone(BIT(TEMP), "CREATE TABLE"), BIT(TEMP));
	assert_int_equal(alone(BIT(TEMP), "SELECT 3"), BIT(TEMP));
	assert_int_equal(alone(BIT(TEMP), "BEGIN"), 0);
	assert_int_equal(alone(BIT(ADVISORY), "SELECT 1"), BIT(ADVISORY));
	assert_int_equal(alone(0, "SELECT 1"), 0);
	alone(0, "DISCARD ALL");
	assert_int_equal(cleared, LEAK_KINDS);
	alone(0, "DISCARD TEMP");
	assert_int_equal(cleared, BIT(TEMP));
	alone(0, "DEALLOCATE ALL");
	assert_int_equal(cleared, BIT(PREPARE));
	alone(0, "DEALLOCATE");
	assert_int_equal(cleared, 0);
	alone(0, "CLOSE CURSOR ALL");
	assert_int_equal(cleared, BIT(CURSOR));
	alone(0, "UNLISTEN");
	assert_int_equal(cleared, 0);
	alone(LEAK_UNLISTEN_ALL, "UNLISTEN");
	assert_int_equal(cleared, BIT(LISTEN));
}

/* Each expected SET is counted, and a leaking one is not taken for a harmless one. */
static void several_sets_in_a_row(void **state)
{
	(void)state;
	struct leak_watch watch = {.expected = BIT(SET) | BIT(ROLE)};
	assert_int_equal(tagged(&watch, "SET"), BIT(SET));
	assert_int_equal(tagged(&watch, "SET"), BIT(ROLE));
	watch = (struct leak_watch){.expected = BIT(SET) | LEAK_HARMLESS_SET};
	assert_int_equal(tagged(&watch, "SET"), BIT(SET));
	assert_int_equal(tagged(&watch, "SET"), 0);
	assert_int_equal(tagged(&watch, "SET"), BIT(SET));
	watch = (struct leak_watch){.expected = BIT(ADVISORY)};
	assert_int_equal(tagged(&watch, "SELECT 1"), BIT(ADVISORY));
	assert_int_equal(tagged(&watch, "SELECT 1"), 0);
}

static void tags_that_may_matter(void **state)
{
	(void)state;
	static const char *const matter[] = {"SET", "LISTEN", "LOAD", "PREPARE",
	    "DISCARD ALL", "DEALLOCATE ALL", "CLOSE CURSOR ALL"};
	static const char *const others[] = {
	    "SELECT 1", "INSERT 0 1", "UPDATE 1", "COMMIT", "COPY 1", "BEGIN"};
	for (size_t i = 0; i < COUNT_OF(matter); i++)
		assert_true(leak_may_matter(matter[i], strlen(matter[i])));
	for (size_t i = 0; i < COUNT_OF(others); i++)
		assert_false(leak_may_matter(others[i], strlen(others[i])));
	assert_string_equal(leak_name(LEAK_ROLE), "SET ROLE");
	for (int kind = 0; kind < LEAK_KIND_COUNT; kind++)
		assert_true(strlen(leak_hint((enum leak_kind)kind)) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(functions_called_by_number),
	    cmocka_unit_test(tags),
	    cmocka_unit_test(several_sets_in_a_row),
	    cmocka_unit_test(tags_that_may_matter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
