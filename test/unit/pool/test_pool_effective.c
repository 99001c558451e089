/* Which value of a setting applies: every row of the table, at every level it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/buf.h"
#include "conf/entry.h"
#include "conf/setting_row.h"
#include "pool/scopes.h"
#include "pool_fixture.h"

/* Three values for one setting: of the process, a database and a user. */
static const char *value_of(const struct setting *row, int level)
{
	static const char *const numbers[] = {"7", "3", "5"};
	static const char *const texts[] = {"g", "d", "u"};
	static const char *const commands[] = {"/g", "/d", "/u"};
	static const char *const bits[] = {"0", "1", "1"};

	switch (row->type) {
	case SETTING_STR:
		return row->flags & IS_COMMAND ? commands[level] : texts[level];
	case SETTING_BOOL:
		return bits[level];
	case SETTING_ENUM:
		return row->words[level <= row->max ? level : 0];
	case SETTING_INT:
	case SETTING_UINT:
	case SETTING_TIME:
	case SETTING_SIZE:
		break;
	}
	return numbers[level];
}

/* Certificate and key must be set together; the files are not read here. */
static const char *companion(const struct setting *row)
{
	if (setting_index(row) == SETTING_INDEX_server_tls_cert_file)
		return " sslkey=k";
	if (setting_index(row) == SETTING_INDEX_server_tls_key_file)
		return " sslcert=c";
	return "";
}

static void check_levels(const struct setting *row)
{
	enum setting_index i = setting_index(row);
	const char *key = entry_key_of(row);
	struct fixture w;
	struct buf ini;

	buf_init(&ini, 0);
	buf_put_text(&ini, "[databases]\nb=\na=");
	if (row->level & LEVEL_DATABASE)
		buf_printf(&ini, "%s=%s%s", key, value_of(row, 1), companion(row));
	buf_put_text(&ini, "\n[users]\nu=");
	if (row->level & LEVEL_USER)
		buf_printf(&ini, "%s=%s", key, value_of(row, 2));
	buf_printf(&ini, "\n[pgbouncer]\n%s=%s\n", row->name, value_of(row, 0));
	fixture_init(&w, buf_text(&ini));
	struct pool *au = fixture_pool(&w, "a", "u"), *av = fixture_pool(&w, "a", "v");
	struct pool *bu = fixture_pool(&w, "b", "u"), *bv = fixture_pool(&w, "b", "v");
	const struct level *global = &w.c->config->settings.global;
	const struct level *database =
	    row->level & LEVEL_DATABASE ? &av->database->config->own : global;
	const struct level *user =
	    row->level & LEVEL_USER ? &au->user->config->own : NULL;
	assert_ptr_equal(scope_level(scope_of_pool(au), i), user ? user : database);
	assert_ptr_equal(scope_level(scope_of_pool(av), i), database);
	assert_ptr_equal(scope_level(scope_of_pool(bu), i), user ? user : global);
	assert_ptr_equal(scope_level(scope_of_pool(bv), i), global);
	assert_ptr_equal(scope_level(scope_of_database(au->database), i), database);
	assert_ptr_equal(scope_level(scope_of_user(au->user), i), user ? user : global);
	buf_done(&ini);
	fixture_done(&w);
}

/* With what a pool of user `user` in database a gets its password; "": nothing. */
static const char *source(const char *ini, const char *user)
{
	static char text[64];
	struct fixture w;

	fixture_init(&w, ini);
	struct pool *pool = fixture_pool(&w, "a", user);
	struct password_source s = password_source_of(pool->database, pool->user);
	assert_false(s.command && s.file);
	snprintf(text, sizeof(text), "%s%s", s.command ? "command " : "",
	    s.command ? s.command
	    : s.file  ? s.file
		      : "");
	fixture_done(&w);
	return text;
}

static void where_the_password_for_servers_comes_from(void **state)
{
	static const char global[] = "[databases]\na=\n[pgbouncer]\n"
				     "server_password_file=/g\n";
	static const char both[] =
	    "[databases]\na=server_password_file=/d\n[users]\nu="
	    "server_password_command='/u x'\nv=server_password_file=''\n[pgbouncer]\n"
	    "server_password_command=/g\n";
	static const char forced[] =
	    "[databases]\na=user=f password=p\n[users]\nf=server_password_file=/f\n"
	    "[pgbouncer]\nserver_password_file=/g\n";
	static const char forced_only[] =
	    "[databases]\na=user=f\n[users]\nf=server_password_file=/f\n[pgbouncer]\n";

	(void)state;
	assert_string_equal(source("[databases]\na=\n[pgbouncer]\n", "u"), "");
	assert_string_equal(source(global, "u"), "/g");
	/* the innermost level decides about both settings */
	assert_string_equal(source(both, "u"), "command /u x");
	assert_string_equal(source(both, "v"), "");
	assert_string_equal(source(both, "w"), "/d");
	/* password= of the entry comes first */
	assert_string_equal(source(forced, "f"), "");
	assert_string_equal(source(forced_only, "f"), "/f");
}

