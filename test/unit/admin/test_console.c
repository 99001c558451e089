/*
 * The console as its clients see it: the answer to a login, messages, commands, rights,
 * and replies that come later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "admin/console.h"
#include "admin/verbs.h"
#include "rig.h"
#include "views/show.h"
#include "wire/codec.h"

static const char ini[] = "[databases]\n"
			  "one = host=127.0.0.1 port=5433\n"
			  "two = host=a,b user=owner pool_mode=session\n"
			  "[users]\n"
			  "boss = pool_size=7\n"
			  "[peers]\n"
			  "3 = host=/tmp/peer port=7000\n"
			  "[pgbouncer]\n"
			  "listen_port = 6543\n"
			  "admin_users = boss\n";

#define ERR(text) "E S=ERROR C=08P01 M=" text "\nZ I\n"

struct fixture {
	struct rig *rig;
	struct console_client admin, stats;
};

static int open_fixture(void **state)
{
	struct fixture *w = calloc(1, sizeof(*w));

	w->rig = rig_new(ini);
	console_client_open(&w->admin, w->rig, true);
	console_client_open(&w->stats, w->rig, false);
	*state = w;
	return 0;
}

static int close_fixture(void **state)
{
	struct fixture *w = *state;

	console_client_close(&w->admin);
	console_client_close(&w->stats);
	rig_free(&w->rig);
	free(w);
	return 0;
}

/* ---- login and protocol ---- */

static void test_greeting(void **state)
{
	struct fixture *w = *state;

	assert_string_equal((const char *)w->admin.text.bytes,
	    "S server_version=2.0.0/bouncer\nS client_encoding=UTF8\n"
	    "S server_encoding=UTF8\nS DateStyle=ISO\nS TimeZone=GMT\n"
	    "S standard_conforming_strings=on\nS is_superuser=on\n"
	    "S application_name=test\nK 8\nZ I\n");
}

static const char extended[] = ERR("extended query protocol not supported by admin "
				   "console") "E S=FATAL C=08P01 M=bad packet\n";

static void end_after(const char *bytes, size_t len, const char *answer)
{
	struct rig *rig = rig_new(ini);
	struct console_client client;

	console_client_open(&client, rig, true);
	console_client_send(&client, bytes, len);
	assert_string_equal(console_client_hear(&client, 9), answer);
	assert_true(client.has_ended);
	console_client_close(&client);
	rig_free(&rig);
}

static void test_other_messages(void **state)
{
	(void)state;
	end_after("P\0\0\0\x08\0\0\0\0", 9, extended);
	end_after("E\0\0\0\x09\0\0\0\0\0", 10, extended);
	end_after("S\0\0\0\x04", 5,
	    ERR("unsupported packet type for admin console: 83") "E S=FATAL C=08P01 "
								 "M=bad packet\n");
	end_after("C\0\0\0\x06P\0", 7,
	    ERR("unsupported packet type for admin console: 67") "E S=FATAL C=08P01 "
								 "M=bad packet\n");
	end_after("~\0\0\0\x04", 5, "E S=FATAL C=08P01 M=unknown pkt\n");
	end_after("X\0\0\0\x04", 5, "");
	/* a query without its closing NUL, and one longer than any message may be */
	end_after("Q\0\0\0\x06xy", 7, "E S=FATAL C=08P01 M=bad packet\n");
	end_after("Q\x20\0\0\0xy", 7, "E S=FATAL C=08P01 M=bad packet\n");
}

static void test_harmless_messages(void **state)
{
	struct fixture *w = *state;

	console_client_send(&w->admin,
	    "d\0\0\0\x07"
	    "abc"
	    "c\0\0\0\x04"
	    "C\0\0\0\x07Sx\0",
	    21);
	assert_string_equal(
	    console_client_ask(&w->admin, "reload"), "3 \nC RELOAD\nZ I\n");
}

static void test_query_in_pieces(void **state)
{
	struct fixture *w = *state;
	struct buf out;

	buf_init(&out, 0);
	codec_put_query(&out, "show version;");
	for (size_t i = 0; i < out.len; i++) {
		console_client_send(&w->admin, out.bytes + i, 1);
		rig_turn(w->rig, 1);
	}
	assert_string_equal(console_client_hear(&w->admin, 1),
	    "T version:25\nD PgBouncer 2.0.0\nC SHOW\nZ I\n");
	buf_done(&out);
}

