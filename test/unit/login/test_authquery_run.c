/*
 * Users who are not in the list: which query auth_query sends, and what follows from
 * every answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/asking.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

/* ---- asking ---- */

static bool holds(const struct buf *in, const char *text, size_t len)
{
	return memmem(in->bytes, in->len, text, len) != NULL;
}

static void name_is_a_parameter(void **state)
{
	(void)state;
	struct stage *stage = stage_new(AUTH, PLAIN);
	struct peer *client = stage_client(stage), *server;
	peer_start(client, "x'; drop", "d", "application_name", "mine");
	server = stage_ready_server(stage);
	stage_settle(stage);
	assert_true(holds(&server->in, QUERY, sizeof(QUERY)));
	assert_true(holds(&server->in, "\0\0\0\x8x'; drop", 12));
	assert_int_equal(get_u32(server->in.bytes + 1), 4 + 1 + sizeof(QUERY) + 2);
	/* the pooler sends no SET for the client's parameters before the query */
	assert_string_equal(peer_heard(server), ANSWERED);
	answer(server, "x'; drop", "secret");
	peer_hear(client, 'R');
	stage_free(&stage);
}

static void found_secret_serves_both_logins(void **state)
{
	(void)state;
	struct peer *client, *server, *asked_server;
	struct stage *stage = asked(AUTH, PLAIN, &client, &asked_server);
	assert_string_equal(peer_heard(client), "");
	answer(asked_server, "w", "found");
	assert_string_equal(peer_hear(client, 'R'), "R");
	peer_text(client, 'p', "found");
	server = own_server(stage);
	ask_for(server, AUTH_REQ_CLEARTEXT, NULL, 0);
	stage_settle(stage);
	assert_string_equal((const char *)server->in.bytes + 5, "found");
	buf_clear(&server->in);
	peer_greet(server);
	peer_hear(client, 'Z');
	assert_non_null(catalog_find_user(stage->site.catalog, "w"));
	/* the next login asks again, whether it succeeds or not */
	client = come(stage, "w");
	peer_hear(asked_server, 'S');
	answer(asked_server, "w", "changed");
	peer_hear(client, 'R');
	assert_string_equal(pool_server_secret(pool_of_w(stage))->text, "changed");
	stage_free(&stage);
}

static void forced_user_of_the_database_is_not_asked(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = asked(AUTH " user=v", PLAIN, &client, &server);
	assert_int_equal(pool_server_count(stage_pool(stage)), 0);
	answer(server, "w", "found");
	peer_hear(client, 'R');
	peer_text(client, 'p', "found");
	server = own_server(stage);
	ask_for(server, AUTH_REQ_CLEARTEXT, NULL, 0);
	stage_settle(stage);
	/* the server login uses v's own password, not the one found */
	assert_string_equal((const char *)server->in.bytes + 5, "secret");
	buf_clear(&server->in);
	peer_greet(server);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void listed_users_are_not_asked_for(void **state)
{
	(void)state;
	struct stage *stage = stage_new(AUTH, "");
	struct peer *client = come(stage, "v"), *server = stage_ready_server(stage);
	peer_hear(client, 'Z');
	assert_string_equal(peer_heard(server), "");
	/* auth_query is not asked for a database that does not exist either */
	client = stage_client(stage);
	peer_start(client, "w", "nowhere", NULL, NULL);
	assert_ends_with(client, "E:FATAL:\"trust\" authentication failed");
	assert_int_equal(stage->dialed, 1);
	stage_free(&stage);
}

/* ---- methods ---- */

static void every_method_takes_what_was_found(void **state)
{
	static const char *const types[] = {"md5", "scram-sha-256", "md5"};
	char hashed[256];
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct peer *client, *server;
		struct stage *stage =
		    asked(AUTH, "auth_type = md5\n", &client, &server);
		stage_set(stage, "auth_type", types[i]);
		peer_close(client);
		answer(server, "w", "found");
		client = come(stage, "w");
		peer_hear(server, 'S');
		/* auth_type=md5 and a SCRAM secret: the client is asked for SCRAM */
		answer(server, "w", i == 2 ? scram_secret("found", hashed) : "found");
		if (i == 0)
			md5_answer(client, "found", "w");
		else
			scram_login(client, "found");
		server = stage_ready_server(stage);
		peer_hear(client, 'Z');
		stage_free(&stage);
	}
}

