/*
 * One client linked to one server: where messages go, when the server is given back,
 * and what happens to one when the other disconnects.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"
#include "wire/codec.h"
#include "wire/message.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, expected) \
	assert_string_equal(peer_hear(peer, type), expected)
#define assert_heard(peer, expected) assert_string_equal(peer_heard(peer), expected)

/* Has its terminating zero, as the end of the fields. */
#define STOPPED "SFATAL\0C57P01\0Mgoing down\0"

static size_t count(struct stage *stage, enum slot_state state)
{
	return stage_pool(stage)->slots[state].count;
}

static void query_is_answered_and_the_server_given_back(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:select 1");
	assert_int_equal(count(stage, SLOT_ACTIVE), 1);
	peer_answer(server, "SELECT 1", 'I');
	assert_hears(client, 'Z', "C:SELECT 1 Z:I");
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	assert_int_equal(stage_pool(stage)->stats.query_count, 1);
	assert_int_equal(stage_pool(stage)->stats.xact_count, 1);
	assert_int_equal(stage_pool(stage)->stats.bytes_received, 5 + 9);
	assert_int_equal(stage_pool(stage)->stats.bytes_sent, 5 + 9 + 6);
	stage_free(&stage);
}

static void transaction_keeps_the_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "begin");
	peer_hear(server, 'Q');
	peer_answer(server, "BEGIN", 'T');
	assert_hears(client, 'Z', "C:BEGIN Z:T");
	assert_int_equal(count(stage, SLOT_ACTIVE), 1);
	peer_text(client, 'Q', "commit");
	peer_hear(server, 'Q');
	peer_answer(server, "COMMIT", 'I');
	assert_hears(client, 'Z', "C:COMMIT Z:I");
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	assert_int_equal(stage_pool(stage)->stats.query_count, 2);
	assert_int_equal(stage_pool(stage)->stats.xact_count, 1);
	stage_free(&stage);
}

static void two_clients_share_one_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *server;
	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	peer_text(a, 'Q', "of a");
	assert_hears(server, 'Q', "Q:of a");
	peer_text(b, 'Q', "of b");
	assert_heard(server, "");
	peer_answer(server, "A", 'I');
	assert_hears(a, 'Z', "C:A Z:I");
	assert_hears(server, 'Q', "Q:of b");
	peer_answer(server, "B", 'I');
	assert_hears(b, 'Z', "C:B Z:I");
	assert_heard(a, "");
	stage_free(&stage);
}

static void pipeline_keeps_the_server_until_all_is_answered(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "one");
	peer_text(client, 'Q', "two");
	peer_hear(server, 'Q');
	peer_hear(server, 'Q');
	peer_answer(server, "ONE", 'I');
	peer_hear(client, 'Z');
	assert_int_equal(count(stage, SLOT_ACTIVE), 1);
	peer_answer(server, "TWO", 'I');
	peer_hear(client, 'Z');
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

/* One query with an unnamed statement, without its Sync. */
static void put_unnamed(struct buf *out, const char *text)
{
	size_t at = codec_begin(out, 'P');
	buf_put_str(out, "");
	buf_put_str(out, text);
	buf_put_u16(out, 0);
	codec_end(out, at);
	buf_put(out, "B\0\0\0\x0c\0\0\0\0\0\0\0\0", 13);
	buf_put(out, "D\0\0\0\6S\0", 7);
	buf_put(out, "E\0\0\0\x09\0\0\0\0\0", 10);
}

static const char sync_bytes[] = {'S', 0, 0, 0, 4};
static const char unnamed_answer[] = "1\0\0\0\4"
				     "2\0\0\0\4"
				     "t\0\0\0\6\0\0"
				     "n\0\0\0\4"
				     "D\0\0\0\6\0\0"
				     "D\0\0\0\6\0\0"
				     "C\0\0\0\x0dSELECT 2";

static void put_unnamed_answer(struct buf *out)
{
	buf_put(out, unnamed_answer, sizeof(unnamed_answer));
}

static void assert_bytes_came(struct peer *peer, struct buf *expected)
{
	stage_settle(peer->stage);
	assert_int_equal(peer->in.len, expected->len);
	assert_memory_equal(peer->in.bytes, expected->bytes, expected->len);
	buf_clear(&peer->in);
}

/* What comes at once goes on at once, byte for byte, and is counted as if it had come
 * message by message. */
