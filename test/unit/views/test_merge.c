/*
 * Merging rows of several sites: what happens to each kind of cell, and the order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "views/merge.h"
#include "views/row.h"

static const struct column columns[] = {
    {"name", &cell_text},
    {"user", &cell_text},
    {"mode", &cell_text},
    {"count", &cell_sum4},
    {"total", &cell_sum8},
    {"maxwait", &cell_most4},
    {"maxwait_us", &cell_rest4},
    {"since", &cell_time},
};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static const struct view view = {
    .name = "THINGS",
    .columns = columns,
    .column_count = COLUMNS,
    .key_count = 2,
    .sorted_by = 1,
};

/* Writes a row as a walker does; numbers and times as such, "-" stands for NULL. */
static void put_cells(
    struct rows *rows, const struct view *of, const char *const *cells)
{
	row_begin(rows);
	for (size_t i = 0; i < of->column_count; i++) {
		const struct cell_type *type = of->columns[i].type;

		if (strcmp(cells[i], "-") == 0)
			row_text(rows, NULL);
		else if (type == &cell_time)
			row_second(rows, (time_t)strtoll(cells[i], NULL, 10));
		else if (type->len > 0)
			row_int8(rows, strtoll(cells[i], NULL, 10));
		else
			row_text(rows, cells[i]);
	}
	row_end(rows);
}

/* '|' separates the cells of a row. */
static void put_row(struct rows *rows, const char *text)
{
	const char *cells[COLUMNS];
	char copy[200];
	char *at = copy;

	strcpy(copy, text);
	for (size_t i = 0; i < COLUMNS; i++) {
		cells[i] = strsep(&at, "|");
		assert_non_null(cells[i]);
	}
	assert_null(at);
	put_cells(rows, &view, cells);
}

static void add_site(struct merge *m, const char *const *texts)
{
	struct rows rows;

	merge_init_rows(m, &rows, NULL);
	for (; *texts; texts++)
		put_row(&rows, *texts);
}
#define ADD(m, ...) add_site(m, (const char *const[]){__VA_ARGS__, NULL})

/* Expects exactly these rows, byte for byte. */
static void expect_rows(struct merge *m, const char *const *texts)
{
	struct buf expected, got;
	struct rows rows;

	buf_init(&expected, 0);
	buf_init(&got, 0);
	rows_init(&rows, NULL, &expected, COLUMNS);
	for (; *texts; texts++)
		put_row(&rows, *texts);
	merge_put(m, &got);
	assert_int_equal(got.len, expected.len);
	assert_memory_equal(got.bytes, expected.bytes, got.len);
	buf_done(&expected);
	buf_done(&got);
	merge_free(&m);
	assert_null(m);
}
#define EXPECT(m, ...) expect_rows(m, (const char *const[]){__VA_ARGS__, NULL})

static void sums_and_first_values(void **state)
{
	(void)state;
	struct merge *m = merge_new(&view);

	ADD(m, "a|u|session|2|9000000000|0|0|1767000000");
	ADD(m, "a|u|other|3|1|0|0|1767000000");
	ADD(m, "a|u|session|-1|0|0|0|1767000000");
	EXPECT(m, "a|u|session|4|9000000001|0|0|1767000000");
}

/* The seconds decide, and if they are equal the microseconds; values are not mixed. */
static void longest_wait(void **state)
{
	(void)state;
	struct merge *m = merge_new(&view);

	ADD(m, "a|u||0|0|3|5|-", "b|u||0|0|1|999999|-", "c|u||0|0|2|7|-",
	    "d|u||0|0|10|1|-");
	ADD(m, "a|u||0|0|2|999999|-", "b|u||0|0|2|4|-", "c|u||0|0|2|9|-",
	    "d|u||0|0|9|2|-");
	ADD(m, "a|u||0|0|0|6|-", "b|u||0|0|2|3|-", "c|u||0|0|2|8|-", "d|u||0|0|10|0|-");
	EXPECT(
	    m, "a|u||0|0|3|5|-", "b|u||0|0|2|4|-", "c|u||0|0|2|9|-", "d|u||0|0|10|1|-");
}

static void nothing_gives_way_to_something(void **state)
{
	(void)state;
	struct merge *m = merge_new(&view);

	ADD(m, "a|u|-|-|1|0|0|-", "b|u||2|-|0|0|1767000003", "-|u|-|-|-|0|0|-");
	ADD(m, "a|u|x|4|-|0|0|1767000001", "b|u|y|-|2|0|0|1767000004",
	    "-|u|z|1|1|0|0|-");
	ADD(m, "a|u|w|-|-|0|0|1767000002", "b|u|-|0|0|0|0|-");
	EXPECT(m, "-|u|z|1|1|0|0|-", "a|u|x|4|1|0|0|1767000002",
	    "b|u|y|2|2|0|0|1767000004");
}

