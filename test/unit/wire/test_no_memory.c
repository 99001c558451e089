/*
 * Texts, names, parameters, settings and answers owed, when there is no memory for one
 * of them: the caller is told, nothing leaks, and what was there before is still there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../no_memory.h"
#include "base/buf.h"
#include "base/mem.h"
#include "wire/kept_settings.h"
#include "wire/pipeline.h"
#include "wire/prepared.h"
#include "wire/vars.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

/* Whether this has failed, which it may if memory was missing, and only then: a text
 * can be private instead of shared. */
static bool is_refused(bool has_failed)
{
	no_memory.is_on = false;
	if (has_failed)
		assert_true(no_memory_has_failed());
	return has_failed;
}

#define is_refused_by(call) (no_memory.is_on = true, is_refused((call) < 0))
#define is_unmade_by(call)  (no_memory.is_on = true, is_refused(!(call)))

/* ---- prepared statements ---- */

static const uint8_t key[] = "select 1\0\0";

static struct prepared_registry *registry_new(void)
{
	return prepared_registry_new(prepared_store_new(PREPARED_PREFIX));
}

static struct prepared_text *text_of(struct prepared_registry *r)
{
	struct prepared_text *t = prepared_intern(r, "utf8,", key, sizeof(key));

	assert_non_null(t);
	return t;
}

static void texts_are_not_made(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct prepared_registry *r = registry_new();
		struct prepared_text *t = NULL;
		is_unmade_by(t = prepared_intern(r, "utf8,", key, sizeof(key)));
		prepared_unref(t);
		assert_int_equal(prepared_registry_count(r), 0);
		prepared_registry_free(&r);
	}
}

static void readings_are_not_made(void **state)
{
	static const char *const readings[] = {"latin1,", NULL};

	(void)state;
	for (size_t i = 0; i < 2; i++)
		for_each_failure(n)
		{
			struct prepared_registry *r = registry_new();
			struct prepared_text *t = text_of(r), *variant = NULL;
			is_unmade_by(variant = prepared_variant(t, readings[i]));
			prepared_unref(variant);
			assert_int_equal(prepared_registry_count(r), 1);
			prepared_unref(t);
			prepared_registry_free(&r);
		}
}

static void names_and_sets_stay_as_they_are(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct prepared_registry *r = registry_new();
		struct prepared_text *t = text_of(r);
		struct prepared_names *names = NULL;
		struct prepared_set *set = NULL;
		bool fails = is_refused_by(prepared_names_put(&names, "s", t, 0));
		assert_int_equal(prepared_names_count(names), !fails);
		if (!fails && !is_refused_by(prepared_set_add(&set, t)))
			assert_true(prepared_set_has(set, t));
		prepared_set_clear(&set);
		if (!is_refused_by(prepared_set_restore(&set, t)))
			assert_true(prepared_set_has(set, t));
		prepared_names_clear(&names);
		prepared_set_clear(&set);
		prepared_unref(t);
		prepared_registry_free(&r);
	}
}

/* A client and a server go to another thread. */
static void what_moves_may_only_be_cleared(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct prepared_registry *r = registry_new();
		struct prepared_text *t = text_of(r);
		struct prepared_names *names = NULL;
		struct prepared_set *set = NULL;
		prepared_names_put(&names, "s", t, 0);
		prepared_set_add(&set, t);
		prepared_unref(t);
		prepared_names_pack(&names);
		prepared_set_pack(&set);
		no_memory.is_on = true;
		int has_failed = prepared_names_unpack(&names, r, r);
		has_failed |= prepared_set_unpack(&set, r, r);
		is_refused(has_failed < 0);
		prepared_names_clear(&names);
		prepared_set_clear(&set);
		assert_int_equal(prepared_registry_count(r), 0);
		prepared_registry_free(&r);
	}
}

