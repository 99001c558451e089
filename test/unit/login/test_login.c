/*
 * Which logins succeed: every method with the right and the wrong secret, and what may
 * happen while a login waits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"
#include "auth/scram.h"
#include "auth/secret.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_ends_with(peer, expected) \
	assert_string_equal(peer_last_words(peer), expected)

/* The pool has its login parameters, so that no login waits. */
static struct stage *warm_stage(const char *settings)
{
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	if (*settings)
		stage_set(stage, "auth_type", settings);
	return stage;
}

static struct peer *come(struct stage *stage, const char *user)
{
	struct peer *client = stage_client(stage);
	peer_start(client, user, "d", NULL, NULL);
	return client;
}

static void answer_is_complete(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	struct peer *client = come(stage, "u");
	assert_string_equal(peer_hear(client, 'Z'), "R S S S S S S K Z:I");
	assert_int_equal(client->key[0] & 0x80, 0);
	stage_free(&stage);
}

static void trust_knows_its_users(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	assert_ends_with(
	    come(stage, "nobody"), "E:FATAL:\"trust\" authentication failed");
	stage_free(&stage);
}

static void plain_password(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("plain");
	struct peer *client = come(stage, "u");
	peer_hear(client, 'R');
	peer_text(client, 'p', "secret");
	peer_hear(client, 'Z');
	client = come(stage, "u");
	peer_text(client, 'p', "wrong");
	assert_ends_with(client, "R E:FATAL:password authentication failed");
	client = come(stage, "nobody");
	peer_text(client, 'p', "secret");
	assert_ends_with(client, "R E:FATAL:password authentication failed");
	client = come(stage, "u");
	peer_text(client, 'p', "");
	assert_ends_with(client, "R E:FATAL:empty password returned by client");
	stage_free(&stage);
}

static void md5_password(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("md5");
	static const char *const words[] = {"secret", "wrong"};
	for (int i = 0; i < 2; i++) {
		struct peer *client = come(stage, "u");
		struct secret secret;
		char answer[MD5_TEXT_LEN + 1];
		stage_settle(stage);
		assert_int_equal(client->in.len, 13);
		secret_init(&secret, words[i]);
		secret_md5_answer(&secret, "u", client->in.bytes + 9, answer);
		secret_done(&secret);
		peer_text(client, 'p', answer);
		if (i == 0)
			peer_hear(client, 'Z');
		else
			assert_ends_with(
			    client, "R E:FATAL:password authentication failed");
	}
	stage_free(&stage);
}

