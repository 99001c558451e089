/* Prepared statements: texts, names, sets and the journal, case by case.  prop_prepared
 * tests all of them with random messages; test_prepared_message tests the messages. */
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

static struct prepared_registry *registry;

static int start(void **state)
{
	(void)state;
	registry = prepared_registry_new(prepared_store_new(PREPARED_PREFIX));
	return 0;
}

/* After each test no text may be left. */
static int stop(void **state)
{
	(void)state;
	assert_int_equal(prepared_registry_count(registry), 0);
	prepared_registry_free(&registry);
	assert_null(registry);
	return 0;
}

static struct prepared_text *intern(const char *sql, const uint32_t *types, size_t n)
{
	struct buf key;

	buf_init(&key, 0);
	buf_put_str(&key, sql);
	buf_put_u16(&key, (uint16_t)n);
	for (size_t i = 0; i < n; i++)
		buf_put_u32(&key, types[i]);
	struct prepared_text *t = prepared_intern(registry, "", key.bytes, key.len);
	buf_done(&key);
	assert_non_null(t);
	return t;
}

static struct prepared_text *text_of(const char *sql)
{
	return intern(sql, NULL, 0);
}

static void assert_bytes(const struct buf *b, const void *bytes, size_t len)
{
	assert_false(b->failed);
	assert_int_equal(b->len, len);
	assert_memory_equal(b->bytes, bytes, len);
}

/* ---- texts ---- */

static void test_same_bytes_share_one_text(void **state)
{
	static const uint32_t types[] = {23, 0x80000001};
	struct prepared_text *a = intern("select $1", types, 2);
	struct prepared_text *b = intern("select $1", types, 2);
	struct prepared_text *other = intern("select $1", types, 1);

	(void)state;
	assert_ptr_equal(a, b);
	assert_ptr_not_equal(a, other);
	assert_int_equal(a->refs, 2);
	assert_int_equal(a->stored->id, 1);
	assert_int_equal(other->stored->id, 2);
	assert_string_equal(a->name, "PGBOUNCER_1");
	assert_string_equal(prepared_sql(a), "select $1");
	assert_int_equal(prepared_type_count(a), 2);
	assert_int_equal(prepared_type(a, 0), 23);
	assert_int_equal(prepared_type(a, 1), 0x80000001);
	assert_int_equal(prepared_type_count(other), 1);
	prepared_unref(a);
	prepared_unref(b);
	prepared_unref(other);
	prepared_unref(NULL);
}

static void test_a_text_that_nobody_wants_is_gone(void **state)
{
	struct prepared_text *t = text_of("select 1");

	(void)state;
	assert_int_equal(prepared_registry_count(registry), 1);
	prepared_unref(t);
	assert_int_equal(prepared_registry_count(registry), 0);
	/* Numbers are not used again: a server may still have the old statement. */
	t = text_of("select 1");
	assert_int_equal(t->stored->id, 2);
	prepared_unref(t);
}

static void test_texts_come_sorted_by_number(void **state)
{
	static const char *const sql[] = {"a", "b", "c", "d", "e", "f", "g"};
	enum { COUNT = sizeof(sql) / sizeof(*sql) };
	size_t count;

	(void)state;
	for (size_t i = 0; i < COUNT; i++)
		text_of(sql[i]);
	struct prepared_text **all = prepared_registry_sorted(registry, &count);
	assert_int_equal(count, COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		assert_string_equal(prepared_sql(all[i]), sql[i]);
		prepared_unref(all[i]);
	}
	free(all);
	all = prepared_registry_sorted(registry, &count);
	assert_non_null(all);
	assert_int_equal(count, 0);
	free(all);
}

static void test_broken_keys_are_harmless(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *sql;
		size_t types;
	} cases[] = {
	    {"", 0, "", 0},
	    {"no end", 6, "no end", 0},
	    {"x\0\xff", 3, "x", 0},
	    {"x\0\xff\xff", 4, "x", 0},
	    {"x\0\xff\xff\0\0\0\1\0\0\0", 11, "x", 1},
	    {"x\0\0\0\0\0\0\1", 8, "x", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct prepared_text *t = prepared_intern(
		    registry, "", (const uint8_t *)cases[i].bytes, cases[i].len);
		assert_string_equal(prepared_sql(t), cases[i].sql);
		assert_int_equal(prepared_type_count(t), cases[i].types);
		if (cases[i].types)
			assert_int_equal(prepared_type(t, 0), 1);
		prepared_unref(t);
	}
}