static void pipelines_pass_unchanged(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	struct buf asked, answer;
	stage_pair(stage, &client, &server);
	buf_init(&asked, 0);
	buf_init(&answer, 0);
	for (int i = 0; i < 20; i++) {
		put_unnamed(&asked, i % 5 ? "select 1" : "select 22");
		put_unnamed_answer(&answer);
		if (i % 4 == 3) {
			buf_put(&asked, sync_bytes, sizeof(sync_bytes));
			buf_put(&answer, "Z\0\0\0\5I", 6);
		}
	}
	peer_send(client, asked.bytes, asked.len);
	assert_bytes_came(server, &asked);
	assert_int_equal(stage_pool(stage)->stats.bytes_received, asked.len);
	assert_int_equal(count(stage, SLOT_ACTIVE), 1);
	peer_send(server, answer.bytes, answer.len);
	assert_bytes_came(client, &answer);
	assert_int_equal(stage_pool(stage)->stats.bytes_sent, answer.len);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	/* and once more, cut anywhere */
	peer_send(client, asked.bytes, 150);
	stage_settle(stage);
	peer_send(client, asked.bytes + 150, asked.len - 150);
	assert_bytes_came(server, &asked);
	peer_send(server, answer.bytes, 33);
	stage_settle(stage);
	peer_send(server, answer.bytes + 33, answer.len - 33);
	assert_bytes_came(client, &answer);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	buf_done(&asked);
	buf_done(&answer);
	stage_free(&stage);
}

/* The same text twice: the second Parse fails, or is skipped behind something else that
 * fails.  A Bind that comes later knows which statement there is. */
static void the_same_parse_may_fail_or_be_skipped(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *client, *server, *other;
	struct buf asked, answer;
	stage_pair(stage, &client, &server);
	other = stage_login(stage, "u", NULL, NULL);
	for (int is_skipped = 0; is_skipped < 2; is_skipped++) {
		buf_init(&asked, 0);
		buf_init(&answer, 0);
		put_unnamed(&asked, "select 1");
		put_unnamed(&asked, "select 1");
		buf_put(&asked, sync_bytes, sizeof(sync_bytes));
		peer_send(client, asked.bytes, asked.len);
		assert_bytes_came(server, &asked);
		if (is_skipped)
			buf_put(
			    &answer, unnamed_answer, 5 + 5); /* its Describe fails */
		else
			put_unnamed_answer(&answer);
		buf_put(&answer, "E\0\0\0\x0bM1.\0\0\0", 12);
		buf_put(&answer, "Z\0\0\0\5I", 6);
		peer_send(server, answer.bytes, answer.len);
		assert_bytes_came(client, &answer);
		/* another client leaves a statement of its own on the server */
		buf_clear(&asked);
		put_unnamed(&asked, "select 'of other'");
		buf_put(&asked, sync_bytes, sizeof(sync_bytes));
		peer_send(other, asked.bytes, asked.len);
		assert_bytes_came(server, &asked);
		buf_clear(&answer);
		put_unnamed_answer(&answer);
		buf_put(&answer, "Z\0\0\0\5I", 6);
		peer_send(server, answer.bytes, answer.len);
		assert_bytes_came(other, &answer);
		/* after a failure there is none, and PostgreSQL is to say so */
		peer_put(client, 'B', "\0\0\0\0\0\0\0\0", 8);
		peer_put(client, 'S', NULL, 0);
		assert_hears(server, 'S', is_skipped ? "P B S" : "C:S B S");
		peer_put(server, is_skipped ? '1' : '3', NULL, 0);
		peer_put(server, '2', NULL, 0);
		peer_ready(server, 'I');
		assert_hears(client, 'Z', "2 Z:I");
		buf_done(&asked);
		buf_done(&answer);
	}
	stage_free(&stage);
}