/* A name and a text have gone by messages of which one fails. */
static int undo(struct prepared_journal **j, struct prepared_names **names,
    struct prepared_set **set, struct prepared_text *t)
{
	if (prepared_journal_note(j, 1, PREPARED_NAME_REMOVED, "s", t) < 0)
		return -1;
	prepared_names_del(names, "s");
	if (prepared_journal_note(j, 2, PREPARED_SPOILT_REMOVED, NULL, t) < 0)
		return -1;
	prepared_set_del(set, t);
	prepared_journal_fail(j, 1);
	prepared_journal_fail(j, 2);
	return prepared_journal_undo(j, names, set);
}

static void journal_tells_what_is_missing(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct prepared_registry *r = registry_new();
		struct prepared_text *t = text_of(r);
		struct prepared_names *names = NULL;
		struct prepared_set *set = NULL;
		struct prepared_journal *j = NULL;
		prepared_names_put(&names, "s", t, 0);
		prepared_set_add(&set, t);
		if (!is_refused_by(undo(&j, &names, &set, t))) {
			assert_ptr_equal(prepared_names_find(names, "s"), t);
			assert_true(prepared_set_is_spoilt(set, t));
			assert_null(j);
		}
		prepared_journal_clear(&j);
		prepared_names_clear(&names);
		prepared_set_clear(&set);
		prepared_unref(t);
		prepared_registry_free(&r);
	}
}

/* What is under way when the server forgets everything stays. */
static void journal_tells_what_is_not_kept(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct prepared_registry *r = registry_new();
		struct prepared_text *t = text_of(r);
		struct prepared_names *names = NULL;
		struct prepared_set *set = NULL;
		struct prepared_journal *j = NULL;
		prepared_names_put(&names, "s", t, 0);
		prepared_set_add(&set, t);
		prepared_journal_note(&j, 1, PREPARED_NAME_ADDED, "s", t);
		prepared_journal_note(&j, 1, PREPARED_SET_ADDED, NULL, t);
		if (!is_refused_by(prepared_journal_forget(j, &names, &set))) {
			assert_ptr_equal(prepared_names_find(names, "s"), t);
			assert_true(prepared_set_has(set, t));
		}
		prepared_journal_clear(&j);
		prepared_names_clear(&names);
		prepared_set_clear(&set);
		prepared_unref(t);
		prepared_registry_free(&r);
	}
}

/* ---- parameters ---- */

static int set_values(struct vars *v)
{
	int has_failed =
	    vars_set(v, VAR_APPLICATION_NAME, "caf\xc3\xa9") ||
	    vars_set(v, VAR_CLIENT_ENCODING, "UTF8") ||
	    vars_set_encoding(v, UINT64_C(1) << VAR_APPLICATION_NAME) < 0 ||
	    !vars_reading(v);

	return has_failed ? -1 : 0;
}

static void parameters_are_not_set(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct vars_schema *schema = vars_schema_new("");
		struct vars v;
		vars_init(&v, schema);
		if (!is_refused_by(set_values(&v)))
			assert_string_equal(
			    vars_encoding(&v, VAR_APPLICATION_NAME), "UTF8");
		vars_done(&v);
		vars_schema_free(&schema);
	}
}

/* Those of a client that comes from another thread. */
static void parameters_are_taken_as_a_whole(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct vars_schema *schema = vars_schema_new("");
		struct vars_schema *its = vars_schema_new("");
		struct vars v, from;
		struct buf all;
		buf_init(&all, 0);
		vars_init(&from, its);
		set_values(&from);
		vars_put_all(&from, &all);
		vars_init(&v, schema);
		const uint8_t *at = all.bytes;
		if (is_refused_by(vars_take_all(&v, &at)))
			assert_null(vars_get(&v, VAR_CLIENT_ENCODING));
		else
			assert_string_equal(vars_get(&v, VAR_CLIENT_ENCODING), "UTF8");
		buf_done(&all);
		vars_done(&v);
		vars_done(&from);
		vars_schema_free(&schema);
		vars_schema_free(&its);
	}
}