static void test_parse_and_close_as_sent(void **state)
{
	static const uint32_t type = 23;
	static const char parse[] = "P\0\0\0\x20PGBOUNCER_1\0select $1\0\0\1\0\0\0\x17";
	static const char close[] = "C\0\0\0\x11SPGBOUNCER_1";
	struct prepared_text *t = intern("select $1", &type, 1);
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	prepared_put_parse(t, &b);
	assert_bytes(&b, parse, sizeof(parse) - 1);
	buf_clear(&b);
	prepared_put_close(t->name, &b);
	assert_bytes(&b, close, sizeof(close));
	prepared_put_parse_begin(t, INT32_MAX, &b);
	assert_true(b.failed);
	buf_done(&b);
	prepared_unref(t);
}

/* ---- names ---- */

static void test_names_are_found_replaced_and_deleted(void **state)
{
	struct prepared_names *names = NULL;
	struct prepared_text *a = text_of("a"), *b = text_of("b");

	(void)state;
	assert_null(prepared_names_find(names, "s"));
	assert_false(prepared_names_del(&names, "s"));
	assert_int_equal(prepared_names_put(&names, "s", a, 0), 0);
	assert_int_equal(prepared_names_put(&names, "t", a, 0), 0);
	assert_int_equal(a->refs, 3);
	assert_int_equal(a->clients, 2);
	assert_ptr_equal(prepared_names_find(names, "s"), a);
	assert_int_equal(prepared_names_put(&names, "s", b, 0), 0);
	assert_ptr_equal(prepared_names_find(names, "s"), b);
	assert_int_equal(a->clients, 1);
	assert_int_equal(prepared_names_count(names), 2);
	assert_true(prepared_names_del(&names, "s"));
	assert_null(prepared_names_find(names, "s"));
	assert_int_equal(b->refs, 1);
	assert_true(prepared_names_del(&names, "t"));
	/* A client without names uses no memory again. */
	assert_null(names);
	assert_int_equal(prepared_names_count(names), 0);
	prepared_unref(a);
	prepared_unref(b);
}

static void test_a_name_put_again_with_its_only_text(void **state)
{
	struct prepared_names *names = NULL;
	struct prepared_text *a = text_of("a");

	(void)state;
	assert_int_equal(prepared_names_put(&names, "s", a, 0), 0);
	prepared_unref(a);
	assert_int_equal(prepared_names_put(&names, "s", a, 0), 0);
	assert_int_equal(a->refs, 1);
	prepared_names_clear(&names);
	assert_null(names);
	prepared_names_clear(&names);
}

/* As in PostgreSQL, the first bytes tell them apart. */
static void test_names_of_any_length(void **state)
{
	enum { LEN = 100000 };
	struct prepared_names *names = NULL;
	struct prepared_text *a = text_of("a");
	char *name = malloc(LEN + 1);

	(void)state;
	memset(name, 'x', LEN);
	name[LEN] = '\0';
	assert_int_equal(prepared_names_put(&names, name, a, 0), 0);
	name[PREPARED_NAME_MOST] = 'y';
	assert_ptr_equal(prepared_names_find(names, name), a);
	name[PREPARED_NAME_MOST - 1] = 'y';
	assert_null(prepared_names_find(names, name));
	assert_int_equal(prepared_names_put(&names, name, a, 0), 0);
	name[PREPARED_NAME_MOST] = '\0';
	assert_ptr_equal(prepared_names_find(names, name), a);
	name[PREPARED_NAME_MOST - 1] = '\0';
	assert_null(prepared_names_find(names, name));
	memset(name, 'x', LEN);
	assert_true(prepared_names_del(&names, name));
	assert_int_equal(prepared_names_count(names), 1);
	free(name);
	prepared_names_clear(&names);
	prepared_unref(a);
}

/* ---- sets ---- */