static void parameters_are_brought_to_the_client(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *server;
	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", "application_name", "it's b");
	peer_text(b, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:SET application_name='it''s b';");
	peer_put(server, 'S', "application_name\0it's b", 24);
	peer_answer(server, "SET", 'I');
	assert_hears(server, 'Q', "Q:select 1");
	assert_heard(b, "");
	peer_answer(server, "SELECT 1", 'I');
	assert_hears(b, 'Z', "C:SELECT 1 Z:I");
	stage_free(&stage);
}

static void refused_parameter_closes_both(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *server;
	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", "application_name", "unfit");
	peer_text(b, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_put(server, 'E', "SERROR\0C22023\0Munfit\0\0", 23);
	peer_ready(server, 'I');
	assert_string_equal(peer_last_words(b), "E:FATAL:invalid server parameter");
	assert_string_equal(peer_last_words(server), "X");
	stage_free(&stage);
}

/* ---- COPY ---- */

static void begin_copy(struct peer *client, struct peer *server)
{
	peer_text(client, 'Q', "copy t from stdin");
	peer_hear(server, 'Q');
	peer_put(server, 'G', "\0\0\0", 3);
	peer_hear(client, 'G');
	peer_put(client, 'd', "1\n", 2);
	assert_hears(server, 'd', "d:1\n");
}

static void copy_passes(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	begin_copy(client, server);
	peer_put(client, 'c', "", 0);
	peer_hear(server, 'c');
	assert_int_equal(count(stage, SLOT_ACTIVE), 1);
	peer_answer(server, "COPY 1", 'I');
	assert_hears(client, 'Z', "C:COPY 1 Z:I");
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

/* libpq ends its side of a failed COPY before it reads the error. */
static void end_failed_copy(const char *mode, char status)
{
	struct stage *stage = stage_new("pool_size=1", mode);
	struct peer *client, *server;
	bool is_free = status == 'I' && !*mode;

	stage_pair(stage, &client, &server);
	begin_copy(client, server);
	peer_put(server, 'E', "SERROR\0Mbad row\0", 17);
	peer_ready(server, status);
	peer_hear(client, 'Z');
	/* a client that never ends its side of the COPY keeps no server */
	assert_int_equal(count(stage, SLOT_IDLE), is_free);
	peer_put(client, 'd', "2\n", 2);
	peer_put(client, 'c', "", 0);
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_IDLE), is_free);
	if (!is_free) {
		peer_text(client, 'Q', "next");
		peer_hear(server, 'Q');
		peer_answer(server, "NEXT", 'I');
		assert_hears(client, 'Z', "C:NEXT Z:I");
	}
	stage_free(&stage);
}

static void failed_copy_gives_the_server_back(void **state)
{
	(void)state;
	end_failed_copy("", 'I');
	end_failed_copy("", 'E');
	end_failed_copy("pool_mode = session\n", 'I');
}

static void late_copy_data_does_not_spoil_an_idle_server(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("pool_size=1", "pool_mode = session\nserver_reset_query =\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "one");
	peer_hear(server, 'Q');
	peer_answer(server, "ONE", 'I');
	peer_hear(client, 'Z');
	peer_put(client, 'd', "late", 4);
	peer_put(client, 'c', "", 0);
	peer_put(client, 'H', "", 0);
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_ACTIVE), 1);
	peer_close(client);
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

/* A CopyFail was partly sent when the server ended the COPY by itself. */
static void server_is_not_lent_within_a_message(void **state)
{
	(void)state;
	static const uint8_t fail[] = {'f', 0, 0, 0, 10, 'b', 'e'};
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *server;
	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	begin_copy(a, server);
	peer_send(a, fail, sizeof(fail));
	stage_settle(stage);
	peer_text(b, 'Q', "of b");
	peer_put(server, 'E', "SERROR\0Mbad row\0", 17);
	peer_ready(server, 'I');
	peer_hear(a, 'Z');
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_ACTIVE), 1);
	assert_int_equal(server->in.len, sizeof(fail)); /* only what a has sent */
	peer_send(a, "cau\0", 4);
	assert_hears(server, 'f', "f:becau");
	assert_hears(server, 'Q', "Q:of b");
	peer_answer(server, "B", 'I');
	assert_hears(b, 'Z', "C:B Z:I");
	stage_free(&stage);
}

static void client_that_dies_within_a_message_takes_the_server_along(void **state)
{
	(void)state;
	/* half of an Execute makes the server unusable */
	static const uint8_t execute[] = {'E', 0, 0, 0, 100, 1, 2};
	struct stage *stage =
	    stage_new("pool_size=1", "pool_mode = session\nserver_reset_query =\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "one");
	peer_hear(server, 'Q');
	peer_answer(server, "ONE", 'I');
	peer_hear(client, 'Z');
	peer_send(client, execute, sizeof(execute));
	stage_settle(stage);
	peer_close(client);
	/* no Terminate is sent: the server would read it as part of the Execute */
	assert_string_equal(peer_last_words(server), "");
	assert_int_equal(server->in.len, sizeof(execute));
	stage_free(&stage);
}

/* ---- disconnects ---- */

static void client_that_goes_in_a_query_takes_the_server_along(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "select pg_sleep(1)");
	peer_hear(server, 'Q');
	peer_close(client);
	assert_string_equal(peer_last_words(server), "X");
	stage_settle(stage);
	assert_int_equal(stage->site.server_count, 0);
	stage_free(&stage);
}

