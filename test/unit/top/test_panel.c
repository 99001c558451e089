/* The live view as text: numbers, rates, order, widths; and what keys do to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "top/board.h"

/* Columns in the first line, then rows; cells are words. */
static void fill(struct table *t, uint64_t taken_us, const char *text)
{
	char line[256];

	table_clear(t);
	t->taken_us = taken_us;
	for (bool is_first = true; *text; is_first = false) {
		size_t len = strcspn(text, "\n"), column = 0;
		snprintf(line, sizeof(line), "%.*s", (int)len, text);
		if (!is_first)
			assert_int_equal(table_begin_row(t, t->column_count), 0);
		for (char *at = line, *word; (word = strsep(&at, " ")); column++) {
			const uint8_t *bytes = (const uint8_t *)word;
			if (is_first)
				table_put_name(t, bytes, strlen(word));
			else
				table_put_cell(t, column, bytes, strlen(word));
		}
		text += len + (text[len] == '\n');
	}
}

#define STATS                                                                    \
	"database total_xact_count total_query_count total_received total_sent " \
	"total_xact_time total_query_time total_wait_time\n"

struct fixture {
	struct board board;
	struct keys keys;
	struct buf out;
};

static int set_up(void **state)
{
	struct fixture *f = mem_zero(sizeof(*f));

	keys_init(&f->keys);
	buf_init(&f->out, 0);
	fill(&f->board.before[BOARD_STATS], 1000000,
	    STATS "a 100 100 0 0 0 0 0\nb 5 5 0 0 0 0 0\npgbouncer 7 7 0 0 0 0 0\n");
	fill(&f->board.now[BOARD_STATS], 3000000,
	    STATS "a 120 140 4000000 0 40000 0 0\nb 105 5 0 0 0 0 0\n"
		  "pgbouncer 9 9 0 0 0 0 0\n");
	fill(&f->board.now[BOARD_POOLS], 3000000,
	    "database user cl_active cl_waiting sv_active sv_idle sv_used maxwait "
	    "maxwait_us pool_mode\na u 3 1 2 1 5 2 500000 session\n"
	    "b u 4 0 1 0 0 0 0 transaction\npgbouncer pgbouncer 1 0 0 0 0 0 0 "
	    "statment\n");
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	board_clear(&f->board);
	buf_done(&f->out);
	mem_free(f);
	return 0;
}

static const char *shown(struct fixture *f, int width, int lines)
{
	struct screen s = {.board = &f->board,
	    .keys = &f->keys,
	    .clock = "12:34:56",
	    .message = "",
	    .width = width,
	    .lines = lines};

	buf_clear(&f->out);
	screen_put(&f->out, &s);
	return buf_text(&f->out);
}

static void has(const char *text, const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("'%s' is not in\n%s", wanted, text);
}

static void numbers(void **state)
{
	static const struct {
		double number;
		const char *count, *duration;
	} cases[] = {{0, "0", "0us"}, {999, "999", "999us"}, {1000, "1000", "1.0ms"},
	    {12345, "12345", "12ms"}, {999999, "999999", "1.0s"},
	    {1500000, "1.5M", "1.5s"}, {123456789, "123M", "123s"},
	    {2.5e9, "2.5G", "2500s"}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[16];
		panel_print_number(cases[i].number, text);
		assert_string_equal(text, cases[i].count);
		panel_print_duration(cases[i].number, text);
		assert_string_equal(text, cases[i].duration);
	}
}

static void head_adds_up_without_the_console(void **state)
{
	struct fixture *f = *state;
	const char *text = shown(f, 80, 24);

	has(text, "12:34:56 ");
	has(text,
	    "\nclients: 7 active, 1 waiting   servers: 3 active, 1 idle, 5 used, ");
	has(text, "\n60 xact/s   20 queries/s   2.0M B/s in   0 B/s out");
}

static void rates_and_averages(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(keys_press(&f->keys, '2'), KEYS_ASK);
	const char *text = shown(f, 80, 24);
	has(text, " 50        0        0        0     0us");
	has(text, " 10       20     2.0M        0   2.0ms");
	/* counted anew after a restart: nothing is told */
	fill(&f->board.before[BOARD_STATS], 1000000, STATS "a 9999 9999 0 0 0 0 0\n");
	has(shown(f, 80, 24), "\na                   0        0 ");
	/* only newer poolers tell how much parsing could be saved, and was */
	fill(&f->board.before[BOARD_STATS], 1000000,
	    "database total_repeated_parse_count total_saved_parse_count\na 10 0\n");
	fill(&f->board.now[BOARD_STATS], 3000000,
	    "database total_repeated_parse_count total_saved_parse_count\na 90 60\n");
	text = shown(f, 100, 24);
	has(text, "REPARSE SAVED/S");
	has(text, "      40      30\n");
}