static void test_least_recently_used_goes_first(void **state)
{
	struct prepared_set *set = NULL;
	struct prepared_text *t[3] = {text_of("0"), text_of("1"), text_of("2")};

	(void)state;
	assert_false(prepared_set_has(set, t[0]));
	assert_null(prepared_set_evict(&set, 0));
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(prepared_set_add(&set, t[i]), 0);
	assert_int_equal(prepared_set_count(set), 3);
	assert_int_equal(t[0]->servers, 1);
	assert_null(prepared_set_evict(&set, 3));
	prepared_set_touch(set, t[0]);
	assert_null(prepared_set_oldest(set, 3));
	assert_ptr_equal(prepared_set_oldest(set, 2), t[1]);
	assert_ptr_equal(prepared_set_evict(&set, 2), t[1]);
	assert_int_equal(t[1]->servers, 0);
	assert_int_equal(t[1]->refs, 2);
	assert_false(prepared_set_has(set, t[1]));
	/* Adding a text that is there counts as a use of it. */
	assert_int_equal(prepared_set_add(&set, t[2]), 0);
	assert_int_equal(prepared_set_add(&set, t[0]), 0);
	assert_int_equal(t[0]->refs, 2);
	assert_int_equal(prepared_set_restore(&set, t[1]), 0);
	assert_ptr_equal(prepared_set_evict(&set, 2), t[1]);
	assert_ptr_equal(prepared_set_evict(&set, 1), t[2]);
	prepared_set_del(&set, t[2]);
	prepared_set_del(&set, t[0]);
	assert_null(set);
	prepared_set_touch(set, t[0]);
	prepared_unref(t[1]); /* references that the evictions returned */
	prepared_unref(t[1]);
	prepared_unref(t[2]);
	for (size_t i = 0; i < 3; i++)
		prepared_unref(t[i]);
}

static void test_set_cleared(void **state)
{
	struct prepared_set *set = NULL;
	struct prepared_text *a = text_of("a"), *b = text_of("b");

	(void)state;
	prepared_set_clear(&set);
	prepared_set_drop_packed(&set);
	assert_int_equal(prepared_set_add(&set, a), 0);
	assert_int_equal(prepared_set_add(&set, b), 0);
	prepared_unref(a);
	prepared_unref(b);
	prepared_set_clear(&set);
	assert_null(set);
	assert_int_equal(prepared_set_count(set), 0);
}

/* ---- journal ---- */

struct console_client {
	struct prepared_names *names;
	struct prepared_set *set;
	struct prepared_journal *journal;
};

static void add_name(
    struct console_client *d, uint32_t tag, const char *name, const char *sql)
{
	struct prepared_text *t = text_of(sql);

	assert_int_equal(prepared_names_put(&d->names, name, t, 0), 0);
	assert_int_equal(
	    prepared_journal_note(&d->journal, tag, PREPARED_NAME_ADDED, name, t), 0);
	prepared_unref(t);
}

static void del_name(struct console_client *d, uint32_t tag, const char *name)
{
	struct prepared_text *t = prepared_names_find(d->names, name);

	assert_int_equal(
	    prepared_journal_note(&d->journal, tag, PREPARED_NAME_REMOVED, name, t), 0);
	assert_true(prepared_names_del(&d->names, name));
}

static void add_held(struct console_client *d, uint32_t tag, const char *sql)
{
	struct prepared_text *t = text_of(sql);

	assert_int_equal(prepared_set_add(&d->set, t), 0);
	assert_int_equal(
	    prepared_journal_note(&d->journal, tag, PREPARED_SET_ADDED, NULL, t), 0);
	prepared_unref(t);
}

static void evict_held(struct console_client *d, uint32_t tag, size_t max)
{
	struct prepared_text *t = prepared_set_evict(&d->set, max);

	assert_non_null(t);
	assert_int_equal(
	    prepared_journal_note(&d->journal, tag, PREPARED_SET_REMOVED, NULL, t), 0);
	prepared_unref(t);
}

static void undo(struct console_client *d)
{
	assert_int_equal(prepared_journal_undo(&d->journal, &d->names, &d->set), 0);
}

/* sql NULL: no statement has this name. */
static void assert_name(
    const struct console_client *d, const char *name, const char *sql)
{
	const struct prepared_text *t = prepared_names_find(d->names, name);

	assert_true((t != NULL) == (sql != NULL));
	if (t)
		assert_string_equal(prepared_sql(t), sql);
}

