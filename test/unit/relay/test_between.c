/*
 * What the pooler says goes between the messages of the server, wherever these are cut,
 * and never follows the last words of a server that has ended with a FATAL error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

enum { COLUMNS = 4 };

/* ---- messages ---- */

static void put_parse(struct buf *out, const char *name, const char *text)
{
	size_t at = codec_begin(out, 'P');

	buf_put_str(out, name);
	buf_put_str(out, text);
	buf_put_u16(out, 0);
	codec_end(out, at);
}

static void put_named(struct buf *out, uint8_t type, const char *name)
{
	size_t at = codec_begin(out, type);

	buf_put_u8(out, 'S');
	buf_put_str(out, name);
	codec_end(out, at);
}

static void put_empty(struct buf *out, uint8_t type)
{
	codec_end(out, codec_begin(out, type));
}

static void put_ready(struct buf *out, char status)
{
	size_t at = codec_begin(out, 'Z');

	buf_put_u8(out, (uint8_t)status);
	codec_end(out, at);
}

/* A ParameterDescription and a RowDescription. */
static void put_description(struct buf *out)
{
	size_t at = codec_begin(out, 't');

	buf_put_u16(out, 0);
	codec_end(out, at);
	at = codec_begin(out, 'T');
	buf_put_u16(out, COLUMNS);
	for (int i = 0; i < COLUMNS; i++) {
		buf_put_str(out, "column");
		for (int k = 0; k < 9; k++)
			buf_put_u16(out, 0);
	}
	codec_end(out, at);
}

static void put_notice(struct buf *out)
{
	codec_put_notice(out, "a notice that comes in two pieces", NULL);
}

/* ---- peers ---- */

static void send_buf(struct peer *peer, struct buf *buf)
{
	peer_send(peer, buf->bytes, buf->len);
	buf_clear(buf);
}

/* Sends the bytes in two pieces, of which the first one is read alone. */
static void send_cut(struct peer *peer, const struct buf *buf, size_t cut)
{
	peer_send(peer, buf->bytes, cut);
	stage_settle(peer->stage);
	peer_send(peer, buf->bytes + cut, buf->len - cut);
	stage_settle(peer->stage);
}

static bool has_ended(void *arg)
{
	return ((struct peer *)arg)->has_ended;
}

static void assert_bytes_came(struct peer *peer, const struct buf *expected)
{
	stage_settle(peer->stage);
	assert_int_equal(peer->in.len, expected->len);
	assert_memory_equal(peer->in.bytes, expected->bytes, expected->len);
	buf_clear(&peer->in);
}

/* The server gets these two statements from another client. */
static void prepare_texts(struct stage *stage, struct peer *server)
{
	struct peer *client = stage_login(stage, "u", NULL, NULL);
	struct buf asked;

	buf_init(&asked, 0);
	put_parse(&asked, "x", "select 1");
	put_parse(&asked, "y", "select 2");
	put_empty(&asked, 'S');
	send_buf(client, &asked);
	peer_hear(server, 'S');
	peer_put(server, '1', NULL, 0);
	peer_put(server, '1', NULL, 0);
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 1 Z:I");
	buf_done(&asked);
}

/* ---- made-up answers ---- */

/* Known texts, described and closed: the server answers only Describe and Sync. */
static void put_known(struct buf *asked, struct buf *answer, struct buf *told)
{
	static const char *const texts[] = {"select 1", "select 2", "select 1"};

	for (int i = 0; i < 3; i++) {
		char name[2] = {(char)('a' + i), 0};
		put_parse(asked, name, texts[i]);
		put_named(asked, 'D', name);
		put_named(asked, 'C', name);
		put_description(answer);
		put_empty(told, '1');
		put_description(told);
		put_empty(told, '3');
	}
	put_empty(asked, 'S');
	put_ready(answer, 'I');
	put_ready(told, 'I');
}

static void answers_of_the_pooler_stand_between_messages(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *client, *server;
	struct buf asked, answer, told;
	size_t cut = 1, len = 2;

	stage_pair(stage, &client, &server);
	prepare_texts(stage, server);
	buf_init(&asked, 0);
	buf_init(&answer, 0);
	buf_init(&told, 0);
	for (; cut < len; cut++) {
		put_known(&asked, &answer, &told);
		send_buf(client, &asked);
		peer_hear(server, 'S');
		send_cut(server, &answer, cut);
		assert_bytes_came(client, &told);
		len = answer.len;
		buf_clear(&answer);
		buf_clear(&told);
	}
	buf_done(&asked);
	buf_done(&answer);
	buf_done(&told);
	stage_free(&stage);
}

