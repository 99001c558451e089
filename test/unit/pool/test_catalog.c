/*
 * Which databases, users and pools exist, for how long, and what a new snapshot
 * changes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/mem.h"
#include "pool/vacate.h"
#include "pool_fixture.h"

static void pools_are_found_again(void **state)
{
	struct fixture w;

	(void)state;
	fixture_init(&w, "[databases]\na=\nb=user=f\n[pgbouncer]\n");
	struct database *a = catalog_find_database(w.c, "a");
	struct database *b = catalog_find_database(w.c, "b");
	assert_null(catalog_find_database(w.c, "c"));
	assert_null(catalog_find_user(w.c, "u"));
	struct user *u = catalog_user(w.c, "u"), *v = catalog_user(w.c, "v");
	assert_ptr_equal(catalog_user(w.c, "u"), u);
	assert_ptr_equal(catalog_find_user(w.c, "u"), u);
	assert_null(catalog_find_pool(a, u));
	struct pool *au = catalog_pool(a, u);
	assert_ptr_equal(catalog_pool(a, u), au);
	assert_ptr_equal(catalog_find_pool(a, u), au);
	assert_ptr_not_equal(catalog_pool(a, v), au);
	/* A database with a forced user has one pool for all users. */
	assert_ptr_equal(catalog_pool(b, u), catalog_pool(b, v));
	assert_ptr_equal(catalog_pool(b, u)->user, catalog_find_user(w.c, "f"));
	assert_int_equal(w.c->pool_list.count, 3);
	fixture_done(&w);
}

static void values_in_force(void **state)
{
	struct fixture w;

	(void)state;
	fixture_init(&w,
	    "[databases]\n"
	    "a=pool_size=3 reserve_pool_size=4 min_pool_size=2 "
	    "server_lifetime=7 max_db_connections=8 pool_mode=statement "
	    "query_wait_timeout=0 max_db_client_connections=2\n"
	    "b=\nf=user=u\n"
	    "[users]\n"
	    "u=pool_size=5 reserve_pool_size=0 pool_mode=transaction "
	    "max_user_connections=6 query_timeout=9 query_wait_timeout=11\n"
	    "[pgbouncer]\ndefault_pool_size=20\nreserve_pool_size=1\n"
	    "query_wait_timeout=33\nmax_user_connections=-1\n"
	    "client_idle_timeout=4\n");
	struct pool *au = fixture_pool(&w, "a", "u"), *av = fixture_pool(&w, "a", "v");
	struct pool *bv = fixture_pool(&w, "b", "v"), *fv = fixture_pool(&w, "f", "v");
	assert_int_equal(pool_size(au), 5);
	assert_int_equal(pool_size(av), 3);
	assert_int_equal(pool_size(bv), 20);
	assert_int_equal(pool_size(fv), 5);
	assert_int_equal(pool_reserve_size(au), 0);
	assert_int_equal(pool_reserve_size(av), 4);
	assert_int_equal(pool_reserve_size(bv), 1);
	assert_int_equal(pool_min_size(au), 2);
	assert_int_equal(pool_min_size(bv), 0);
	assert_int_equal(pool_mode(au), POOL_MODE_TRANSACTION);
	assert_int_equal(pool_mode(av), POOL_MODE_STATEMENT);
	assert_int_equal(pool_mode(bv), POOL_MODE_SESSION);
	assert_int_equal(scope_server_lifetime(scope_of_pool(av)), 7 * SECOND);
	assert_int_equal(
	    scope_server_lifetime(scope_of_pool(bv)), 3600 * (uint64_t)SECOND);
	assert_int_equal(scope_max_db_connections(scope_of_pool(av)), 8);
	assert_int_equal(scope_max_db_connections(scope_of_pool(bv)), 0);
	assert_int_equal(scope_max_user_connections(scope_of_user(au->user)), 6);
	assert_int_equal(scope_max_user_connections(scope_of_user(av->user)), -1);
	assert_int_equal(scope_query_timeout(scope_of_pool(au)), 9 * SECOND);
	assert_int_equal(scope_query_timeout(scope_of_pool(av)), 0);
	assert_int_equal(scope_transaction_timeout(scope_of_pool(av)), 0);
	assert_int_equal(scope_idle_transaction_timeout(scope_of_pool(av)), 0);
	assert_int_equal(
	    scope_client_idle_timeout(scope_of_database(bv->database)), 4 * SECOND);
	assert_int_equal(
	    scope_query_wait_timeout(scope_of_login(au->database, au->user)),
	    11 * SECOND);
	assert_int_equal(
	    scope_query_wait_timeout(scope_of_login(av->database, av->user)), 0);
	assert_int_equal(
	    scope_query_wait_timeout(scope_of_login(bv->database, NULL)), 33 * SECOND);
	fixture_set(&w, "default_pool_size", "0");
	assert_int_equal(pool_size(bv), 0);
	/* Without an entry the global value is used. */
	fixture_adopt(&w, "[databases]\na=\nb=\nf=user=u\n[pgbouncer]\n", NULL);
	assert_int_equal(pool_size(au), 20);
	assert_null(au->user->config);
	fixture_done(&w);
}

