/* The messages of prepared statements: which statement they are about, renaming, and
 * what a query or an error tells about statements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/buf.h"
#include "wire/prepared.h"

static void assert_bytes(const struct buf *b, const void *bytes, size_t len)
{
	assert_false(b->failed);
	assert_int_equal(b->len, len);
	assert_memory_equal(b->bytes, bytes, len);
}

#define NAMED    PREPARED_NAMED
#define UNNAMED  PREPARED_UNNAMED
#define PORTAL   PREPARED_PORTAL
#define BROKEN   PREPARED_BROKEN
#define PARTIAL  PREPARED_PARTIAL
#define BYTES(s) s, sizeof(s) - 1

struct message_case {
	const char *bytes;
	size_t size;
	enum prepared_target target;
	const char *name;
};

static const struct message_case messages[] = {
    {BYTES("P....s\0select\0\0\0"), NAMED, "s"},
    {BYTES("P....s\0\0\0\1\0\0\0\1"), NAMED, "s"},
    {BYTES("P....\0select\0\0\0"), UNNAMED, ""},
    {BYTES("P....\0what is this"), UNNAMED, ""},
    {BYTES("P....s\0select"), BROKEN, ""},
    {BYTES("P....s\0select\0\0"), BROKEN, ""},
    {BYTES("P....s\0select\0\0\1\0\0\0"), BROKEN, ""},
    {BYTES("P....s\0select\0\0\0\0"), BROKEN, ""},
    {BYTES("P....s\0select\0\xff\xff\0\0\0\0"), BROKEN, ""},
    {BYTES("P....s"), BROKEN, ""},
    {BYTES("B....p\0s\0\0\0\0\0\0\0"), NAMED, "s"},
    {BYTES("B....\0stmt\0"), NAMED, "stmt"},
    {BYTES("B....p\0\0\0\0\0\0\0\0"), UNNAMED, ""},
    {BYTES("B....p\0s"), BROKEN, ""},
    {BYTES("B....p"), BROKEN, ""},
    {BYTES("D....Ss\0"), NAMED, "s"},
    {BYTES("D....S\0"), UNNAMED, ""},
    {BYTES("D....Pp\0"), PORTAL, ""},
    {BYTES("D....Ss\0x"), BROKEN, ""},
    {BYTES("D....Xs\0"), BROKEN, ""},
    {BYTES("D...."), BROKEN, ""},
    {BYTES("C....Slong name\0"), NAMED, "long name"},
    {BYTES("C....P\0"), PORTAL, ""},
    {BYTES("C....Ss"), BROKEN, ""},
    {BYTES("E....s\0"), BROKEN, ""},
    {BYTES("P..."), BROKEN, ""},
};

static void test_what_messages_are_about(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
		const struct message_case *m = &messages[i];
		const uint8_t *bytes = (const uint8_t *)m->bytes;
		const char *name;
		size_t rest;

		assert_int_equal(
		    prepared_look(bytes, m->size, m->size, &name, &rest), m->target);
		assert_string_equal(name, m->name);
		if (m->target != NAMED)
			continue;
		assert_ptr_equal(bytes + rest, name + strlen(name) + 1);
		/* More bytes are here than the message. */
		assert_int_equal(
		    prepared_look(bytes, m->size + 1, m->size, &name, NULL), NAMED);
	}
}

/* A message in pieces is not refused before it is whole; its name is told at once. */
static void test_messages_that_come_in_pieces(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
		const struct message_case *m = &messages[i];
		const uint8_t *bytes = (const uint8_t *)m->bytes;

		if (m->target != NAMED)
			continue;
		const char *name;
		size_t rest;
		prepared_look(bytes, m->size, m->size, &name, &rest);
		size_t end = rest;
		for (size_t have = 0; have < m->size; have++) {
			uint8_t *part = malloc(have ? have : 1); /* for sanitizers */
			memcpy(part, bytes, have);
			assert_int_equal(
			    prepared_look(part, have, m->size, &name, &rest),
			    have < end ? PARTIAL : NAMED);
			free(part);
		}
	}
}

static void assert_renamed(const char *bytes, size_t size, const char *name,
    const char *expected, size_t expected_len)
{
	struct buf out;
	size_t rest;

	buf_init(&out, 0);
	prepared_rename((const uint8_t *)bytes, size, size, name, &out, &rest);
	assert_int_equal(rest <= size, 1);
	buf_put(&out, bytes + rest, size - rest);
	assert_bytes(&out, expected, expected_len);
	buf_done(&out);
}

