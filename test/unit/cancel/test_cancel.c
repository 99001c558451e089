/*
 * Cancel requests: which reach a server, which are answered at once, and that none hits
 * another query or is kept for ever.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../stage/stage.h"
#include "net/sock.h"
#include "wire/codec.h"
#include "wire/message.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

static size_t count(struct stage *stage, enum slot_state state)
{
	return stage_pool(stage)->slots[state].count;
}

/* Opens a connection that asks to cancel the query of `of`. */
static struct peer *ask_to_cancel(struct stage *stage, const struct peer *of)
{
	struct peer *peer = stage_client(stage);
	struct buf b;
	buf_init(&b, 0);
	codec_put_cancel_request(&b, of->key, of->key_len);
	peer_send(peer, b.bytes, b.len);
	buf_done(&b);
	return peer;
}

static void begin_query(struct stage *stage, struct peer **client, struct peer **server)
{
	stage_pair(stage, client, server);
	peer_text(*client, 'Q', "select pg_sleep(10)");
	peer_hear(*server, 'Q');
}

static void request_reaches_the_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server, *carrier, *messenger;
	begin_query(stage, &client, &server);
	carrier = ask_to_cancel(stage, client);
	messenger = stage_server(stage);
	stage_settle(stage);
	assert_int_equal(messenger->in.len, 16);
	assert_int_equal(get_u32(messenger->in.bytes + 8), server->number);
	assert_memory_equal(messenger->in.bytes + 12, "key!", 4);
	assert_int_equal(peer_first_packet(messenger), STARTUP_CANCEL);
	assert_false(carrier->has_ended);
	peer_close(messenger);
	assert_string_equal(peer_last_words(carrier), "");
	peer_put(server, 'E', "SERROR\0C57014\0Mcanceling\0", 26);
	peer_ready(server, 'I');
	assert_string_equal(peer_hear(client, 'Z'), "E:ERROR:canceling Z:I");
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

/* A client of protocol 3.2, on a server with the longest possible key. */
static void long_keys_reach_the_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server, *messenger;
	uint8_t key[4 + 256] = {0, 0, 0, 9};
	struct buf b;

	memset(key + 4, 'k', sizeof(key) - 4);
	client = stage_client(stage);
	peer_start(client, "u", "d", NULL, NULL);
	server = stage_server(stage);
	peer_first_packet(server);
	buf_init(&b, 0);
	codec_put_auth(&b, AUTH_REQ_OK, NULL, 0);
	codec_put_backend_key(&b, key, sizeof(key));
	codec_put_ready(&b, 'I');
	peer_send(server, b.bytes, b.len);
	buf_done(&b);
	peer_hear(client, 'Z');
	client = stage_login_version(stage, PROTOCOL_3_2);
	assert_int_equal(client->key_len, 36);
	peer_text(client, 'Q', "select pg_sleep(10)");
	peer_hear(server, 'Q');

	/* neither a part of the key nor the key with more bytes is accepted */
	client->key_len = 35;
	peer_last_words(ask_to_cancel(stage, client));
	client->key_len = 8;
	peer_last_words(ask_to_cancel(stage, client));
	client->key_len = 36;
	client->key[35] ^= 1;
	peer_last_words(ask_to_cancel(stage, client));
	client->key[35] ^= 1;
	ask_to_cancel(stage, client);
	messenger = stage_server(stage);
	stage_settle(stage);
	assert_int_equal(messenger->in.len, 8 + sizeof(key));
	assert_memory_equal(messenger->in.bytes + 8, key, sizeof(key));
	stage_free(&stage);
}

static void key_of_any_length_is_looked_up(void **state)
{
	(void)state;
	static const uint8_t key[4 + 257];
	struct stage *stage = stage_new("", "");
	for (size_t len = 0; len <= sizeof(key); len++) {
		struct peer *peer = stage_client(stage);
		struct buf b;
		buf_init(&b, 0);
		codec_put_cancel_request(&b, key, len);
		peer_send(peer, b.bytes, b.len);
		buf_done(&b);
		assert_string_equal(peer_last_words(peer), "");
	}
	stage_free(&stage);
}

