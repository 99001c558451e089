/*
 * Answers: clients with the same values get the same bytes and their own key, and
 * nobody gets what was made before something has changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../stage/stage.h"
#include "pool/pool.h"
#include "session/cancel_keys.h"
#include "wire/codec.h"
#include "wire/message.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

enum { KEY_MESSAGE = 5 + CANCEL_KEY_LEN, READY_MESSAGE = 6 };

/* A client that has sent its startup packet; what it was told is in client->in. */
static struct peer *come(struct stage *stage, const char *name, const char *value)
{
	struct peer *client = stage_client(stage);

	peer_start(client, "u", "d", name, value);
	stage_settle(stage);
	return client;
}

/* Is this ParameterStatus in it? */
static bool is_told(const struct peer *client, const char *name, const char *value)
{
	char text[100];
	int len = snprintf(text, sizeof(text), "%s%c%s", name, '\0', value);

	return memmem(client->in.bytes, client->in.len, text, (size_t)len + 1);
}

static const struct cancel_key *key_of(const struct peer *client)
{
	unsigned place;

	return cancel_keys_find(
	    client->stage->site.cancel_keys, client->key, client->key_len, 0, &place);
}

static void same_values_give_the_same_bytes(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *first, *server, *a, *b;

	stage_pair(stage, &first, &server);
	a = come(stage, "application_name", "one");
	b = come(stage, "application_name", "one");
	size_t same = a->in.len - KEY_MESSAGE - READY_MESSAGE;
	assert_int_equal(a->in.len, b->in.len);
	assert_memory_equal(a->in.bytes, b->in.bytes, same);
	assert_int_equal(a->in.bytes[same], 'K');
	assert_memory_not_equal(
	    a->in.bytes + same, b->in.bytes + same, (size_t)KEY_MESSAGE);
	assert_memory_equal(a->in.bytes + same + KEY_MESSAGE, "Z\0\0\0\5I", 6);
	/* both keys are known, so each cancels its own client */
	peer_hear(a, 'Z');
	peer_hear(b, 'Z');
	const struct cancel_key *key_of_a = key_of(a);
	assert_non_null(key_of_a);
	assert_non_null(key_of(b));
	assert_ptr_not_equal(key_of_a, key_of(b));
	stage_free(&stage);
}

static void other_values_give_others(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *first, *server, *client;
	char name[16];

	stage_pair(stage, &first, &server);
	/* more than are kept */
	for (int i = 0; i < 80; i++) {
		snprintf(name, sizeof(name), "app%d", i % 50);
		client = come(stage, "application_name", name);
		assert_true(is_told(client, "application_name", name));
		assert_true(is_told(client, "server_version", "15.0"));
		peer_close(client);
	}
	client = come(stage, "timezone", "cet");
	peer_hear(server, 'Q');
	peer_put(server, 'S', "TimeZone\0CET", 13);
	peer_answer(server, "SET", 'I');
	stage_settle(stage);
	assert_true(is_told(client, "TimeZone", "CET"));
	assert_true(is_told(come(stage, NULL, NULL), "TimeZone", "UTC"));
	stage_free(&stage);
}

static void protocols_do_not_share_one(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *first, *server, *client;

	stage_pair(stage, &first, &server);
	for (int i = 0; i < 2; i++) {
		client = stage_login_version(stage, PROTOCOL_3_2);
		assert_int_equal(client->key_len, CANCEL_KEY_LONG);
		client = stage_login_version(stage, PROTOCOL_3_0);
		assert_int_equal(client->key_len, CANCEL_KEY_LEN);
	}
	stage_free(&stage);
}

/* A server of another version answers the next login. */
static void new_servers_are_believed(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *first, *server, *client;
	struct buf b;

	stage_pair(stage, &first, &server);
	assert_true(is_told(come(stage, NULL, NULL), "server_version", "15.0"));
	pool_mark_dirty(stage_pool(stage));
	client = come(stage, NULL, NULL);
	server = stage_server(stage);
	peer_first_packet(server);
	buf_init(&b, 0);
	codec_put_auth(&b, AUTH_REQ_OK, NULL, 0);
	codec_put_parameter_status(&b, "server_version", "16.1");
	codec_put_parameter_status(&b, "TimeZone", "CET");
	codec_put_ready(&b, 'I');
	peer_send(server, b.bytes, b.len);
	buf_done(&b);
	stage_settle(stage);
	assert_true(is_told(client, "server_version", "16.1"));
	assert_true(is_told(client, "TimeZone", "CET"));
	assert_false(is_told(client, "server_version", "15.0"));
	stage_free(&stage);
}

static void news_of_a_server_are_told(void **state)
{
	static const char standby[] = "in_hot_standby\0on";
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;

	stage_pair(stage, &client, &server);
	assert_false(is_told(come(stage, NULL, NULL), "in_hot_standby", "on"));
	peer_text(client, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_put(server, 'S', standby, sizeof(standby));
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
	assert_true(is_told(come(stage, NULL, NULL), "in_hot_standby", "on"));
	stage_free(&stage);
}

static void notices_come_and_go(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *first, *server, *client;

	stage_pair(stage, &first, &server);
	come(stage, NULL, NULL);
	stage_set(stage, "login_notify_message", "hello");
	client = come(stage, NULL, NULL);
	assert_non_null(memmem(client->in.bytes, client->in.len, "Mhello", 7));
	stage_set(stage, "login_notify_message", "");
	client = come(stage, NULL, NULL);
	assert_null(memmem(client->in.bytes, client->in.len, "Mhello", 7));
	stage_free(&stage);
}

/* A client must not make the pooler keep its values, however long they are. */
static void long_ones_are_not_kept(void **state)
{
	(void)state;
	static char value[6000], answer[6200] = "TimeZone";
	size_t at = strlen(answer) + 1;
	struct stage *stage = stage_new("", "");
	struct peer *first, *server;

	memset(value, 'x', sizeof(value) - 1);
	stage_pair(stage, &first, &server);
	memcpy(answer + at, value, sizeof(value));
	for (int i = 0; i < 2; i++) {
		struct peer *client = come(stage, "TimeZone", value);
		peer_hear(server, 'Q');
		peer_put(server, 'S', answer, at + sizeof(value));
		peer_answer(server, "SET", 'I');
		stage_settle(stage);
		assert_non_null(
		    memmem(client->in.bytes, client->in.len, value, sizeof(value)));
	}
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(same_values_give_the_same_bytes),
	    cmocka_unit_test(other_values_give_others),
	    cmocka_unit_test(protocols_do_not_share_one),
	    cmocka_unit_test(new_servers_are_believed),
	    cmocka_unit_test(news_of_a_server_are_told),
	    cmocka_unit_test(notices_come_and_go),
	    cmocka_unit_test(long_ones_are_not_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
