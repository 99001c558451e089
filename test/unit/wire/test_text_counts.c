/*
 * Texts are counted by owner, in a table of fixed size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "wire/text_counts.h"

enum { LONG = 1000 };

static struct text_counts *new_counts(void)
{
	void *memory = calloc(1, text_counts_size());

	assert_non_null(memory);
	return text_counts_init(memory);
}

static uint32_t add(struct text_counts *c, uint64_t owner, const char *text)
{
	return text_counts_add(c, owner, (const uint8_t *)text, strlen(text));
}

static void each_text_of_an_owner_is_counted(void **state)
{
	(void)state;
	struct text_counts *c = new_counts();

	for (uint32_t i = 1; i < 5; i++) {
		assert_int_equal(add(c, 1, "select 1"), i);
		assert_int_equal(add(c, 1, "select 2"), i);
		assert_int_equal(add(c, 2, "select 1"), i);
		assert_int_equal(add(c, 1, ""), i);
	}
	free(c);
}

static void counts_have_an_end(void **state)
{
	(void)state;
	struct text_counts *c = new_counts();
	uint32_t last = 0;

	for (int i = 0; i < 100 * 1000; i++) {
		uint32_t now = add(c, 1, "select 1");
		assert_true(now >= last && now > 0);
		last = now;
	}
	assert_true(last > 10000);
	free(c);
}

/* A long text with this letter in its middle, which is read from the second time on. */
static uint32_t add_long(struct text_counts *c, char middle)
{
	char text[LONG + 1];

	memset(text, 'x', LONG);
	text[LONG] = '\0';
	text[LONG / 2] = middle;
	return add(c, 1, text);
}

static void long_texts_are_told_apart(void **state)
{
	(void)state;
	struct text_counts *c = new_counts();

	assert_int_equal(add_long(c, 'a'), 1);
	assert_int_equal(add_long(c, 'b'), 2); /* it could be the same */
	assert_int_equal(add_long(c, 'c'), 1);
	assert_int_equal(add_long(c, 'd'), 1);
	assert_int_equal(add_long(c, 'd'), 2);
	assert_int_equal(add_long(c, 'd'), 3);
	free(c);
}

/* A text takes the place of one that has become rare, not of one that is common. */
static void common_texts_stay(void **state)
{
	(void)state;
	struct text_counts *c = new_counts();
	char text[32];

	for (int i = 0; i < 1000; i++)
		add(c, 1, "common");
	for (int i = 0; i < 60 * 1000; i++) {
		snprintf(text, sizeof(text), "select %d", i);
		add(c, 1, text);
		add(c, 1, text);
	}
	assert_int_equal(add(c, 1, "common"), 1001);
	free(c);
}

static void texts_that_come_once_displace_no_others(void **state)
{
	(void)state;
	struct text_counts *c = new_counts();
	char text[64];

	for (int i = 0; i < 200 * 1000; i++) {
		snprintf(text, sizeof(text), "select %d", i);
		assert_true(add(c, 1, text) <= 2);
		snprintf(text, sizeof(text), "select %d from hot", i % 100);
		add(c, 1, text);
	}
	for (int i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "select %d from hot", i);
		assert_true(add(c, 1, text) > 100);
	}
	free(c);
}

/* What came often once, and then no more, makes room. */
static void old_texts_make_room(void **state)
{
	(void)state;
	struct text_counts *c = new_counts();
	enum { ALL = TEXT_COUNTS_BUCKETS * TEXT_COUNTS_IN_BUCKET * 2 };
	char text[64];

	for (int round = 0; round < 3; round++)
		for (int i = 0; i < ALL; i++) {
			snprintf(text, sizeof(text), "select %d from old", i);
			add(c, 1, text);
		}
	for (int round = 0; round < 20; round++)
		add(c, 1, "select 1");
	assert_true(add(c, 1, "select 1") > 10);
	free(c);
}

static void refused_texts_are_not_counted(void **state)
{
	(void)state;
	struct text_counts *c = new_counts();

	text_counts_refuse(c);
	assert_int_equal(add(c, 1, "show all"), 1);
	assert_int_equal(add(c, 1, "show all"), 2);
	text_counts_refuse(c);
	for (int i = 0; i < 5; i++)
		assert_int_equal(add(c, 1, "show all"), 0);
	assert_int_equal(add(c, 1, "show other"), 1);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_text_of_an_owner_is_counted),
	    cmocka_unit_test(counts_have_an_end),
	    cmocka_unit_test(long_texts_are_told_apart),
	    cmocka_unit_test(common_texts_stay),
	    cmocka_unit_test(texts_that_come_once_displace_no_others),
	    cmocka_unit_test(old_texts_make_room),
	    cmocka_unit_test(refused_texts_are_not_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