/* A client that has sent no Sync keeps its server. */
static void keep_server(struct peer *client, struct peer *server)
{
	struct buf asked;

	buf_init(&asked, 0);
	put_parse(&asked, "kept", "select 3");
	put_empty(&asked, 'H');
	send_buf(client, &asked);
	assert_hears(server, 'H', "P H");
	peer_put(server, '1', NULL, 0);
	assert_hears(client, '1', "1");
	buf_done(&asked);
}

/* The request comes while a message is under way that no request has asked for. */
static void made_up_answer_waits_for_the_rest_of_a_notice(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *client, *server;
	struct buf asked, notice, told;

	stage_pair(stage, &client, &server);
	prepare_texts(stage, server);
	buf_init(&asked, 0);
	buf_init(&notice, 0);
	buf_init(&told, 0);
	keep_server(client, server);
	put_notice(&notice);
	for (size_t cut = 1; cut < notice.len; cut++) {
		peer_send(server, notice.bytes, cut);
		stage_settle(stage);
		put_parse(&asked, "a", "select 1");
		put_named(&asked, 'C', "a");
		send_buf(client, &asked);
		stage_settle(stage);
		peer_send(server, notice.bytes + cut, notice.len - cut);
		stage_settle(stage);
		/* while the first bytes of the notice are held, the client is free */
		put_empty(&told, '1');
		put_empty(&told, '3');
		if (cut >= 5)
			buf_shift(&told, told.len);
		put_notice(&told);
		if (cut >= 5) {
			put_empty(&told, '1');
			put_empty(&told, '3');
		}
		assert_bytes_came(client, &told);
		buf_clear(&told);
	}
	/* the server was asked for nothing: all answers were made up */
	assert_string_equal(peer_heard(server), "");
	assert_int_equal(stage_pool(stage)->slots[SLOT_ACTIVE].count, 1);
	buf_done(&asked);
	buf_done(&notice);
	buf_done(&told);
	stage_free(&stage);
}

/* What was sent without a Sync has begun a transaction, whatever ReadyForQuery has said
 * last: the end of a message in pieces does not free the server. */
static void server_is_kept_behind_a_message_in_pieces(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *client, *server;
	struct buf asked, answer;

	stage_pair(stage, &client, &server);
	buf_init(&asked, 0);
	buf_init(&answer, 0);
	put_parse(&asked, "a", "select 1");
	put_named(&asked, 'D', "a");
	put_empty(&asked, 'H');
	send_buf(client, &asked);
	assert_hears(server, 'H', "P D H");
	peer_put(server, '1', NULL, 0);
	put_description(&answer);
	send_cut(server, &answer, answer.len - 1);
	assert_hears(client, 'T', "1 t T");
	assert_int_equal(stage_pool(stage)->slots[SLOT_ACTIVE].count, 1);
	put_empty(&asked, 'S');
	send_buf(client, &asked);
	assert_hears(server, 'S', "S");
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "Z:I");
	assert_int_equal(stage_pool(stage)->slots[SLOT_ACTIVE].count, 0);
	buf_done(&asked);
	buf_done(&answer);
	stage_free(&stage);
}

/* ---- errors of the pooler ---- */

/* The notice is half told: the connection ends, and nothing is put into the notice. */
static void error_is_not_put_into_a_notice(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "query_timeout = 0.05\n");
	struct peer *client, *server;
	struct buf notice;

	stage_pair(stage, &client, &server);
	buf_init(&notice, 0);
	put_notice(&notice);
	peer_text(client, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_send(server, notice.bytes, notice.len - 1);
	assert_string_equal(peer_last_words(client), "");
	assert_int_equal(client->in.len, notice.len - 1);
	buf_done(&notice);
	stage_free(&stage);
}

/* Answers the pooler's question which parameters are not set: this one. */
static void tell_source(struct peer *server, const char *name)
{
	struct buf row;

	buf_init(&row, 0);
	buf_put_u16(&row, 1);
	buf_put_u32(&row, (uint32_t)strlen(name));
	buf_put_text(&row, name);
	peer_hear(server, 'S');
	for (const char *type = "3312"; *type; type++)
		peer_put(server, (uint8_t)*type, NULL, 0);
	peer_put(server, 'D', row.bytes, row.len);
	peer_text(server, 'C', "SELECT 1");
	peer_put(server, '3', NULL, 0);
	peer_put(server, '3', NULL, 0);
	peer_ready(server, 'I');
	buf_done(&row);
}

