/*
 * session_state=keep: LISTEN goes from a client's server to the connection that listens
 * for the pool, and notifications come from there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"
#include "handoff/handoff.h"
#include "handoff/record.h"
#include "pool/pins.h"
#include "relay/listen_hub.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define KEEP "session_state = keep\n"

/* hub: the server of the first client that listens becomes the connection */
static struct peer *client, *hub, *server;
static struct stage *stage;

#define MARKS "pgbouncer_joins"
static char mark[17];

static void put_mark(struct peer *from)
{
	uint8_t body[64] = {0, 0, 0, 9};

	memcpy(body + 4, MARKS, sizeof(MARKS));
	memcpy(body + 4 + sizeof(MARKS), mark, sizeof(mark));
	peer_put(from, 'A', body, 4 + sizeof(MARKS) + sizeof(mark));
}

/* The answer to a command of the pooler's, with a row for a channel or none. */
static void put_command(struct peer *from, const char *channel)
{
	for (const char *type = "3312"; *type; type++)
		peer_put(from, (uint8_t)*type, "", 0);
	if (channel) {
		uint8_t row[64] = {
		    0, 2, 0, 0, 0, 1, 'l', 0, 0, 0, (uint8_t)strlen(channel)};
		memcpy(row + 11, channel, strlen(channel));
		peer_put(from, 'D', row, 11 + strlen(channel));
	}
	peer_text(from, 'C', "SELECT");
	peer_put(from, '3', "", 0);
	peer_put(from, '3', "", 0);
}

static void put_answer(struct peer *from, const char *channel)
{
	put_command(from, channel);
	peer_ready(from, 'I');
}

static void answer(struct peer *from, const char *channel)
{
	peer_hear(from, 'S');
	put_answer(from, channel);
}

static void run(struct peer *one, const char *sql, const char *tag, char status)
{
	peer_text(one, 'Q', sql);
	peer_hear(server, 'Q');
	peer_answer(server, tag, status);
}

/* The connection has sent what it had to send before. */
static void answer_fence(void)
{
	peer_hear(hub, 'S');
	peer_ready(hub, 'I');
	stage_settle(stage);
}

/* The client that listens does it. */
static void run_listening(const char *sql, const char *tag, char status)
{
	peer_text(client, 'Q', sql);
	peer_hear(server, 'Q');
	answer_fence();
	peer_answer(server, tag, status);
}

static void notify(const char *channel, const char *payload)
{
	uint8_t body[64] = {0, 0, 0, 9};
	size_t len = 4;

	memcpy(body + len, channel, strlen(channel) + 1);
	len += strlen(channel) + 1;
	memcpy(body + len, payload, strlen(payload) + 1);
	len += strlen(payload) + 1;
	peer_put(hub, 'A', body, len);
}

/* The client listens to "news", and the pool has another server. */
static void begin_with(const char *entry, const char *settings)
{
	stage = stage_new(entry, settings);
	stage_pair(stage, &client, &hub);
	peer_text(client, 'Q', "listen news");
	peer_hear(hub, 'Q');
	peer_answer(hub, "LISTEN", 'I');
	answer(hub, "news");
	assert_string_equal(peer_hear(client, 'Z'), "C:LISTEN Z:I");
	assert_int_equal(pins_count(stage_pool(stage)), 1);
	peer_text(client, 'Q', "select 1");
	server = stage_ready_server(stage);
	peer_hear(server, 'Q');
	answer_fence();
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
}

static void begin(const char *settings)
{
	begin_with("pool_size=2", settings);
}

/* Another client has sent LISTEN "news", and its server has run it. */
static struct peer *ask_to_listen(void)
{
	struct peer *one = stage_login(stage, "u", NULL, NULL);

	run(one, "listen news", "LISTEN", 'I');
	return one;
}

static void put_note(struct peer *from, const char *payload)
{
	uint8_t body[64] = {0, 0, 0, 9, 'n', 'e', 'w', 's'};

	memcpy(body + 9, payload, strlen(payload) + 1);
	peer_put(from, 'A', body, 9 + strlen(payload) + 1);
}