static void client_limits(void **state)
{
	struct fixture w;

	(void)state;
	fixture_init(&w, "[databases]\na=max_db_client_connections=2\n[users]\n"
			 "u=max_user_client_connections=1\n[pgbouncer]\n");
	struct database *a = catalog_find_database(w.c, "a");
	struct user *u = catalog_find_user(w.c, "u"), *v = catalog_user(w.c, "v");
	assert_true(database_enter(a, false));
	assert_true(database_enter(a, false));
	assert_false(database_enter(a, false));
	assert_true(database_enter(a, true));
	assert_int_equal(a->client_count, 4);
	assert_true(user_may_enter(u, false));
	assert_false(user_may_enter(u, false));
	assert_true(user_may_enter(u, true));
	user_leave(u);
	assert_int_equal(u->client_count, 2);
	for (int i = 0; i < 10; i++)
		assert_true(user_may_enter(v, false));
	for (int i = 0; i < 4; i++)
		database_leave(a);
	fixture_done(&w);
}

static void databases_without_clients_are_vacated(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[3];
	struct verdict v;

	(void)state;
	fixture_init(&w, "[databases]\nadmin=host=h dbname=postgres\n"
			 "a=host=h\nb=host=h dbname=a\nc=host=other dbname=a\n"
			 "[pgbouncer]\npool_mode=transaction\n");
	for (int i = 0; i < 3; i++) {
		struct pool *pool = fixture_pool(&w,
		    i == 0   ? "a"
		    : i == 1 ? "b"
			     : "c",
		    "u");
		requests[i] = (struct pool_request){.pool = NULL};
		slots[i] = (struct slot){.pool = NULL};
		database_enter(pool->database, false);
		fixture_join(pool, &requests[i]);
		fixture_ask(&w, &requests[i], VERDICT_WAIT);
		fixture_dial(&w, pool, &slots[i], VERDICT_GRANT);
		fixture_give(&w, &slots[i], VERDICT_REST);
	}
	struct database *a = catalog_find_database(w.c, "a");
	struct database *b = catalog_find_database(w.c, "b");
	/* clients of both entries use it */
	assert_int_equal(vacate_next(w.c, "a", "admin", false).kind, VERDICT_NONE);
	database_leave(b);
	assert_int_equal(vacate_next(w.c, "a", "admin", false).kind, VERDICT_NONE);
	assert_int_equal(vacate_next(w.c, "a", "gone", false).kind, VERDICT_NONE);
	/* the only client wants it for itself */
	assert_int_equal(vacate_next(w.c, "a", "a", false).kind, VERDICT_NONE);
	v = vacate_next(w.c, "a", "a", true);
	assert_int_equal(v.kind, VERDICT_RETIRE);
	assert_ptr_equal(v.slot, &slots[0]);
	fixture_gone(&w, &slots[0]);
	database_leave(a);
	w.c->is_offered = true;
	assert_int_equal(vacate_next(w.c, "a", "admin", false).kind, VERDICT_NONE);
	w.c->is_offered = false;
	v = vacate_next(w.c, "a", "admin", false);
	assert_int_equal(v.kind, VERDICT_RETIRE);
	assert_ptr_equal(v.slot, &slots[1]);
	fixture_gone(&w, &slots[1]);
	/* that of the other host is another one */
	assert_int_equal(vacate_next(w.c, "a", "admin", false).kind, VERDICT_NONE);
	assert_int_equal(slots[2].state, SLOT_IDLE);
	database_leave(catalog_find_database(w.c, "c"));
	for (int i = 0; i < 3; i++)
		pool_part(&requests[i]);
	fixture_gone(&w, &slots[2]);
	fixture_done(&w);
}