/* The client's RESET brings back a parameter that it asked for at its login. */
static void reset_the_name(struct peer *client, struct peer *server)
{
	peer_text(client, 'Q', "reset application_name");
	peer_hear(server, 'Q');
	peer_put(server, 'S', "application_name\0", 18);
	peer_answer(server, "RESET", 'I');
	tell_source(server, "application_name");
	peer_hear(client, 'Z');
}

/* The pooler sets the client's parameter again; the client's next query waits for that
 * and is cancelled meanwhile, while a notification is under way. */
static void answer_to_a_cancelled_query_waits_for_a_notification(void **state)
{
	(void)state;
	static const char body[] = "\0\0\0\1channel\0payload";
	struct stage *stage = stage_new("", "pool_mode = session\n");
	struct peer *first, *client, *server, *carrier;
	struct buf b;

	stage_pair(stage, &first, &server);
	peer_close(first);
	stage_settle(stage);
	client = stage_login(stage, "u", "application_name", "mine");
	peer_text(client, 'Q', "listen channel");
	assert_hears(server, 'Q', "Q:SET application_name='mine';");
	peer_put(server, 'S', "application_name\0mine", 22);
	peer_answer(server, "SET", 'I');
	assert_hears(server, 'Q', "Q:listen channel");
	peer_answer(server, "LISTEN", 'I');
	peer_hear(client, 'Z');
	reset_the_name(client, server);
	peer_hear(server, 'S');
	peer_text(client, 'Q', "select 1");
	stage_settle(stage);
	buf_init(&b, 0);
	size_t at = codec_begin(&b, 'A');
	buf_put(&b, body, sizeof(body));
	codec_end(&b, at);
	peer_send(server, b.bytes, 10);
	stage_settle(stage);
	carrier = stage_client(stage);
	struct buf cancel;
	buf_init(&cancel, 0);
	codec_put_cancel_request(&cancel, client->key, client->key_len);
	peer_send(carrier, cancel.bytes, cancel.len);
	buf_done(&cancel);
	stage_settle(stage);
	assert_int_equal(client->in.len, 10);
	peer_send(server, b.bytes + 10, b.len - 10);
	peer_put(server, '3', NULL, 0);
	peer_put(server, '3', NULL, 0);
	peer_put(server, '1', NULL, 0);
	peer_put(server, '2', NULL, 0);
	peer_put(server, 'S', "application_name\0mine", 22);
	peer_text(server, 'C', "SET");
	peer_put(server, '3', NULL, 0);
	peer_put(server, '3', NULL, 0);
	peer_ready(server, 'I');
	assert_hears(
	    client, 'Z', "A E:ERROR:canceling statement due to user request Z:I");
	buf_done(&b);
	stage_free(&stage);
}

/* ---- the server's last word ---- */

enum moment { IDLE, IN_TRANSACTION, IN_QUERY, IN_ROWS, IN_PIPELINE, MOMENTS };

static void come_to(enum moment moment, struct peer *client, struct peer *server)
{
	switch (moment) {
	case IN_TRANSACTION:
		peer_text(client, 'Q', "begin");
		peer_hear(server, 'Q');
		peer_answer(server, "BEGIN", 'T');
		peer_hear(client, 'Z');
		break;
	case IN_ROWS:
	case IN_QUERY:
		peer_text(client, 'Q', "select 1");
		peer_hear(server, 'Q');
		if (moment == IN_ROWS)
			peer_put(server, 'D', "\0\0", 2);
		break;
	case IN_PIPELINE:
		peer_put(client, 'P', "s\0select 1\0\0\0", 13);
		peer_put(client, 'D', "Ss", 3);
		peer_put(client, 'C', "Ss", 3);
		peer_put(client, 'S', NULL, 0);
		peer_hear(server, 'S');
		break;
	default:
		peer_text(client, 'Q', "listen x");
		peer_hear(server, 'Q');
		peer_answer(server, "LISTEN", 'I');
		peer_hear(client, 'Z');
	}
}

