/* The table of messages and the cutting of frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/buf.h"
#include "wire/message.h"

static void rows_of_both_sides(void **state)
{
	(void)state;
	assert_string_equal(message_front('Q')->name, "Query");
	assert_string_equal(message_back('Z')->name, "ReadyForQuery");
	/* The same type byte has two meanings. */
	assert_string_equal(message_front('C')->name, "Close");
	assert_string_equal(message_back('C')->name, "CommandComplete");
	assert_int_equal(message_back('Z')->min_len, 5);
	assert_true(message_front('p')->flags & MSG_SECRET);
	assert_true(message_back('N')->flags & MSG_ASYNC);
	assert_false(message_front('N')->flags);
}

static void rows_are_sound(void **state)
{
	unsigned fronts = 0, backs = 0;

	(void)state;
	for (unsigned i = 0; i < 256; i++) {
		const struct message_row *f = message_front((uint8_t)i);
		const struct message_row *b = message_back((uint8_t)i);
		assert_int_equal(f->name != NULL, (f->flags & MSG_KNOWN) != 0);
		assert_int_equal(b->name != NULL, (b->flags & MSG_KNOWN) != 0);
		assert_true(!f->name || f->min_len >= 4);
		assert_true(!b->name || b->min_len >= 4);
		assert_int_equal(
		    (f->flags & MSG_OWES) != 0, i && strchr("PBDECSQF", (int)i));
		fronts += f->name != NULL;
		backs += b->name != NULL;
	}
	assert_int_equal(fronts, 14);
	assert_int_equal(backs, 24);
}

static void names_messages_for_the_log(void **state)
{
	char letter[MESSAGE_LETTER], name[MESSAGE_NAME];

	(void)state;
	assert_string_equal(message_letter('D', letter), "D");
	assert_string_equal(message_letter(0, letter), "\\x00");
	assert_string_equal(message_letter(0xff, letter), "\\xff");
	assert_string_equal(message_back_name('D', name), " (DataRow)");
	assert_string_equal(
	    message_back_name('v', name), " (NegotiateProtocolVersion)");
	assert_string_equal(message_back_name('!', name), "");
}

static enum cut cut(
    uint8_t type, uint32_t length, size_t have, uint64_t max, struct frame *f)
{
	uint8_t bytes[5] = {type};

	put_u32(bytes + 1, length);
	return frame_cut(bytes, have, max, message_front_rows, f);
}

static void cuts_ordinary_frames(void **state)
{
	struct frame f;

	(void)state;
	assert_int_equal(cut('Q', 5, 4, 100, &f), CUT_PARTIAL);
	assert_int_equal(cut('Q', 5, 0, 100, &f), CUT_PARTIAL);
	assert_int_equal(cut('Q', 5, 5, 100, &f), CUT_OK);
	assert_int_equal(f.type, 'Q');
	assert_int_equal(f.size, 6);
	assert_int_equal(cut('Q', 4, 5, 100, &f), CUT_BAD);
	assert_int_equal(cut('S', 4, 5, 100, &f), CUT_OK);
	assert_int_equal(cut('S', 0, 5, 100, &f), CUT_BAD);
	assert_int_equal(cut('d', 99, 5, 100, &f), CUT_OK);
	assert_int_equal(cut('d', 100, 5, 100, &f), CUT_BAD);
	assert_int_equal(cut('d', UINT32_MAX, 5, UINT32_MAX, &f), CUT_BAD);
	assert_int_equal(cut('d', UINT32_MAX, 5, UINT64_MAX, &f), CUT_OK);
	assert_true(f.size == (uint64_t)UINT32_MAX + 1);
	assert_int_equal(cut('!', 3, 5, 100, &f), CUT_BAD);
	assert_int_equal(cut('!', 4, 5, 100, &f), CUT_OK); /* by the table's row */
}

static enum cut cut_startup(
    uint32_t length, uint32_t code, size_t have, struct frame *f)
{
	uint8_t bytes[8];

	put_u32(bytes, length);
	put_u32(bytes + 4, code);
	return frame_cut_startup(bytes, have, 1 << 20, f);
}

static void cuts_startup_packets(void **state)
{
	struct frame f;

	(void)state;
	assert_int_equal(cut_startup(8, STARTUP_SSL, 7, &f), CUT_PARTIAL);
	assert_int_equal(cut_startup(8, STARTUP_SSL, 8, &f), CUT_OK);
	assert_int_equal(f.code, STARTUP_SSL);
	assert_int_equal(f.size, 8);
	assert_int_equal(f.type, 0);
	assert_int_equal(cut_startup(7, PROTOCOL_3_0, 8, &f), CUT_BAD);
	assert_int_equal(cut_startup(65535, PROTOCOL_3_0, 8, &f), CUT_OK);
	assert_int_equal(cut_startup(65536, PROTOCOL_3_0, 8, &f), CUT_BAD);
	assert_int_equal(cut_startup(UINT32_MAX, PROTOCOL_3_0, 8, &f), CUT_BAD);
	uint8_t bytes[8] = {0, 0, 0, 9};
	assert_int_equal(frame_cut_startup(bytes, 8, 8, &f), CUT_BAD);
}

/* Rows are counted up to one that is cut, too short, too long or of another type. */
static void counts_frames_of_one_type(void **state)
{
	(void)state;
	static const uint8_t rows[] = {
	    'D', 0, 0, 0, 6, 0, 0, 'D', 0, 0, 0, 8, 0, 1, 2, 3, 'C', 0, 0, 0, 5, 0};
	const struct message_row *table = message_back_rows;
	uint8_t bad[sizeof(rows)];

	memcpy(bad, rows, sizeof(rows));
	assert_int_equal(frame_alike(rows, sizeof(rows), 1000, table, 'D'), 16);
	assert_int_equal(frame_alike(rows, 16, 16, table, 'D'), 16);
	assert_int_equal(frame_alike(rows, 16, 15, table, 'D'), 0);
	assert_int_equal(frame_alike(rows, 15, 1000, table, 'D'), 7);
	assert_int_equal(frame_alike(rows, 11, 1000, table, 'D'), 7);
	assert_int_equal(frame_alike(rows, 6, 1000, table, 'D'), 0);
	assert_int_equal(frame_alike(rows, 0, 1000, table, 'D'), 0);
	assert_int_equal(frame_alike(rows, sizeof(rows), 1000, table, 'C'), 0);
	bad[4] = 3;
	assert_int_equal(frame_alike(bad, sizeof(bad), 1000, table, 'D'), 0);
	memset(bad + 1, 0xff, 4);
	assert_int_equal(frame_alike(bad, sizeof(bad), 1000, table, 'D'), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rows_of_both_sides),
	    cmocka_unit_test(rows_are_sound),
	    cmocka_unit_test(names_messages_for_the_log),
	    cmocka_unit_test(cuts_ordinary_frames),
	    cmocka_unit_test(cuts_startup_packets),
	    cmocka_unit_test(counts_frames_of_one_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