static void unknown_key_is_closed(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	begin_query(stage, &client, &server);
	client->key[7] ^= 1;
	assert_string_equal(peer_last_words(ask_to_cancel(stage, client)), "");
	stage_free(&stage);
}

static void idle_client_has_nothing_to_cancel(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	assert_string_equal(peer_last_words(ask_to_cancel(stage, client)), "");
	stage_free(&stage);
}

static void queued_query_is_answered_at_once(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *server;
	begin_query(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	peer_text(b, 'Q', "of b");
	stage_settle(stage);
	peer_last_words(ask_to_cancel(stage, b));
	assert_string_equal(
	    peer_hear(b, 'Z'), "E:ERROR:canceling statement due to user request Z:I");
	/* extended protocol: everything up to Sync is skipped */
	peer_put(b, 'P', "\0select 1\0\0", 12);
	stage_settle(stage);
	peer_last_words(ask_to_cancel(stage, b));
	peer_put(b, 'E', "\0\0\0\0", 5);
	peer_put(b, 'S', "", 0);
	assert_string_equal(
	    peer_hear(b, 'Z'), "E:ERROR:canceling statement due to user request Z:I");
	assert_string_equal(peer_heard(server), "");
	stage_free(&stage);
}

/* Two clients have different parameters; b's query is held until the SET is
 * answered. */
static void begin_applying(
    struct stage *stage, struct peer **b, struct peer **server, const char *query)
{
	struct peer *a;
	stage_pair(stage, &a, server);
	*b = stage_login(stage, "u", "application_name", "b");
	if (query)
		peer_text(*b, 'Q', query);
	else
		peer_put(*b, 'P', "\0select 1\0\0", 12);
	assert_string_equal(peer_hear(*server, 'Q'), "Q:SET application_name='b';");
}

static void end_applying(struct peer *server)
{
	peer_put(server, 'S', "application_name\0b", 19);
	peer_answer(server, "SET", 'I');
}

static void query_behind_our_set_is_answered_at_once(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *b, *server;
	begin_applying(stage, &b, &server, "of b");
	peer_last_words(ask_to_cancel(stage, b));
	assert_string_equal(
	    peer_hear(b, 'Z'), "E:ERROR:canceling statement due to user request Z:I");
	/* now there is nothing to cancel: the request is not for the next query */
	peer_last_words(ask_to_cancel(stage, b));
	peer_text(b, 'Q', "second of b");
	stage_settle(stage);
	assert_string_equal(peer_heard(server), "");
	end_applying(server);
	assert_string_equal(peer_hear(server, 'Q'), "Q:second of b");
	peer_answer(server, "SELECT 1", 'I');
	assert_string_equal(peer_hear(b, 'Z'), "C:SELECT 1 Z:I");
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

/* The data of a cancelled COPY is not taken for the next query, which is cancelled
 * too. */
static void copy_behind_our_set_is_dropped_whole(void **state)
{
	static const char told[] =
	    "E:ERROR:canceling statement due to user request Z:I";
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *b, *server;
	begin_applying(stage, &b, &server, "copy t from stdin");
	peer_put(b, 'd', "row\n", 4);
	peer_put(b, 'c', "", 0);
	stage_settle(stage);
	peer_last_words(ask_to_cancel(stage, b));
	assert_string_equal(peer_hear(b, 'Z'), told);
	peer_text(b, 'Q', "second of b");
	stage_settle(stage);
	peer_last_words(ask_to_cancel(stage, b));
	assert_string_equal(peer_hear(b, 'Z'), told);
	peer_text(b, 'Q', "third of b");
	end_applying(server);
	assert_string_equal(peer_hear(server, 'Q'), "Q:third of b");
	peer_answer(server, "SELECT 1", 'I');
	assert_string_equal(peer_hear(b, 'Z'), "C:SELECT 1 Z:I");
	stage_free(&stage);
}

/* No client waits for the server any more, so it must be given back. */
static void server_is_given_back_after_a_cancelled_set(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *b, *server;
	begin_applying(stage, &b, &server, NULL);
	peer_last_words(ask_to_cancel(stage, b));
	/* its Sync has not come, and what runs is still the pooler's */
	struct peer *second = ask_to_cancel(stage, b);
	stage_settle(stage);
	assert_true(list_is_empty(&stage->fresh));
	peer_last_words(second);
	end_applying(server);
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	peer_put(b, 'S', "", 0);
	assert_string_equal(
	    peer_hear(b, 'Z'), "E:ERROR:canceling statement due to user request Z:I");
	assert_string_equal(peer_heard(server), "");
	stage_free(&stage);
}

static void cancelled_set_in_session_mode(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1 pool_mode=session", "");
	struct peer *b, *server;
	begin_applying(stage, &b, &server, "of b");
	peer_last_words(ask_to_cancel(stage, b));
	peer_hear(b, 'Z');
	end_applying(server);
	stage_settle(stage);
	assert_string_equal(peer_heard(server), "");
	assert_int_equal(count(stage, SLOT_ACTIVE), 1);
	peer_text(b, 'Q', "second of b");
	assert_string_equal(peer_hear(server, 'Q'), "Q:second of b");
	stage_free(&stage);
}

/* A RESET runs in a transaction, then the pooler's SET, for which the ReadyForQuery of
 * the RESET waits: a request to cancel goes to the server, and its error to the client.
 */
static void our_set_in_a_transaction_is_cancelled(void **state)
{
	static const char cancelled[] = "SERROR\0C57014\0Mno\0";

	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *b, *server, *one, *messenger;
	begin_applying(stage, &b, &server, "begin");
	end_applying(server);
	peer_hear(server, 'Q');
	peer_answer(server, "BEGIN", 'T');
	peer_hear(b, 'Z');
	peer_text(b, 'Q', "set application_name = 'c'");
	peer_hear(server, 'Q');
	peer_put(server, 'S', "application_name\0c", 19);
	peer_answer(server, "SET", 'T');
	peer_hear(b, 'Z');
	peer_text(b, 'Q', "reset application_name");
	peer_hear(server, 'Q');
	peer_put(server, 'S', "application_name\0", 18);
	peer_answer(server, "RESET", 'T');
	peer_hear(server, 'S');
	one = ask_to_cancel(stage, b);
	messenger = stage_server(stage);
	peer_first_packet(messenger);
	peer_close(messenger);
	peer_last_words(one);
	assert_null(strstr(peer_heard(b), "Z"));
	for (const char *type = "3312"; *type; type++)
		peer_put(server, (uint8_t)*type, "", 0);
	peer_put(server, 'E', cancelled, sizeof(cancelled));
	peer_ready(server, 'E');
	assert_string_equal(peer_hear(b, 'Z'), "E:ERROR:no S Z:E");
	peer_text(b, 'Q', "commit");
	assert_string_equal(peer_hear(server, 'Q'), "Q:commit");
	peer_put(server, 'S', "application_name\0b", 19);
	peer_answer(server, "ROLLBACK", 'I');
	assert_string_equal(peer_hear(b, 'Z'), "S C:ROLLBACK Z:I");
	stage_free(&stage);
}

/* The query to cancel ends before the request is sent; the next query of the same
 * client on the same server must not be hit. */
static void later_query_of_the_same_client_is_spared(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1 pool_mode=session", "");
	struct peer *client, *server, *messenger;
	begin_query(stage, &client, &server);
	ask_to_cancel(stage, client);
	struct peer *late = ask_to_cancel(stage, client);
	messenger = stage_server(stage);
	peer_first_packet(messenger);
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
	peer_text(client, 'Q', "second");
	peer_hear(server, 'Q');
	peer_close(messenger);
	assert_string_equal(peer_last_words(late), "");
	stage_settle(stage);
	assert_true(list_is_empty(&stage->fresh));
	stage_free(&stage);
}

static void idle_transaction_has_nothing_to_cancel(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *client, *server;
	begin_query(stage, &client, &server);
	peer_answer(server, "BEGIN", 'T');
	peer_hear(client, 'Z');
	peer_last_words(ask_to_cancel(stage, client));
	assert_true(list_is_empty(&stage->fresh));
	stage_free(&stage);
}

static void server_is_not_lent_while_a_cancel_is_under_way(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *server, *messenger;
	begin_query(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	peer_text(b, 'Q', "of b");
	ask_to_cancel(stage, a);
	messenger = stage_server(stage);
	peer_first_packet(messenger);
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(a, 'Z');
	stage_settle(stage);
	assert_int_equal(count(stage, SLOT_BEING_CANCELED), 1);
	assert_string_equal(peer_heard(server), "");
	peer_close(messenger);
	assert_string_equal(peer_hear(server, 'Q'), "Q:of b");
	stage_free(&stage);
}

/* Some drivers close the cancel connection at once; this server never closes it. */
static void cancel_without_carrier_has_an_end(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "cancel_wait_timeout = 0.05\n");
	struct peer *client, *server, *messenger;
	begin_query(stage, &client, &server);
	struct peer *carrier = ask_to_cancel(stage, client);
	messenger = stage_server(stage);
	peer_first_packet(messenger);
	peer_close(carrier);
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
	assert_int_equal(count(stage, SLOT_BEING_CANCELED), 1);
	peer_last_words(messenger);
	/* the request may still hit any query, so the server is not lent again */
	peer_last_words(server);
	stage_free(&stage);
}

static bool is_cancel(void *arg)
{
	struct stage *stage = arg;
	struct peer *peer;

	list_for (peer, &stage->peers, node)
		if (peer->in.len == 16 && get_u32(peer->in.bytes + 4) == STARTUP_CANCEL)
			return true;
	return false;
}

/* Fills the queue of a unix socket that does not accept. */
static int fill_queue(struct stage *stage, int *fds, int most)
{
	struct sock_options options = {.unix_mode = -1};
	struct sock_target target;
	struct err err;
	int count = 0;

	watch_off(stage->listener);
	listen(stage->listener_fd, 0);
	assert_int_equal(sock_target_unix(&target, stage->back_dir, 5432, &err), 0);
	while (count < most && sock_connect(&target, &options, &fds[count], &err) == 0)
		count++;
	assert_true(count < most);
	assert_int_equal(errno, EAGAIN);
	return count;
}

/* The server gets the request later; it is not lost. */
static void server_that_has_a_full_queue_gets_it_later(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *client, *server, *carrier;
	int fds[8], count;

	begin_query(stage, &client, &server);
	count = fill_queue(stage, fds, 8);
	carrier = ask_to_cancel(stage, client);
	stage_settle(stage);
	assert_false(carrier->has_ended);
	for (int i = 0; i < count; i++)
		close(fds[i]);
	listen(stage->listener_fd, 1000);
	watch_on(stage->listener);
	stage_until(stage, is_cancel, stage);
	stage_free(&stage);
}

/* There are more requests than may be sent at once: the others follow. */
static void waiting_requests_get_their_turn(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *client, *server, *messenger;
	begin_query(stage, &client, &server);
	for (int i = 0; i < 3; i++)
		ask_to_cancel(stage, client);
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->cancels_waiting.count, 2);
	for (int i = 0; i < 3; i++) {
		messenger = stage_server(stage);
		assert_int_equal(peer_first_packet(messenger), STARTUP_CANCEL);
		peer_close(messenger);
	}
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->cancels_waiting.count, 0);
	stage_free(&stage);
}