static void test_pipelined(void **state)
{
	struct fixture *w = *state;

	console_client_say(&w->admin, "show timezone");
	console_client_say(&w->admin, "nonsense");
	console_client_say(&w->admin, "SELECT version");
	assert_string_equal(console_client_hear(&w->admin, 3),
	    "T timezone:25\nD GMT\nC SHOW\nZ I\n" ERR(
		"invalid command 'nonsense', use SHOW HELP;") "T version:25\nD "
							      "PgBouncer 2.0.0\nC "
							      "SHOW\nZ I\n");
}

/* A client that sends queries and reads no answers costs little memory. */
static void test_answers_not_read(void **state)
{
	enum { QUERIES = 300 };
	struct fixture *w = *state;

	watch_off(w->admin.watch);
	struct buf out;
	buf_init(&out, 0);
	for (int i = 0; i < QUERIES; i++)
		codec_put_query(&out, "show config");
	console_client_send(&w->admin, out.bytes, out.len);
	buf_done(&out);
	rig_turn(w->rig, 50);
	assert_true(stream_is_above_high(&w->admin.client->conn.stream));
	assert_in_range(
	    stream_pending(&w->admin.client->conn.stream), 1, 2 * STREAM_HIGH);
	watch_on(w->admin.watch);
	const char *answer = console_client_hear(&w->admin, QUERIES);
	unsigned count = 0;
	while ((answer = strstr(answer, "C SHOW\nZ I\n"))) {
		answer++;
		count++;
	}
	assert_int_equal(count, QUERIES);
}

/* ---- answers ---- */

struct talk {
	const char *query, *answer;
};

static void hold(struct console_client *client, const struct talk *talks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_string_equal(
		    console_client_ask(client, talks[i].query), talks[i].answer);
}
#define HOLD(client, talks) hold(client, talks, sizeof(talks) / sizeof((talks)[0]))

static void test_errors(void **state)
{
	static const struct talk talks[] = {
	    {"", ERR("invalid command '', use SHOW HELP;")},
	    {"show", ERR("invalid command 'show', use SHOW HELP;")},
	    {"show x;", ERR("invalid command 'show x;', use SHOW HELP;")},
	    {"select 1", ERR("invalid command 'select 1', use SHOW HELP;")},
	    {"begin", ERR("invalid command 'begin', use SHOW HELP;")},
	    {"set x", ERR("invalid command 'set x', use SHOW HELP;")},
	    {"reload one", ERR("invalid command 'reload one', use SHOW HELP;")},
	    {"shutdown now", ERR("invalid command 'shutdown now', use SHOW HELP;")},
	    {"aaaaaaaaaaaaaaaa", ERR("bad arguments")},
	    {"pause nodb", ERR("no such database: nodb")},
	    {"pause pgbouncer", ERR("cannot pause admin db: pgbouncer")},
	    {"resume", ERR("pooler is not paused/suspended")},
	    {"resume nodb", ERR("no such database: nodb")},
	    {"resume one", ERR("database one is not paused")},
	    {"resume ONE", ERR("no such database: ONE")},
	    {"disable", ERR("a database is required")},
	    {"enable", ERR("a database is required")},
	    {"disable \"\"", ERR("invalid command 'disable \"\"', use SHOW HELP;")},
	    {"disable nodb", ERR("no such database: nodb")},
	    {"disable pgbouncer", ERR("cannot disable admin db: pgbouncer")},
	    {"enable pgbouncer", ERR("cannot enable admin db: pgbouncer")},
	    {"reconnect nodb", ERR("no such database: nodb")},
	    {"reconnect pgbouncer", ERR("cannot reconnect admin db: pgbouncer")},
	    {"kill nodb", ERR("no such database: nodb")},
	    {"kill pgbouncer", ERR("cannot kill admin db: pgbouncer")},
	    {"wait_close nodb", ERR("no such database: nodb")},
	    {"wait_close pgbouncer", ERR("cannot wait in admin db: pgbouncer")},
	    {"kill_client", ERR("invalid client pointer supplied")},
	    {"kill_client x1", ERR("invalid client pointer supplied")},
	    {"kill_client 999999", ERR("client not found")},
	    {"set extra_float_digits = 3", "C SET extra_float_digits=3\nZ I\n"},
	};
	HOLD(&((struct fixture *)*state)->admin, talks);
}