/* The server of a client that joins sends its mark. */
static void send_mark(void)
{
	static const char notify[] = "NOTIFY " MARKS ",'";
	const uint8_t *at;

	stage_settle(stage);
	at = memmem(server->in.bytes, server->in.len, notify, strlen(notify));
	assert_non_null(at);
	memcpy(mark, at + strlen(notify), sizeof(mark) - 1);
	peer_hear(server, 'S');
	put_command(server, NULL); /* LISTEN */
	put_command(server, NULL);
	put_mark(server);
	peer_ready(server, 'I');
}

/* The connection sends the mark, too, and these notifications behind it, one digit
 * each; and the server UNLISTENs. */
static void end_joining(const char *last)
{
	send_mark();
	put_mark(hub);
	for (; *last; last++) {
		const char payload[] = {*last, '\0'};
		put_note(hub, payload);
	}
	stage_settle(stage);
	answer(server, NULL); /* UNLISTEN */
	stage_settle(stage);
}

/* Another client listens to this channel, and gets its answer. */
static struct peer *join(const char *channel)
{
	struct peer *one = stage_login(stage, "u", NULL, NULL);

	run(one, "listen it", "LISTEN", 'I');
	answer(server, channel);
	peer_hear(hub, 'S');
	/* it is new to the connection, or not */
	if (strcmp(channel, "news") != 0)
		put_command(hub, NULL);
	put_answer(hub, NULL); /* LISTEN to marks */
	end_joining("");
	answer(hub, NULL); /* UNLISTEN */
	assert_string_equal(peer_hear(one, 'Z'), "C:LISTEN Z:I");
	return one;
}

static void notifications_reach_all_who_listen(void **state)
{
	(void)state;
	begin(KEEP);
	struct peer *same = join("news"), *other = join("more");
	notify("news", "1");
	notify("more", "2");
	notify("nobody", "3");
	notify("news", "4");
	assert_string_equal(peer_hear(client, 'A'), "A");
	assert_string_equal(peer_hear(client, 'A'), "A");
	assert_string_equal(peer_hear(same, 'A'), "A");
	assert_string_equal(peer_hear(same, 'A'), "A");
	assert_string_equal(peer_hear(other, 'A'), "A");
	stage_settle(stage);
	assert_string_equal(peer_heard(client), "");
	assert_string_equal(peer_heard(other), "");
	assert_int_equal(pins_count(stage_pool(stage)), 1);
	stage_free(&stage);
}

static void they_wait_for_the_end_of_the_transaction(void **state)
{
	(void)state;
	begin(KEEP);
	run_listening("begin", "BEGIN", 'T');
	peer_hear(client, 'Z');
	notify("news", "1");
	stage_settle(stage);
	assert_string_equal(peer_heard(client), "");
	run_listening("commit", "COMMIT", 'I');
	peer_hear(client, 'A');
	stage_free(&stage);
}

static void connection_ends_with_the_last_who_listens(void **state)
{
	(void)state;
	begin(KEEP);
	struct peer *other = join("news");
	run_listening("unlisten news", "UNLISTEN", 'I');
	answer(server, NULL);
	peer_hear(client, 'Z');
	notify("news", "1");
	peer_hear(other, 'A');
	assert_string_equal(peer_heard(client), "");
	peer_close(other);
	assert_string_equal(peer_last_words(hub), "X");
	assert_int_equal(pins_count(stage_pool(stage)), 0);
	stage_free(&stage);
}

/* The last client that listens, which has another worker, leaves, and in the same turn
 * the server of the next one tells what it listens to. */
