/*
 * Parameters that the administrator changes on the server: which clients follow; and
 * those that clients reset (relay/resets).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../stage/stage.h"
#include "relay/resets.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, text) assert_string_equal(peer_hear(peer, type), text)

static void report(struct peer *server, const char *zone)
{
	struct buf status;

	buf_init(&status, 0);
	codec_put_parameter_status(&status, "TimeZone", zone);
	peer_send(server, status.bytes, status.len);
	buf_done(&status);
}

static void answer(struct peer *client, struct peer *server)
{
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
}

/* The first query after the change: a server reports the new value with its answer. */
static void query_that_sees(struct peer *client, struct peer *server, const char *zone)
{
	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:select 1");
	report(server, zone);
	answer(client, server);
}

/* The next client's: the pooler asks for the server's own value first. */
static void query_behind_reset(struct peer *client, struct peer *server)
{
	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:RESET TimeZone;");
	peer_answer(server, "RESET", 'I');
	assert_hears(server, 'Q', "Q:select 1");
	answer(client, server);
}

static void query(struct peer *client, struct peer *server)
{
	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:select 1");
	answer(client, server);
}

/* A client that saw a change first follows the next one as well, which another client
 * sees first. */
static void clients_follow_every_change(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *c, *server;

	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	c = stage_login(stage, "u", NULL, NULL);
	query_that_sees(a, server, "Asia/Tokyo");
	query_behind_reset(b, server);
	query(a, server);
	query_that_sees(b, server, "UTC");
	query_behind_reset(c, server);
	query(a, server);
	query(b, server);
	stage_free(&stage);
}

/* What was found to need nothing is looked at again when the values of the client or of
 * the server have changed. */
static void values_are_compared_again_after_a_change(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *server;

	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	query(b, server);
	query(a, server);
	query(b, server);
	query_that_sees(a, server, "Asia/Tokyo");
	query_behind_reset(b, server);
	query(b, server);
	query_that_sees(b, server, "UTC");
	query_behind_reset(a, server);
	query(b, server);
	query(a, server);
	stage_free(&stage);
}

/* A client that asked for another time zone than the server's own, which the server has
 * set and has told. */
static struct peer *with_zone(struct stage *stage, struct peer *server)
{
	struct peer *client = stage_client(stage);

	peer_start(client, "u", "d", "TimeZone", "cet");
	assert_hears(server, 'Q', "Q:SET TimeZone='cet';");
	report(server, "CET");
	peer_answer(server, "SET", 'I');
	peer_hear(client, 'Z');
	return client;
}

/* Answers the pooler's question which parameters are not set. */
static void tell_source(struct peer *server, bool is_reset)
{
	static const char row[] = "\0\1\0\0\0\10TimeZone";

	peer_hear(server, 'S');
	for (const char *type = "3312"; *type; type++)
		peer_put(server, (uint8_t)*type, "", 0);
	if (is_reset)
		peer_put(server, 'D', row, sizeof(row) - 1);
	peer_text(server, 'C', is_reset ? "SELECT 1" : "SELECT 0");
	peer_put(server, '3', "", 0);
	peer_put(server, '3', "", 0);
	peer_ready(server, 'I');
}

/* The server's own value is that of a RESET or that of a SET, and of these two the
 * server knows which one has taken effect.  The client is ready when that is known. */