static void changed_entries(void **state)
{
	struct fixture w;
	struct slot slots[2];
	struct pool_request requests[2];
	struct verdict v;

	(void)state;
	fixture_init(&w, "[databases]\na=\nb=\n[pgbouncer]\npool_mode=transaction\n");
	struct pool *a = fixture_pool(&w, "a", "u"), *b = fixture_pool(&w, "b", "u");
	for (int i = 0; i < 2; i++) {
		struct pool *pool = i ? b : a;
		fixture_join(pool, &requests[i]);
		fixture_ask(&w, &requests[i], VERDICT_WAIT);
		fixture_dial(&w, pool, &slots[i], VERDICT_GRANT);
		fixture_give(&w, &slots[i], VERDICT_REST);
	}
	fixture_was_scheduled(&w, a);
	fixture_adopt(&w,
	    "[databases]\na=port=7777\nb=pool_size=7\nn=\n[pgbouncer]\n"
	    "pool_mode=transaction\n",
	    NULL);
	assert_string_equal(w.notes, "");
	assert_non_null(catalog_find_database(w.c, "n"));
	assert_true(slots[0].dirty && !pool_has_login_params(a));
	assert_false(slots[1].dirty);
	assert_true(pool_has_login_params(b));
	assert_int_equal(pool_size(b), 7);
	v = fixture_next(&w, a, VERDICT_RETIRE);
	assert_string_equal(v.text, "database configuration changed");
	fixture_next(&w, b, VERDICT_NONE);
	/* SET marks no pool dirty. */
	fixture_set(&w, "verbose", "1");
	assert_true(pool_has_login_params(b));
	catalog_mark_dirty(w.c, b->database);
	assert_false(pool_has_login_params(b));
	for (int i = 0; i < 2; i++) {
		pool_gone(&slots[i], w.now);
		pool_part(&requests[i]);
	}
	fixture_done(&w);
}

/* An entry that has not changed finds its database again, whatever stands before it. */
static void entries_keep_their_databases(void **state)
{
	static const char *const inis[] = {
	    "[databases]\na=dbname=1\nd=dbname=4\n[pgbouncer]\n",
	    "[databases]\na=dbname=1\nb=dbname=2\nc=\nd=dbname=4\n[pgbouncer]\n",
	    "[databases]\nb=dbname=2\nd=dbname=4\ne=dbname=5\n[pgbouncer]\n",
	    "[databases]\nd=dbname=4\n[pgbouncer]\n",
	    "[databases]\n[pgbouncer]\n",
	    "[databases]\na=dbname=9\nd=dbname=4\n[pgbouncer]\n",
	};
	struct fixture w;

	(void)state;
	fixture_init(&w, "[databases]\nd=dbname=4\n[pgbouncer]\n");
	struct database *d = catalog_find_database(w.c, "d");
	for (size_t n = 0; n < sizeof(inis) / sizeof(inis[0]); n++) {
		fixture_adopt(&w, inis[n], NULL);
		fixture_set(&w, "verbose", "1");
		for (size_t i = 0; i < w.c->config->database_count; i++) {
			const struct database_config *entry =
			    &w.c->config->databases[i];
			struct database *db = catalog_find_database(w.c, entry->name);
			assert_ptr_equal(w.c->by_entry[i], db);
			assert_ptr_equal(db->config, entry);
		}
		if (n < 4)
			assert_ptr_equal(catalog_find_database(w.c, "d"), d);
	}
	fixture_done(&w);
}

/* Clients and servers of a removed database are closed one after the other; nothing
 * that is still in use is freed. */
static void gone_databases(void **state)
{
	struct fixture w;
	struct slot slot;
	struct pool_request request;

	(void)state;
	fixture_init(&w, "[databases]\na=dbname=x\nb=\n[pgbouncer]\n");
	struct pool *pool = fixture_pool(&w, "a", "u");
	struct database *a = pool->database;
	database_hold(a);
	database_hold(a);
	fixture_join(pool, &request);
	fixture_ask(&w, &request, VERDICT_WAIT);
	fixture_dial(&w, pool, &slot, VERDICT_GRANT);
	fixture_adopt(&w, "[databases]\nb=\n[pgbouncer]\n", NULL);
	assert_string_equal(w.notes, "dropping database 'a' as it does not exist "
				     "anymore or inactive auto-database\n");
	assert_int_equal(w.kill_count, 1);
	assert_ptr_equal(w.killed[0], pool);
	assert_string_equal(w.kill_reason, "database removed");
	assert_null(catalog_find_database(w.c, "a"));
	assert_true(a->is_gone && pool->is_killed);
	/* The old entry outlives another snapshot while the database is in use. */
	fixture_adopt(&w, "[databases]\nb=\n[pgbouncer]\n", NULL);
	assert_string_equal(a->config->dbname, "x");
	/* A client is in the middle of its login. */
	struct pool *late = catalog_pool(a, catalog_user(w.c, "v"));
	struct pool_request late_ask;
	fixture_join(late, &late_ask);
	assert_string_equal(
	    fixture_ask(&w, &late_ask, VERDICT_REFUSE).text, "database removed");
	pool_part(&late_ask);
	pool_free_if_unused(late);
	database_release(a);
	assert_string_equal(
	    fixture_give(&w, &slot, VERDICT_RESET).slot->pool->database->name, "a");
	assert_string_equal(pool_tested(&slot, w.now).text, "database removed");
	fixture_gone(&w, &slot);
	pool_part(&request);
	assert_int_equal(w.freed, 1);
	pool_free_if_unused(pool);
	assert_int_equal(w.freed, 2);
	database_release(a);
	/* The next database is removed while it has no clients. */
	fixture_pool(&w, "b", "u");
	fixture_adopt(&w, "[databases]\n[pgbouncer]\n", NULL);
	assert_int_equal(w.freed, 3);
	assert_int_equal(w.kill_count, 1);
	fixture_done(&w);
}