static void connection_begins_while_the_one_before_it_ends(void **state)
{
	static const char key[] = "d\0u";
	struct listen_message *m =
	    listen_table_message(key, sizeof(key), NULL, "news", sizeof("news"));

	(void)state;
	begin_with("pool_size=3 max_pinned_servers=2", KEEP);
	m->hub_id = atomic_load(&stage_pool(stage)->part.whole->listener);
	struct peer *next = ask_to_listen();
	peer_hear(server, 'S');
	listen_hub_drop(&stage->site, m);
	mem_free(m);
	put_answer(server, "more");
	assert_string_equal(peer_hear(next, 'Z'), "C:LISTEN Z:I");
	assert_string_equal(peer_last_words(hub), "X");
	/* the other one listens on, and ends with its last client */
	hub = server;
	notify("more", "1");
	assert_string_equal(peer_hear(next, 'A'), "A");
	assert_int_equal(pins_count(stage_pool(stage)), 1);
	peer_close(next);
	assert_string_equal(peer_last_words(hub), "X");
	assert_int_equal(pins_count(stage_pool(stage)), 0);
	stage_free(&stage);
}

static int count_client(void *ctx, const struct record *record, int fd)
{
	(void)fd;
	*(int *)ctx += record->kind == RECORD_CLIENT;
	return 0;
}

/* Nothing of it is left here: LeakSanitizer would tell. */
static void who_listened_once_goes_to_another_process(void **state)
{
	(void)state;
	struct handoff_counts counts;
	int clients = 0;

	begin(KEEP);
	run_listening("unlisten news", "UNLISTEN", 'I');
	answer(server, NULL);
	peer_hear(client, 'Z');
	stage->site.catalog->suspended = true;
	do {
		handoff_stop(&stage->site, true, &counts);
		stage_turn(stage);
	} while (counts.pending > 0);
	assert_int_equal(handoff_offer(&stage->site, true, count_client, &clients), 0);
	assert_int_equal(clients, 1);
	handoff_let_go(&stage->site);
	stage_free(&stage);
}

static void channel_ends_with_the_last_who_listens_to_it(void **state)
{
	(void)state;
	begin(KEEP);
	struct peer *other = join("more");
	peer_close(other);
	answer(hub, NULL); /* UNLISTEN "more" */
	notify("news", "1");
	peer_hear(client, 'A');
	stage_free(&stage);
}

static void rollback_takes_an_unlisten_back(void **state)
{
	(void)state;
	begin(KEEP);
	run_listening("begin", "BEGIN", 'T');
	peer_hear(client, 'Z');
	run_listening("unlisten *", "UNLISTEN", 'T');
	peer_hear(client, 'Z');
	run_listening("rollback", "ROLLBACK", 'I');
	peer_hear(client, 'Z');
	notify("news", "1");
	peer_hear(client, 'A');
	stage_free(&stage);
}

/* What an error skips ends with its Query. */
static void unlisten_behind_an_error_counts(void **state)
{
	static const char error[] = "SERROR\0C22012\0Mdivision by zero\0";

	(void)state;
	begin(KEEP);
	struct peer *more = join("more"), *news = join("news");
	peer_text(more, 'Q', "select 1/0; unlisten news");
	peer_text(more, 'Q', "select 1");
	peer_text(more, 'Q', "unlisten more");
	peer_hear(server, 'Q');
	answer_fence();
	peer_put(server, 'E', error, sizeof(error));
	peer_ready(server, 'I');
	answer(server, NULL); /* the error may have left something */
	peer_hear(server, 'Q');
	answer_fence();
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(server, 'Q');
	answer_fence();
	peer_answer(server, "UNLISTEN", 'I');
	answer(server, NULL);
	answer(hub, NULL); /* UNLISTEN "more" */
	assert_string_equal(peer_heard(more),
	    "E:ERROR:division by zero Z:I C:SELECT 1 Z:I C:UNLISTEN Z:I");
	peer_text(news, 'Q', "select 1/0; unlisten news");
	peer_hear(server, 'Q');
	answer_fence();
	peer_put(server, 'E', error, sizeof(error));
	peer_ready(server, 'I');
	answer(server, NULL);
	peer_hear(news, 'Z');
	notify("news", "1");
	peer_hear(news, 'A');
	stage_free(&stage);
}

