/* A file that has changed is noticed, even if its content looks the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/file_id.h"

static char path[] = "/tmp/test-mark-XXXXXX";

static int set_up(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(path);
}

/* The file is old enough that its times are certain. */
static const struct file_id sure = {.device = 1,
    .inode = 2,
    .size = 3,
    .changed_ns = 4,
    .status_ns = 5,
    .is_sure = true};

static void each_part_counts(void **state)
{
	struct file_id other;

	(void)state;
	assert_true(file_id_is_same(&sure, &sure));
	other = sure, other.device++;
	assert_false(file_id_is_same(&sure, &other));
	other = sure, other.inode++;
	assert_false(file_id_is_same(&sure, &other));
	other = sure, other.size++;
	assert_false(file_id_is_same(&sure, &other));
	other = sure, other.changed_ns++;
	assert_false(file_id_is_same(&sure, &other));
	other = sure, other.status_ns++;
	assert_false(file_id_is_same(&sure, &other));
	other = sure, other.is_sure = false;
	assert_false(file_id_is_same(&other, &other));
}

/* The file may be written again within the same tick of the file system's clock. */
static void young_and_missing_files_are_never_the_same(void **state)
{
	struct file_id young, missing;

	(void)state;
	file_id_take(&young, path);
	assert_int_equal(young.size, 0);
	assert_false(file_id_is_same(&young, &young));
	file_id_take(&missing, "/nonexistent/file");
	assert_false(file_id_is_same(&missing, &missing));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_part_counts),
	    cmocka_unit_test(young_and_missing_files_are_never_the_same),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