static void killed_pools(void **state)
{
	struct fixture w;
	struct pool_request request;

	(void)state;
	fixture_init(&w, "[databases]\na=\nb=\nc=\n[pgbouncer]\n");
	catalog_add_admin(w.c, NULL);
	struct pool *a = fixture_pool(&w, "a", "u");
	fixture_pool(&w, "b", "u");
	fixture_join(a, &request);
	catalog_kill(w.c, NULL, "database removed");
	/* the one that is dying is not killed once more */
	catalog_kill(w.c, NULL, "database removed");
	assert_int_equal(w.kill_count, 1);
	assert_int_equal(w.freed, 1);
	assert_true(catalog_find_database(w.c, "a")->paused);
	assert_true(catalog_find_database(w.c, "b")->paused);
	assert_false(catalog_find_database(w.c, "c")->paused);
	assert_false(catalog_find_database(w.c, "pgbouncer")->paused);
	/* A new pool exists beside the dying one. */
	struct pool *again = fixture_pool(&w, "a", "u");
	assert_ptr_not_equal(again, a);
	pool_part(&request);
	pool_free_if_unused(again);
	pool_free_if_unused(a);
	assert_int_equal(w.freed, 2);
	assert_ptr_equal(fixture_pool(&w, "a", "u"), again);
	fixture_done(&w);
}

static void forced_users(void **state)
{
	struct fixture w;

	(void)state;
	fixture_init(&w, "[databases]\na=user=f password=one min_pool_size=1\n"
			 "[pgbouncer]\n");
	struct database *a = catalog_find_database(w.c, "a");
	struct pool *pool = catalog_find_pool(a, NULL);
	/* The pool exists before its first client. */
	assert_non_null(pool);
	assert_true(fixture_was_scheduled(&w, pool));
	assert_string_equal(pool_server_secret(pool)->text, "one");
	struct scram_cache *cache = pool_server_scram_cache(pool);
	cache->iterations = 4096;
	fixture_adopt(&w,
	    "[databases]\na=user=f password=one min_pool_size=1\n"
	    "[pgbouncer]\n",
	    "\"f\" \"two\"\n");
	assert_int_equal(cache->iterations, 4096);
	fixture_adopt(&w, "[databases]\na=\n[pgbouncer]\n", "\"f\" \"two\"\n");
	assert_string_equal(
	    w.notes, "losing forced user not supported, keeping old setting\n");
	assert_string_equal(a->forced_user->name, "f");
	assert_string_equal(pool_server_secret(pool)->text, "one");
	assert_false(pool_has_login_params(pool));
	fixture_adopt(&w, "[databases]\na=user=f\n[pgbouncer]\n", NULL);
	assert_string_equal(w.notes, "");
	assert_string_equal(pool_server_secret(pool)->text, "two");
	assert_ptr_equal(
	    pool_server_scram_cache(pool), &catalog_find_user(w.c, "f")->scram_cache);
	assert_int_equal(cache->iterations, 0);
	fixture_done(&w);
}

static void secrets(void **state)
{
	static const char ini[] =
	    "[databases]\na=\n[users]\nx=pool_size=1\n[pgbouncer]\n";
	struct fixture w;

	(void)state;
	fixture_init(&w, ini);
	fixture_adopt(&w, ini, "\"u\" \"one\"\n\"v\" \"\"\n");
	struct user *u = catalog_find_user(w.c, "u"), *v = catalog_find_user(w.c, "v");
	struct user *x = catalog_find_user(w.c, "x");
	assert_true(u->has_secret && v->has_secret && !x->has_secret);
	assert_string_equal(u->secret.text, "one");
	assert_int_equal(v->secret.kind, SECRET_NONE);
	u->adhoc = mem_zero(sizeof(*u->adhoc));
	scram_verifier_from_password(u->adhoc, "one", 1);
	u->scram_cache.iterations = 1;
	fixture_adopt(&w, ini, "\"u\" \"one\"\n");
	assert_non_null(u->adhoc);
	assert_int_equal(u->scram_cache.iterations, 1);
	assert_false(v->has_secret);
	/* NULL: the user list was not read. */
	fixture_adopt(&w, ini, NULL);
	assert_true(u->has_secret);
	fixture_adopt(&w, ini, "\"u\" \"two\"\n");
	assert_string_equal(u->secret.text, "two");
	assert_null(u->adhoc);
	assert_int_equal(u->scram_cache.iterations, 0);
	fixture_adopt(&w, ini, "");
	assert_ptr_equal(catalog_find_user(w.c, "u"), u);
	assert_false(u->has_secret);
	assert_int_equal(u->secret.kind, SECRET_NONE);
	fixture_done(&w);
}