static const char canceled[] = "SERROR\0C57014\0Mcanceling\0";

/* A client disconnects in the middle of a query that the server is running. */
static struct stage *vanish(
    const char *settings, const char *sql, char status, struct peer **server)
{
	struct stage *stage =
	    stage_new("pool_size=1 client_disconnect=cancel", settings);
	struct peer *client;

	stage_pair(stage, &client, server);
	if (status == 'T') {
		peer_text(client, 'Q', "begin");
		peer_hear(*server, 'Q');
		peer_answer(*server, "BEGIN", 'T');
		peer_hear(client, 'Z');
	}
	if (sql) {
		peer_text(client, 'Q', sql);
		peer_hear(*server, 'Q');
	}
	peer_close(client);
	stage_settle(stage);
	return stage;
}

static void answer_ours(struct peer *server)
{
	peer_put(server, 'C', "ROLLBACK", 9);
	peer_put(server, 'C', "DEALLOCATE ALL", 15);
	peer_ready(server, 'I');
}

static void query_of_a_vanished_client_is_cancelled(void **state)
{
	(void)state;
	struct peer *server, *messenger, *next;
	struct stage *stage = vanish("", "select pg_sleep(9)", 'T', &server);

	messenger = stage_server(stage);
	assert_int_equal(peer_first_packet(messenger), STARTUP_CANCEL);
	assert_hears(server, 'S', "S");
	assert_int_equal(count(stage, SLOT_ACTIVE), 1);
	peer_put(server, 'E', canceled, sizeof(canceled));
	peer_ready(server, 'E');
	peer_ready(server, 'E');
	/* the cancel request may still hit the next query */
	assert_heard(server, "");
	peer_close(messenger);
	assert_hears(server, 'Q', "Q:ROLLBACK; DEALLOCATE ALL");
	answer_ours(server);
	assert_hears(server, 'Q', "Q:DISCARD ALL");
	peer_answer(server, "DISCARD ALL", 'I');
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	next = stage_login(stage, "u", NULL, NULL);
	peer_text(next, 'Q', "next");
	assert_hears(server, 'Q', "Q:next");
	peer_answer(server, "NEXT", 'I');
	assert_hears(next, 'Z', "C:NEXT Z:I");
	stage_free(&stage);
}

/* The server had not begun the query when the first cancel request reached it. */
static void cancel_request_that_came_too_early_is_repeated(void **state)
{
	(void)state;
	struct peer *server, *messenger;
	struct stage *stage = vanish("", "select pg_sleep(9)", 'I', &server);

	for (int i = 0; i < 3; i++) {
		messenger = stage_server(stage);
		assert_int_equal(peer_first_packet(messenger), STARTUP_CANCEL);
		peer_close(messenger);
	}
	peer_hear(server, 'S');
	peer_put(server, 'E', canceled, sizeof(canceled));
	peer_ready(server, 'I');
	peer_ready(server, 'I');
	assert_hears(server, 'Q', "Q:DEALLOCATE ALL");
	stage_free(&stage);
}

/* No query runs, so there is nothing to cancel. */
static void transaction_of_a_vanished_client_is_rolled_back(void **state)
{
	(void)state;
	struct peer *server;
	struct stage *stage = vanish("server_reset_query=\n", NULL, 'T', &server);

	assert_hears(server, 'Q', "Q:ROLLBACK; DEALLOCATE ALL");
	answer_ours(server);
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	assert_int_equal(stage->site.server_count, 1);
	stage_free(&stage);
}

static void copy_of_a_vanished_client_is_ended(void **state)
{
	(void)state;
	struct peer *server, *messenger;
	struct stage *stage = vanish("", "copy t from stdin", 'I', &server);

	messenger = stage_server(stage);
	assert_hears(server, 'S', "S");
	peer_put(server, 'G', "\0\0\0", 3);
	/* the server may have read the Sync as part of the COPY, or not */
	assert_hears(server, 'f', "f:");
	peer_put(server, 'E', canceled, sizeof(canceled));
	peer_ready(server, 'I');
	peer_hear(server, 'C');
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	peer_put(server, '3', "", 0);
	peer_ready(server, 'I');
	stage_settle(stage);
	peer_close(messenger);
	assert_hears(server, 'Q', "Q:DEALLOCATE ALL");
	stage_free(&stage);
}

static void server_that_does_not_come_to_rest_is_closed(void **state)
{
	(void)state;
	struct peer *server;
	struct stage *stage =
	    vanish("cancel_wait_timeout=0.05\n", "select 1", 'I', &server);

	assert_string_equal(peer_last_words(server), "S X");
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->slots[SLOT_ACTIVE].count, 0);
	stage_free(&stage);
}