static void test_long_query_in_error(void **state)
{
	struct fixture *w = *state;
	char query[3000];

	memset(query, 'x', sizeof(query) - 1);
	query[sizeof(query) - 1] = '\0';
	query[10] = ' ', query[20] = ' ';
	const char *answer = console_client_ask(&w->admin, query);
	assert_int_equal(strlen(answer), strlen("E S=ERROR C=08P01 M=\nZ I\n") + 1023);
}

static void test_courtesies(void **state)
{
	static const struct talk talks[] = {
	    {"SHOW Client_Encoding;", "T client_encoding:25\nD UTF-8\nC SHOW\nZ I\n"},
	    {"show default_transaction_isolation",
		"T default_transaction_isolation:25\nD read committed\nC SHOW\nZ I\n"},
	    {"set DateStyle = 'ISO, MDY'",
		"N S=NOTICE C=00000 M=SET ignored\nC SET\nZ I\n"},
	    {"set max_client_conn = 1", ERR("admin access needed")},
	};
	HOLD(&((struct fixture *)*state)->stats, talks);
}

static void test_process_verbs(void **state)
{
	struct fixture *w = *state;
	static const struct talk talks[] = {
	    {"RELOAD;", "C RELOAD\nZ I\n"},
	    {"set Pool_Mode = 'x y'", "C SET Pool_Mode=x y\nZ I\n"},
	    {"shutdown wait_for_clients", "C SHUTDOWN\nZ I\n"},
	    {"resume", ERR("pooler is shutting down")},
	};
	static const struct talk refused[] = {
	    {"RELOAD", "E S=ERROR C=F0000 M=RELOAD failed, see logs for additional "
		       "details D=x.ini:3: bad\nZ I\n"},
	    {"set a = b", ERR("SET failed D=refused")},
	};
	HOLD(&w->admin, talks);
	assert_string_equal(w->rig->set_name, "Pool_Mode");
	assert_string_equal(w->rig->set_value, "x y");
	assert_int_equal(w->rig->shutdown_asked, SHUTDOWN_WAIT_FOR_CLIENTS);
	w->rig->site.shutdown = SHUTDOWN_NONE;
	w->rig->refuses = true;
	HOLD(&w->admin, refused);
	console_client_say(&w->admin, "shutdown");
	rig_turn(w->rig, 20);
	assert_int_equal(w->rig->shutdown_asked, SHUTDOWN_NOW);
}

static void test_database_verbs(void **state)
{
	struct fixture *w = *state;
	struct database *one = catalog_find_database(w->rig->site.catalog, "one");
	static const struct talk talks[] = {
	    {"disable one", "C DISABLE\nZ I\n"},
	    {"pause one", "C PAUSE\nZ I\n"},
	    {"pause one", "C PAUSE\nZ I\n"},
	    {"reconnect", "C RECONNECT\nZ I\n"},
	    {"reconnect one", "C RECONNECT\nZ I\n"},
	    {"wait_close", "C WAIT_CLOSE\nZ I\n"},
	    {"wait_close two", "C WAIT_CLOSE\nZ I\n"},
	    {"pause", "C PAUSE\nZ I\n"},
	    {"pause", ERR("already suspended/paused")},
	    {"pause two", ERR("already suspended/paused")},
	    {"kill", ERR("already suspended/paused")},
	    {"resume", "C RESUME\nZ I\n"},
	    {"kill two", "C KILL\nZ I\n"},
	};
	HOLD(&w->admin, talks);
	assert_true(one->paused && one->disabled);
	assert_true(catalog_find_database(w->rig->site.catalog, "two")->paused);
	static const struct talk undo[] = {
	    {"resume one", "C RESUME\nZ I\n"},
	    {"resume two", "C RESUME\nZ I\n"},
	    {"enable one", "C ENABLE\nZ I\n"},
	};
	HOLD(&w->admin, undo);
	assert_false(one->paused || one->disabled);
}

