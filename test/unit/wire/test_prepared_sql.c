/*
 * PREPARE, EXECUTE, DEALLOCATE: which queries are one of them, where the name stands
 * and what it is; positions of errors; which Bind may come again.
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

static struct prepared_sql look(const char *text)
{
	size_t len = strlen(text);
	/* of its own size, so that a read behind its end is seen */
	char *copy = malloc(len ? len : 1);
	struct prepared_sql sql;

	assert_non_null(copy);
	memcpy(copy, text, len);
	prepared_sql_look(copy, len, &sql);
	free(copy);
	return sql;
}

static void assert_is(const char *text, enum prepared_sql_kind kind,
    const char *written, const char *name)
{
	struct prepared_sql sql = look(text);

	assert_int_equal(sql.kind, kind);
	if (kind == PREPARED_SQL_NONE)
		return;
	assert_int_equal(sql.to - sql.from, strlen(written));
	assert_memory_equal(text + sql.from, written, strlen(written));
	assert_string_equal(sql.name, name);
}

static void names_are_found(void **state)
{
	(void)state;
	assert_is("prepare a as select 1", PREPARED_SQL_PREPARE, "a", "a");
	assert_is("PREPARE Abc(int)AS select 1;", PREPARED_SQL_PREPARE, "Abc", "abc");
	assert_is(
	    " /* a /* b */ */ -- c\nexecute x (1);;", PREPARED_SQL_EXECUTE, "x", "x");
	assert_is(
	    "execute\"A \"\" b\"", PREPARED_SQL_EXECUTE, "\"A \"\" b\"", "A \" b");
	assert_is("deallocate x", PREPARED_SQL_DEALLOCATE, "x", "x");
	assert_is("deallocate prepare x;", PREPARED_SQL_DEALLOCATE, "x", "x");
	assert_is("deallocate prepare", PREPARED_SQL_DEALLOCATE, "prepare", "prepare");
	assert_is(
	    "deallocate prepare ;", PREPARED_SQL_DEALLOCATE, "prepare", "prepare");
	assert_is("deallocate all", PREPARED_SQL_DEALLOCATE_ALL, "all", "all");
	assert_is("deallocate prepare all", PREPARED_SQL_DEALLOCATE_ALL, "all", "all");
	assert_is("deallocate \"all\"", PREPARED_SQL_DEALLOCATE, "\"all\"", "all");
	assert_is("prepare transaction as select 1", PREPARED_SQL_PREPARE,
	    "transaction", "transaction");
}

static void other_queries_are_none(void **state)
{
	(void)state;
	const char *const texts[] = {"", "select 1", "prepare", "execute",
	    "prepared a as x", "prepare transaction 'a'", "prepare \"\" as select 1",
	    "execute \"a", "execute 1", "execute u&\"a\"", "execute a b", "prepare a",
	    "prepare a assert", "; execute a", "explain execute a", "execute a.b"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_is(texts[i], PREPARED_SQL_NONE, "", "");
}

static void more_than_one_statement_is_none(void **state)
{
	(void)state;
	assert_is("execute a; select 1", PREPARED_SQL_NONE, "", "");
	assert_is("execute a(';'); select 1", PREPARED_SQL_NONE, "", "");
	assert_is("execute a('\\'); select 1", PREPARED_SQL_NONE, "", "");
	assert_is("execute a(e'\\'; x')", PREPARED_SQL_EXECUTE, "a", "a");
	assert_is("execute a(';', \";\", $$;$$, $x$;$$;$x$ /*;*/) --;",
	    PREPARED_SQL_EXECUTE, "a", "a");
	assert_is("prepare a as select $1 + $2; /* x */ ;-- y", PREPARED_SQL_PREPARE,
	    "a", "a");
	assert_int_equal(look("prepare a as b ; ").end, 15);
}

static void long_names_are_cut(void **state)
{
	(void)state;
	char text[128] = "execute ";
	memset(text + 8, 'X', 62);
	strcpy(text + 70, "\xc3\xa9z");
	struct prepared_sql sql = look(text);
	assert_int_equal(sql.kind, PREPARED_SQL_EXECUTE);
	assert_int_equal(strlen(sql.name), 62);
	assert_int_equal(sql.name[0], 'x');
	text[8] = text[72] = '"';
	strcpy(text + 73, "");
	assert_int_equal(look(text).kind, PREPARED_SQL_EXECUTE);
}

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
	/* "execute a(x)" sent as 20 characters and "execute "LONG"(x)" */
	struct prepared_sql_move move = {.before = 20, .name = 8, .longer = 5};
	assert_string_equal(moved("7", &move), "");
	assert_string_equal(moved("20", &move), "");
	assert_string_equal(moved("21", &move), "1");
	assert_string_equal(moved("29", &move), "9");
	assert_string_equal(moved("36", &move), "11");
	move.longer = -2;
	assert_string_equal(moved("36", &move), "18");
}

/* A Bind of these formats with so many values. */
static bool may_bind(
    unsigned in, unsigned values, unsigned out, uint32_t type, bool described)
{
	struct prepared_registry *r = prepared_registry_new();
	struct buf key, bind;
	bool result;

	buf_init(&key, 0);
	buf_put_str(&key, "select");
	buf_put_u16(&key, 1);
	buf_put_u32(&key, type);
	struct prepared_text *text = prepared_intern(r, key.bytes, key.len);
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
	struct prepared_registry *r = prepared_registry_new_named("SQL_");
	struct prepared_text *text = prepared_intern(r, (const uint8_t *)"q", 2);
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
	    cmocka_unit_test(names_are_found),
	    cmocka_unit_test(other_queries_are_none),
	    cmocka_unit_test(more_than_one_statement_is_none),
	    cmocka_unit_test(long_names_are_cut),
	    cmocka_unit_test(positions_are_those_of_the_clients_text),
	    cmocka_unit_test(bind_comes_again_only_if_its_types_are_known),
	    cmocka_unit_test(spoilt_statement_is_as_good_as_new_when_added_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
