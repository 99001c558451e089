/*
 * The sending side: between offer and decision everything offered stays as it was
 * described; what was taken over ends silently.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"
#include "broker/broker.h"
#include "handoff/handoff.h"
#include "session/workers.h"
#include "wire/codec.h"
#include "wire/prepared.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

/* ---- the two sides ---- */

struct taker {
	size_t clients, servers;
};

static int take_note(void *ctx, const struct record *record, int fd)
{
	struct taker *taker = ctx;

	(void)fd;
	taker->clients += record->kind == RECORD_CLIENT;
	taker->servers += record->kind == RECORD_SERVER;
	return 0;
}

/* Does what daemon/takeover_give does up to END; after that the other process has
 * everything. */
static struct taker offer(struct stage *stage)
{
	struct handoff_counts counts;
	struct taker taker = {0};

	stage->site.catalog->suspended = true;
	do {
		handoff_stop(&stage->site, true, &counts);
		stage_turn(stage);
	} while (counts.pending > 0);
	assert_int_equal(handoff_offer(&stage->site, true, take_note, &taker), 0);
	return taker;
}

static void go_on(struct stage *stage)
{
	stage->site.catalog->suspended = false;
	handoff_keep(&stage->site);
	catalog_schedule_all(stage->site.catalog, NULL);
	stage_settle(stage);
}

/* Does what it does at ALIVE. */
static void let_go(struct stage *stage)
{
	handoff_let_go(&stage->site);
	go_on(stage);
}

static size_t count(struct stage *stage, enum slot_state state)
{
	return stage_pool(stage)->slots[state].count;
}

/* ---- clients and servers ---- */

static struct peer *login(struct stage *stage)
{
	return stage_login(stage, "u", NULL, NULL);
}

static void begin(struct peer *client, struct peer *server)
{
	peer_text(client, 'Q', "begin");
	peer_hear(server, 'Q');
	peer_answer(server, "BEGIN", 'T');
	peer_hear(client, 'Z');
}

/* A query that cannot be moved as long as its answer has not come. */
static void put_busy(struct peer *client)
{
	peer_put(client, 'P', "s\0select 1\0\0\0", 13);
	peer_put(client, 'B', "\0s\0\0\0\0\0\0\0", 9);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
	peer_put(client, 'S', "", 0);
}

static void answer_busy(struct peer *client, struct peer *server)
{
	peer_put(server, '1', "", 0);
	peer_put(server, '2', "", 0);
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
}

static void wait_for_server(struct stage *stage, struct peer *client)
{
	peer_text(client, 'Q', "select 1");
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->waiting.count, 1);
}

/* A transaction and a waiting client are taken over; a busy client stays, and its
 * server is resting when the others leave. */
static void who_was_taken_gets_no_server(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("pool_size=2", "max_prepared_statements = 10\n");
	struct peer *holder, *busy, *waiter, *server, *other;

	stage_pair(stage, &holder, &server);
	busy = login(stage);
	waiter = login(stage);
	begin(holder, server);
	put_busy(busy);
	other = stage_ready_server(stage);
	peer_hear(other, 'S');
	wait_for_server(stage, waiter);

	struct taker taker = offer(stage);
	assert_int_equal(taker.clients, 2);
	assert_int_equal(taker.servers, 1);
	answer_busy(busy, other);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	let_go(stage);
	assert_string_equal(peer_last_words(holder), "");
	assert_string_equal(peer_last_words(waiter), "");
	assert_string_equal(peer_last_words(server), "");
	peer_text(busy, 'Q', "select 2");
	assert_string_equal(peer_hear(other, 'Q'), "Q:select 2");
	stage_free(&stage);
}

/* The login that the waiting client hoped for fails. */
static struct stage *offered_and_refused(struct peer **waiter)
{
	struct stage *stage = stage_new("", "");
	struct peer *server;

	stage_pair(stage, waiter, &server);
	peer_close(server);
	stage_settle(stage);
	peer_text(*waiter, 'Q', "select 1");
	server = stage_server(stage);
	peer_first_packet(server);
	assert_int_equal(offer(stage).clients, 1);
	peer_put(server, 'E', "SFATAL\0C28000\0Mnot you\0", 24);
	peer_close(server);
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_LOGIN), 0);
	return stage;
}

static void who_was_taken_is_not_refused(void **state)
{
	(void)state;
	struct peer *waiter;
	struct stage *stage = offered_and_refused(&waiter);

	let_go(stage);
	assert_string_equal(peer_last_words(waiter), "");
	stage_free(&stage);
}

static void who_was_not_taken_is_refused_afterwards(void **state)
{
	(void)state;
	struct peer *waiter;
	struct stage *stage = offered_and_refused(&waiter);

	assert_string_equal(peer_heard(waiter), "");
	go_on(stage);
	assert_string_equal(peer_last_words(waiter), "E:FATAL:not you");
	stage_free(&stage);
}

/* A resting server that this process would close meanwhile is told nothing. */
static void server_that_was_taken_is_told_nothing(void **state)
{
	(void)state;
	static const bool is_taken[] = {true, false};

	for (size_t i = 0; i < 2; i++) {
		struct stage *stage = stage_new("", "");
		struct peer *client, *server;

		stage_pair(stage, &client, &server);
		assert_int_equal(offer(stage).servers, 1);
		pool_mark_dirty(stage_pool(stage));
		assert_string_equal(peer_heard(server), "");
		if (is_taken[i])
			let_go(stage);
		else
			go_on(stage);
		assert_string_equal(peer_last_words(server), is_taken[i] ? "" : "X");
		stage_free(&stage);
	}
}