static void user_before_database_before_global(void **state)
{
	const struct setting *row;
	unsigned checked = 0;

	(void)state;
	for (size_t i = 0; (row = setting_at(i)); i++)
		if (row->level != LEVEL_GLOBAL) {
			check_levels(row);
			checked++;
		}
	assert_true(checked > 30);
}

/* A key is refused in entries of a kind that does not know it. */
static void keys_only_at_their_levels(void **state)
{
	struct database_config db;
	struct user_config user;
	struct arena *arena = arena_new();
	const struct setting *row;
	struct err err;
	char text[128];

	(void)state;
	for (size_t i = 0; (row = setting_at(i)); i++) {
		if (entry_database_key(0) && strcmp(row->name, "user") == 0)
			continue; /* in a database entry this key has another meaning */
		snprintf(text, sizeof(text), "%s=%s%s", entry_key_of(row),
		    value_of(row, 1), companion(row));
		assert_int_equal(
		    entry_parse_database(&db, "d", text, arena, NULL, &err),
		    row->level & LEVEL_DATABASE ? 0 : -1);
		snprintf(
		    text, sizeof(text), "%s=%s", entry_key_of(row), value_of(row, 1));
		assert_int_equal(entry_parse_user(&user, "u", text, arena, NULL, &err),
		    row->level & LEVEL_USER ? 0 : -1);
	}
	arena_free(&arena);
}

static void the_value_is_that_of_the_level(void **state)
{
	struct fixture w;

	(void)state;
	fixture_init(&w,
	    "[databases]\n"
	    "a=server_idle_timeout=3 server_check_query='select 1' "
	    "server_reset_query='' max_prepared_statements=5 track_sql_prepare=1\n"
	    "[users]\nu=server_idle_timeout=2 server_round_robin=1\n"
	    "[pgbouncer]\nserver_idle_timeout=9\n");
	struct scope au = scope_of_pool(fixture_pool(&w, "a", "u"));
	struct scope av = scope_of_pool(fixture_pool(&w, "a", "v"));
	assert_int_equal(scope_server_idle_timeout(au), 2 * SECOND);
	assert_int_equal(scope_server_idle_timeout(av), 3 * SECOND);
	assert_string_equal(scope_server_check_query(au), "select 1");
	assert_string_equal(scope_server_reset_query(au), "");
	assert_int_equal(scope_max_prepared_statements(av), 5);
	assert_int_equal(scope_track_sql_prepare(av), 1);
	assert_int_equal(scope_server_round_robin(au), 1);
	assert_int_equal(scope_server_round_robin(av), 0);
	/* a setting without other levels is read in the same way */
	assert_int_equal(scope_listen_port(au), 6432);
	fixture_done(&w);
}

/* A client comes, has a server dialed, and leaves; the server stays in the pool. */
static void use_once(struct fixture *w, struct pool *pool, struct slot *slot)
{
	struct pool_request request;

	fixture_join(pool, &request);
	fixture_ask(w, &request, VERDICT_WAIT);
	fixture_dial(w, pool, slot, VERDICT_GRANT);
	fixture_give(w, slot, VERDICT_REST);
	pool_part(&request);
}

/* An idle server is closed after its own limit; a changed limit applies at once. */
static void limits_of_a_database_act(void **state)
{
	struct slot a_slot = {.pool = NULL}, b_slot = {.pool = NULL};
	struct fixture w;

	(void)state;
	fixture_init(&w, "[databases]\na=server_idle_timeout=3\nb=\n[pgbouncer]\n"
			 "server_idle_timeout=100\nserver_check_delay=1000\n"
			 "pool_mode=transaction\n");
	struct pool *a = fixture_pool(&w, "a", "u"), *b = fixture_pool(&w, "b", "u");
	use_once(&w, a, &a_slot);
	use_once(&w, b, &b_slot);
	w.now += 4 * (uint64_t)SECOND;
	struct verdict v = pool_review(&b_slot, w.now);
	assert_int_equal(v.kind, VERDICT_REST);
	fixture_set(&w, "server_idle_timeout", "2");
	v = pool_review(&b_slot, w.now);
	assert_int_equal(v.kind, VERDICT_RETIRE);
	v = pool_review(&a_slot, w.now);
	assert_int_equal(v.kind, VERDICT_RETIRE);
	fixture_adopt(
	    &w, "[databases]\na=server_idle_timeout=30\nb=\n[pgbouncer]\n", NULL);
	assert_int_equal(scope_server_idle_timeout(scope_of_pool(a)), 30 * SECOND);
	fixture_gone(&w, &a_slot);
	fixture_gone(&w, &b_slot);
	fixture_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(user_before_database_before_global),
	    cmocka_unit_test(where_the_password_for_servers_comes_from),
	    cmocka_unit_test(keys_only_at_their_levels),
	    cmocka_unit_test(the_value_is_that_of_the_level),
	    cmocka_unit_test(limits_of_a_database_act),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