/* Ends a session with this error and returns what the client was told. */
static void end_with(
    enum moment moment, const char *fields, size_t size, const char *told)
{
	struct stage *stage = stage_new("", "pool_mode = session\n");
	struct peer *client, *server;
	char expected[128];

	stage_pair(stage, &client, &server);
	come_to(moment, client, server);
	peer_put(server, 'E', fields, size);
	stage_settle(stage);
	peer_close(server);
	snprintf(
	    expected, sizeof(expected), "%s%s", moment == IN_ROWS ? "D " : "", told);
	assert_string_equal(peer_last_words(client), expected);
	stage_free(&stage);
}

static void end_at_every_moment(const char *fields, size_t size, const char *told)
{
	for (enum moment moment = 0; moment < MOMENTS; moment++) {
		setenv(STAGE_PIECE, "1", 1);
		end_with(moment, fields, size, told);
		unsetenv(STAGE_PIECE);
		end_with(moment, fields, size, told);
	}
}

#define at_every_moment(fields, told) end_at_every_moment(fields, sizeof(fields), told)

static void nothing_follows_a_fatal_error(void **state)
{
	(void)state;
	at_every_moment("SFATAL\0VFATAL\0C57P01\0Mgoing down\0", "E:FATAL:going down");
	at_every_moment("SFATAL\0C57P02\0Mgoing down\0", "E:FATAL:going down");
	at_every_moment("SPANIC\0VPANIC\0CXX000\0Mno more\0", "E:PANIC:no more");
	at_every_moment("SFATALE\0VFATAL\0C57P01\0Mciao\0", "E:FATAL:ciao");
}

static void lost_server_is_told_after_a_common_error(void **state)
{
	(void)state;
	at_every_moment("SERROR\0VERROR\0C42000\0MFATAL\0",
	    "E:ERROR:FATAL E:FATAL:server conn crashed?");
}

enum { TEXT = 400000, LONG_ERROR = 5 + 22 + TEXT + 2 };

static bool has_long_error(void *arg)
{
	return ((struct peer *)arg)->in.len >= LONG_ERROR;
}

/* The long text arrives in many pieces behind the severity. */
static void nothing_follows_a_long_fatal_error(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	struct buf b;
	size_t at;

	stage_pair(stage, &client, &server);
	come_to(IN_QUERY, client, server);
	buf_init(&b, 0);
	at = codec_begin(&b, 'E');
	buf_put(&b, "SFATAL\0VFATAL\0C57P01\0M", 22);
	memset(buf_room(&b, TEXT), 'x', TEXT);
	buf_grow(&b, TEXT);
	buf_put(&b, "\0\0", 2);
	codec_end(&b, at);
	peer_send(server, b.bytes, b.len);
	stage_until(stage, has_long_error, client);
	assert_bytes_came(client, &b);
	peer_close(server);
	stage_until(stage, has_ended, client);
	assert_int_equal(client->in.len, 0);
	buf_done(&b);
	stage_free(&stage);
}

/* The server ends while it runs the pooler's SET for a client whose session it has. */
static void fatal_answer_to_the_pooler_is_the_clients(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "pool_mode = session\n");
	struct peer *first, *client, *server;

	stage_pair(stage, &first, &server);
	peer_close(first);
	stage_settle(stage);
	client = stage_login(stage, "u", "application_name", "mine");
	peer_text(client, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_put(server, 'S', "application_name\0mine", 22);
	peer_answer(server, "SET", 'I');
	peer_hear(server, 'Q');
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
	reset_the_name(client, server);
	peer_hear(server, 'S');
	peer_put(server, 'E', "SFATAL\0C57P01\0Mgoing down\0", 27);
	peer_close(server);
	assert_string_equal(peer_last_words(client), "E:FATAL:going down");
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(answers_of_the_pooler_stand_between_messages),
	    cmocka_unit_test(made_up_answer_waits_for_the_rest_of_a_notice),
	    cmocka_unit_test(server_is_kept_behind_a_message_in_pieces),
	    cmocka_unit_test(error_is_not_put_into_a_notice),
	    cmocka_unit_test(answer_to_a_cancelled_query_waits_for_a_notification),
	    cmocka_unit_test(nothing_follows_a_fatal_error),
	    cmocka_unit_test(lost_server_is_told_after_a_common_error),
	    cmocka_unit_test(nothing_follows_a_long_fatal_error),
	    cmocka_unit_test(fatal_answer_to_the_pooler_is_the_clients),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