/* A long list is taken over in steps; each user has the old or the new secret. */
static void secrets_in_steps(void **state)
{
	static const char ini[] = "[databases]\na=\n[pgbouncer]\n";
	static const char text[] = "\"u\" \"two\"\n\"w\" \"three\"\n";
	struct userlist *list =
	    userlist_parse("list", text, sizeof(text) - 1, NULL, NULL, NULL);
	struct fixture w;
	unsigned steps = 0;

	(void)state;
	fixture_init(&w, ini);
	fixture_adopt(&w, ini, "\"u\" \"one\"\n\"v\" \"1\"\n");
	struct user *u = catalog_find_user(w.c, "u"), *v = catalog_find_user(w.c, "v");
	catalog_begin_users(w.c, list);
	for (; catalog_adopt_users(w.c, 1); steps++) {
		char name[8] = {'m', (char)('a' + steps)};
		/* a user is added meanwhile */
		catalog_user(w.c, name);
		/* who is looked for now has the new secret already */
		assert_string_equal(catalog_find_user(w.c, "w")->secret.text, "three");
		assert_true(u->has_secret);
		assert_int_equal(strlen(u->secret.text), 3);
	}
	assert_int_equal(steps, 2);
	assert_string_equal(u->secret.text, "two");
	assert_false(v->has_secret);
	assert_false(catalog_find_user(w.c, "ma")->has_secret);
	assert_false(catalog_adopt_users(w.c, 1));
	/* a newer list replaces the one being taken over */
	catalog_begin_users(w.c, list);
	assert_true(catalog_adopt_users(w.c, 1));
	fixture_adopt(&w, ini, "\"v\" \"five\"\n");
	assert_false(catalog_adopt_users(w.c, 1));
	assert_false(u->has_secret);
	assert_string_equal(v->secret.text, "five");
	userlist_unref(&list);
	fixture_done(&w);
}

static void note_user(void *ctx, const struct user *user)
{
	char *shown = ctx;

	strcat(shown, user->name);
	strcat(shown, user->config ? "+ " : " ");
}

/* Users of the list are made when somebody looks for them. */
static void users_of_the_list(void **state)
{
	static const char ini[] =
	    "[databases]\na=\n[users]\nx=pool_size=1\nb=pool_size=2\n[pgbouncer]\n";
	char shown[100] = "";
	struct fixture w;

	(void)state;
	fixture_init(&w, ini);
	fixture_adopt(&w, ini, "\"c\" \"1\"\n\"b\" \"2\"\n\"a\" \"3\"\n");
	assert_int_equal(map_count(w.c->users), 2);
	assert_int_equal(catalog_user_count(w.c), 4);
	assert_null(catalog_find_user(w.c, "d"));
	assert_true(catalog_find_user(w.c, "c")->is_listed);
	assert_false(catalog_find_user(w.c, "x")->is_listed);
	assert_int_equal(map_count(w.c->users), 3);
	assert_int_equal(catalog_user_count(w.c), 4);
	catalog_user(w.c, "d");
	assert_int_equal(catalog_user_count(w.c), 5);
	catalog_each_user(w.c, true, note_user, shown);
	assert_string_equal(shown, "a b+ c d x+ ");
	shown[0] = '\0';
	catalog_each_user(w.c, false, note_user, shown);
	assert_string_equal(shown, "b+ c d x+ ");
	/* the list gets one more whom we have already */
	fixture_adopt(&w, ini, "\"d\" \"1\"\n\"b\" \"2\"\n");
	assert_true(catalog_find_user(w.c, "d")->has_secret);
	assert_true(catalog_find_user(w.c, "c")->is_listed);
	assert_false(catalog_find_user(w.c, "c")->has_secret);
	fixture_done(&w);
}

#define AUTO_INI(template, more) "[databases]\n" more "*=" template "\n[pgbouncer]\n"