/* It has come before the answers of what was sent before the block. */
static void unlisten_waits_for_the_answers_before_it(void **state)
{
	(void)state;
	begin(KEEP);
	peer_text(client, 'Q', "select 1");
	peer_text(client, 'Q', "begin");
	peer_text(client, 'Q', "unlisten news");
	peer_text(client, 'Q', "notify news");
	peer_text(client, 'Q', "commit");
	peer_hear(server, 'Q');
	assert_string_equal(peer_hear(server, 'Q'), "Q:begin");
	answer_fence();
	assert_null(strstr(peer_heard(server), "Q"));
	peer_answer(server, "SELECT 1", 'I');
	peer_answer(server, "BEGIN", 'T');
	for (int i = 0; i < 3; i++)
		peer_hear(server, 'Q');
	notify("news", "1");
	stage_settle(stage);
	peer_answer(server, "UNLISTEN", 'T');
	peer_answer(server, "NOTIFY", 'T');
	peer_answer(server, "COMMIT", 'I');
	answer_fence();
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	answer(server, NULL);
	for (int i = 0; i < 4; i++)
		assert_null(strstr(peer_hear(client, 'Z'), "A"));
	assert_string_equal(peer_hear(client, 'Z'), "C:COMMIT Z:I");
	stage_free(&stage);
}

/* What is behind it is sent when it is in force. */
static void what_is_behind_an_unlisten_waits(void **state)
{
	(void)state;
	begin(KEEP);
	peer_text(client, 'Q', "unlisten news");
	peer_text(client, 'Q', "notify news");
	assert_string_equal(peer_hear(server, 'Q'), "Q:unlisten news");
	answer_fence();
	assert_string_equal(peer_heard(server), "");
	peer_answer(server, "UNLISTEN", 'I');
	answer(server, NULL);
	assert_string_equal(peer_hear(client, 'Z'), "C:UNLISTEN Z:I");
	assert_string_equal(peer_hear(server, 'Q'), "Q:notify news");
	stage_free(&stage);
}

/* The transaction that is chained takes nothing of it back. */
static void chain_commits_an_unlisten(void **state)
{
	(void)state;
	begin(KEEP);
	struct peer *more = join("more");
	run_listening("begin", "BEGIN", 'T');
	peer_hear(client, 'Z');
	run_listening("notify other", "NOTIFY", 'T');
	peer_hear(client, 'Z');
	run_listening("unlisten news", "UNLISTEN", 'T');
	peer_hear(client, 'Z');
	run_listening("commit and chain", "COMMIT", 'T');
	peer_hear(client, 'Z');
	run_listening("rollback", "ROLLBACK", 'I');
	answer_fence(); /* it has sent something itself */
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	answer(server, NULL);
	assert_string_equal(peer_hear(client, 'Z'), "C:ROLLBACK Z:I");
	notify("news", "1");
	notify("more", "2");
	peer_hear(more, 'A');
	assert_string_equal(peer_heard(client), "");
	stage_free(&stage);
}

/* It takes back what came before the savepoint, too, and TO SAVEPOINT does not.  COMMIT
 * becomes a ROLLBACK if something has failed. */
static void rollback_and_chain_is_not_to_a_savepoint(void **state)
{
	static const char *const rollbacks[] = {
	    "rollback to chain", "rollback work and chain", "commit and chain"};

	(void)state;
	for (int i = 0; i < 3; i++) {
		begin(KEEP);
		struct peer *more = join("more");
		run_listening("begin", "BEGIN", 'T');
		peer_hear(client, 'Z');
		run_listening("unlisten news", "UNLISTEN", 'T');
		peer_hear(client, 'Z');
		run_listening("savepoint chain", "SAVEPOINT", 'T');
		peer_hear(client, 'Z');
		run_listening(rollbacks[i], "ROLLBACK", 'T');
		peer_hear(client, 'Z');
		run_listening("commit", "COMMIT", 'I');
		answer(server, NULL);
		peer_hear(client, 'Z');
		notify("news", "1");
		notify("more", "2");
		peer_hear(more, 'A');
		assert_string_equal(peer_heard(client), i ? "A" : "");
		stage_free(&stage);
	}
}

