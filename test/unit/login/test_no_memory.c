/*
 * A helper thread has no memory to prepare a password: that login is refused, and the
 * next one with the same password succeeds, because no wrong key has been kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../stage/asking.h"
#include "wire/codec.h"

static _Thread_local bool is_main;
#define NO_MEMORY_SPARES is_main
#include "../no_memory.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define PASSWORD "caf\xc3\xa9"

static const char *log_in(struct stage *stage, const char *method)
{
	struct peer *client = come(stage, "u");

	if (*method == 's') {
		scram_login(client, PASSWORD);
	} else {
		peer_hear(client, 'R');
		peer_text(client, 'p', PASSWORD);
	}
	peer_await(client);
	return client->has_ended ? peer_last_words(client) : peer_heard(client);
}

/* secret: of the user. */
static void try_all(const char *method, const char *secret)
{
	char list[300];

	snprintf(list, sizeof(list), "\"u\" \"%s\"\n", secret);
	for_each_failure(n)
	{
		struct stage *stage = stage_new("", "");
		struct peer *client, *server;
		stage_pair(stage, &client, &server);
		stage_set(stage, "auth_type", method);
		stage_users(stage, list);
		no_memory.is_on = true;
		const char *heard = log_in(stage, method);
		no_memory.is_on = false;
		if (no_memory_has_failed())
			assert_non_null(strstr(heard, "E:FATAL:out of memory"));
		else
			assert_non_null(strstr(heard, "Z:I"));
		assert_non_null(strstr(log_in(stage, method), "Z:I"));
		stage_free(&stage);
	}
}

static void the_keys_of_a_user(void **state)
{
	(void)state;
	try_all("scram-sha-256", PASSWORD);
}

static void what_was_typed(void **state)
{
	char secret[256];

	(void)state;
	try_all("plain", scram_secret(PASSWORD, secret));
}

static bool has_answered(void *arg)
{
	const struct peer *peer = arg;

	return peer->has_ended || peer_message(peer) > 0;
}

/* Runs the exchange with a server up to the pooler's proof, which is not looked at. */
static void ask_for_proof(struct peer *server)
{
	static const char *const mechanisms[] = {"SCRAM-SHA-256", NULL};
	struct buf b;
	const char *nonce;

	buf_init(&b, 0);
	codec_put_auth_sasl(&b, mechanisms);
	peer_send(server, b.bytes, b.len);
	buf_clear(&b);
	peer_await(server);
	nonce = strstr((const char *)server->in.bytes + 5 + 14 + 4, "r=");
	assert_non_null(nonce);
	buf_printf(&b, "%.*sX,s=QUFBQUFBQUFBQUFBQUFBQQ==,i=2",
	    (int)((const char *)server->in.bytes + server->in.len - nonce), nonce);
	buf_clear(&server->in);
	ask_for(server, AUTH_REQ_SASL_CONTINUE, b.bytes, b.len);
	buf_done(&b);
	stage_until(server->stage, has_answered, server);
}

static void what_a_server_asks_for(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct stage *stage = stage_new("", "");
		stage_users(stage, "\"u\" \"" PASSWORD "\"\n");
		struct peer *client = come(stage, "u");
		struct peer *server = stage_server(stage);
		peer_first_packet(server);
		no_memory.is_on = true;
		ask_for_proof(server);
		no_memory.is_on = false;
		assert_int_equal(server->has_ended, no_memory_has_failed());
		if (server->has_ended) {
			peer_last_words(server);
			assert_string_equal(peer_last_words(client),
			    "E:FATAL:server login failed: out of memory");
		}
		stage_free(&stage);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_keys_of_a_user),
	    cmocka_unit_test(what_was_typed),
	    cmocka_unit_test(what_a_server_asks_for),
	};

	is_main = true;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