/* A password that LDAP or PAM accepted is used for servers of the user's own pools. */
static void remembered_passwords(void **state)
{
	struct fixture w;

	(void)state;
	fixture_init(&w, "[databases]\na=\nb=user=f\n[pgbouncer]\n");
	fixture_adopt(
	    &w, "[databases]\na=\nb=user=f\n[pgbouncer]\n", "\"f\" \"listed\"\n");
	struct user *f = catalog_user(w.c, "f");
	struct pool *own = catalog_pool(catalog_find_database(w.c, "a"), f);
	struct pool *forced = catalog_pool(catalog_find_database(w.c, "b"), f);
	assert_string_equal(pool_server_secret(own)->text, "listed");
	/* the password looks like an md5 secret, but is a plain one */
	user_remember(f, "md50123456789abcdef0123456789abcdef");
	assert_int_equal(pool_server_secret(own)->kind, SECRET_PLAIN);
	struct scram_cache *cache = pool_server_scram_cache(own);
	assert_ptr_not_equal(cache, &f->scram_cache);
	cache->iterations = 4096;
	user_remember(f, "md50123456789abcdef0123456789abcdef");
	assert_int_equal(pool_server_scram_cache(own)->iterations, 4096);
	user_remember(f, "another");
	assert_string_equal(pool_server_secret(own)->text, "another");
	assert_int_equal(pool_server_scram_cache(own)->iterations, 0);
	assert_string_equal(pool_server_secret(forced)->text, "listed");
	assert_ptr_equal(pool_server_scram_cache(forced), &f->scram_cache);
	fixture_done(&w);
}

static void auto_databases(void **state)
{
	struct fixture w;
	bool is_new;
	char name[65];

	(void)state;
	fixture_init(&w, "[databases]\n[pgbouncer]\n");
	assert_null(catalog_database(w.c, "x", &is_new));
	fixture_adopt(&w, AUTO_INI("port=1", ""), NULL);
	struct database *x = catalog_database(w.c, "x", &is_new);
	assert_true(is_new && x->is_auto);
	assert_string_equal(x->config->dbname, "x");
	assert_ptr_equal(catalog_database(w.c, "x", &is_new), x);
	assert_false(is_new);
	memset(name, 'n', sizeof(name) - 1);
	name[64] = '\0';
	assert_null(catalog_database(w.c, name, &is_new));
	name[63] = '\0';
	assert_non_null(catalog_database(w.c, name, &is_new));
	/* A changed template changes the databases made from it; none stays old. */
	struct pool *pool = fixture_pool(&w, "x", "u");
	pool_got_login_params(pool);
	fixture_adopt(&w, AUTO_INI("port=1", ""), NULL);
	assert_true(pool_has_login_params(pool));
	fixture_adopt(&w, AUTO_INI("port=2", ""), NULL);
	assert_false(pool_has_login_params(pool));
	assert_int_equal(x->config->port, 2);
	fixture_adopt(&w, "[databases]\n[pgbouncer]\n", NULL);
	fixture_adopt(&w, "[databases]\n[pgbouncer]\n", NULL);
	assert_string_equal(w.notes, "");
	struct database *y = catalog_database(w.c, "y", &is_new);
	assert_int_equal(y->config->port, 2);
	/* A template that does not parse makes no databases and changes none. */
	fixture_adopt(&w, AUTO_INI("nonsense", ""), NULL);
	assert_null(catalog_database(w.c, "z", &is_new));
	assert_int_equal(x->config->port, 2);
	/* A database that is named in the file is not automatic any more. */
	fixture_adopt(&w, "[databases]\nx=port=3\n[pgbouncer]\n", NULL);
	assert_false(x->is_auto);
	assert_int_equal(x->config->port, 3);
	assert_null(x->arena);
	fixture_adopt(&w, "[databases]\n[pgbouncer]\n", NULL);
	assert_null(catalog_find_database(w.c, "x"));
	assert_ptr_equal(catalog_find_database(w.c, "y"), y);
	fixture_done(&w);
}

static void idle_ones_are_dropped(void **state)
{
	struct fixture w;
	bool is_new;

	(void)state;
	fixture_init(&w, "[databases]\na=\nm=user=f min_pool_size=1\n*=\n[pgbouncer]\n"
			 "autodb_idle_timeout=60\npool_idle_timeout=10\n");
	uint64_t start = w.now;
	/* The pool that min_pool_size keeps alive stays and is not reviewed again. */
	assert_true(catalog_housekeeping(w.c, w.now, NULL, NULL) == UINT64_MAX);
	struct database *x = catalog_database(w.c, "x", &is_new);
	struct database *y = catalog_database(w.c, "y", &is_new);
	assert_int_equal(x->idle_since_us, start);
	database_hold(x);
	assert_true(database_enter(x, false));
	y->paused = true;
	assert_int_equal(x->idle_since_us, 0);
	struct pool_request request;
	struct pool *a = fixture_pool(&w, "a", "u");
	fixture_join(a, &request);
	assert_int_equal(a->idle_since_us, 0);
	w.now = request.last_us = start + 5 * SECOND;
	pool_part(&request);
	assert_int_equal(a->idle_since_us, w.now);
	assert_int_equal(
	    catalog_housekeeping(w.c, w.now, NULL, NULL), start + 15 * SECOND);
	w.now += 10 * SECOND;
	assert_int_equal(w.freed, 0);
	catalog_housekeeping(w.c, w.now, NULL, NULL);
	assert_int_equal(w.freed, 1);
	assert_null(catalog_find_pool(
	    catalog_find_database(w.c, "a"), catalog_find_user(w.c, "u")));
	database_leave(x);
	database_release(x);
	assert_int_equal(x->idle_since_us, w.now);
	catalog_housekeeping(w.c, w.now + 59 * SECOND, NULL, NULL);
	assert_non_null(catalog_find_database(w.c, "x"));
	catalog_housekeeping(w.c, w.now + 60 * SECOND, NULL, NULL);
	assert_null(catalog_find_database(w.c, "x"));
	assert_ptr_equal(catalog_find_database(w.c, "y"), y);
	fixture_done(&w);
}

