/*
 * A link always has a deadline: peers that stop at every byte and in every phase, with
 * each timeout set alone, also during the pooler's own SET.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../no_memory.h"
#include "../stage/stage.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

enum { LIMIT_S = 60, BIG = 20000, WHOLE_MOST = 16 * 1024 };

static const char *const timeouts[] = {
    "query_timeout", "transaction_timeout", "idle_transaction_timeout"};

/* ---- a server that greets, and answers until it is told to stop ---- */

static bool answers_queries;

static void server_answer(struct peer *peer, uint8_t type)
{
	static const char replies[][2] = {
	    {'P', '1'}, {'B', '2'}, {'C', '3'}, {'D', 'n'}};

	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++)
		if (type == (uint8_t)replies[i][0])
			peer_put(peer, (uint8_t)replies[i][1], "", 0);
	if (type == 'E' || type == 'Q')
		peer_text(peer, 'C', "SELECT 1");
	if (type == 'S' || type == 'Q')
		peer_ready(peer, 'I');
}

static void server_plays(struct peer *peer)
{
	size_t size;

	if (!peer->started && peer->in.len >= 8) {
		peer->started = get_u32(peer->in.bytes + 4);
		buf_shift(&peer->in, get_u32(peer->in.bytes));
		peer_greet(peer);
	}
	while (peer->started && answers_queries && (size = peer_message(peer)) > 0) {
		uint8_t type = peer->in.bytes[0];
		buf_shift(&peer->in, size);
		server_answer(peer, type);
	}
}

static struct stage *stage_played(
    const char *options, const char *setting, double value)
{
	char settings[128];
	struct stage *stage;

	snprintf(settings, sizeof(settings), "max_prepared_statements = 100\n%s = %g\n",
	    setting, value);
	stage = stage_new(options, settings);
	stage->play = server_plays;
	answers_queries = true;
	return stage;
}

static struct peer *login(struct stage *stage)
{
	return stage_login(stage, "u", NULL, NULL);
}

static struct server *linked_server(struct stage *stage)
{
	struct node *n = list_first(&stage_pool(stage)->slots[SLOT_ACTIVE]);

	return n ? slot_server(container_of(n, struct slot, node)) : NULL;
}

static void assert_clock_runs(const struct stage *stage, const struct server *server)
{
	uint64_t latest = loop_now(stage->site.loop) + (uint64_t)LIMIT_S * 1000000;

	assert_true(server->conn.deadline.index > 0);
	assert_true(server->conn.deadline.at_us <= latest);
}

/* ---- what clients send ---- */

static void put_name(
    struct buf *out, uint8_t type, const char *prefix, const char *name)
{
	size_t at = codec_begin(out, type);

	buf_put(out, prefix, strlen(prefix));
	buf_put_str(out, name);
	codec_end(out, at);
}

static void put_parse(struct buf *out, const char *name, const char *text, size_t pad)
{
	size_t at = codec_begin(out, 'P');

	buf_put_str(out, name);
	buf_put(out, text, strlen(text));
	for (size_t i = 0; i < pad; i++)
		buf_put_u8(out, ' ');
	buf_put_u8(out, 0);
	buf_put_u16(out, 0);
	codec_end(out, at);
}

static void put_bind(struct buf *out, const char *name, size_t value)
{
	size_t at = codec_begin(out, 'B');

	buf_put_str(out, "");
	buf_put_str(out, name);
	buf_put_u16(out, 0);
	buf_put_u16(out, 1);
	buf_put_u32(out, (uint32_t)value);
	for (size_t i = 0; i < value; i++)
		buf_put_u8(out, 'v');
	buf_put_u16(out, 0);
	codec_end(out, at);
}

static void put_rest(struct buf *out)
{
	size_t at;

	put_name(out, 'D', "P", "");
	at = codec_begin(out, 'E');
	buf_put_str(out, "");
	buf_put_u32(out, 0);
	codec_end(out, at);
	codec_end(out, codec_begin(out, 'H'));
	codec_end(out, codec_begin(out, 'S'));
	codec_put_query(out, "select 2");
}

static void put_sequence(struct buf *out, const char *name, size_t pad)
{
	put_parse(out, name, "select $1", pad);
	put_bind(out, name, pad + 3);
	put_rest(out);
}

/* ---- the tests ---- */

/* A client sends `count` bytes and then nothing.  Returns whether it got a server. */
static bool stops_at(struct stage *stage, const struct buf *bytes, size_t count)
{
	struct peer *client = login(stage);
	struct server *server;
	bool is_linked;

	peer_send(client, bytes->bytes, count);
	stage_settle(stage);
	server = linked_server(stage);
	is_linked = server != NULL;
	if (server)
		assert_clock_runs(stage, server);
	peer_close(client);
	stage_settle(stage);
	return is_linked;
}