/* There is no answer before it, although there is a BEGIN.  If that fails, it is told
 * once, and takes back nothing that comes behind the block. */
static void unlisten_does_not_wait_for_a_begin_that_was_put_off(void **state)
{
	(void)state;
	begin(KEEP "defer_begin = 1\n");
	peer_text(client, 'Q', "begin");
	assert_string_equal(peer_hear(client, 'Z'), "C:BEGIN Z:T");
	peer_text(client, 'Q', "unlisten news");
	assert_string_equal(peer_hear(server, 'Q'), "P B E:: C:P Q:unlisten news");
	answer_fence();
	peer_put(server, 'E', "SERROR\0C57014\0Mcanceled\0", 25);
	assert_string_equal(peer_hear(client, 'Z'), "E:ERROR:canceled Z:E");
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	answer(server, NULL); /* what is left? */
	assert_string_equal(peer_heard(client), "");
	peer_text(client, 'Q', "rollback");
	assert_string_equal(peer_hear(client, 'Z'), "C:ROLLBACK Z:I");
	peer_text(client, 'Q', "unlisten news");
	peer_hear(server, 'Q');
	answer_fence();
	peer_answer(server, "UNLISTEN", 'I');
	answer(server, NULL);
	assert_string_equal(peer_hear(client, 'Z'), "C:UNLISTEN Z:I");
	assert_int_equal(pins_count(stage_pool(stage)), 0);
	stage_free(&stage);
}

static void lost_connection_is_told(void **state)
{
	(void)state;
	begin(KEEP);
	struct peer *other = join("more");
	peer_close(hub);
	assert_non_null(strstr(peer_last_words(client), "E:FATAL:"));
	assert_non_null(strstr(peer_last_words(other), "E:FATAL:"));
	assert_int_equal(pins_count(stage_pool(stage)), 0);
	stage_free(&stage);
}

static void what_is_no_notification_ends_the_connection(void **state)
{
	(void)state;
	begin(KEEP);
	peer_put(hub, 'A', "\0\0\0\1news", 8);
	assert_non_null(strstr(peer_last_words(client), "E:FATAL:"));
	stage_free(&stage);
}

static void queue_has_a_limit(void **state)
{
	(void)state;
	begin(KEEP "listen_queue_limit = 100\n");
	run_listening("begin", "BEGIN", 'T');
	peer_hear(client, 'Z');
	for (int i = 0; i < 10; i++)
		notify("news", "a payload of some bytes");
	assert_non_null(strstr(peer_last_words(client), "E:FATAL:"));
	stage_free(&stage);
}

static void server_changes_clients_when_its_notifications_have_come(void **state)
{
	(void)state;
	begin(KEEP);
	struct peer *one = stage_login(stage, "u", NULL, NULL);
	struct peer *two = stage_login(stage, "u", NULL, NULL);
	for (int i = 0; i < 2; i++) {
		run(one, "notify news", "NOTIFY", 'I');
		assert_string_equal(peer_hear(one, 'Z'), "C:NOTIFY Z:I");
	}
	peer_text(two, 'Q', "select 2");
	peer_hear(hub, 'S');
	stage_settle(stage);
	assert_string_equal(peer_heard(server), "");
	notify("news", "1");
	peer_hear(client, 'A');
	peer_ready(hub, 'I');
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	peer_hear(server, 'Q');
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(two, 'Z');
	/* it has changed nothing */
	run(one, "notify news", "NOTIFY", 'I');
	peer_hear(one, 'Z');
	/* nobody waits any more when the connection has gone */
	peer_text(two, 'Q', "select 3");
	peer_hear(hub, 'S');
	peer_close(hub);
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	peer_hear(server, 'Q');
	stage_free(&stage);
}