static void server_that_cannot_roll_back_is_closed(void **state)
{
	(void)state;
	struct peer *server;
	struct stage *stage = vanish("", NULL, 'T', &server);

	peer_hear(server, 'Q');
	peer_put(server, 'E', canceled, sizeof(canceled));
	assert_string_equal(peer_last_words(server), "X");
	stage_free(&stage);
}

static void server_that_crashes_takes_the_client_along(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_close(server);
	assert_string_equal(peer_last_words(client), "E:FATAL:server conn crashed?");
	stage_free(&stage);
}

/* Nothing of the client's has reached the server that it was given: it gets another
 * one, and sees nothing but a wait. */
static void server_that_dies_unused_is_replaced(void **state)
{
	(void)state;
	for (int is_told = 0; is_told < 2; is_told++) {
		struct stage *stage = stage_new("pool_size=1", "");
		struct peer *a, *b, *server;
		stage_pair(stage, &a, &server);
		b = stage_login(stage, "u", "application_name", "b");
		peer_text(b, 'Q', "select 1");
		assert_hears(server, 'Q', "Q:SET application_name='b';");
		if (is_told)
			peer_put(server, 'E', STOPPED, sizeof(STOPPED));
		peer_close(server);
		server = stage_ready_server(stage);
		assert_hears(server, 'Q', "Q:SET application_name='b';");
		peer_put(server, 'S', "application_name\0b", 19);
		peer_answer(server, "SET", 'I');
		assert_hears(server, 'Q', "Q:select 1");
		peer_answer(server, "SELECT 1", 'I');
		assert_hears(b, 'Z', "C:SELECT 1 Z:I");
		assert_int_equal(stage_pool(stage)->stats.query_count, 1);
		assert_int_equal(stage_pool(stage)->stats.xact_count, 1);
		stage_free(&stage);
	}
}

/* That is tried no more often than a login. */
static void servers_that_die_unused_keep_their_distance(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "server_login_retry = 60\n");
	struct peer *a, *b, *server;
	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", "application_name", "b");
	peer_text(b, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_close(server);
	assert_heard(b, "");
	assert_int_equal(stage->dialed, 1);
	assert_int_equal(stage_pool(stage)->waiting.count, 1);
	stage_free(&stage);
}

/* One that has served a client did not die of its login. */
static void servers_that_die_later_are_replaced_at_once(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "server_login_retry = 60\n");
	struct peer *a, *b, *server;
	stage_pair(stage, &a, &server);
	peer_text(a, 'Q', "of a");
	peer_hear(server, 'Q');
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(a, 'Z');
	b = stage_login(stage, "u", "application_name", "b");
	peer_text(b, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_close(server);
	assert_non_null(stage_ready_server(stage));
	stage_free(&stage);
}

/* The client was given the server and has not had its turn. */
static void server_that_dies_as_it_is_granted_is_replaced(void **state)
{
	(void)state;
	for (int is_told = 0; is_told < 2; is_told++) {
		struct stage *stage = stage_new("pool_size=1", "");
		struct peer *a, *b, *server;
		stage_pair(stage, &a, &server);
		b = stage_login(stage, "u", NULL, NULL);
		peer_text(a, 'Q', "of a");
		peer_hear(server, 'Q');
		peer_text(b, 'Q', "of b");
		stage_settle(stage);
		struct node *first = list_first(&stage_pool(stage)->waiting);
		struct pool_request *request =
		    container_of(first, struct pool_request, node);
		struct conn *waiter = &request_client(request_of(request))->conn;
		conn_stop(waiter);
		peer_answer(server, "A", 'I');
		assert_hears(a, 'Z', "C:A Z:I");
		assert_int_equal(request->state, REQUEST_LINKED);
		if (is_told)
			peer_put(server, 'E', STOPPED, sizeof(STOPPED));
		else
			peer_close(server);
		stage_settle(stage);
		assert_int_equal(request->state, REQUEST_RESTING);
		conn_start(waiter);
		server = stage_ready_server(stage);
		assert_hears(server, 'Q', "Q:of b");
		peer_answer(server, "B", 'I');
		assert_hears(b, 'Z', "C:B Z:I");
		stage_free(&stage);
	}
}

/* Between two transactions of a session: what the session has there is lost. */
static void used_server_that_dies_in_a_session_is_told(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_mode=session", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "listen x");
	peer_hear(server, 'Q');
	peer_answer(server, "LISTEN", 'I');
	peer_hear(client, 'Z');
	peer_close(server);
	assert_string_equal(peer_last_words(client), "E:FATAL:server conn crashed?");
	stage_free(&stage);
}

