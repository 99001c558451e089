/*
 * Logins to servers with a password that a program gives: when it is fetched, what is
 * sent, and what follows a refusal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../stage/stage.h"
#include "pool/hosts.h"
#include "pool/pool.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define SAYS(script) "server_password_command='/bin/sh -c \"" script "\"'"

static struct stage *begin(const char *options, struct peer **client)
{
	struct stage *stage = stage_new(options, "server_login_retry=60");

	*client = stage_client(stage);
	peer_start(*client, "u", "d", NULL, NULL);
	return stage;
}

static void answer_with(struct peer *server, const struct buf *b)
{
	peer_send(server, b->bytes, b->len);
	stage_settle(server->stage);
}

/* The next connection asks for the password in clear text, and gets it. */
static struct peer *server_that_gets(struct stage *stage, const char *password)
{
	struct peer *server = stage_server(stage);
	struct buf b;

	peer_first_packet(server);
	buf_init(&b, 0);
	codec_put_auth(&b, AUTH_REQ_CLEARTEXT, NULL, 0);
	answer_with(server, &b);
	buf_done(&b);
	peer_await(server);
	assert_int_equal(server->in.bytes[0], 'p');
	assert_string_equal((const char *)server->in.bytes + 5, password);
	buf_clear(&server->in);
	return server;
}

static void refuse(struct peer *server, const char *sqlstate)
{
	struct buf b;

	buf_init(&b, 0);
	codec_put_error(&b, "FATAL", sqlstate, "who are you", NULL, NULL);
	answer_with(server, &b);
	buf_done(&b);
}

static void it_is_there_before_the_connect(void **state)
{
	struct peer *client;
	struct stage *stage = begin(SAYS("sleep 0.3; echo fetched"), &client);

	(void)state;
	stage_settle(stage);
	assert_int_equal(stage->dialed, 0);
	peer_greet(server_that_gets(stage, "fetched"));
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void a_hash_is_a_password(void **state)
{
	static const char hash[] = "md50123456789abcdef0123456789abcdef";
	struct peer *client;
	struct stage *stage =
	    begin(SAYS("echo md50123456789abcdef0123456789abcdef"), &client);

	(void)state;
	peer_greet(server_that_gets(stage, hash));
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void a_refusal_is_tried_once_more(void **state)
{
	static const char *const sqlstates[] = {"28P01", "28000"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct peer *client;
		struct stage *stage = begin(SAYS("echo fetched"), &client);
		refuse(server_that_gets(stage, "fetched"), sqlstates[i]);
		assert_string_equal(peer_heard(client), "");
		refuse(server_that_gets(stage, "fetched"), sqlstates[i]);
		assert_string_equal(peer_last_words(client), "E:FATAL:who are you");
		assert_int_equal(stage->dialed, 2);
		stage_free(&stage);
	}
}

static void another_error_is_not(void **state)
{
	struct peer *client;
	struct stage *stage = begin(SAYS("echo fetched"), &client);

	(void)state;
	refuse(server_that_gets(stage, "fetched"), "3D000");
	assert_string_equal(peer_last_words(client), "E:FATAL:who are you");
	assert_int_equal(stage->dialed, 1);
	stage_free(&stage);
}

static void a_stored_one_is_not(void **state)
{
	struct peer *client;
	struct stage *stage = begin("", &client);

	(void)state;
	refuse(server_that_gets(stage, "secret"), "28P01");
	assert_string_equal(peer_last_words(client), "E:FATAL:who are you");
	assert_int_equal(stage->dialed, 1);
	stage_free(&stage);
}

static void clients_are_not_told_how_it_has_failed(void **state)
{
	static const char told[] = "E:FATAL:server login failed: there is no password";
	struct peer *client;
	struct stage *stage = begin(SAYS("echo why >&2; exit 5"), &client);
	const char *failure;

	(void)state;
	assert_string_equal(peer_last_words(client), told);
	(void)pool_last_attempt(stage_pool(stage), &failure);
	assert_string_equal(failure, "/bin/sh: exit 5: why");
	assert_string_equal(stage_pool(stage)->database->hosts.list[0]->last_error,
	    "/bin/sh: exit 5: why");
	assert_int_equal(stage->dialed, 0);
	stage_free(&stage);
	stage = stage_new(SAYS("exit 5"), "");
	client = stage_client(stage);
	peer_start(client, "u", "d", "replication", "true");
	assert_string_equal(peer_last_words(client), told);
	stage_free(&stage);
}

static void an_attempt_may_be_given_up(void **state)
{
	struct peer *client;
	struct stage *stage = begin(SAYS("sleep 0.2; echo fetched"), &client);

	(void)state;
	stage_settle(stage);
	stage_drop_all(stage);
	stage_free(&stage);
}

static void the_monitor_has_it_too(void **state)
{
	struct peer *client, *monitor;
	struct stage *stage =
	    begin("target_session_attrs=primary " SAYS("echo fetched"), &client);

	(void)state;
	monitor = server_that_gets(stage, "fetched");
	refuse(monitor, "28P01");
	monitor = server_that_gets(stage, "fetched");
	peer_greet(monitor);
	peer_await(monitor);
	assert_int_equal(monitor->in.bytes[0], 'Q');
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_there_before_the_connect),
	    cmocka_unit_test(a_hash_is_a_password),
	    cmocka_unit_test(a_refusal_is_tried_once_more),
	    cmocka_unit_test(another_error_is_not),
	    cmocka_unit_test(a_stored_one_is_not),
	    cmocka_unit_test(clients_are_not_told_how_it_has_failed),
	    cmocka_unit_test(an_attempt_may_be_given_up),
	    cmocka_unit_test(the_monitor_has_it_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