/* One has sent a notification, and two waits for the connection that listens. */
static void begin_waiting(struct peer **one, struct peer **two)
{
	begin(KEEP);
	*one = stage_login(stage, "u", NULL, NULL);
	*two = stage_login(stage, "u", NULL, NULL);
	run(*one, "notify news", "NOTIFY", 'I');
	peer_hear(*one, 'Z');
	peer_text(*two, 'Q', "select 2");
	peer_hear(hub, 'S');
}

static void client_leaves_while_it_waits(void **state)
{
	(void)state;
	struct peer *one, *two;
	begin_waiting(&one, &two);
	peer_close(two);
	stage_settle(stage);
	peer_ready(hub, 'I');
	stage_settle(stage);
	peer_text(one, 'Q', "select 3");
	answer_fence();
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	peer_hear(server, 'Q');
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(one, 'Z');
	stage_free(&stage);
}

/* The client has not used the server, and gets another one: it is not told why that one
 * ends. */
static void server_ends_while_its_client_waits(void **state)
{
	static const char words[] = "SFATAL\0C57P01\0Mterminating\0";

	(void)state;
	struct peer *one, *two;
	begin_waiting(&one, &two);
	peer_put(server, 'E', words, sizeof(words));
	stage_settle(stage);
	peer_close(server);
	server = stage_ready_server(stage);
	peer_hear(server, 'Q');
	peer_answer(server, "SELECT 1", 'I');
	assert_string_equal(peer_hear(two, 'Z'), "C:SELECT 1 Z:I");
	stage_free(&stage);
}

/* It has heard these, one digit each, and nothing else. */
static void has_heard(struct peer *one, const char *payloads)
{
	const uint8_t *at = one->in.bytes, *end = at + one->in.len;
	char heard[64] = "";
	size_t count = 0;

	while ((at = memmem(at, (size_t)(end - at), "news", 5))) {
		at += 5;
		heard[count++] = (char)*at;
	}
	assert_string_equal(heard, payloads);
	buf_clear(&one->in);
	stage_free(&stage);
}

/* The connection listens to what a client that joins wants. */
static void answer_hub(void)
{
	peer_ready(hub, 'I');
	stage_settle(stage);
}

/* Another client has sent LISTEN "news", its server has told what it listens to, and
 * the connection is asked. */
static struct peer *begin_joining(void)
{
	begin(KEEP);
	struct peer *one = ask_to_listen();

	answer(server, "news");
	peer_hear(hub, 'S');
	put_command(hub, NULL);
	return one;
}

/* What the connection sends late, and was sent before the client listened: newer ones
 * have come from its own server. */
static void older_notifications_do_not_follow_newer_ones(void **state)
{
	(void)state;
	begin(KEEP);
	struct peer *one = ask_to_listen();

	peer_hear(server, 'S');
	put_note(server, "2");
	put_answer(server, "news");
	peer_hear(hub, 'S');
	put_note(hub, "1");
	put_note(hub, "2");
	put_command(hub, NULL);
	answer_hub();
	end_joining("3");
	has_heard(one, "23");
}

/* The same when the connection sends the old one first. */
static void older_notifications_that_come_first_do_not_follow_either(void **state)
{
	(void)state;
	struct peer *one = begin_joining();

	put_note(hub, "1");
	stage_settle(stage);
	put_note(server, "2");
	stage_settle(stage);
	put_note(hub, "2");
	answer_hub();
	end_joining("");
	has_heard(one, "2");
}

/* They come before the connection has answered, and the server has sent nothing. */
static void older_notifications_are_not_heard(void **state)
{
	(void)state;
	struct peer *one = begin_joining();

	put_note(hub, "1");
	answer_hub();
	end_joining("2");
	has_heard(one, "2");
}

/* The connection has sent what the server has told before it was asked; and the server
 * does not listen any more when it would tell the last one. */