/* The server closes in the middle of a row: no error may be put into that row. */
static void error_is_not_put_into_a_row(void **state)
{
	(void)state;
	static const uint8_t half[] = {'D', 0, 0, 0, 40, 0, 1, 0, 0, 0, 30, 'h', 'a'};
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_send(server, half, sizeof(half));
	stage_settle(stage);
	peer_close(server);
	assert_string_equal(peer_last_words(client), "");
	assert_int_equal(client->in.len, sizeof(half));
	stage_free(&stage);
}

static void both_go_in_one_turn(void **state)
{
	(void)state;
	for (int order = 0; order < 2; order++) {
		struct stage *stage = stage_new("", "");
		struct peer *client, *server;
		stage_pair(stage, &client, &server);
		peer_text(client, 'Q', "select 1");
		peer_hear(server, 'Q');
		peer_close(order ? client : server);
		peer_close(order ? server : client);
		stage_settle(stage);
		assert_int_equal(stage->site.server_count, 0);
		assert_int_equal(site_client_count(&stage->site), 0);
		stage_free(&stage);
	}
}

/* An idle server that is found dead in this turn is not lent in it. */
static void dying_server_is_not_lent(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	for (int i = 0; i < 3; i++) {
		peer_close(server);
		peer_text(client, 'Q', "select 1");
		server = stage_ready_server(stage);
		assert_hears(server, 'Q', "Q:select 1");
		peer_answer(server, "SELECT 1", 'I');
		assert_hears(client, 'Z', "C:SELECT 1 Z:I");
	}
	stage_free(&stage);
}

static void doomed_server_at_rest_leaves_the_pool_at_once(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	struct node *first = list_first(&stage_pool(stage)->slots[SLOT_IDLE]);
	struct slot *slot = container_of(first, struct slot, node);
	server_retire(slot_server(slot), "test");
	assert_int_equal(count(stage, SLOT_IDLE), 0);
	assert_int_equal(slot->state, SLOT_NONE);
	stage_free(&stage);
}

/* A waiting client disconnects in the turn in which a server becomes free for it. */
static void vanished_waiter_costs_no_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *server;
	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", "application_name", "b");
	peer_text(a, 'Q', "of a");
	peer_hear(server, 'Q');
	peer_text(b, 'Q', "of b");
	stage_settle(stage);
	struct node *first = list_first(&stage_pool(stage)->waiting);
	struct pool_request *request = container_of(first, struct pool_request, node);
	peer_answer(server, "A", 'I');
	conn_doom(&request_client(request_of(request))->conn, "test");
	stage_settle(stage);
	assert_heard(server, "");
	assert_false(server->has_ended);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

static void unasked_answer_closes_the_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_put(server, '1', "", 0);
	assert_string_equal(peer_last_words(client), "E:FATAL:unknown pkt");
	peer_last_words(server);
	assert_int_equal(stage->site.protocol_errors, 1);
	stage_free(&stage);
}

/* ---- flow control ---- */

enum { MUCH = 3 * 1024 * 1024 };

static bool is_server_held(void *arg)
{
	struct stage *stage = arg;
	struct node *n = list_first(&stage_pool(stage)->slots[SLOT_ACTIVE]);
	return n && slot_server(container_of(n, struct slot, node))->link.holds_server;
}

static void slow_client_holds_the_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	uint8_t *row = calloc(1, MUCH);
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "select much");
	peer_hear(server, 'Q');
	watch_off(client->watch);
	row[0] = 'D';
	put_u32(row + 1, MUCH - 1);
	size_t sent = 0;
	while (!is_server_held(stage)) {
		ssize_t got = send(server->fd, row + sent, MUCH - sent, MSG_DONTWAIT);
		if (got > 0)
			sent += (size_t)got;
		stage_turn(stage);
		assert_true(sent < MUCH);
	}
	watch_on(client->watch);
	peer_send(server, row + sent, MUCH - sent);
	peer_answer(server, "SELECT 1", 'I');
	assert_hears(client, 'Z', "D C:SELECT 1 Z:I");
	free(row);
	stage_free(&stage);
}

static bool is_client_held(void *arg)
{
	struct stage *stage = arg;
	struct node *n = list_first(&stage_pool(stage)->slots[SLOT_ACTIVE]);
	return n && slot_server(container_of(n, struct slot, node))->link.holds_client;
}