static bool is_held(const struct console_client *d, const char *sql)
{
	struct prepared_text *t = text_of(sql);
	bool held = prepared_set_has(d->set, t);

	prepared_unref(t);
	return held;
}

static void leave(struct console_client *d)
{
	assert_null(d->journal);
	prepared_names_clear(&d->names);
	prepared_set_clear(&d->set);
}

static void test_what_was_answered_well_stands(void **state)
{
	struct console_client d = {0};

	(void)state;
	add_name(&d, 1, "s", "a");
	add_held(&d, 1, "a");
	add_name(&d, 2, "t", "b");
	prepared_journal_commit(&d.journal, 1);
	assert_non_null(d.journal);
	prepared_journal_commit(&d.journal, 1);
	prepared_journal_commit(&d.journal, 2);
	assert_null(d.journal);
	undo(&d);
	prepared_journal_commit(&d.journal, 3);
	prepared_journal_fail(&d.journal, 3);
	assert_name(&d, "s", "a");
	assert_name(&d, "t", "b");
	assert_true(is_held(&d, "a"));
	leave(&d);
}

static void test_what_failed_is_undone(void **state)
{
	struct console_client d = {0};

	(void)state;
	add_name(&d, 1, "s", "a");
	add_held(&d, 1, "a");
	add_name(&d, 2, "t", "b");
	prepared_journal_commit(&d.journal, 1);
	add_held(&d, 2, "b");
	evict_held(&d, 3, 1);
	del_name(&d, 4, "s");
	add_name(&d, 5, "s", "c");
	for (uint32_t tag = 2; tag <= 5; tag++)
		prepared_journal_fail(&d.journal, tag);
	/* The undo changes the names, and it undoes all failed changes. */
	assert_name(&d, "s", "c");
	undo(&d);
	assert_name(&d, "s", "a");
	assert_name(&d, "t", NULL);
	assert_true(is_held(&d, "a"));
	assert_false(is_held(&d, "b"));
	leave(&d);
}

static void test_evictions_come_back_in_their_order(void **state)
{
	struct console_client d = {0};
	struct prepared_text *t;

	(void)state;
	add_held(&d, 1, "a");
	add_held(&d, 1, "b");
	add_held(&d, 1, "c");
	prepared_journal_commit(&d.journal, 1);
	evict_held(&d, 2, 2);
	evict_held(&d, 3, 1);
	prepared_journal_fail(&d.journal, 2);
	prepared_journal_fail(&d.journal, 3);
	undo(&d);
	for (const char *sql = "a\0b\0c"; (t = prepared_set_evict(&d.set, 0));
	     sql += 2) {
		assert_string_equal(prepared_sql(t), sql);
		prepared_unref(t);
	}
	leave(&d);
}

/* The later change was sent before the error of the first was seen. */
static void test_a_later_change_that_succeeds_stands(void **state)
{
	struct console_client d = {0};

	(void)state;
	add_name(&d, 1, "s", "a");
	prepared_journal_commit(&d.journal, 1);
	del_name(&d, 2, "s");
	add_name(&d, 4, "s", "b");
	prepared_journal_fail(&d.journal, 2);
	undo(&d);
	assert_name(&d, "s", "b");
	prepared_journal_commit(&d.journal, 4);
	assert_name(&d, "s", "b");
	leave(&d);
}

static void test_a_later_change_that_fails_too_finds_what_the_first_found(void **state)
{
	struct console_client d = {0};

	(void)state;
	add_name(&d, 1, "s", "a");
	add_held(&d, 1, "x");
	prepared_journal_commit(&d.journal, 1);
	del_name(&d, 2, "s");
	evict_held(&d, 2, 0);
	add_name(&d, 4, "s", "b");
	add_held(&d, 4, "x");
	prepared_journal_fail(&d.journal, 2);
	undo(&d);
	prepared_journal_fail(&d.journal, 4);
	undo(&d);
	assert_name(&d, "s", "a");
	/* The server never carried out the Close. */
	assert_true(is_held(&d, "x"));
	leave(&d);
}