static void what_only_the_connection_sends_is_not_lost(void **state)
{
	(void)state;
	begin(KEEP);
	struct peer *one = ask_to_listen();

	put_note(hub, "1");
	stage_settle(stage);
	peer_hear(server, 'S');
	put_note(server, "1");
	put_answer(server, "news");
	peer_hear(hub, 'S');
	put_command(hub, NULL);
	answer_hub();
	end_joining("2");
	has_heard(one, "12");
}

/* Only their place tells which of them have come from the server. */
static void alike_notifications_are_told_apart(void **state)
{
	(void)state;
	struct peer *one = begin_joining();

	put_note(server, "1");
	put_note(server, "1");
	stage_settle(stage);
	put_note(hub, "1"); /* the second one */
	answer_hub();
	end_joining("11");
	has_heard(one, "1111");
}

/* The server sends more behind the mark, before it UNLISTENs; and the connection is
 * asked until it has sent it. */
static void what_the_server_sends_behind_the_mark_comes_once(void **state)
{
	(void)state;
	struct peer *one = begin_joining();

	answer_hub();
	put_note(server, "1");
	send_mark();
	put_note(server, "2");
	answer(server, NULL); /* UNLISTEN */
	peer_hear(hub, 'S');
	put_note(hub, "1");
	peer_ready(hub, 'I');
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	stage_settle(stage);
	put_mark(hub);
	put_note(hub, "2");
	put_note(hub, "3");
	answer_fence();
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	stage_settle(stage);
	has_heard(one, "123");
}

static void refuse(struct peer *from, const char *state)
{
	char words[] = "SERROR\0C.....\0Mrefused\0";

	memcpy(words + 8, state, 5);
	peer_hear(from, 'S');
	peer_put(from, 'E', words, sizeof(words));
	peer_ready(from, 'I');
	stage_settle(stage);
}

/* A cancel request of the client's last query comes late, and meets the mark, and then
 * the UNLISTEN. */
static void a_mark_that_is_cancelled_is_sent_once_more(void **state)
{
	(void)state;
	struct peer *one = begin_joining();

	answer_hub();
	refuse(server, "57014");
	answer(server, "news");
	send_mark();
	put_mark(hub);
	put_note(hub, "1");
	stage_settle(stage);
	refuse(server, "57014");
	answer(server, "news");
	answer(server, NULL);
	stage_settle(stage);
	has_heard(one, "1");
}

/* As where the queue of notifications is full. */
static void a_mark_that_is_refused_ends_the_client(void **state)
{
	(void)state;
	struct peer *one = begin_joining();

	answer_hub();
	refuse(server, "53200");
	assert_string_equal(peer_hear(one, 'E'),
	    "C:LISTEN E:FATAL:the server did not tell what is left in its session");
	stage_free(&stage);
}

/* The connection is at another server: its client does not wait for ever. */
static void a_mark_that_does_not_come_ends_the_client(void **state)
{
	(void)state;
	struct peer *one = begin_joining();

	answer_hub();
	send_mark();
	answer(server, NULL); /* UNLISTEN */
	for (int i = 0; i < 1000; i++) {
		answer_fence();
		peer_hear(server, 'S');
		peer_ready(server, 'I');
	}
	assert_string_equal(peer_hear(one, 'E'),
	    "C:LISTEN E:FATAL:the connection that listens for the pool does not hear "
	    "this client's server");
	stage_free(&stage);
}

/* It listens already, and once more: the connection tells it, in order. */
static void a_second_listen_brings_nothing_out_of_order(void **state)
{
	(void)state;
	begin(KEEP);
	buf_clear(&client->in);
	run_listening("listen news", "LISTEN", 'I');
	peer_hear(server, 'S');
	put_note(server, "2");
	put_answer(server, "news");
	peer_hear(hub, 'S');
	put_note(hub, "1");
	put_note(hub, "2");
	put_command(hub, NULL);
	answer_hub();
	end_joining("");
	has_heard(client, "12");
}

/* The connection may be the first that sends them, and several. */
static void what_both_send_comes_once(void **state)
{
	(void)state;
	struct peer *one = begin_joining();

	put_note(hub, "1");
	put_note(hub, "2");
	answer_hub();
	put_note(server, "0");
	put_note(server, "1");
	put_note(server, "2");
	end_joining("34");
	has_heard(one, "01234");
}