/* A host that is down for one of the workers is down, with its error. */
static void worst_state(void **state)
{
	static const struct column host_columns[] = {
	    {"host", &cell_text},
	    {"state", &cell_worst},
	    {"connections", &cell_sum4},
	    {"last_error", &cell_rest_text},
	    {"retry_in", &cell_rest8},
	};
	static const char *const sites[][2][5] = {
	    {{"a", "up", "1", "-", "0"}, {"b", "refuses", "1", "lost", "2"}},
	    {{"a", "down", "0", "refused", "9"}, {"b", "unfit", "0", "-", "7"}},
	    {{"a", "unfit", "2", "slow", "3"}, {"b", "up", "4", "-", "0"}},
	};
	static const char *const wanted[2][5] = {
	    {"a", "down", "3", "refused", "9"}, {"b", "refuses", "5", "lost", "2"}};
	static const struct view hosts = {.name = "HOSTS",
	    .columns = host_columns,
	    .column_count = 5,
	    .key_count = 1,
	    .sorted_by = 1};
	struct merge *m = merge_new(&hosts);
	struct buf got, want;
	struct rows rows;

	(void)state;
	buf_init(&got, 0);
	buf_init(&want, 0);
	for (size_t i = 0; i < 3; i++) {
		merge_init_rows(m, &rows, NULL);
		put_cells(&rows, &hosts, sites[i][0]);
		put_cells(&rows, &hosts, sites[i][1]);
	}
	merge_put(m, &got);
	rows_init(&rows, NULL, &want, hosts.column_count);
	put_cells(&rows, &hosts, wanted[0]);
	put_cells(&rows, &hosts, wanted[1]);
	assert_int_equal(got.len, want.len);
	assert_memory_equal(got.bytes, want.bytes, want.len);
	buf_done(&got);
	buf_done(&want);
	merge_free(&m);
}

/* Sorted by the first column only; equal rows stay in the order of arrival.  An empty
 * text and NULL are different keys. */
static void sorted_rows(void **state)
{
	(void)state;
	struct merge *m = merge_new(&view);

	ADD(m, "c|x||1|0|0|0|-", "a|z||1|0|0|0|-", "|u||1|0|0|0|-");
	ADD(m, "B|u||1|0|0|0|-", "a|b||1|0|0|0|-", "c|x||1|0|0|0|-", "-|u||1|0|0|0|-",
	    "ab|u||1|0|0|0|-");
	EXPECT(m, "|u||1|0|0|0|-", "-|u||1|0|0|0|-", "B|u||1|0|0|0|-", "a|z||1|0|0|0|-",
	    "a|b||1|0|0|0|-", "ab|u||1|0|0|0|-", "c|x||2|0|0|0|-");
}

/* 10 comes behind 9. */
static void sorted_numbers(void **state)
{
	static const struct column text_columns[] = {
	    {"id", &cell_int8},
	    {"name", &cell_text},
	    {"clients", &cell_sum4},
	    {"hits", &cell_sum8},
	    {"note", &cell_text},
	};
	static const char *const here[][5] = {
	    {"9", "i", "1", "1", ""}, {"10", "j", "1", "1", ""}};
	static const char *const there[][5] = {
	    {"-7", "-g", "1", "1", ""}, {"9", "i", "2", "4", ""}};
	static const char *const wanted[][5] = {{"-7", "-g", "1", "1", ""},
	    {"9", "i", "3", "5", ""}, {"10", "j", "1", "1", ""}};
	static const struct view texts = {.name = "TEXTS",
	    .columns = text_columns,
	    .column_count = 5,
	    .key_count = 2,
	    .sorted_by = 1};
	struct merge *m = merge_new(&texts);
	struct buf got, want;
	struct rows first, second, rows;

	(void)state;
	buf_init(&got, 0);
	buf_init(&want, 0);
	merge_init_rows(m, &first, NULL);
	for (size_t i = 0; i < 2; i++)
		put_cells(&first, &texts, here[i]);
	merge_init_rows(m, &second, NULL);
	for (size_t i = 0; i < 2; i++)
		put_cells(&second, &texts, there[i]);
	merge_put(m, &got);
	rows_init(&rows, NULL, &want, texts.column_count);
	for (size_t i = 0; i < 3; i++)
		put_cells(&rows, &texts, wanted[i]);
	assert_int_equal(got.len, want.len);
	assert_memory_equal(got.bytes, want.bytes, want.len);
	buf_done(&got);
	buf_done(&want);
	merge_free(&m);
}

/* The texts of two key columns are not simply joined. */
static void keys_are_told_apart(void **state)
{
	(void)state;
	struct merge *m = merge_new(&view);

	ADD(m, "ab|c||1|0|0|0|-", "a|bc||1|0|0|0|-");
	ADD(m, "a|bc||1|0|0|0|-");
	EXPECT(m, "a|bc||2|0|0|0|-", "ab|c||1|0|0|0|-");
}

static void no_rows(void **state)
{
	(void)state;
	struct merge *m = merge_new(&view);
	struct rows rows;
	struct buf got;

	buf_init(&got, 0);
	merge_init_rows(m, &rows, NULL);
	merge_put(m, &got);
	assert_int_equal(got.len, 0);
	buf_done(&got);
	merge_free(&m);
	merge_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sums_and_first_values),
	    cmocka_unit_test(longest_wait),
	    cmocka_unit_test(nothing_gives_way_to_something),
	    cmocka_unit_test(worst_state),
	    cmocka_unit_test(sorted_rows),
	    cmocka_unit_test(sorted_numbers),
	    cmocka_unit_test(keys_are_told_apart),
	    cmocka_unit_test(no_rows),
	};

	return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