static void test_messages_renamed(void **state)
{
	(void)state;
	assert_renamed(BYTES("P\0\0\0\x0fs\0select\0\0\0"), "longer",
	    BYTES("P\0\0\0\x14longer\0select\0\0\0"));
	assert_renamed(BYTES("B\0\0\0\x15portal\0stmt\0\0\1\1\2"), "x",
	    BYTES("B\0\0\0\x11portal\0x\0\0\1\1\2"));
	assert_renamed(
	    BYTES("D\0\0\0\7Ss\0"), "PGBOUNCER_9", BYTES("D\0\0\0\x11SPGBOUNCER_9\0"));
	assert_renamed(BYTES("C\0\0\0\7Ss\0"), "", BYTES("C\0\0\0\6S\0"));
	assert_renamed(
	    BYTES("B\0\0\0\x08\0\0\0\1"), "s", BYTES("B\0\0\0\x09\0s\0\0\1"));
}

static void test_rename_of_a_message_that_is_not_all_here(void **state)
{
	struct buf out;
	size_t rest;

	(void)state;
	buf_init(&out, 0);
	prepared_rename((const uint8_t *)"B\0\0\1\0p\0s\0", 9, 257, "abc", &out, &rest);
	assert_bytes(&out, "B\0\0\1\2p\0abc\0", 11);
	assert_int_equal(rest, 9);
	buf_done(&out);
}

static void test_rename_that_cannot_be(void **state)
{
	static const struct {
		const char *bytes;
		size_t have;
		uint64_t size;
	} cases[] = {
	    {"D....Pp\0", 8, 8},
	    {"B....p\0s", 8, 20},
	    {"P....s\0", 7, (uint64_t)INT32_MAX + 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct buf out;
		size_t rest;

		buf_init(&out, 0);
		prepared_rename((const uint8_t *)cases[i].bytes, cases[i].have,
		    cases[i].size, "abc", &out, &rest);
		assert_true(out.failed);
		buf_done(&out);
	}
}

static void assert_error(const char *body, size_t len, const char *ours,
    const char *expected, size_t expected_len)
{
	struct buf out;

	buf_init(&out, 0);
	prepared_put_error_renamed((const uint8_t *)body, len, ours, "mine", &out);
	assert_false(out.failed);
	assert_int_equal(out.bytes[0], 'E');
	assert_int_equal(get_u32(out.bytes + 1), out.len - 1);
	assert_int_equal(out.len - 5, expected_len);
	assert_memory_equal(out.bytes + 5, expected, expected_len);
	buf_done(&out);
}

#define SAME(s) BYTES(s), "PGBOUNCER_1", BYTES(s)

static void test_errors_renamed(void **state)
{
	(void)state;
	assert_error(BYTES("SERROR\0C26000\0Mstatement \"PGBOUNCER_1\" is not\0\0"),
	    "PGBOUNCER_1", BYTES("SERROR\0C26000\0Mstatement \"mine\" is not\0\0"));
	assert_error(BYTES("M\xc2\xabPGBOUNCER_1\xc2\xbb\0"), "PGBOUNCER_1",
	    BYTES("M\xc2\xabmine\xc2\xbb\0"));
	assert_error(BYTES("MPGBOUNCER_12 PGBOUNCER_1\0"), "PGBOUNCER_1",
	    BYTES("MPGBOUNCER_12 mine\0"));
	/* Other names, other fields, and invalid bodies are left as they are. */
	assert_error(SAME("MPGBOUNCER_12\0MxPGBOUNCER_1\0\0"));
	assert_error(SAME("DPGBOUNCER_1\0\0MPGBOUNCER_1\0"));
	assert_error(SAME("MPGBOUNCER_1"));
	assert_error(SAME("M"));
	assert_error(SAME(""));
	assert_error(SAME("\0\0\0"));
	assert_error(BYTES("Mabc\0"), "", BYTES("Mabc\0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_messages_are_about),
	    cmocka_unit_test(test_messages_that_come_in_pieces),
	    cmocka_unit_test(test_messages_renamed),
	    cmocka_unit_test(test_rename_of_a_message_that_is_not_all_here),
	    cmocka_unit_test(test_rename_that_cannot_be),
	    cmocka_unit_test(test_errors_renamed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