static void test_kill_client(void **state)
{
	struct fixture *w = *state;
	char query[64];

	snprintf(query, sizeof(query), "kill_client %llu",
	    (unsigned long long)w->stats.client->conn.id);
	assert_string_equal(
	    console_client_ask(&w->admin, query), "C KILL_CLIENT\nZ I\n");
	assert_string_equal(console_client_hear(&w->stats, 1),
	    "E S=FATAL C=57P01 M=admin forced disconnect\n");
	assert_true(w->stats.has_ended);
}

/* ---- rights ---- */

/* Every verb, and every view, for a read-only console. */
static void test_rights(void **state)
{
	const struct verb *verb;
	const struct view *view;
	struct command command;

	(void)state;
	for (size_t i = 0; (verb = verb_at(i)); i++) {
		bool is_set = strcmp(verb->name, "SET") == 0;
		bool is_explain = strcmp(verb->name, "EXPLAIN") == 0;
		bool is_show = is_explain || strcmp(verb->name, "SHOW") == 0 ||
			       strcmp(verb->name, "SELECT") == 0;
		command_parse(is_set       ? "set pool_mode = session"
			      : is_explain ? "explain login u d"
					   : verb->name,
		    &command);
		assert_ptr_equal(verb_find(&command), verb);
		assert_true(verb_is_allowed(verb, &command, true));
		assert_int_equal(verb_is_allowed(verb, &command, false), is_show);
	}
	for (size_t i = 0; (view = view_at(i)); i++) {
		char query[64];
		snprintf(query, sizeof(query), "show %s", view->name);
		command_parse(query, &command);
		assert_int_equal(verb_is_allowed(verb_find(&command), &command, false),
		    strcmp(view->name, "FDS") != 0);
	}
	command_parse("set timezone = utc", &command);
	assert_true(verb_is_allowed(verb_find(&command), &command, false));
}

/* Over the wire, too, no command of a read-only console has an effect. */
static void test_rights_on_wire(void **state)
{
	struct fixture *w = *state;
	static const char *const queries[] = {"reload", "pause", "pause one", "resume",
	    "disable one", "enable one", "disable", "reconnect", "kill", "kill one",
	    "kill_client 1", "kill_client", "suspend", "shutdown",
	    "shutdown wait_for_servers", "wait_close", "show fds", "set a = b",
	    "\"kill\" one"};

	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++)
		assert_string_equal(console_client_ask(&w->stats, queries[i]),
		    ERR("admin access needed"));
	/* an unknown command is reported before missing rights */
	assert_string_equal(console_client_ask(&w->stats, "reload x"),
	    ERR("invalid command 'reload x', use SHOW HELP;"));
	assert_int_equal(w->rig->reloads + w->rig->sets, 0);
	assert_int_equal(w->rig->shutdown_asked, SHUTDOWN_NONE);
	assert_false(w->rig->site.catalog->paused);
}

/* ---- replies that come later ---- */

static struct pool *pool_of_one(struct rig *rig)
{
	struct catalog *catalog = rig->site.catalog;
	return catalog_pool(
	    catalog_find_database(catalog, "one"), catalog_user(catalog, "boss"));
}

static void hear_nothing(struct console_client *client)
{
	rig_turn(client->rig, 60);
	assert_int_equal(client->in.len, 0);
}

/* During a long reload the commands behind it wait, and so does every SET. */
static void test_long_reload(void **state)
{
	struct fixture *w = *state;

	w->rig->is_busy = true;
	console_client_say(&w->admin, "reload");
	console_client_say(&w->admin, "set a = b");
	hear_nothing(&w->admin);
	assert_true(w->admin.client->conn.is_parked);
	w->rig->is_busy = false;
	conn_unpark(&w->admin.client->conn);
	assert_string_equal(
	    console_client_hear(&w->admin, 2), "C RELOAD\nZ I\nC SET a=b\nZ I\n");
	assert_int_equal(w->rig->reloads, 1);
	w->rig->is_busy = true;
	console_client_say(&w->admin, "set c = d");
	hear_nothing(&w->admin);
	assert_int_equal(w->rig->sets, 1);
	w->rig->is_busy = false;
	conn_unpark(&w->admin.client->conn);
	assert_string_equal(console_client_hear(&w->admin, 1), "C SET c=d\nZ I\n");
}

