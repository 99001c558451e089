/*
 * The table of errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/errors.h"

static void reasons_are_rows(void **state)
{
	(void)state;
	assert_int_equal(error_of_reason("query timeout"), ERROR_QUERY_TIMEOUT);
	assert_int_equal(error_of_reason("database removed"), ERROR_DATABASE_REMOVED);
	assert_int_equal(error_of_reason("whatever it was"), ERROR_CONNECTION_LOST);
	/* two rows have this text; the one for clients of a server is found */
	assert_int_equal(
	    error_of_reason("pooler is shutting down"), ERROR_SHUTTING_DOWN);
}

static bool is_sentence(const char *text)
{
	return *text && text[strlen(text) - 1] == '.';
}

static void every_row_is_whole(void **state)
{
	(void)state;
	for (int id = 0; id < ERROR_COUNT; id++) {
		assert_true(*error_text(id));
		assert_true(is_sentence(error_remedy(id)));
		assert_int_equal(strlen(error_sqlstate(id)), 5);
	}
}

static void texts_are_printed_and_cut(void **state)
{
	char out[64];

	(void)state;
	assert_string_equal(
	    error_print(out, sizeof(out), ERROR_NO_SUCH_DATABASE, "shop"),
	    "no such database: shop");
	assert_string_equal(
	    error_print(out, 8, ERROR_NO_SUCH_DATABASE, "shop"), "no such");
}

static void texts_are_found_again(void **state)
{
	char out[200];

	(void)state;
	error_print(out, sizeof(out), ERROR_NO_SUCH_DATABASE, "shop");
	assert_string_equal(
	    error_text(error_of_text(out)), error_text(ERROR_NO_SUCH_DATABASE));
	for (int id = 0; id < ERROR_COUNT; id++) {
		const char *text = error_text((enum error_id)id);
		if (!strchr(text, '%'))
			assert_string_equal(error_text(error_of_text(text)), text);
	}
	assert_int_equal(error_of_text("what a server said"), ERROR_COUNT);
	assert_int_equal(error_of_text("no such database: "), ERROR_COUNT);
	assert_string_equal(error_name(ERROR_COUNT), "OTHER");
	assert_string_equal(error_name(ERROR_NO_USERNAME), "NO_USERNAME");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reasons_are_rows),
	    cmocka_unit_test(every_row_is_whole),
	    cmocka_unit_test(texts_are_printed_and_cut),
	    cmocka_unit_test(texts_are_found_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