/* Two requests that end in one turn make room for two. */
static void all_room_is_used(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=2", "");
	struct peer *client, *server, *first, *second;
	begin_query(stage, &client, &server);
	for (int i = 0; i < 7; i++)
		ask_to_cancel(stage, client);
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->cancels_active.count, 3);
	first = stage_server(stage);
	second = stage_server(stage);
	peer_close(first);
	peer_close(second);
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->cancels_active.count, 3);
	assert_int_equal(stage_pool(stage)->cancels_waiting.count, 2);
	stage_free(&stage);
}

static void request_that_waits_ends_with_its_query(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "cancel_wait_timeout = 0\n");
	struct peer *client, *server;
	begin_query(stage, &client, &server);
	ask_to_cancel(stage, client);
	struct peer *late = ask_to_cancel(stage, client);
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->cancels_waiting.count, 1);
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
	assert_string_equal(peer_last_words(late), "");
	assert_int_equal(stage_pool(stage)->cancels_waiting.count, 0);
	stage_free(&stage);
}

static void request_that_waits_ends_with_its_server(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "cancel_wait_timeout = 0\n");
	struct peer *client, *server;
	begin_query(stage, &client, &server);
	ask_to_cancel(stage, client);
	struct peer *late = ask_to_cancel(stage, client);
	stage_settle(stage);
	peer_close(late);
	stage_settle(stage);
	peer_close(server);
	peer_last_words(client);
	stage_settle(stage);
	assert_int_equal(stage_pool(stage)->cancels_waiting.count, 0);
	stage_free(&stage);
}