/* ---- settings that are kept ---- */

static struct kept_settings *kept(const char *name, const char *value)
{
	struct kept_settings *settings = NULL;

	assert_int_equal(kept_settings_set(&settings, name, value), 0);
	return settings;
}

static void settings_stay_as_they_are(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct kept_settings *settings = kept("a.b", "x");
		bool fails = is_refused_by(kept_settings_set(&settings, "a.c", "y"));
		assert_int_equal(kept_settings_has(settings, "a.c"), !fails);
		assert_true(kept_settings_has(settings, "a.b"));
		mem_free(settings);
	}
	for_each_failure(n)
	{
		struct kept_settings *settings = kept("a.b", "x");
		struct kept_settings *more = kept("a.c", "y");
		bool fails = is_refused_by(kept_settings_add_missing(&settings, more));
		assert_int_equal(kept_settings_has(settings, "a.c"), !fails);
		if (!fails) {
			fails =
			    is_refused_by(kept_settings_take(&settings, "a.b", NULL));
			assert_int_equal(kept_settings_has(settings, "a.b"), fails);
		}
		mem_free(settings);
		mem_free(more);
	}
}

static void difference_of_settings_is_not_made(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct kept_settings *session = kept("a.b", "x"),
				     *own = kept("a.c", "y");
		struct kept_settings *result = NULL;
		struct buf bytes;
		buf_init(&bytes, 0);
		buf_put(&bytes, session->bytes, session->len);
		if (is_refused_by(kept_settings_difference(&bytes, own, &result)))
			assert_null(result);
		buf_done(&bytes);
		mem_free(session);
		mem_free(own);
		mem_free(result);
	}
}

/* ---- answers that are owed ---- */

static int owe_many(struct pipeline *p)
{
	for (uint32_t i = 0; i < 100; i++)
		if (pipeline_owe(p, 'P', OWED_CLIENT, i) < 0)
			return -1;
	return 0;
}

static void answers_stay_owed(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct pipeline p, copy;
		pipeline_init(&p);
		pipeline_init(&copy);
		copy.is_uncertain = true;
		bool fails = is_refused_by(pipeline_ask(&copy));
		assert_int_equal(pipeline_count(&copy), fails ? 0 : 3);
		pipeline_done(&copy);
		pipeline_init(&copy);
		fails = is_refused_by(owe_many(&p));
		for (uint32_t i = 0; i < pipeline_count(&p); i++)
			assert_int_equal(pipeline_at(&p, i)->tag, i);
		if (!fails)
			is_refused_by(pipeline_restore(
			    &copy, &copy, pipeline_at(&p, 0), pipeline_count(&p)));
		pipeline_done(&p);
		pipeline_done(&copy);
	}
}

/* Two things whose keys could not be built would have the same one. */
static void a_key_is_never_empty(void **state)
{
	struct buf b;

	(void)state;
	no_memory = (struct no_memory){.is_on = true, .fail_at = 1};
	buf_init_sure(&b);
	buf_put_str(&b, "name");
	no_memory.is_on = false;
	assert_false(b.failed);
	assert_string_equal(buf_text(&b), "name");
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(texts_are_not_made),
	    cmocka_unit_test(readings_are_not_made),
	    cmocka_unit_test(names_and_sets_stay_as_they_are),
	    cmocka_unit_test(what_moves_may_only_be_cleared),
	    cmocka_unit_test(journal_tells_what_is_missing),
	    cmocka_unit_test(journal_tells_what_is_not_kept),
	    cmocka_unit_test(parameters_are_not_set),
	    cmocka_unit_test(parameters_are_taken_as_a_whole),
	    cmocka_unit_test(settings_stay_as_they_are),
	    cmocka_unit_test(difference_of_settings_is_not_made),
	    cmocka_unit_test(answers_stay_owed),
	    cmocka_unit_test(a_key_is_never_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