/* The name decides by its first 63 bytes, but the client's answer is made of all. */
static void md5_password_of_a_long_name(void **state)
{
	(void)state;
	struct stage *stage = stage_new("user=u", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	char name[128], list[256], answer[MD5_TEXT_LEN + 1];
	struct secret secret;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	snprintf(list, sizeof(list), "\"u\" \"secret\"\n\"%s\" \"secret\"\n", name);
	stage_users(stage, list);
	stage_set(stage, "auth_type", "md5");
	client = come(stage, name);
	stage_settle(stage);
	secret_init(&secret, "secret");
	secret_md5_answer(&secret, name, client->in.bytes + 9, answer);
	secret_done(&secret);
	peer_text(client, 'p', answer);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

/* ---- SCRAM ---- */

/* Sends the client's first message; the challenge is in client->in afterwards. */
static void scram_begin(
    struct peer *client, struct scram_client *scram, const char *password)
{
	struct buf out, b;
	struct err err;
	peer_hear(client, 'R');
	scram_client_init(scram, password, NULL, NULL, NULL);
	buf_init(&out, 0);
	buf_init(&b, 0);
	assert_int_equal(scram_client_step(scram, NULL, 0, &out, &err), SCRAM_MORE);
	codec_put_sasl_initial(&b, "SCRAM-SHA-256", out.bytes, out.len);
	peer_send(client, b.bytes, b.len);
	buf_done(&out);
	buf_done(&b);
	stage_settle(client->stage);
	assert_int_equal(peer_message(client), client->in.len);
}

static void scram_end(struct peer *client, struct scram_client *scram)
{
	uint8_t salted[SCRAM_KEY_LEN];
	struct scram_due due;
	struct buf out, b;
	struct err err;
	buf_init(&out, 0);
	buf_init(&b, 0);
	assert_int_equal(scram_client_step(scram, client->in.bytes + 9,
			     client->in.len - 9, &out, &err),
	    SCRAM_DERIVE);
	due = scram_client_due(scram);
	scram_derive(&due, salted);
	assert_int_equal(scram_client_resume(scram, salted, &out, &err), SCRAM_MORE);
	codec_put_sasl_response(&b, out.bytes, out.len);
	peer_send(client, b.bytes, b.len);
	buf_done(&out);
	buf_done(&b);
	scram_client_done(scram);
}

static void scram_password(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("scram-sha-256");
	struct scram_client scram;
	struct peer *client = come(stage, "u");
	scram_begin(client, &scram, "secret");
	scram_end(client, &scram);
	peer_hear(client, 'Z');
	client = come(stage, "u");
	scram_begin(client, &scram, "wrong");
	scram_end(client, &scram);
	assert_ends_with(client, "R E:FATAL:SASL authentication failed");
	client = come(stage, "nobody");
	scram_begin(client, &scram, "secret");
	scram_end(client, &scram);
	assert_ends_with(client, "R E:FATAL:SASL authentication failed");
	stage_free(&stage);
}

/* The user list changes the secret between the two messages of the client. */
static void reload_within_scram(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("scram-sha-256");
	struct scram_client scram;
	struct peer *client = come(stage, "u");
	scram_begin(client, &scram, "secret");
	stage_users(stage, "\"u\" \"another\"\n");
	scram_end(client, &scram);
	peer_hear(client, 'Z');
	client = come(stage, "u");
	scram_begin(client, &scram, "another");
	stage_users(stage, "\"v\" \"secret\"\n");
	scram_end(client, &scram);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void other_rounds_within_scram(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("scram-sha-256");
	struct scram_client scram, second;
	struct peer *client = come(stage, "u");
	scram_begin(client, &scram, "secret");
	stage_set(stage, "scram_iterations", "5000");
	struct peer *other = come(stage, "u");
	scram_begin(other, &second, "secret");
	scram_end(client, &scram);
	scram_end(other, &second);
	peer_hear(client, 'Z');
	peer_hear(other, 'Z');
	stage_free(&stage);
}

static void foreign_mechanism_is_refused(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("scram-sha-256");
	struct peer *client = come(stage, "u");
	struct buf b;
	buf_init(&b, 0);
	codec_put_sasl_initial(&b, "SCRAM-SHA-512", (const uint8_t *)"x", 1);
	peer_send(client, b.bytes, b.len);
	buf_done(&b);
	assert_ends_with(client,
	    "R E:FATAL:client selected an invalid SASL authentication mechanism");
	stage_free(&stage);
}

/* ---- messages that are no login ---- */

static void missing_database_is_told_after_the_password(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("plain");
	struct peer *client = stage_client(stage);
	peer_start(client, "u", "nowhere", NULL, NULL);
	peer_hear(client, 'R');
	peer_text(client, 'p', "secret");
	assert_ends_with(client, "E:FATAL:no such database: nowhere");
	client = stage_client(stage);
	peer_start(client, "u", "nowhere", NULL, NULL);
	peer_text(client, 'p', "wrong");
	assert_ends_with(client, "R E:FATAL:password authentication failed");
	stage_free(&stage);
}

static void other_messages_end_the_login(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("plain");
	struct peer *client = come(stage, "u");
	peer_text(client, 'Q', "select 1");
	assert_ends_with(client, "R");
	client = come(stage, "u");
	peer_hear(client, 'R');
	peer_start(client, "u", "d", NULL, NULL);
	assert_ends_with(client, "E:FATAL:client re-sent startup pkt");
	/* longer than any password */
	client = come(stage, "u");
	peer_send(client, "p\0\xff\xff\xff", 5);
	assert_ends_with(client, "R");
	stage_free(&stage);
}

static void login_has_an_end(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("plain");
	stage_set(stage, "client_login_timeout", "0.03");
	assert_ends_with(come(stage, "u"), "R E:FATAL:client_login_timeout");
	assert_ends_with(stage_client(stage), "E:FATAL:client_login_timeout");
	stage_free(&stage);
}

static void limits_hold(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	stage_set(stage, "max_client_conn", "2");
	struct peer *second = stage_login(stage, "u", NULL, NULL);
	assert_ends_with(
	    come(stage, "u"), "E:FATAL:no more connections allowed (max_client_conn)");
	peer_close(second);
	stage_settle(stage);
	stage_login(stage, "u", NULL, NULL);
	stage_set(stage, "max_client_conn", "10");
	stage_set(stage, "max_user_client_connections", "2");
	assert_ends_with(come(stage, "u"),
	    "E:FATAL:client connections exceeded (max_user_client_connections)");
	struct peer *other = come(stage, "v");
	stage_ready_server(stage);
	peer_hear(other, 'Z');
	stage_set(stage, "max_db_client_connections", "3");
	assert_ends_with(come(stage, "v"),
	    "E:FATAL:client connections exceeded (max_db_client_connections)");
	stage_free(&stage);
}

static void nobody_gets_in_during_a_shutdown(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	stage->site.shutdown = SHUTDOWN_WAIT_FOR_CLIENTS;
	assert_ends_with(come(stage, "u"), "E:FATAL:pooler is shutting down");
	stage_free(&stage);
}

/* ---- waiting for the first server ---- */

static void what_is_sent_ahead_is_kept(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client = come(stage, "u"), *server;
	peer_text(client, 'Q', "ahead");
	stage_settle(stage);
	server = stage_ready_server(stage);
	assert_string_equal(peer_hear(server, 'Q'), "Q:ahead");
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
	assert_string_equal(peer_hear(client, 'Z'), "C:SELECT 1 Z:I");
	stage_free(&stage);
}

static void waiting_login_may_go(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client = come(stage, "u");
	struct peer *server = stage_server(stage);
	peer_close(client);
	stage_settle(stage);
	assert_int_equal(site_client_count(&stage->site), 0);
	peer_first_packet(server);
	peer_greet(server);
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->slots[SLOT_IDLE].count, 1);
	stage_free(&stage);
}

/* The client's close and the login parameters come in one turn, in either order. */
static void login_params_and_end_in_one_turn(void **state)
{
	(void)state;
	for (int order = 0; order < 2; order++) {
		struct stage *stage = stage_new("", "");
		struct peer *client = come(stage, "u");
		struct peer *server = stage_server(stage);
		peer_first_packet(server);
		if (order)
			peer_close(client);
		peer_greet(server);
		if (!order)
			peer_close(client);
		stage_settle(stage);
		assert_int_equal(site_client_count(&stage->site), 0);
		assert_int_equal(stage_pool(stage)->stats.client_login_count, 0);
		stage_free(&stage);
	}
}

static void login_params_is_lost_while_logins_wait(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client = come(stage, "u");
	struct peer *server = stage_server(stage);
	peer_first_packet(server);
	catalog_mark_dirty(stage->site.catalog, NULL);
	peer_greet(server);
	server = stage_ready_server(stage);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void waiting_login_has_an_end(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "client_login_timeout = 0.03\n");
	assert_ends_with(
	    come(stage, "u"), "E:FATAL:client_login_timeout (server down)");
	stage_set(stage, "client_login_timeout", "10");
	stage_set(stage, "query_wait_timeout", "0.03");
	assert_ends_with(come(stage, "u"), "E:FATAL:query_wait_timeout");
	stage_free(&stage);
}

static void waiting_login_is_killed_with_its_pool(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client = come(stage, "u");
	struct peer *server = stage_server(stage);
	stage_settle(stage);
	catalog_kill(stage->site.catalog, NULL, "database removed");
	assert_ends_with(client, "E:FATAL:database removed");
	peer_last_words(server);
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(answer_is_complete),
	    cmocka_unit_test(trust_knows_its_users),
	    cmocka_unit_test(plain_password),
	    cmocka_unit_test(md5_password),
	    cmocka_unit_test(md5_password_of_a_long_name),
	    cmocka_unit_test(scram_password),
	    cmocka_unit_test(reload_within_scram),
	    cmocka_unit_test(other_rounds_within_scram),
	    cmocka_unit_test(foreign_mechanism_is_refused),
	    cmocka_unit_test(missing_database_is_told_after_the_password),
	    cmocka_unit_test(other_messages_end_the_login),
	    cmocka_unit_test(login_has_an_end),
	    cmocka_unit_test(limits_hold),
	    cmocka_unit_test(nobody_gets_in_during_a_shutdown),
	    cmocka_unit_test(what_is_sent_ahead_is_kept),
	    cmocka_unit_test(waiting_login_may_go),
	    cmocka_unit_test(login_params_and_end_in_one_turn),
	    cmocka_unit_test(login_params_is_lost_while_logins_wait),
	    cmocka_unit_test(waiting_login_has_an_end),
	    cmocka_unit_test(waiting_login_is_killed_with_its_pool),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
