/*
 * PREPARE, EXECUTE, DEALLOCATE: positions of errors, and which Bind may be sent again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/codec.h"
#include "wire/prepared.h"
#include "wire/prepared_sql.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

static const char *moved(const char *position, const struct prepared_sql_move *move)
{
	static const char none[] = "SERROR";
	char body[64];
	size_t len =
	    (size_t)snprintf(body, sizeof(body), "SERROR%cP%s%c", 0, position, 0);
	struct buf out;
	static char found[32];

	buf_init(&out, 0);
	prepared_sql_put_error((const uint8_t *)body, len + 1, move, &out);
	assert_false(out.failed);
	assert_string_equal((const char *)out.bytes, none);
	assert_int_equal(out.bytes[out.len - 1], 0);
	found[0] = 0;
	if (out.bytes[sizeof(none)] == 'P')
		strcpy(found, (const char *)out.bytes + sizeof(none) + 1);
	buf_done(&out);
	return found;
}

static void positions_are_those_of_the_clients_text(void **state)
{
	(void)state;
	/* "execute a(x)" is sent as 20 characters and "execute "LONG"(x)" */
	struct prepared_sql_move move = {.before = 20, .name = 8, .longer = 5};
	assert_string_equal(moved("7", &move), "");
	assert_string_equal(moved("20", &move), "");
	assert_string_equal(moved("21", &move), "1");
	assert_string_equal(moved("29", &move), "9");
	assert_string_equal(moved("36", &move), "11");
	move.longer = -2;
	assert_string_equal(moved("36", &move), "18");
}

/* A Bind with these formats and this many values. */
static bool may_bind(
    unsigned in, unsigned values, unsigned out, uint32_t type, bool described)
{
	struct prepared_registry *r =
	    prepared_registry_new(prepared_store_new(PREPARED_PREFIX));
	struct buf key, bind;
	bool result;

	buf_init(&key, 0);
	buf_put_str(&key, "select");
	buf_put_u16(&key, 1);
	buf_put_u32(&key, type);
	struct prepared_text *text = prepared_intern(r, "", key.bytes, key.len);
	buf_init(&bind, 0);
	size_t at = codec_begin(&bind, 'B');
	buf_put_str(&bind, "");
	buf_put_str(&bind, "s");
	buf_put_u16(&bind, 1);
	buf_put_u16(&bind, (uint16_t)in);
	buf_put_u16(&bind, (uint16_t)values);
	for (unsigned i = 0; i < values; i++)
		buf_put_u32(&bind, UINT32_MAX);
	buf_put_u16(&bind, 1);
	buf_put_u16(&bind, (uint16_t)out);
	codec_end(&bind, at);
	result = prepared_may_bind_again(bind.bytes, bind.len, text, described);
	assert_false(
	    prepared_may_bind_again(bind.bytes, bind.len - 1, text, described));
	buf_done(&bind);
	buf_done(&key);
	prepared_unref(text);
	prepared_registry_free(&r);
	return result;
}

static void bind_comes_again_only_if_its_types_are_known(void **state)
{
	(void)state;
	assert_true(may_bind(0, 1, 0, 0, false));
	assert_false(may_bind(1, 1, 0, 0, false));
	assert_true(may_bind(1, 1, 0, 23, false));
	assert_false(may_bind(1, 2, 0, 23, true));
	assert_false(may_bind(0, 1, 1, 23, false));
	assert_true(may_bind(0, 1, 1, 23, true));
}

static void spoilt_statement_is_as_good_as_new_when_added_again(void **state)
{
	(void)state;
	struct prepared_registry *r = prepared_registry_new(prepared_store_new("SQL_"));
	struct prepared_text *text = prepared_intern(r, "", (const uint8_t *)"q", 2);
	struct prepared_set *set = NULL;

	assert_string_equal(text->name, "SQL_1");
	prepared_set_spoil(set, text);
	assert_false(prepared_set_is_spoilt(set, text));
	assert_null(prepared_set_find(set, "SQL_1"));
	assert_int_equal(prepared_set_add(&set, text), 0);
	assert_ptr_equal(prepared_set_find(set, "SQL_1"), text);
	assert_null(prepared_set_find(set, "SQL_2"));
	prepared_set_spoil(set, text);
	assert_true(prepared_set_is_spoilt(set, text));
	prepared_set_del(&set, text);
	assert_int_equal(prepared_set_add(&set, text), 0);
	assert_false(prepared_set_is_spoilt(set, text));
	prepared_set_clear(&set);
	prepared_unref(text);
	prepared_registry_free(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(positions_are_those_of_the_clients_text),
	    cmocka_unit_test(bind_comes_again_only_if_its_types_are_known),
	    cmocka_unit_test(spoilt_statement_is_as_good_as_new_when_added_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