/* The same for a server whose check is due. */
static void server_to_be_checked_is_told_nothing(void **state)
{
	(void)state;
	struct stage *stage =
	    stage_new("", "server_check_query = select 1\nserver_check_delay = 0\n");
	struct peer *client, *server;

	stage_pair(stage, &client, &server);
	assert_int_equal(count(stage, SLOT_USED), 1);
	assert_int_equal(offer(stage).servers, 1);
	broker_schedule(stage_pool(stage));
	assert_string_equal(peer_heard(server), "");
	let_go(stage);
	assert_string_equal(peer_last_words(server), "");
	stage_free(&stage);
}

/* server_fast_close: servers of sessions are closed although their clients have
 * them. */
static void session_that_was_taken_is_told_nothing(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_mode=session", "server_fast_close = 1\n");
	struct peer *client, *server;

	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
	assert_int_equal(offer(stage).servers, 1);
	pool_mark_dirty(stage_pool(stage));
	assert_string_equal(peer_heard(server), "");
	assert_string_equal(peer_heard(client), "");
	let_go(stage);
	assert_string_equal(peer_last_words(server), "");
	assert_string_equal(peer_last_words(client), "");
	stage_free(&stage);
}

/* ---- ids ---- */

/* Texts made after an online restart have names that the old process does not use, even
 * if it makes a few more meanwhile. */
static void texts_are_numbered_apart(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct site *site = &stage->site;
	const struct record_origin origin = {.last_text = 500, .last_sql_text = 7};
	struct err err;
	struct handoff *handoff = handoff_new(site, &origin, &err);

	assert_non_null(handoff);
	handoff_free(&handoff);
	assert_true(prepared_registry_last(site->prepared) >= 500 + 1000);
	assert_true(prepared_registry_last(site->sql_prepared) >= 7 + 1000);
	stage_free(&stage);
}

/* ---- cancel requests ---- */

static struct buf passed; /* the last cancel request that was forwarded */

static bool pass_cancel(struct client *carrier, const uint8_t *packet, size_t len)
{
	(void)carrier;
	buf_clear(&passed);
	buf_put(&passed, packet, len);
	return true;
}

static const struct process_verbs passing_verbs = {.may_pass_cancel = pass_cancel};

/* The cancel request is for a client that is on its way to another process. */
static struct stage *offered_and_cancelled(
    struct peer **waiter, struct peer **carrier, struct buf *request)
{
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *holder, *server;

	stage->site.verbs = &passing_verbs;
	stage_pair(stage, &holder, &server);
	*waiter = login(stage);
	begin(holder, server);
	wait_for_server(stage, *waiter);
	assert_int_equal(offer(stage).clients, 2);
	buf_init(request, 0);
	codec_put_cancel_request(request, (*waiter)->key, (*waiter)->key_len);
	*carrier = stage_client(stage);
	peer_send(*carrier, request->bytes, request->len);
	assert_string_equal(peer_heard(*waiter), "");
	assert_false((*carrier)->has_ended);
	return stage;
}

static void cancel_of_who_was_taken_is_passed_on(void **state)
{
	(void)state;
	struct peer *waiter, *carrier;
	struct buf request;
	struct stage *stage = offered_and_cancelled(&waiter, &carrier, &request);

	buf_init(&passed, 0);
	let_go(stage);
	assert_string_equal(peer_last_words(waiter), "");
	assert_string_equal(peer_last_words(carrier), "");
	assert_int_equal(passed.len, request.len);
	assert_memory_equal(passed.bytes, request.bytes, request.len);
	buf_done(&passed);
	buf_done(&request);
	stage_free(&stage);
}

static void cancel_of_who_was_not_taken_works_afterwards(void **state)
{
	(void)state;
	struct peer *waiter, *carrier;
	struct buf request;
	struct stage *stage = offered_and_cancelled(&waiter, &carrier, &request);

	go_on(stage);
	assert_string_equal(peer_hear(waiter, 'Z'),
	    "E:ERROR:canceling statement due to user request Z:I");
	assert_string_equal(peer_last_words(carrier), "");
	buf_done(&request);
	stage_free(&stage);
}

/* What a client's BEGIN has begun at the pooler goes along. */
static void deferred_begin_goes_along(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "defer_begin = 1\n");
	struct peer *client, *server;

	stage_pair(stage, &client, &server);
	peer_text(client, 'Q', "begin");
	peer_hear(client, 'Z');
	assert_int_equal(offer(stage).clients, 1);
	go_on(stage);
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(deferred_begin_goes_along),
	    cmocka_unit_test(who_was_taken_gets_no_server),
	    cmocka_unit_test(who_was_taken_is_not_refused),
	    cmocka_unit_test(who_was_not_taken_is_refused_afterwards),
	    cmocka_unit_test(server_that_was_taken_is_told_nothing),
	    cmocka_unit_test(server_to_be_checked_is_told_nothing),
	    cmocka_unit_test(session_that_was_taken_is_told_nothing),
	    cmocka_unit_test(cancel_of_who_was_taken_is_passed_on),
	    cmocka_unit_test(cancel_of_who_was_not_taken_works_afterwards),
	    cmocka_unit_test(texts_are_numbered_apart),
	};
	return stage_run_twice(tests);
}