static void rows_are_sorted_and_chosen(void **state)
{
	struct fixture *f = *state;
	const char *text = shown(f, 80, 24);

	has(text, "*CL_WAIT");
	has(text, "\na             u                3        1       2        1     "
		  "2.5s       - sess");
	assert_true(strstr(text, "\na  ") < strstr(text, "\nb  "));
	assert_int_equal(keys_press(&f->keys, '<'), KEYS_DRAW);
	text = shown(f, 80, 24);
	has(text, "*CL_ACT");
	assert_true(strstr(text, "\nb  ") < strstr(text, "\na  "));
	(void)keys_press(&f->keys, 'r');
	text = shown(f, 80, 24);
	assert_true(strstr(text, "\npgb") < strstr(text, "\na  "));
	assert_true(strstr(text, "\na  ") < strstr(text, "\nb  "));
	(void)keys_press(&f->keys, '/');
	(void)keys_press(&f->keys, 'x');
	(void)keys_press(&f->keys, KEYS_ERASE);
	(void)keys_press(&f->keys, 'b');
	assert_int_equal(keys_press(&f->keys, '\n'), KEYS_ASK);
	text = shown(f, 80, 24);
	has(text, "pools: 2 with 'b'");
	assert_null(strstr(text, "\na  "));
	(void)keys_press(&f->keys, KEYS_DOWN);
	has(shown(f, 80, 24), ", from 2 on");
	for (int i = 0; i < 9; i++)
		(void)keys_press(&f->keys, KEYS_LEFT);
	has(shown(f, 80, 24), "\n*DATABASE");
}

static void lines_are_within_the_screen(void **state)
{
	struct fixture *f = *state;

	for (int width = 20; width <= 140; width += 15) {
		const char *text = shown(f, width, 24);
		for (; *text; text += strcspn(text, "\n") + 1)
			assert_in_range(strcspn(text, "\n"), 0, width);
	}
	/* names get what is left, and titles stand above their columns */
	const char *wide = shown(f, 120, 24);
	const char *titles = strstr(wide, "DATABASE"), *row = strstr(wide, "\na ") + 1;
	assert_int_equal(strstr(titles, "MODE") - titles, strstr(row, "session") - row);
	/* a title stands whole or not at all */
	const char *all = " MODE         SV_USED  SV_TEST  SV_LOGIN";
	has(shown(f, 115, 24), all);
	for (int columns = 114; columns >= 83; columns--) {
		const char *line = strstr(shown(f, columns, 24), " MODE");
		size_t len = strcspn(line, "\n");
		while (len && line[len - 1] == ' ')
			len--;
		assert_memory_equal(line, all, len);
		assert_int_equal(all[len], ' ');
	}
	has(shown(f, 135, 24), "  SV_LOGIN  SV_PIN  LISTEN");
	/* six lines are above the rows, one is below */
	assert_null(strstr(shown(f, 80, 8), "\nb  "));
	assert_non_null(strstr(shown(f, 80, 9), "\nb  "));
}

#define LATENCY "database user kind count recent_count p50 recent_p50\n"

static void transactions_of_pools_come_from_latency(void **state)
{
	struct fixture *f = *state;

	fill(&f->board.before[BOARD_LATENCY], 1000000, LATENCY "a u transaction 10\n");
	fill(&f->board.now[BOARD_LATENCY], 3000000,
	    LATENCY "a u wait 7\na u transaction 50\nb u transaction 4\n"
		    " transaction 99\n");
	assert_true(board_needs(&f->board, BOARD_LATENCY, PANEL_POOLS));
	const char *text = shown(f, 80, 24);
	has(text, " 2.5s      20 sess");
	has(text, " 0us       2 tran");
	has(text, " 0us       0 stat");
}