/* A client without a password must not create databases without end. */
static void unused_ones_are_dropped_at_once(void **state)
{
	struct fixture w;
	char name[16];
	bool is_new;

	(void)state;
	fixture_init(&w, "[databases]\n*=\n[pgbouncer]\nautodb_idle_timeout=0\n");
	struct database *used = catalog_database(w.c, "used", &is_new);
	database_hold(used);
	assert_true(database_enter(used, false));
	database_leave(used);
	database_release(used);
	/* a pool does not prove a login: auth_query uses it before any client has
	 * logged in */
	struct database *asked = catalog_database(w.c, "asked", &is_new);
	catalog_pool(asked, catalog_user(w.c, "u"));
	struct database *entered = catalog_database(w.c, "entered", &is_new);
	database_hold(entered);
	struct database *disabled = catalog_database(w.c, "disabled", &is_new);
	disabled->disabled = true;
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		struct database *db = catalog_database(w.c, name, &is_new);
		assert_true(is_new);
		database_hold(db);
		database_release(db);
	}
	catalog_housekeeping(w.c, w.now, NULL, NULL);
	assert_null(catalog_find_database(w.c, "n0"));
	assert_null(catalog_find_database(w.c, "n999"));
	assert_null(catalog_find_database(w.c, "asked"));
	assert_ptr_equal(catalog_find_database(w.c, "used"), used);
	assert_ptr_equal(catalog_find_database(w.c, "entered"), entered);
	assert_ptr_equal(catalog_find_database(w.c, "disabled"), disabled);
	database_release(entered);
	catalog_housekeeping(w.c, w.now, NULL, NULL);
	assert_null(catalog_find_database(w.c, "entered"));
	fixture_done(&w);
}

/* Snapshots count on, so that averages see neither a loss nor a gain. */
static void freed_pools_have_counted(void **state)
{
	struct fixture w;
	struct stats sum = {0};
	struct stats_history history = {.newer = {0}};

	(void)state;
	fixture_init(&w, "[databases]\na=\n[pgbouncer]\npool_idle_timeout=1\n");
	struct pool *pool = fixture_pool(&w, "a", "u");
	struct database *a = pool->database;
	pool->stats.query_count = 3;
	catalog_snapshot_stats(w.c, w.now);
	pool->stats.query_count = 7;
	w.now += 100 * SECOND;
	catalog_housekeeping(w.c, w.now, NULL, NULL);
	assert_true(list_is_empty(&a->pools));
	assert_int_equal(catalog_count_database(a, &sum, &history), 0);
	assert_int_equal(sum.query_count, 7);
	for (uint64_t round = 0; round < 2; round++) {
		catalog_snapshot_stats(w.c, w.now);
		sum = (struct stats){0};
		history = (struct stats_history){.newer = {0}};
		pool = fixture_pool(&w, "a", "u");
		assert_int_equal(catalog_count_database(a, &sum, &history), 1);
		assert_int_equal(sum.query_count, 7);
		assert_int_equal(history.newer.query_count, 7);
	}
	assert_int_equal(history.older.query_count, 7);
	fixture_done(&w);
}

static void console(void **state)
{
	struct fixture w;
	bool is_new;

	(void)state;
	fixture_init(&w, "[databases]\n*=\n[pgbouncer]\nlisten_port=7\n");
	struct database *db = catalog_add_admin(w.c, NULL);
	assert_true(db->is_admin);
	assert_ptr_equal(catalog_database(w.c, "pgbouncer", &is_new), db);
	assert_int_equal(scope_default_pool_size(scope_of_database(db)), 2);
	assert_int_equal(db->config->port, 7);
	assert_null(db->config->host);
	struct pool *pool = catalog_find_pool(db, NULL);
	assert_string_equal(pool->user->name, "pgbouncer");
	assert_int_equal(pool_mode(pool), POOL_MODE_STATEMENT);
	fixture_adopt(&w, "[databases]\n[pgbouncer]\n", NULL);
	assert_ptr_equal(catalog_find_database(w.c, "pgbouncer"), db);
	w.c->paused = true;
	assert_false(pool_is_paused(pool));
	catalog_mark_dirty(w.c, NULL);
	assert_false(pool->has_dirty);
	fixture_next(&w, pool, VERDICT_NONE);
	fixture_done(&w);
}