static void slow_server_holds_the_client(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	uint8_t *data = calloc(1, MUCH);
	stage_pair(stage, &client, &server);
	begin_copy(client, server);
	watch_off(server->watch);
	data[0] = 'd';
	put_u32(data + 1, MUCH - 1);
	size_t sent = 0;
	while (!is_client_held(stage)) {
		ssize_t got = send(client->fd, data + sent, MUCH - sent, MSG_DONTWAIT);
		if (got > 0)
			sent += (size_t)got;
		stage_turn(stage);
		assert_true(sent < MUCH);
	}
	watch_on(server->watch);
	peer_send(client, data + sent, MUCH - sent);
	peer_put(client, 'c', "", 0);
	assert_hears(server, 'c', "d c");
	peer_answer(server, "COPY 1", 'I');
	assert_hears(client, 'Z', "C:COPY 1 Z:I");
	free(data);
	stage_free(&stage);
}

/* Neither peer reads for a while: both directions stop, and both go on. */
static void both_directions_full(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	uint8_t *data = calloc(1, MUCH);
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "start replication");
	peer_hear(server, 'Q');
	peer_put(server, 'W', "\0\0\0", 3);
	peer_hear(client, 'W');
	watch_off(client->watch);
	watch_off(server->watch);
	data[0] = 'd';
	put_u32(data + 1, MUCH - 1);
	size_t up = 0, down = 0;
	while (!is_client_held(stage) || !is_server_held(stage)) {
		ssize_t got = send(client->fd, data + up, MUCH - up, MSG_DONTWAIT);
		up += got > 0 ? (size_t)got : 0;
		got = send(server->fd, data + down, MUCH - down, MSG_DONTWAIT);
		down += got > 0 ? (size_t)got : 0;
		stage_turn(stage);
		assert_true(up < MUCH && down < MUCH);
	}
	watch_on(client->watch);
	watch_on(server->watch);
	peer_send(client, data + up, MUCH - up);
	peer_send(server, data + down, MUCH - down);
	assert_hears(client, 'd', "d");
	assert_hears(server, 'd', "d");
	free(data);
	stage_free(&stage);
}

static void held_server_goes_back_when_the_client_dies(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	uint8_t *row = calloc(1, MUCH);
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "select much");
	peer_hear(server, 'Q');
	watch_off(client->watch);
	row[0] = 'D';
	put_u32(row + 1, MUCH - 1);
	size_t sent = 0;
	while (!is_server_held(stage)) {
		ssize_t got = send(server->fd, row + sent, MUCH - sent, MSG_DONTWAIT);
		sent += got > 0 ? (size_t)got : 0;
		stage_turn(stage);
	}
	peer_close(client);
	peer_last_words(server);
	free(row);
	stage_free(&stage);
}

/* ---- timeouts ---- */

/* All messages up to the next Sync are answered by one error, and are not run later. */
static void full_queue_is_an_error_of_the_query(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1 max_waiting_clients=1", "");
	struct peer *a, *b, *c, *server;
	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	c = stage_login(stage, "u", NULL, NULL);
	peer_text(a, 'Q', "of a");
	assert_hears(server, 'Q', "Q:of a");
	peer_text(b, 'Q', "of b");
	assert_heard(b, "");
	peer_text(c, 'Q', "of c");
	assert_hears(
	    c, 'Z', "E:ERROR:too many clients are waiting (max_waiting_clients) Z:I");
	peer_put(c, 'P', "\0parsed by c\0\0", 15);
	peer_put(c, 'B', "\0\0\0\0\0\0\0\0", 8);
	assert_hears(
	    c, 'E', "E:ERROR:too many clients are waiting (max_waiting_clients)");
	peer_put(c, 'E', "\0\0\0\0\0", 5);
	peer_put(c, 'S', "", 0);
	assert_hears(c, 'Z', "Z:I");
	peer_answer(server, "A", 'I');
	assert_hears(server, 'Q', "Q:of b");
	peer_answer(server, "B", 'I');
	assert_hears(b, 'Z', "C:B Z:I");
	peer_text(c, 'Q', "again");
	assert_hears(server, 'Q', "Q:again");
	stage_free(&stage);
}

static void query_timeout_closes_both(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "query_timeout = 0.02\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "select pg_sleep(1)");
	peer_hear(server, 'Q');
	assert_string_equal(peer_last_words(client), "E:FATAL:query timeout");
	peer_last_words(server);
	stage_free(&stage);
}