static void what_is_reset_is_asked(void **state)
{
	static const char *const texts[] = {
	    "reset timezone", "set timezone to 'UTC'", "select odd()"};

	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *first, *client, *server;

	stage_pair(stage, &first, &server);
	client = with_zone(stage, server);
	for (int i = 0; i < 6; i++) {
		bool is_reset = i < 3;
		peer_text(client, 'Q', texts[i % 3]);
		stage_settle(stage);
		if (i && i <= 3) {
			assert_hears(server, 'Q', "Q:SET TimeZone='CET';");
			report(server, "CET");
			peer_answer(server, "SET", 'I');
		} else if (i == 4) {
			assert_hears(server, 'Q', "Q:SET TimeZone='UTC';");
			peer_answer(server, "SET", 'I');
		}
		peer_hear(server, 'Q');
		if (i <= 3)
			report(server, "UTC");
		peer_answer(server, i % 3 ? "SET" : "RESET", 'I');
		stage_settle(stage);
		assert_null(strchr(peer_heard(client), 'Z'));
		tell_source(server, is_reset);
		stage_settle(stage);
		assert_int_equal(client->in.bytes[client->in.len - 6], 'Z');
		assert_int_equal(is_reset, memmem(client->in.bytes, client->in.len,
					       "TimeZone\0CET", 13) != NULL);
		buf_clear(&client->in);
	}
	stage_free(&stage);
}

/* What keeps its value, or got another than the server's own, is not asked about. */
static void other_changes_cost_nothing(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *first, *client, *server;

	stage_pair(stage, &first, &server);
	client = with_zone(stage, server);
	peer_text(client, 'Q', "reset datestyle; select 1/0");
	peer_hear(server, 'Q');
	peer_text(server, 'C', "RESET");
	peer_put(server, 'E', "SERROR\0C22012\0Mzero\0", 21);
	peer_ready(server, 'I');
	peer_hear(client, 'Z');
	peer_text(client, 'Q', "set timezone to 'EST'");
	assert_hears(server, 'Q', "Q:set timezone to 'EST'");
	report(server, "EST");
	peer_answer(server, "SET", 'I');
	peer_hear(client, 'Z');
	assert_string_equal(peer_heard(server), "");
	stage_free(&stage);
}

/* Sends the pieces of an Execute of "reset timezone" and a Sync; nothing is sent behind
 * the Execute before it is whole. */
static void execute_reset(struct stage *stage, struct peer *client, struct peer *server)
{
	static const char parse[] = "\0reset timezone\0\0\0", all[5] = "";
	static const uint8_t bind[13] = {'B', 0, 0, 0, 12};
	static const uint8_t head[] = {'E', 0, 0, 0, 9};

	peer_put(client, 'P', parse, sizeof(parse) - 1);
	/* the name of the statement comes later */
	peer_send(client, bind, 6);
	stage_settle(stage);
	peer_send(client, bind + 6, sizeof(bind) - 6);
	peer_send(client, head, sizeof(head));
	peer_send(client, all, 2);
	stage_settle(stage);
	assert_null(strchr(peer_heard(server), 'C'));
	peer_send(client, all, 3);
	peer_put(client, 'S', "", 0);
	peer_hear(server, 'S');
}

/* The SET that the pooler sends behind a RESET is answered to nobody, but the client
 * hears of its failure, because its transaction has failed. */
static void send_behind_a_reset(const char *settings)
{
	static const char cancelled[] = "SERROR\0C57014\0Mno\0";

	struct stage *stage = stage_new("pool_size=1", settings);
	struct peer *first, *client, *server;

	stage_pair(stage, &first, &server);
	client = with_zone(stage, server);
	for (int has_failed = 0; has_failed < 2; has_failed++) {
		buf_clear(&client->in);
		execute_reset(stage, client, server);
		peer_put(server, '1', "", 0);
		peer_put(server, '2', "", 0);
		peer_text(server, 'C', "RESET");
		for (const char *type = "3312"; *type; type++)
			peer_put(server, (uint8_t)*type, "", 0);
		if (has_failed) {
			peer_put(server, 'E', cancelled, sizeof(cancelled));
		} else {
			peer_text(server, 'C', "SET");
			peer_put(server, '3', "", 0);
			peer_put(server, '3', "", 0);
		}
		peer_ready(server, 'I');
		stage_settle(stage);
		assert_non_null(strstr(peer_heard(client),
		    has_failed ? "1 2 C:RESET E" : "1 2 C:RESET Z:I"));
	}
	stage_free(&stage);
}

