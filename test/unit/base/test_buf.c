/*
 * Buffers with a maximum and the cursor that never reads past its end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/buf.h"
#include "base/mem.h"

static void puts_in_network_order(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	assert_null(b.bytes);
	buf_put_u8(&b, 1);
	buf_put_u16(&b, 0x0203);
	buf_put_u32(&b, 0x04050607);
	buf_put_str(&b, "ab");
	buf_put_text(&b, "cd");
	buf_printf(&b, "%d-%s", 42, "x");
	assert_false(b.failed);
	assert_int_equal(b.len, 7 + 3 + 2 + 4);
	assert_memory_equal(b.bytes, "\1\2\3\4\5\6\7ab\0cd42-x", b.len);
	buf_shift(&b, 10);
	assert_string_equal(buf_text(&b), "cd42-x");
	buf_shift(&b, 6);
	assert_int_equal(b.len, 0);
	assert_string_equal(buf_text(&b), "");
	buf_done(&b);
	assert_null(b.bytes);
	buf_put_text(&b, "again");
	assert_string_equal(buf_text(&b), "again");
	buf_wipe_done(&b);
	buf_wipe_done(&b);
}

static void the_maximum_holds_and_failure_sticks(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 5);
	buf_put_text(&b, "12345");
	assert_false(b.failed);
	assert_string_equal(buf_text(&b), "12345");
	assert_null(buf_room(&b, 1));
	assert_true(b.failed);
	assert_string_equal(buf_text(&b), "");
	buf_put(&b, "", 0);
	buf_clear(&b);
	buf_put_text(&b, "1234");
	buf_printf(&b, "%s", "56");
	assert_true(b.failed);
	assert_int_equal(b.len, 4);
	buf_put_u8(&b, '5');
	assert_true(b.failed);
	assert_int_equal(b.len, 4);
	buf_clear(&b);
	buf_printf(&b, "%05d", 7);
	assert_string_equal(buf_text(&b), "00007");
	assert_null(buf_room(&b, SIZE_MAX));
	buf_done(&b);

	buf_init(&b, 0);
	buf_put_u8(&b, 'x');
	assert_null(buf_room(&b, SIZE_MAX));
	buf_clear(&b);
	assert_null(buf_room(&b, SIZE_MAX / 4));
	assert_true(b.failed);
	buf_done(&b);
}

static void room_and_grow(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 100000);
	assert_non_null(buf_room(&b, 0));
	for (int i = 0; i < 1000; i++) {
		uint8_t *to = buf_room(&b, 100);
		assert_non_null(to);
		memset(to, i % 256, 100);
		buf_grow(&b, 100);
	}
	assert_null(buf_room(&b, 1));
	buf_clear(&b);
	assert_int_equal(b.bytes[99999], 999 % 256);
	assert_int_equal(b.bytes[0], 0);
	buf_shift(&b, 0);
	buf_done(&b);
}

static void cursor_reads_what_buf_wrote(void **state)
{
	struct cursor c;
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	buf_put_u8(&b, 0xf1);
	buf_put_u16(&b, 0xf2f3);
	buf_put_u32(&b, 0xf4f5f6f7);
	buf_put_str(&b, "name");
	buf_put_str(&b, "");
	buf_put(&b, "tail", 4);
	cursor_init(&c, b.bytes, b.len);
	assert_int_equal(cursor_u8(&c), 0xf1);
	assert_int_equal(cursor_u16(&c), 0xf2f3);
	assert_int_equal(cursor_u32(&c), 0xf4f5f6f7);
	assert_string_equal(cursor_str(&c), "name");
	assert_string_equal(cursor_str(&c), "");
	assert_int_equal(cursor_left(&c), 4);
	assert_memory_equal(cursor_bytes(&c, 4), "tail", 4);
	assert_non_null(cursor_bytes(&c, 0));
	assert_false(c.overrun);
	assert_int_equal(cursor_u8(&c), 0);
	assert_true(c.overrun);
	buf_done(&b);
}

static void overrun_sticks(void **state)
{
	/* The heap block has the exact size, so that a read past it is seen. */
	uint8_t *three = mem_dup("abc", 3);
	struct cursor c;

	(void)state;
	cursor_init(&c, three, 3);
	assert_int_equal(cursor_u32(&c), 0);
	assert_true(c.overrun);
	assert_int_equal(cursor_u8(&c), 0);
	assert_int_equal(cursor_u16(&c), 0);
	assert_null(cursor_bytes(&c, 1));
	assert_string_equal(cursor_str(&c), "");

	cursor_init(&c, three, 3);
	assert_string_equal(cursor_str(&c), "");
	assert_true(c.overrun);
	cursor_init(&c, three, 3);
	assert_null(cursor_bytes(&c, SIZE_MAX));
	cursor_init(&c, three, 3);
	assert_int_equal(cursor_u16(&c), 0x6162);
	assert_int_equal(cursor_u16(&c), 0);
	assert_true(c.overrun);
	cursor_init(&c, NULL, 0);
	assert_string_equal(cursor_str(&c), "");
	assert_true(c.overrun);
	mem_free(three);
}

static void room_of_the_caller(void **state)
{
	uint8_t room[8];
	struct buf b;

	(void)state;
	buf_init_in(&b, 100, room, sizeof(room));
	buf_put(&b, "12345678", 8);
	assert_ptr_equal(b.bytes, room);
	/* it can be used again, and what does not fit is allocated */
	buf_clear(&b);
	buf_put_text(&b, "abcdef");
	assert_ptr_equal(b.bytes, room);
	buf_put_text(&b, "ghi");
	assert_ptr_not_equal(b.bytes, room);
	assert_string_equal(buf_text(&b), "abcdefghi");
	buf_done(&b);
	buf_init_in(&b, 3, room, sizeof(room));
	buf_put_text(&b, "abcd"); /* the maximum holds */
	assert_true(b.failed);
	buf_done(&b);
	assert_null(b.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(puts_in_network_order),
	    cmocka_unit_test(the_maximum_holds_and_failure_sticks),
	    cmocka_unit_test(room_and_grow),
	    cmocka_unit_test(room_of_the_caller),
	    cmocka_unit_test(cursor_reads_what_buf_wrote),
	    cmocka_unit_test(overrun_sticks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