/* As from PostgreSQL, where the session itself listens. */
static void notifications_come_before_the_end_of_a_query(void **state)
{
	(void)state;
	begin(KEEP);
	peer_text(client, 'Q', "select 1");
	peer_hear(server, 'Q');
	peer_hear(hub, 'S');
	peer_answer(server, "SELECT 1", 'I');
	stage_settle(stage);
	assert_null(strstr(peer_heard(client), "Z"));
	notify("news", "1");
	peer_ready(hub, 'I');
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	assert_string_equal(peer_hear(client, 'Z'), "A Z:I");
	/* its own */
	peer_text(client, 'Q', "notify news");
	peer_hear(server, 'Q');
	answer_fence();
	peer_answer(server, "NOTIFY", 'I');
	peer_hear(hub, 'S');
	notify("news", "2");
	peer_ready(hub, 'I');
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	assert_string_equal(peer_hear(client, 'Z'), "C:NOTIFY A Z:I");
	/* and before the end of UNLISTEN */
	peer_text(client, 'Q', "unlisten news");
	peer_hear(server, 'Q');
	peer_answer(server, "UNLISTEN", 'I');
	peer_hear(hub, 'S');
	notify("news", "3");
	peer_ready(hub, 'I');
	peer_hear(server, 'S');
	peer_ready(server, 'I');
	answer(server, NULL);
	assert_string_equal(peer_hear(client, 'Z'), "C:UNLISTEN A Z:I");
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(notifications_reach_all_who_listen),
	    cmocka_unit_test(they_wait_for_the_end_of_the_transaction),
	    cmocka_unit_test(connection_ends_with_the_last_who_listens),
	    cmocka_unit_test(connection_begins_while_the_one_before_it_ends),
	    cmocka_unit_test(who_listened_once_goes_to_another_process),
	    cmocka_unit_test(channel_ends_with_the_last_who_listens_to_it),
	    cmocka_unit_test(rollback_takes_an_unlisten_back),
	    cmocka_unit_test(unlisten_behind_an_error_counts),
	    cmocka_unit_test(unlisten_waits_for_the_answers_before_it),
	    cmocka_unit_test(what_is_behind_an_unlisten_waits),
	    cmocka_unit_test(chain_commits_an_unlisten),
	    cmocka_unit_test(rollback_and_chain_is_not_to_a_savepoint),
	    cmocka_unit_test(unlisten_does_not_wait_for_a_begin_that_was_put_off),
	    cmocka_unit_test(lost_connection_is_told),
	    cmocka_unit_test(what_is_no_notification_ends_the_connection),
	    cmocka_unit_test(queue_has_a_limit),
	    cmocka_unit_test(server_changes_clients_when_its_notifications_have_come),
	    cmocka_unit_test(client_leaves_while_it_waits),
	    cmocka_unit_test(server_ends_while_its_client_waits),
	    cmocka_unit_test(older_notifications_do_not_follow_newer_ones),
	    cmocka_unit_test(older_notifications_that_come_first_do_not_follow_either),
	    cmocka_unit_test(older_notifications_are_not_heard),
	    cmocka_unit_test(alike_notifications_are_told_apart),
	    cmocka_unit_test(what_the_server_sends_behind_the_mark_comes_once),
	    cmocka_unit_test(what_only_the_connection_sends_is_not_lost),
	    cmocka_unit_test(a_mark_that_is_cancelled_is_sent_once_more),
	    cmocka_unit_test(a_mark_that_is_refused_ends_the_client),
	    cmocka_unit_test(a_mark_that_does_not_come_ends_the_client),
	    cmocka_unit_test(a_second_listen_brings_nothing_out_of_order),
	    cmocka_unit_test(what_both_send_comes_once),
	    cmocka_unit_test(notifications_come_before_the_end_of_a_query),
	};
	return stage_run_twice(tests);
}