static void test_an_undo_that_comes_late(void **state)
{
	struct console_client d = {0};

	(void)state;
	add_name(&d, 1, "s", "a");
	del_name(&d, 3, "s");
	add_name(&d, 5, "s", "b");
	prepared_journal_fail(&d.journal, 1);
	prepared_journal_commit(&d.journal, 3);
	undo(&d);
	assert_name(&d, "s", "b");
	prepared_journal_fail(&d.journal, 5);
	undo(&d);
	assert_name(&d, "s", NULL);
	leave(&d);
}

static void test_tags_come_around(void **state)
{
	struct console_client d = {0};

	(void)state;
	add_name(&d, UINT32_MAX, "s", "a");
	add_name(&d, 1, "t", "b");
	prepared_journal_commit(&d.journal, UINT32_MAX);
	prepared_journal_fail(&d.journal, 1);
	undo(&d);
	assert_name(&d, "s", "a");
	assert_name(&d, "t", NULL);
	leave(&d);
}

static void test_a_link_ends_with_changes_in_flight(void **state)
{
	struct console_client d = {0};

	(void)state;
	prepared_journal_clear(&d.journal);
	add_name(&d, 1, "s", "a");
	del_name(&d, 2, "s");
	add_name(&d, 3, "s", "b");
	add_held(&d, 3, "b");
	prepared_journal_fail(&d.journal, 1);
	prepared_journal_clear(&d.journal);
	assert_name(&d, "s", "b");
	assert_true(is_held(&d, "b"));
	leave(&d);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)

static void test_what_is_spoilt_comes_back_so(void **state)
{
	struct console_client d = {0};
	struct prepared_text *t = text_of("a");

	(void)state;
	assert_int_equal(prepared_set_add(&d.set, t), 0);
	prepared_set_spoil(d.set, t);
	assert_int_equal(
	    prepared_journal_note(&d.journal, 7, PREPARED_SPOILT_REMOVED, NULL, t), 0);
	prepared_set_del(&d.set, t);
	/* the same text, prepared again behind it, fails as well */
	add_held(&d, 8, "a");
	assert_false(prepared_set_is_spoilt(d.set, t));
	prepared_journal_fail(&d.journal, 7);
	prepared_journal_fail(&d.journal, 8);
	undo(&d);
	assert_true(prepared_set_is_spoilt(d.set, t));
	assert_null(d.journal);
	prepared_set_clear(&d.set);
	prepared_unref(t);
}

/* ---- from another process ---- */

static struct prepared_text *restore(uint64_t id, const char *reading, const char *sql)
{
	return prepared_restore(
	    registry, id, reading, (const uint8_t *)sql, strlen(sql) + 1);
}

static void test_texts_keep_their_ids(void **state)
{
	struct prepared_text *shared = restore(70, "here", "a");
	struct prepared_text *private = restore(71, NULL, "b");
	struct prepared_text *own;

	(void)state;
	prepared_registry_skip(registry, 1000);
	assert_string_equal(shared->name, "PGBOUNCER_70");
	assert_string_equal(prepared_reading(shared), "here");
	assert_null(prepared_reading(private));
	own = prepared_intern(registry, "here", (const uint8_t *)"a", 2);
	assert_ptr_equal(own, shared);
	prepared_unref(own);
	own = prepared_intern(registry, "here", (const uint8_t *)"b", 2);
	assert_int_equal(own->stored->id, 1001);
	assert_int_equal(prepared_registry_last(registry), 1001);
	prepared_unref(own);
	prepared_unref(shared);
	prepared_unref(private);
}

/* A text has a number on the server; the same text was interned here under another
 * number. */
static void test_texts_that_are_known_already(void **state)
{
	struct prepared_text *own =
	    prepared_intern(registry, "here", (const uint8_t *)"a", 2);
	struct prepared_text *theirs = restore(9, "here", "a");
	struct prepared_text *again = restore(9, "here", "a");

	(void)state;
	assert_ptr_not_equal(own, theirs);
	assert_ptr_equal(theirs, again);
	assert_null(prepared_reading(theirs));
	assert_null(restore(9, "here", "other"));
	prepared_unref(own);
	prepared_unref(theirs);
	prepared_unref(again);
}