static void test_waiting(void **state)
{
	struct fixture *w = *state;
	struct pool *pool = pool_of_one(w->rig);
	struct slot slot = {.pool = pool, .state = SLOT_ACTIVE};

	list_push_back(&pool->slots[SLOT_ACTIVE], &slot.node);
	console_client_say(&w->admin, "pause one");
	hear_nothing(&w->admin);
	/* the console goes on reading commands, and another database does not wait */
	assert_string_equal(
	    console_client_ask(&w->admin, "pause two"), "C PAUSE\nZ I\n");
	slot.dirty = DIRTY_OLD;
	console_client_say(&w->admin, "wait_close");
	hear_nothing(&w->admin);
	/* each command is answered on its own condition with its own tag */
	slot.dirty = DIRTY_NOT;
	assert_string_equal(console_client_hear(&w->admin, 1), "C WAIT_CLOSE\nZ I\n");
	hear_nothing(&w->admin);
	list_remove(&pool->slots[SLOT_ACTIVE], &slot.node);
	assert_string_equal(console_client_hear(&w->admin, 1), "C PAUSE\nZ I\n");
}

static void test_pause_interrupted(void **state)
{
	struct fixture *w = *state;
	struct pool *pool = pool_of_one(w->rig);
	struct slot slot = {.pool = pool, .state = SLOT_TESTED};
	struct console_client other;

	console_client_open(&other, w->rig, true);
	list_push_back(&pool->slots[SLOT_TESTED], &slot.node);
	console_client_say(&w->admin, "pause");
	hear_nothing(&w->admin);
	assert_string_equal(console_client_ask(&other, "resume"), "C RESUME\nZ I\n");
	assert_string_equal(
	    console_client_hear(&w->admin, 1), ERR("pause was interrupted by RESUME"));
	/* a cancel request ends a PAUSE too, but not one from a read-only console */
	console_client_say(&w->admin, "pause");
	hear_nothing(&w->admin);
	console_service.cancel(w->stats.client);
	hear_nothing(&w->admin);
	console_service.cancel(w->admin.client);
	assert_string_equal(console_client_hear(&w->admin, 1),
	    ERR("pause was interrupted by a cancel request"));
	/* the console's own RESUME is answered after its PAUSE */
	console_client_say(&w->admin, "pause");
	console_client_say(&w->admin, "resume");
	assert_string_equal(console_client_hear(&w->admin, 2),
	    ERR("pause was interrupted by RESUME") "C RESUME\nZ I\n");
	/* a console may close while its command waits */
	console_client_say(&other, "pause");
	hear_nothing(&other);
	console_client_close(&other);
	list_remove(&pool->slots[SLOT_TESTED], &slot.node);
	rig_turn(w->rig, 60);
	assert_true(w->rig->site.catalog->paused);
}

int main(void)
{
#define IN_WORLD(test) \
	cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)
	const struct CMUnitTest tests[] = {
	    IN_WORLD(test_greeting),
	    cmocka_unit_test(test_other_messages),
	    IN_WORLD(test_harmless_messages),
	    IN_WORLD(test_query_in_pieces),
	    IN_WORLD(test_pipelined),
	    IN_WORLD(test_answers_not_read),
	    IN_WORLD(test_errors),
	    IN_WORLD(test_long_query_in_error),
	    IN_WORLD(test_courtesies),
	    IN_WORLD(test_process_verbs),
	    IN_WORLD(test_long_reload),
	    IN_WORLD(test_database_verbs),
	    IN_WORLD(test_kill_client),
	    cmocka_unit_test(test_rights),
	    IN_WORLD(test_rights_on_wire),
	    IN_WORLD(test_waiting),
	    IN_WORLD(test_pause_interrupted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