static void stop_everywhere(const char *name, size_t pad, size_t step, bool is_answered)
{
	for (size_t t = 0; t < sizeof(timeouts) / sizeof(timeouts[0]); t++) {
		struct stage *stage = stage_played("pool_size=1", timeouts[t], LIMIT_S);
		unsigned linked = 0;
		struct buf bytes;

		buf_init(&bytes, 0);
		put_sequence(&bytes, name, pad);
		peer_close(login(stage));
		answers_queries = is_answered;
		for (size_t count = 1; count <= bytes.len; count += step)
			linked += stops_at(stage, &bytes, count);
		assert_true(linked > 3);
		buf_done(&bytes);
		stage_free(&stage);
	}
}

static void client_that_stops_at_any_byte(void **state)
{
	(void)state;
	stop_everywhere("", 0, 1, false);
	stop_everywhere("s", 0, 1, false);
	stop_everywhere("s", 0, 1, true);
}

static void client_that_stops_in_a_long_message(void **state)
{
	(void)state;
	stop_everywhere("", BIG, 1237, false);
	stop_everywhere("s", BIG, 1237, true);
}

/* The pooler makes up ParseComplete, so that the server has nothing to do. */
static void parse_that_was_answered_by_the_pooler(void **state)
{
	(void)state;
	for (size_t t = 0; t < sizeof(timeouts) / sizeof(timeouts[0]); t++) {
		struct stage *stage = stage_played("pool_size=1", timeouts[t], LIMIT_S);
		struct peer *a = login(stage), *b = login(stage);
		struct buf parse;

		buf_init(&parse, 0);
		put_parse(&parse, "s", "select 1", 0);
		peer_send(a, parse.bytes, parse.len);
		peer_put(a, 'S', "", 0);
		peer_hear(a, 'Z');
		answers_queries = false;
		peer_send(b, parse.bytes, parse.len);
		peer_hear(b, '1');
		assert_non_null(linked_server(stage));
		assert_clock_runs(stage, linked_server(stage));
		buf_done(&parse);
		stage_free(&stage);
	}
}

static void silent_client_loses_the_server(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_played("pool_size=1", "idle_transaction_timeout", 0.05);
	struct peer *client = login(stage);
	struct buf bytes;

	buf_init(&bytes, 0);
	put_parse(&bytes, "s", "select 1", BIG);
	peer_send(client, bytes.bytes, WHOLE_MOST + 1000);
	assert_string_equal(
	    peer_last_words(client), "E:FATAL:idle transaction timeout");
	buf_done(&bytes);
	stage_free(&stage);
}

/* The server runs a long query, and all messages to it were flushed. */
static void working_server_is_not_silent(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_played("pool_size=1", "idle_transaction_timeout", LIMIT_S);
	struct peer *client = login(stage);
	struct server *server;
	struct buf bytes;

	answers_queries = false;
	buf_init(&bytes, 0);
	put_parse(&bytes, "", "select 1", 0);
	codec_end(&bytes, codec_begin(&bytes, 'H'));
	peer_send(client, bytes.bytes, bytes.len);
	stage_settle(stage);
	server = linked_server(stage);
	/* the deadline is checked although no peer was silent for that long */
	server->conn.ops->expired(&server->conn);
	assert_false(server->conn.is_doomed);
	assert_clock_runs(stage, server);
	buf_done(&bytes);
	stage_free(&stage);
}