static void latency_of_the_last_period(void **state)
{
	struct fixture *f = *state;

	fill(&f->board.now[BOARD_LATENCY], 1000000,
	    LATENCY "a u query 50 5 300 1300\n  query 60 6 200 1200\n");
	(void)keys_press(&f->keys, '3');
	const char *text = shown(f, 80, 24);
	has(text, "\nlatency since the start (t: recent): 2");
	has(text, "\n(all)                     query            60  200us");
	assert_int_equal(keys_press(&f->keys, 't'), KEYS_DRAW);
	text = shown(f, 80, 24);
	has(text, "\nlatency in the last stats_period and the running one (t: all)");
	has(text, "\na              u          query             5  1.3ms");
}

static void clients_are_sorted_by_their_query(void **state)
{
	struct fixture *f = *state;

	fill(&f->board.now[BOARD_CLIENTS], 1000000,
	    "user database state addr wait wait_us id application_name\n"
	    "u d idle ::1 0 0 4 \nu d waiting ::1 3 500000 5 web\n"
	    "u d active 10.0.0.1 0 900 6 job\n");
	assert_int_equal(keys_press(&f->keys, '7'), KEYS_ASK);
	assert_true(board_needs(&f->board, BOARD_CLIENTS, PANEL_CLIENTS));
	assert_false(board_needs(&f->board, BOARD_CLIENTS, PANEL_POOLS));
	const char *text = shown(f, 80, 24);
	has(text, " waiting     3.5s ::1 ");
	assert_true(strstr(text, " waiting ") < strstr(text, " active "));
	assert_true(strstr(text, "900us") < strstr(text, " idle "));
}

static void uptime(void **state)
{
	struct fixture *f = *state;

	fill(&f->board.now[BOARD_STATE], 0, "key value\nactive yes\n");
	assert_null(strstr(shown(f, 80, 24), " up "));
	fill(&f->board.now[BOARD_STATE], 0, "key value\nuptime_seconds 3725\n");
	has(shown(f, 80, 24), " up 01:02:05\n");
	fill(&f->board.now[BOARD_STATE], 0, "key value\nuptime_seconds 90061\n");
	has(shown(f, 80, 24), " up 1d 01:01:01\n");
}

static void an_older_pooler_has_fewer_views(void **state)
{
	struct fixture *f = *state;

	f->board.now[BOARD_LATENCY].is_refused = true;
	(void)keys_press(&f->keys, '3');
	has(shown(f, 80, 24), "this pooler has no such view");
	assert_false(board_needs(&f->board, BOARD_LATENCY, PANEL_LATENCY));
	assert_true(board_needs(&f->board, BOARD_HOSTS, PANEL_HOSTS));
	assert_false(board_needs(&f->board, BOARD_HOSTS, PANEL_POOLS));
}

static void other_keys(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(keys_press(&f->keys, 'h'), KEYS_DRAW);
	has(shown(f, 80, 24), "this help");
	assert_int_equal(keys_press(&f->keys, 'x'), KEYS_DRAW);
	assert_int_equal(keys_press(&f->keys, 'x'), KEYS_NOTHING);
	/* the digits that the help lists choose panels there, too */
	(void)keys_press(&f->keys, 'h');
	assert_int_equal(keys_press(&f->keys, '4'), KEYS_ASK);
	has(shown(f, 80, 24), "\nblockers: ");
	(void)keys_press(&f->keys, '1');
	for (const char *typed = "d0.5\n"; *typed; typed++)
		(void)keys_press(&f->keys, *typed);
	assert_true(f->keys.delay_s > 0.49 && f->keys.delay_s < 0.51);
	for (const char *typed = "s-1\ns0\nsx\n"; *typed; typed++)
		(void)keys_press(&f->keys, *typed);
	assert_true(f->keys.delay_s > 0.49 && f->keys.delay_s < 0.51);
	assert_int_equal(keys_press(&f->keys, 'q'), KEYS_LEAVE);
}

#define WITH_BOARD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers),
	    WITH_BOARD(head_adds_up_without_the_console),
	    WITH_BOARD(rates_and_averages),
	    WITH_BOARD(rows_are_sorted_and_chosen),
	    WITH_BOARD(lines_are_within_the_screen),
	    WITH_BOARD(transactions_of_pools_come_from_latency),
	    WITH_BOARD(latency_of_the_last_period),
	    WITH_BOARD(clients_are_sorted_by_their_query),
	    WITH_BOARD(uptime),
	    WITH_BOARD(an_older_pooler_has_fewer_views),
	    WITH_BOARD(other_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