static void test_lists_of_names_and_sets(void **state)
{
	struct prepared_text *a = text_of("a"), *b = text_of("b");
	struct prepared_names *names = NULL;
	struct prepared_set *set = NULL;
	struct prepared_item items[2];

	(void)state;
	prepared_names_list(NULL, items);
	prepared_set_list(NULL, items);
	assert_int_equal(prepared_set_add(&set, a), 0);
	assert_int_equal(prepared_set_add(&set, b), 0);
	prepared_set_spoil(set, b);
	prepared_set_list(set, items);
	assert_ptr_equal(items[0].text, a);
	assert_false(items[0].is_marked);
	assert_ptr_equal(items[1].text, b);
	assert_true(items[1].is_marked);
	assert_int_equal(prepared_names_put(&names, "n", a, 0), 0);
	prepared_names_doubt(names);
	prepared_names_list(names, items);
	assert_string_equal(items[0].name, "n");
	assert_true(items[0].is_marked);
	prepared_set_clear(&set);
	prepared_names_clear(&names);
	prepared_unref(a);
	prepared_unref(b);
}

/* ---- generations ---- */

static void test_statements_of_an_older_generation(void **state)
{
	struct prepared_set *set = NULL;
	struct prepared_text *a = text_of("a"), *b = text_of("b");
	struct prepared_item item;

	(void)state;
	assert_false(prepared_set_is_good(set, a, 0));
	assert_int_equal(prepared_set_add(&set, a), 0);
	assert_true(prepared_set_is_good(set, a, 0));
	assert_false(prepared_set_is_good(set, b, 0));
	assert_false(prepared_set_is_good(set, a, 2));
	prepared_set_date(set, a, 4);
	assert_true(prepared_set_is_good(set, a, 2));
	assert_true(prepared_set_is_good(set, a, 4));
	assert_false(prepared_set_is_good(set, a, 5));
	prepared_set_list(set, &item);
	assert_int_equal(item.generation, 4);
	prepared_set_spoil(set, a);
	assert_false(prepared_set_is_good(set, a, 0));
	prepared_set_clear(&set);
	prepared_unref(a);
	prepared_unref(b);
}

static uint32_t generation_of(struct console_client *d, const char *name)
{
	uint32_t generation;

	(void)prepared_names_look(d->names, name, &generation);
	return generation;
}

/* ... are other texts, also when they are read in another way. */
static void test_texts_of_generations(void **state)
{
	struct prepared_registry *r =
	    prepared_registry_new(prepared_store_new(PREPARED_PREFIX));
	struct prepared_text *t[5];
	struct buf later;

	(void)state;
	buf_init(&later, 0);
	prepared_put_reading("'a#1',", PREPARED_GENERATION, &later);
	assert_string_equal(later.bytes, "'a#1',");
	buf_clear(&later);
	prepared_put_reading("'a#1',", 12, &later);
	t[0] = prepared_intern(r, "'a#1',", (const uint8_t *)"x", 2);
	t[1] = prepared_intern(r, (const char *)later.bytes, (const uint8_t *)"x", 2);
	assert_ptr_not_equal(t[0], t[1]);
	assert_true(prepared_is_read_as(t[0], "'a#1',"));
	assert_true(prepared_is_read_as(t[1], "'a#1',"));
	assert_false(prepared_is_read_as(t[1], "'a#1"));
	assert_false(prepared_is_read_as(t[1], "'b',"));
	t[2] = prepared_variant(t[0], "'b',");
	t[3] = prepared_variant(t[1], "'b',");
	assert_string_equal(prepared_reading(t[2]), "'b',");
	assert_string_equal(prepared_reading(t[3]), "'b',#12");
	assert_int_equal(prepared_generation(t[0]), PREPARED_GENERATION);
	assert_int_equal(prepared_generation(t[3]), 12);
	t[4] = prepared_variant(t[3], "'a#1',");
	assert_ptr_equal(t[4], t[1]);
	for (size_t i = 0; i < 5; i++)
		prepared_unref(t[i]);
	buf_done(&later);
	prepared_registry_free(&r);
}