static void sorted_walks_and_snapshots(void **state)
{
	struct fixture w;
	size_t count;

	(void)state;
	fixture_init(&w, "[databases]\nb=\na=\n[pgbouncer]\n");
	struct pool *bu = fixture_pool(&w, "b", "u"), *av = fixture_pool(&w, "a", "v");
	struct pool *au = fixture_pool(&w, "a", "u");
	struct database **databases = catalog_sorted_databases(w.c, &count);
	assert_int_equal(count, 2);
	assert_string_equal(databases[0]->name, "a");
	free(databases);
	struct pool **pools = catalog_sorted_pools(w.c, &count);
	assert_int_equal(count, 3);
	assert_ptr_equal(pools[0], au);
	assert_ptr_equal(pools[1], av);
	assert_ptr_equal(pools[2], bu);
	free(pools);
	struct pool_request request;
	fixture_join(bu, &request);
	bu->stats.query_count = 5;
	catalog_snapshot_stats(w.c, 7);
	bu->stats.query_count = 9;
	catalog_snapshot_stats(w.c, 8);
	assert_int_equal(bu->history.older.query_count, 5);
	assert_int_equal(bu->history.newer.query_count, 9);
	assert_int_equal(w.c->snapshot_us, 8);
	assert_int_equal(w.c->older_snapshot_us, 7);
	/* An unused pool is in the snapshots until both have its last counts. */
	bu->stats.query_count = 10;
	pool_part(&request);
	assert_int_equal(w.c->counted.count, 1);
	catalog_snapshot_stats(w.c, 9);
	assert_int_equal(w.c->counted.count, 1);
	catalog_snapshot_stats(w.c, 10);
	assert_int_equal(w.c->counted.count, 0);
	assert_int_equal(bu->history.older.query_count, 10);
	/* The pool is counted again when a client joins. */
	fixture_join(bu, &request);
	assert_int_equal(w.c->counted.count, 1);
	bu->stats.query_count = 11;
	catalog_snapshot_stats(w.c, 11);
	assert_int_equal(bu->history.older.query_count, 10);
	assert_int_equal(bu->history.newer.query_count, 11);
	pool_part(&request);
	/* Changed settings do not schedule pools that have no clients. */
	fixture_was_scheduled(&w, bu);
	fixture_set(&w, "default_pool_size", "3");
	assert_int_equal(w.schedule_count, 0);
	fixture_done(&w);
}

/* The settings of an entry are read from the snapshot in force, even if the entry is
 * the same. */
static void unchanged_entries(void **state)
{
	struct fixture w;

	(void)state;
	fixture_init(&w, "[databases]\na=host=x pool_size=3\nb=\n[pgbouncer]\n");
	struct database *a = catalog_find_database(w.c, "a");
	fixture_adopt(
	    &w, "[databases]\na=host=x pool_size=3\nb=host=y\n[pgbouncer]\n", NULL);
	assert_ptr_equal(a->config, config_database(w.c->config, "a"));
	assert_string_equal(a->config->host, "x");
	assert_string_equal(catalog_find_database(w.c, "b")->config->host, "y");
	/* a snapshot that was compared with another one */
	fixture_set(&w, "query_timeout", "5");
	fixture_adopt(&w, "[databases]\na=host=x pool_size=3\n[pgbouncer]\n", NULL);
	assert_ptr_equal(a->config, config_database(w.c->config, "a"));
	assert_null(catalog_find_database(w.c, "b"));
	fixture_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pools_are_found_again),
	    cmocka_unit_test(values_in_force),
	    cmocka_unit_test(client_limits),
	    cmocka_unit_test(databases_without_clients_are_vacated),
	    cmocka_unit_test(changed_entries),
	    cmocka_unit_test(unchanged_entries),
	    cmocka_unit_test(entries_keep_their_databases),
	    cmocka_unit_test(gone_databases),
	    cmocka_unit_test(killed_pools),
	    cmocka_unit_test(forced_users),
	    cmocka_unit_test(secrets),
	    cmocka_unit_test(secrets_in_steps),
	    cmocka_unit_test(users_of_the_list),
	    cmocka_unit_test(remembered_passwords),
	    cmocka_unit_test(auto_databases),
	    cmocka_unit_test(idle_ones_are_dropped),
	    cmocka_unit_test(unused_ones_are_dropped_at_once),
	    cmocka_unit_test(freed_pools_have_counted),
	    cmocka_unit_test(console),
	    cmocka_unit_test(sorted_walks_and_snapshots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