static void idle_transaction_timeout_closes_both(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "idle_transaction_timeout = 0.02\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "begin");
	peer_hear(server, 'Q');
	peer_answer(server, "BEGIN", 'T');
	peer_hear(client, 'Z');
	assert_string_equal(
	    peer_last_words(client), "E:FATAL:idle transaction timeout");
	peer_last_words(server);
	stage_free(&stage);
}

static void waiting_has_an_end(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "query_wait_timeout = 0.03\n");
	struct peer *a, *b, *server;
	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	peer_text(a, 'Q', "of a");
	peer_hear(server, 'Q');
	peer_text(b, 'Q', "of b");
	assert_string_equal(peer_last_words(b), "E:FATAL:query_wait_timeout");
	peer_answer(server, "A", 'I');
	assert_hears(a, 'Z', "C:A Z:I");
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

static void idle_client_is_closed(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "client_idle_timeout = 0.02\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	assert_string_equal(peer_last_words(client), "E:FATAL:client_idle_timeout");
	stage_free(&stage);
}

static void statement_mode_has_no_transactions(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "pool_mode = statement\n");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "begin");
	peer_hear(server, 'Q');
	peer_answer(server, "BEGIN", 'T');
	assert_string_equal(peer_last_words(client),
	    "C:BEGIN E:FATAL:transaction blocks not allowed in statement "
	    "pooling mode");
	peer_last_words(server);
	stage_free(&stage);
}

static void unknown_message_ends_the_client(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	peer_put(client, 'p', "x", 2);
	assert_string_equal(peer_last_words(client), "E:FATAL:unknown pkt");
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(query_is_answered_and_the_server_given_back),
	    cmocka_unit_test(transaction_keeps_the_server),
	    cmocka_unit_test(two_clients_share_one_server),
	    cmocka_unit_test(pipeline_keeps_the_server_until_all_is_answered),
	    cmocka_unit_test(pipelines_pass_unchanged),
	    cmocka_unit_test(the_same_parse_may_fail_or_be_skipped),
	    cmocka_unit_test(parameters_are_brought_to_the_client),
	    cmocka_unit_test(refused_parameter_closes_both),
	    cmocka_unit_test(copy_passes),
	    cmocka_unit_test(failed_copy_gives_the_server_back),
	    cmocka_unit_test(late_copy_data_does_not_spoil_an_idle_server),
	    cmocka_unit_test(server_is_not_lent_within_a_message),
	    cmocka_unit_test(client_that_dies_within_a_message_takes_the_server_along),
	    cmocka_unit_test(client_that_goes_in_a_query_takes_the_server_along),
	    cmocka_unit_test(query_of_a_vanished_client_is_cancelled),
	    cmocka_unit_test(cancel_request_that_came_too_early_is_repeated),
	    cmocka_unit_test(transaction_of_a_vanished_client_is_rolled_back),
	    cmocka_unit_test(copy_of_a_vanished_client_is_ended),
	    cmocka_unit_test(server_that_does_not_come_to_rest_is_closed),
	    cmocka_unit_test(server_that_cannot_roll_back_is_closed),
	    cmocka_unit_test(server_that_crashes_takes_the_client_along),
	    cmocka_unit_test(servers_that_die_later_are_replaced_at_once),
	    cmocka_unit_test(server_that_dies_unused_is_replaced),
	    cmocka_unit_test(servers_that_die_unused_keep_their_distance),
	    cmocka_unit_test(server_that_dies_as_it_is_granted_is_replaced),
	    cmocka_unit_test(used_server_that_dies_in_a_session_is_told),
	    cmocka_unit_test(error_is_not_put_into_a_row),
	    cmocka_unit_test(both_go_in_one_turn),
	    cmocka_unit_test(dying_server_is_not_lent),
	    cmocka_unit_test(doomed_server_at_rest_leaves_the_pool_at_once),
	    cmocka_unit_test(vanished_waiter_costs_no_server),
	    cmocka_unit_test(unasked_answer_closes_the_server),
	    cmocka_unit_test(slow_client_holds_the_server),
	    cmocka_unit_test(slow_server_holds_the_client),
	    cmocka_unit_test(both_directions_full),
	    cmocka_unit_test(held_server_goes_back_when_the_client_dies),
	    cmocka_unit_test(full_queue_is_an_error_of_the_query),
	    cmocka_unit_test(query_timeout_closes_both),
	    cmocka_unit_test(idle_transaction_timeout_closes_both),
	    cmocka_unit_test(waiting_has_an_end),
	    cmocka_unit_test(idle_client_is_closed),
	    cmocka_unit_test(statement_mode_has_no_transactions),
	    cmocka_unit_test(unknown_message_ends_the_client),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