static void trust_needs_a_row(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = asked(AUTH, "", &client, &server);
	answer(server, "w", NULL);
	stage_ready_server(stage);
	peer_hear(client, 'Z');
	client = come(stage, "w");
	peer_hear(server, 'S');
	columns(server, 2);
	peer_answer(server, "SELECT 0", 'I');
	assert_ends_with(client, NOBODY);
	stage_free(&stage);
}

/* Keys of a client's SCRAM login are used to log in to the server. */
static void scram_keys_pass_through(void **state)
{
	(void)state;
	char hashed[256];
	struct peer *client, *server;
	struct stage *stage =
	    asked(AUTH, "auth_type = scram-sha-256\n", &client, &server);
	struct pool *pool;
	answer(server, "w", scram_secret("found", hashed));
	scram_login(client, "found");
	own_server(stage);
	pool = pool_of_w(stage);
	assert_true(pool->credentials.has_login_keys);
	assert_string_equal(pool_server_secret(pool)->text, hashed);
	stage_free(&stage);
}

/* ---- answers ---- */

static void no_secret_fits_nothing(void **state)
{
	static const char *const tried[] = {"md5", "NULL", "null", "w"};
	static const char *const secrets[] = {NULL, "", NULL, ""};
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct peer *client, *server;
		struct stage *stage = asked(AUTH, PLAIN, &client, &server);
		answer(server, "w", secrets[i]);
		peer_hear(client, 'R');
		peer_text(client, 'p', tried[i]);
		assert_ends_with(client, WRONG);
		stage_set(stage, "auth_type", "md5");
		client = come(stage, "w");
		peer_hear(server, 'S');
		answer(server, "w", secrets[i]);
		md5_answer(client, tried[i], "w");
		assert_ends_with(client, WRONG);
		stage_free(&stage);
	}
}

static void no_row_is_nobody(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = asked(AUTH, PLAIN, &client, &server);
	columns(server, 2);
	peer_answer(server, "SELECT 0", 'I');
	/* a user that does not exist is asked for a password like any other */
	peer_hear(client, 'R');
	peer_text(client, 'p', "guess");
	assert_ends_with(client, WRONG);
	assert_null(catalog_find_user(stage->site.catalog, "w"));
	/* the server connection can be used again */
	assert_int_equal(stage_pool(stage)->slots[SLOT_IDLE].count, 1);
	/* with md5 the client is told that there is no such user */
	stage_set(stage, "auth_type", "md5");
	client = come(stage, "w");
	peer_hear(server, 'S');
	columns(server, 2);
	peer_answer(server, "SELECT 0", 'I');
	assert_ends_with(client, NOBODY);
	stage_free(&stage);
}

static void last_row_counts(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = asked(AUTH, PLAIN, &client, &server);
	columns(server, 2);
	row(server, "x", "first");
	row(server, "w", "last");
	peer_answer(server, "SELECT 2", 'I');
	peer_hear(client, 'R');
	peer_text(client, 'p', "last");
	stage_ready_server(stage);
	peer_hear(client, 'Z');
	client = come(stage, "w");
	peer_hear(server, 'S');
	columns(server, 2);
	row(server, "w", "first");
	row(server, "w", NULL);
	peer_answer(server, "SELECT 2", 'I');
	peer_hear(client, 'R');
	peer_text(client, 'p', "first");
	assert_ends_with(client, WRONG);
	stage_free(&stage);
}