static void what_is_sent_behind_a_reset(void **state)
{
	(void)state;
	send_behind_a_reset("");
	send_behind_a_reset("max_prepared_statements = 0\n");
}

/* A client has set the server's own value instead of the one that it asked for.  A
 * server on which nobody has set it would call it reset, so the pooler sets it there.
 */
static void the_servers_own_value_is_set_where_it_was_not(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *other, *client, *server;

	stage_pair(stage, &other, &server);
	client = with_zone(stage, server);
	peer_text(client, 'Q', "set timezone to 'UTC'");
	peer_hear(server, 'Q');
	report(server, "UTC");
	peer_answer(server, "SET", 'I');
	tell_source(server, false);
	peer_hear(client, 'Z');
	peer_text(other, 'Q', "reset all");
	assert_hears(server, 'Q', "Q:reset all");
	peer_answer(server, "RESET", 'I');
	peer_hear(other, 'Z');
	peer_text(client, 'Q', "rollback");
	assert_hears(server, 'Q', "Q:SET TimeZone='UTC';");
	peer_answer(server, "SET", 'I');
	assert_hears(server, 'Q', "Q:rollback");
	peer_answer(server, "ROLLBACK", 'I');
	tell_source(server, false);
	peer_hear(client, 'Z');
	/* once is enough */
	query(client, server);
	/* the spelling of another client's value is the server's own one */
	peer_start(stage_client(stage), "u", "d", "TimeZone", "universal");
	assert_hears(server, 'Q', "Q:SET TimeZone='universal';");
	peer_answer(server, "SET", 'I');
	assert_hears(server, 'Q', "Q:RESET TimeZone;");
	peer_answer(server, "RESET", 'I');
	stage_settle(stage);
	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:SET TimeZone='UTC';");
	peer_answer(server, "SET", 'I');
	assert_hears(server, 'Q', "Q:select 1");
	peer_answer(server, "SELECT 1", 'I');
	tell_source(server, false);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

/* As the end of a question or SET of the pooler that a cancel request has met. */
static void cancel_own(struct peer *server)
{
	static const char cancelled[] = "SERROR\0C57014\0Mno\0";

	peer_hear(server, 'S');
	for (const char *type = "3312"; *type; type++)
		peer_put(server, (uint8_t)*type, "", 0);
	peer_put(server, 'E', cancelled, sizeof(cancelled));
	peer_ready(server, 'I');
}

/* A request to cancel the client's RESET may reach the question behind it instead.  It
 * is asked again, but not for ever: statement_timeout may end it each time. */
static void cancelled_question_is_asked_again(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *first, *client, *server;

	stage_pair(stage, &first, &server);
	client = with_zone(stage, server);
	for (int most = OWN_ATTEMPTS_MOST - 1; most <= OWN_ATTEMPTS_MOST; most++) {
		bool is_told = most < OWN_ATTEMPTS_MOST;
		peer_text(client, 'Q', "reset timezone");
		if (!is_told) {
			assert_hears(server, 'Q', "Q:SET TimeZone='CET';");
			report(server, "CET");
			peer_answer(server, "SET", 'I');
		}
		assert_hears(server, 'Q', "Q:reset timezone");
		report(server, "UTC");
		peer_answer(server, "RESET", 'I');
		for (int i = 0; i < most; i++)
			cancel_own(server);
		if (!is_told) {
			/* nobody knows which value it has */
			assert_non_null(strstr(peer_last_words(client),
			    "E:FATAL:the server did not tell what is left"));
			assert_string_equal(peer_last_words(server), "X");
			break;
		}
		tell_source(server, true);
		stage_settle(stage);
		assert_int_equal(client->in.bytes[client->in.len - 6], 'Z');
		assert_non_null(
		    memmem(client->in.bytes, client->in.len, "TimeZone\0CET", 13));
		buf_clear(&client->in);
	}
	stage_free(&stage);
}

/* A client that keeps its server gets what a RESET brings back by a SET, which such a
 * request may reach as well. */
static void cancelled_set_behind_a_reset_is_repeated(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_mode=session", "server_reset_query =\n");
	struct peer *first, *client, *server;

	stage_pair(stage, &first, &server);
	client = with_zone(stage, server);
	for (int most = OWN_ATTEMPTS_MOST - 1; most <= OWN_ATTEMPTS_MOST; most++) {
		peer_text(client, 'Q', "reset timezone");
		assert_hears(server, 'Q', "Q:reset timezone");
		report(server, "UTC");
		peer_answer(server, "RESET", 'I');
		tell_source(server, true);
		for (int i = 0; i < most; i++)
			cancel_own(server);
		if (most < OWN_ATTEMPTS_MOST) {
			peer_hear(server, 'S');
			for (const char *type = "3312"; *type; type++)
				peer_put(server, (uint8_t)*type, "", 0);
			report(server, "CET");
			peer_text(server, 'C', "SET");
			peer_put(server, '3', "", 0);
			peer_put(server, '3', "", 0);
			peer_ready(server, 'I');
			peer_hear(client, 'Z');
		}
	}
	peer_last_words(client);
	stage_free(&stage);
}

/* In a block the ReadyForQuery of the RESET waits for the SET: a request that meets
 * that fails the block, as if it had met the RESET, and the client knows. */
static void cancelled_set_in_a_block_fails_the_block(void **state)
{
	static const char cancelled[] = "SERROR\0C57014\0Mno\0";

	(void)state;
	struct stage *stage = stage_new("pool_mode=session", "server_reset_query =\n");
	struct peer *first, *client, *server;

	stage_pair(stage, &first, &server);
	client = with_zone(stage, server);
	peer_text(client, 'Q', "begin");
	assert_hears(server, 'Q', "Q:begin");
	peer_answer(server, "BEGIN", 'T');
	peer_hear(client, 'Z');
	for (char status = 'T';; status = 'E') {
		peer_text(client, 'Q', "reset timezone");
		assert_hears(server, 'Q', "Q:reset timezone");
		report(server, "UTC");
		peer_answer(server, "RESET", 'T');
		stage_settle(stage);
		assert_int_not_equal(client->in.bytes[client->in.len - 6], 'Z');
		buf_clear(&client->in);
		if (status == 'E')
			break;
		peer_hear(server, 'S');
		for (const char *type = "3312"; *type; type++)
			peer_put(server, (uint8_t)*type, "", 0);
		report(server, "CET");
		peer_text(server, 'C', "SET");
		peer_put(server, '3', "", 0);
		peer_put(server, '3', "", 0);
		peer_ready(server, 'T');
		assert_hears(client, 'Z', "Z:T");
	}
	/* what the block has changed is reported when it fails */
	peer_hear(server, 'S');
	for (const char *type = "3312"; *type; type++)
		peer_put(server, (uint8_t)*type, "", 0);
	peer_put(server, 'E', cancelled, sizeof(cancelled));
	report(server, "CET");
	peer_ready(server, 'E');
	assert_hears(client, 'Z', "E:ERROR:no S Z:E");
	peer_text(client, 'Q', "rollback");
	assert_hears(server, 'Q', "Q:rollback");
	peer_answer(server, "ROLLBACK", 'I');
	assert_hears(client, 'Z', "C:ROLLBACK Z:I");
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(clients_follow_every_change),
	    cmocka_unit_test(values_are_compared_again_after_a_change),
	    cmocka_unit_test(what_is_reset_is_asked),
	    cmocka_unit_test(other_changes_cost_nothing),
	    cmocka_unit_test(what_is_sent_behind_a_reset),
	    cmocka_unit_test(the_servers_own_value_is_set_where_it_was_not),
	    cmocka_unit_test(cancelled_question_is_asked_again),
	    cmocka_unit_test(cancelled_set_behind_a_reset_is_repeated),
	    cmocka_unit_test(cancelled_set_in_a_block_fails_the_block),
	};
	return stage_run_twice(tests);
}