static void everything_goes_at_an_immediate_shutdown(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "cancel_wait_timeout = 0\n");
	struct peer *client, *server;
	begin_query(stage, &client, &server);
	for (int i = 0; i < 3; i++)
		ask_to_cancel(stage, client);
	stage_settle(stage);
	stage_drop_all(stage);
	stage_turn(stage);
	stage_turn(stage);
	assert_true(stage_is_empty(stage));
	stage_free(&stage);
}

static void killed_pool_takes_its_cancels_along(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "cancel_wait_timeout = 0\n");
	struct peer *client, *server;
	begin_query(stage, &client, &server);
	for (int i = 0; i < 3; i++)
		ask_to_cancel(stage, client);
	stage_settle(stage);
	catalog_kill(stage->site.catalog, NULL, "database removed");
	assert_string_equal(peer_last_words(client), "E:FATAL:database removed");
	stage_settle(stage);
	assert_int_equal(stage->site.server_count, 0);
	assert_int_equal(site_client_count(&stage->site), 0);
	stage_free(&stage);
}

/* The clients are being handed over to another process, which is then given up. */
static void socket_closes_while_its_request_waits(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *client, *server;
	begin_query(stage, &client, &server);
	stage->site.catalog->is_offered = true;
	peer_close(ask_to_cancel(stage, client));
	stage_settle(stage);
	stage->site.catalog->is_offered = false;
	struct node *first = list_first(&stage->site.login_clients);
	assert_non_null(first);
	conn_start(&container_of(first, struct client, site_node)->conn);
	assert_int_equal(peer_first_packet(stage_server(stage)), STARTUP_CANCEL);
	stage_free(&stage);
}