static void hung_sets_have_an_end(void **state)
{
	static const char *const rows[][2] = {
	    {"query_timeout", "E:FATAL:query timeout"},
	    {"transaction_timeout", "E:FATAL:transaction timeout"},
	    {"query_wait_timeout", "E:FATAL:query_wait_timeout"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stage *stage = stage_played("pool_size=1", rows[i][0], 0.05);
		struct peer *client;

		peer_close(login(stage));
		client = stage_login(stage, "u", "application_name", "other");
		answers_queries = false;
		peer_text(client, 'Q', "select 1");
		assert_string_equal(peer_last_words(client), rows[i][1]);
		stage_settle(stage);
		assert_int_equal(stage->site.server_count, 0);
		stage_free(&stage);
	}
}

static bool is_later(void *arg)
{
	struct stage *stage = arg;

	return loop_now(stage->site.loop) > (uint64_t)(uintptr_t)stage->ctx;
}

static void wait_us(struct stage *stage, uint64_t us)
{
	stage->ctx = (void *)(uintptr_t)(loop_now(stage->site.loop) + us);
	stage_until(stage, is_later, stage);
}

/* The Sync that follows begins a new query. */
static void close_takes_no_server(void **state)
{
	static const char *const names[] = {"s", "", "never made"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct stage *stage = stage_played("pool_size=1", "query_timeout", 1);
		struct peer *client = login(stage);
		struct buf close;

		buf_init(&close, 0);
		put_parse(&close, "s", "select 1", 0);
		codec_end(&close, codec_begin(&close, 'S'));
		peer_send(client, close.bytes, close.len);
		peer_hear(client, 'Z');
		buf_clear(&close);
		put_name(&close, 'C', "S", names[i]);
		peer_send(client, close.bytes, close.len);
		assert_string_equal(peer_hear(client, '3'), "3");
		assert_null(linked_server(stage));
		wait_us(stage, 1200000);
		peer_put(client, 'S', "", 0);
		assert_string_equal(peer_hear(client, 'Z'), "Z:I");
		buf_done(&close);
		stage_free(&stage);
	}
}

static void closed_statement_is_gone(void **state)
{
	(void)state;
	struct stage *stage = stage_played("pool_size=1", "query_timeout", LIMIT_S);
	struct peer *client = login(stage);
	struct buf bytes;

	buf_init(&bytes, 0);
	put_parse(&bytes, "s", "select 1", 0);
	codec_end(&bytes, codec_begin(&bytes, 'S'));
	peer_send(client, bytes.bytes, bytes.len);
	peer_hear(client, 'Z');
	buf_clear(&bytes);
	put_name(&bytes, 'C', "S", "s");
	put_parse(&bytes, "s", "select 2", 0);
	codec_end(&bytes, codec_begin(&bytes, 'S'));
	peer_send(client, bytes.bytes, bytes.len);
	assert_string_equal(peer_hear(client, 'Z'), "3 1 Z:I");
	buf_done(&bytes);
	stage_free(&stage);
}

static struct peer *replicate(struct stage *stage)
{
	struct peer *client;

	peer_close(login(stage));
	client = stage_login(stage, "u", "replication", "database");
	answers_queries = false;
	peer_text(client, 'Q', "START_REPLICATION");
	return client;
}

/* A replication stream is one command that runs for hours. */
static void replication_counts_from_the_last_message(void **state)
{
	static const char *const names[] = {"query_timeout", "transaction_timeout"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct stage *stage = stage_played("", names[i], LIMIT_S);
		struct peer *client = replicate(stage), *peer;
		struct server *server;
		const struct pool_request *request;

		stage_settle(stage);
		peer = container_of(list_last(&stage->peers), struct peer, node);
		peer_put(peer, 'W', "\0\0\0", 3);
		peer_hear(client, 'W');
		wait_us(stage, 1);
		peer_put(client, 'd', "r", 1);
		stage_settle(stage);
		server = linked_server(stage);
		request = &server_client(server)->request.in_pool;
		assert_true(request->last_us > request->query_us);
		/* the deadline counts from the client's last message */
		server->conn.ops->expired(&server->conn);
		assert_false(server->conn.is_doomed);
		assert_int_equal(server->conn.deadline.at_us,
		    request->last_us + (uint64_t)LIMIT_S * 1000000);
		stage_free(&stage);
	}
}

static void silent_replication_client_loses_the_server(void **state)
{
	static const char *const rows[][2] = {
	    {"query_timeout", "E:FATAL:query timeout"},
	    {"transaction_timeout", "E:FATAL:transaction timeout"},
	};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct stage *stage = stage_played("", rows[i][0], 0.05);

		assert_string_equal(peer_last_words(replicate(stage)), rows[i][1]);
		stage_free(&stage);
	}
}

/* Wherever there is no memory for a client that gets a new server: nothing of the two,
 * nor of the server's login, is left behind (stage_free). */
static void memory_runs_out_for_a_new_server(void **state)
{
	struct buf bytes;

	(void)state;
	buf_init(&bytes, 0);
	put_sequence(&bytes, "name", 100);
	for_each_failure(n)
	{
		struct stage *stage =
		    stage_played("session_state=keep", timeouts[0], LIMIT_S);
		struct peer *other = login(stage);
		struct peer *client = stage_login(stage, "u", "search_path", "a, b");
		answers_queries = false;
		peer_text(other, 'Q', "select 1");
		stage_settle(stage);
		peer_send(client, bytes.bytes, bytes.len);
		no_memory.is_on = true;
		stage_settle(stage);
		no_memory.is_on = false;
		peer_close(client);
		peer_close(other);
		stage_settle(stage);
		stage_free(&stage);
	}
	buf_done(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(client_that_stops_at_any_byte),
	    cmocka_unit_test(client_that_stops_in_a_long_message),
	    cmocka_unit_test(parse_that_was_answered_by_the_pooler),
	    cmocka_unit_test(silent_client_loses_the_server),
	    cmocka_unit_test(working_server_is_not_silent),
	    cmocka_unit_test(hung_sets_have_an_end),
	    cmocka_unit_test(close_takes_no_server),
	    cmocka_unit_test(closed_statement_is_gone),
	    cmocka_unit_test(replication_counts_from_the_last_message),
	    cmocka_unit_test(silent_replication_client_loses_the_server),
	    cmocka_unit_test(memory_runs_out_for_a_new_server),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