/* A name that is put back is as old as it was. */
static void test_names_keep_their_generation(void **state)
{
	struct prepared_text *a = text_of("a"), *b = text_of("b");
	struct console_client d = {0};

	(void)state;
	assert_int_equal(prepared_names_put(&d.names, "s", a, 6), 0);
	assert_int_equal(generation_of(&d, "s"), 6);
	assert_int_equal(generation_of(&d, "t"), 0);
	assert_int_equal(
	    prepared_journal_note(&d.journal, 1, PREPARED_NAME_REMOVED, "s", a), 0);
	prepared_journal_date(d.journal, 6);
	prepared_names_del(&d.names, "s");
	assert_int_equal(
	    prepared_journal_note(&d.journal, 2, PREPARED_NAME_ADDED, "s", b), 0);
	assert_int_equal(prepared_names_put(&d.names, "s", b, 8), 0);
	prepared_journal_fail(&d.journal, 1);
	prepared_journal_fail(&d.journal, 2);
	assert_int_equal(prepared_journal_undo(&d.journal, &d.names, &d.set), 0);
	assert_ptr_equal(prepared_names_find(d.names, "s"), a);
	assert_int_equal(generation_of(&d, "s"), 6);
	prepared_names_clear(&d.names);
	prepared_unref(a);
	prepared_unref(b);
}

/* What is in flight when all statements are forgotten stays as it is. */
static void test_names_in_flight_keep_their_generation(void **state)
{
	struct prepared_text *a = text_of("a");
	struct console_client d = {0};

	(void)state;
	assert_int_equal(
	    prepared_journal_note(&d.journal, 1, PREPARED_NAME_ADDED, "s", a), 0);
	assert_int_equal(prepared_names_put(&d.names, "s", a, 8), 0);
	assert_int_equal(prepared_journal_forget(d.journal, &d.names, &d.set), 0);
	assert_int_equal(generation_of(&d, "s"), 8);
	prepared_journal_clear(&d.journal);
	prepared_names_clear(&d.names);
	prepared_unref(a);
}

/* A text of which a server has told something is not one of which none has. */
static void test_notices_of_a_text(void **state)
{
	struct prepared_text *a = text_of("a"), *b = text_of("b");
	struct console_client d = {0};

	(void)state;
	add_name(&d, 1, "s", "a");
	add_held(&d, 1, "a");
	add_held(&d, 2, "b");
	prepared_journal_tell(d.journal, 2);
	assert_false(a->is_silent || a->is_told);
	assert_true(b->is_told);
	prepared_journal_commit(&d.journal, 1);
	prepared_journal_commit(&d.journal, 2);
	assert_true(a->is_silent && !a->is_told);
	assert_true(b->is_told && !b->is_silent);
	prepared_journal_tell(d.journal, 1);
	assert_false(a->is_told);
	prepared_names_clear(&d.names);
	prepared_set_clear(&d.set);
	prepared_unref(a);
	prepared_unref(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_same_bytes_share_one_text),
	    CASE(test_a_text_that_nobody_wants_is_gone),
	    CASE(test_texts_come_sorted_by_number),
	    CASE(test_broken_keys_are_harmless),
	    CASE(test_parse_and_close_as_sent),
	    CASE(test_names_are_found_replaced_and_deleted),
	    CASE(test_a_name_put_again_with_its_only_text),
	    CASE(test_names_of_any_length),
	    CASE(test_least_recently_used_goes_first),
	    CASE(test_set_cleared),
	    CASE(test_what_was_answered_well_stands),
	    CASE(test_notices_of_a_text),
	    CASE(test_what_failed_is_undone),
	    CASE(test_evictions_come_back_in_their_order),
	    CASE(test_a_later_change_that_succeeds_stands),
	    CASE(test_a_later_change_that_fails_too_finds_what_the_first_found),
	    CASE(test_an_undo_that_comes_late),
	    CASE(test_tags_come_around),
	    CASE(test_a_link_ends_with_changes_in_flight),
	    CASE(test_what_is_spoilt_comes_back_so),
	    CASE(test_texts_keep_their_ids),
	    CASE(test_texts_that_are_known_already),
	    CASE(test_lists_of_names_and_sets),
	    CASE(test_statements_of_an_older_generation),
	    CASE(test_texts_of_generations),
	    CASE(test_names_keep_their_generation),
	    CASE(test_names_in_flight_keep_their_generation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