static void hostile_answer_to_a_cancel(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *client, *server, *messenger;
	begin_query(stage, &client, &server);
	struct peer *carrier = ask_to_cancel(stage, client);
	messenger = stage_server(stage);
	peer_first_packet(messenger);
	peer_send(messenger, "Z\0\0\0\0\0\0\0\0", 9);
	peer_last_words(carrier);
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
	assert_int_equal(count(stage, SLOT_IDLE), 1);
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(request_reaches_the_server),
	    cmocka_unit_test(long_keys_reach_the_server),
	    cmocka_unit_test(key_of_any_length_is_looked_up),
	    cmocka_unit_test(unknown_key_is_closed),
	    cmocka_unit_test(query_behind_our_set_is_answered_at_once),
	    cmocka_unit_test(copy_behind_our_set_is_dropped_whole),
	    cmocka_unit_test(server_is_given_back_after_a_cancelled_set),
	    cmocka_unit_test(cancelled_set_in_session_mode),
	    cmocka_unit_test(our_set_in_a_transaction_is_cancelled),
	    cmocka_unit_test(later_query_of_the_same_client_is_spared),
	    cmocka_unit_test(idle_transaction_has_nothing_to_cancel),
	    cmocka_unit_test(idle_client_has_nothing_to_cancel),
	    cmocka_unit_test(queued_query_is_answered_at_once),
	    cmocka_unit_test(server_is_not_lent_while_a_cancel_is_under_way),
	    cmocka_unit_test(server_that_has_a_full_queue_gets_it_later),
	    cmocka_unit_test(cancel_without_carrier_has_an_end),
	    cmocka_unit_test(waiting_requests_get_their_turn),
	    cmocka_unit_test(all_room_is_used),
	    cmocka_unit_test(request_that_waits_ends_with_its_query),
	    cmocka_unit_test(request_that_waits_ends_with_its_server),
	    cmocka_unit_test(everything_goes_at_an_immediate_shutdown),
	    cmocka_unit_test(killed_pool_takes_its_cancels_along),
	    cmocka_unit_test(socket_closes_while_its_request_waits),
	    cmocka_unit_test(hostile_answer_to_a_cancel),
	};
	return stage_run_twice(tests);
}