/* The login uses the name in the row: its limits, its pool, its servers. */
static void name_in_the_row_is_who_it_is(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = asked(AUTH, PLAIN, &client, &server);
	answer(server, "other", "found");
	peer_hear(client, 'R');
	peer_text(client, 'p', "found");
	stage_ready_server(stage);
	peer_hear(client, 'Z');
	assert_int_equal(
	    catalog_find_user(stage->site.catalog, "other")->client_count, 1);
	assert_null(catalog_find_user(stage->site.catalog, "w"));
	stage_set(stage, "max_user_client_connections", "1");
	client = come(stage, "w");
	peer_hear(server, 'S');
	answer(server, "other", "found");
	peer_hear(client, 'R');
	peer_text(client, 'p', "found");
	assert_ends_with(client,
	    "E:FATAL:client connections exceeded (max_user_client_connections)");
	stage_free(&stage);
}

/* The answer may name a user of the list: servers still get the listed password. */
static void listed_password_is_not_replaced(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = asked(AUTH, PLAIN, &client, &server);
	answer(server, "v", "found");
	peer_hear(client, 'R');
	peer_text(client, 'p', "found");
	server = own_server(stage);
	ask_for(server, AUTH_REQ_CLEARTEXT, NULL, 0);
	stage_settle(stage);
	assert_string_equal((const char *)server->in.bytes + 5, "secret");
	stage_free(&stage);
}

static void what_does_not_matter_is_passed_over(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = asked(AUTH, PLAIN, &client, &server);
	struct buf b;
	buf_init(&b, 0);
	codec_put_notice(&b, "by the way", NULL);
	codec_put_parameter_status(&b, "TimeZone", "Mars");
	peer_send(server, b.bytes, b.len);
	buf_done(&b);
	answer(server, "w", "found");
	assert_string_equal(peer_hear(client, 'R'), "R");
	stage_free(&stage);
}

struct spoiling {
	const char *what;
	void (*spoil)(struct peer *server);
	bool is_protocol_error;
};

static void spoil_columns(struct peer *server)
{
	columns(server, 3);
}

static void spoil_no_columns(struct peer *server)
{
	peer_put(server, '1', NULL, 0);
	peer_put(server, '2', NULL, 0);
	peer_put(server, 'n', NULL, 0);
}

static void spoil_error(struct peer *server)
{
	put_error(server, "function found(unknown) does not exist");
	peer_ready(server, 'I');
}

/* The query fails after it has sent the row. */
static void spoil_late_error(struct peer *server)
{
	columns(server, 2);
	row(server, "w", "found");
	put_error(server, "division by zero");
}

static void spoil_mid_answer(struct peer *server)
{
	columns(server, 2);
	row(server, "w", "found");
	peer_close(server);
}

static void spoil_order(struct peer *server)
{
	peer_text(server, 'C', "SELECT 1");
}

static void spoil_copy(struct peer *server)
{
	peer_put(server, '1', NULL, 0);
	peer_put(server, '2', NULL, 0);
	peer_put(server, 'n', NULL, 0);
	peer_put(server, 'G', "\0\0\0", 3);
}

static void spoil_row(struct peer *server)
{
	columns(server, 2);
	peer_put(server, 'D', "\0\2\0\0\0\1w\0\0\xff\xff", 11);
}

static void spoil_row_count(struct peer *server)
{
	columns(server, 2);
	peer_put(server, 'D', "\0\1\0\0\0\1w", 7);
}

static void spoil_zero_byte(struct peer *server)
{
	columns(server, 2);
	peer_put(server, 'D', "\0\2\0\0\0\3w\0x\0\0\0\1y", 14);
}

static void spoil_size(struct peer *server)
{
	columns(server, 2);
	peer_send(server, "D\x10\0\0\0", 5);
}

static void spoil_transaction(struct peer *server)
{
	columns(server, 2);
	row(server, "w", "found");
	peer_answer(server, "SELECT 1", 'T');
}

static void spoilt_answers_let_nobody_in(void **state)
{
	static const struct spoiling spoilings[] = {
	    {"three columns", spoil_columns, false},
	    {"no columns", spoil_no_columns, false},
	    {"error", spoil_error, false},
	    {"late error", spoil_late_error, false},
	    {"end", spoil_mid_answer, false},
	    {"order", spoil_order, true},
	    {"copy", spoil_copy, false},
	    {"row", spoil_row, true},
	    {"columns of a row", spoil_row_count, true},
	    {"zero byte", spoil_zero_byte, true},
	    {"size", spoil_size, true},
	    {"transaction", spoil_transaction, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(spoilings) / sizeof(spoilings[0]); i++) {
		struct peer *client, *server;
		struct stage *stage = asked(AUTH, "", &client, &server);
		spoilings[i].spoil(server);
		if (strcmp(peer_last_words(client), CONFIG_ERROR) != 0)
			fail_msg("%s: %s", spoilings[i].what, buf_text(&client->text));
		stage_settle(stage);
		if ((stage->site.protocol_errors > 0) != spoilings[i].is_protocol_error)
			fail_msg("%s: %d", spoilings[i].what,
			    (int)stage->site.protocol_errors);
		/* the server is never used again */
		assert_int_equal(pool_server_count(stage_pool(stage)), 0);
		assert_null(catalog_find_user(stage->site.catalog, "w"));
		stage_free(&stage);
	}
}

static void refuse_null_name(struct peer *server)
{
	answer(server, NULL, "found");
}

static void refuse_empty_name(struct peer *server)
{
	answer(server, "", "found");
}

static void refuse_bytes(struct peer *server)
{
	put_error_of(server, "22021", "invalid byte sequence for encoding \"UTF8\"");
	peer_ready(server, 'I');
}

static void refuse_by_function(struct peer *server)
{
	columns(server, 2);
	row(server, "w", "found");
	put_error_of(server, "P0001", "no such user");
	peer_ready(server, 'I');
}

/* A name that cannot be looked up lets nobody in, and costs no server: strangers may
 * send any. */
static void refused_names_cost_no_server(void **state)
{
	static void (*const refusals[])(struct peer *) = {
	    refuse_null_name, refuse_empty_name, refuse_bytes, refuse_by_function};
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct peer *client, *server;
		struct stage *stage = asked(AUTH, "", &client, &server);
		for (int n = 0; n < 3; n++) {
			refusals[i](server);
			assert_ends_with(client, CONFIG_ERROR);
			client = come(stage, "w");
			assert_string_equal(peer_hear(server, 'S'), ANSWERED);
		}
		assert_int_equal(stage->dialed, 1);
		assert_null(catalog_find_user(stage->site.catalog, "w"));
		stage_free(&stage);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(name_is_a_parameter),
	    cmocka_unit_test(found_secret_serves_both_logins),
	    cmocka_unit_test(forced_user_of_the_database_is_not_asked),
	    cmocka_unit_test(listed_users_are_not_asked_for),
	    cmocka_unit_test(every_method_takes_what_was_found),
	    cmocka_unit_test(trust_needs_a_row),
	    cmocka_unit_test(scram_keys_pass_through),
	    cmocka_unit_test(no_secret_fits_nothing),
	    cmocka_unit_test(no_row_is_nobody),
	    cmocka_unit_test(last_row_counts),
	    cmocka_unit_test(name_in_the_row_is_who_it_is),
	    cmocka_unit_test(listed_password_is_not_replaced),
	    cmocka_unit_test(what_does_not_matter_is_passed_over),
	    cmocka_unit_test(spoilt_answers_let_nobody_in),
	    cmocka_unit_test(refused_names_cost_no_server),
	};
	return stage_run_twice(tests);
}
