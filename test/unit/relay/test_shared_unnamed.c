/*
 * prepare_unnamed: what is sent to the server in place of an unnamed Parse, and what
 * the client hears, message by message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"
#include "relay/common_texts.h"
#include "wire/prepared.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, expected) \
	assert_string_equal(peer_hear(peer, type), expected)
#define assert_heard(peer, expected) assert_string_equal(peer_heard(peer), expected)

static const char stale[] = "SERROR\0C0A000\0Mstale\0";
static const char bad_value[] = "SERROR\0C22P02\0Mbad value\0";
static const char canceled[] = "SERROR\0C57014\0Mcanceled\0";

static void parse(struct peer *client)
{
	peer_put(client, 'P', "\0select 1\0\0\0", 12);
}

static void use(struct peer *client)
{
	peer_put(client, 'B', "\0\0\0\0\0\0\0\0", 8);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
	peer_put(client, 'S', NULL, 0);
}

static void complete(struct peer *server, char status)
{
	peer_put(server, '2', NULL, 0);
	peer_text(server, 'C', "SELECT 0");
	peer_ready(server, status);
}

/* A client whose text is common and that its server has prepared. */
static struct stage *shared(struct peer **client, struct peer **server)
{
	struct stage *stage = stage_new("pool_size=1", "prepare_unnamed = 2\n");

	stage_pair(stage, client, server);
	parse(*client);
	use(*client);
	assert_hears(*server, 'S', "P B E:: S");
	peer_put(*server, '1', NULL, 0);
	complete(*server, 'I');
	assert_hears(*client, 'Z', "1 2 C:SELECT 0 Z:I");
	parse(*client);
	use(*client);
	assert_hears(*server, 'S', "P B E:: S");
	peer_put(*server, '1', NULL, 0);
	complete(*server, 'I');
	assert_hears(*client, 'Z', "1 2 C:SELECT 0 Z:I");
	assert_int_equal(stage_pool(stage)->stats.saved_parse_count, 0);
	return stage;
}

static void server_gets_no_parse(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	parse(client);
	assert_heard(server, "");
	assert_heard(client, "");
	use(client);
	assert_hears(server, 'S', "B E:: S");
	complete(server, 'I');
	assert_hears(client, 'Z', "1 2 C:SELECT 0 Z:I");
	assert_int_equal(stage_pool(stage)->stats.saved_parse_count, 1);
	assert_int_equal(stage_pool(stage)->stats.repeated_parse_count, 2);
	stage_free(&stage);
}

static void other_clients_are_served_too(void **state)
{
	(void)state;
	struct peer *client, *server, *other;
	struct stage *stage = shared(&client, &server);

	other = stage_login(stage, "u", NULL, NULL);
	assert_non_null(peer_heard(other));
	parse(other);
	use(other);
	assert_hears(server, 'S', "B E:: S");
	complete(server, 'I');
	assert_hears(other, 'Z', "1 2 C:SELECT 0 Z:I");
	stage_free(&stage);
}

static void parse_alone_is_answered_at_sync_and_flush(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	parse(client);
	peer_put(client, 'H', NULL, 0);
	assert_hears(client, '1', "1");
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "H S");
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "Z:I");
	parse(client);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "S");
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 Z:I");
	/* it is still there */
	use(client);
	assert_hears(server, 'S', "B E:: S");
	complete(server, 'I');
	assert_hears(client, 'Z', "2 C:SELECT 0 Z:I");
	stage_free(&stage);
}

/* The client's own Parse is sent, and its answer is the first that the client hears. */
static void stale_statement_is_parsed_by_the_client(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	for (int i = 0; i < 2; i++) {
		parse(client);
		use(client);
		assert_hears(server, 'S', i ? "C:SPGBOUNCER_1 P B E:: S" : "B E:: S");
		if (i)
			break;
		peer_put(server, 'E', stale, sizeof(stale));
		assert_heard(client, "");
		peer_ready(server, 'I');
		assert_hears(server, 'S', "P B E:: S");
		peer_put(server, '1', NULL, 0);
		complete(server, 'I');
		assert_hears(client, 'Z', "1 2 C:SELECT 0 Z:I");
	}
	stage_free(&stage);
}

static void error_of_the_repeated_parse_is_the_clients(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	parse(client);
	use(client);
	assert_hears(server, 'S', "B E:: S");
	peer_put(server, 'E', bad_value, sizeof(bad_value));
	peer_ready(server, 'I');
	assert_hears(server, 'S', "P B E:: S");
	peer_put(server, 'E', stale, sizeof(stale));
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "E:ERROR:stale Z:I");
	stage_free(&stage);
}

static void what_the_client_has_heard_is_not_repeated(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	parse(client);
	use(client);
	assert_hears(server, 'S', "B E:: S");
	peer_put(server, 'N', "SNOTICE\0C00000\0Mnote\0", 22);
	assert_non_null(peer_hear(client, 'N'));
	peer_put(server, 'E', stale, sizeof(stale));
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "E:ERROR:stale Z:I");
	assert_heard(server, "");
	stage_free(&stage);
}

/* The pooler answers a named Parse behind it, too, and that must not run twice. */
static void named_parse_behind_it_ends_the_repetition(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	parse(client);
	peer_put(client, 'P', "n\0select 1\0\0\0", 13);
	assert_hears(client, '1', "1");
	use(client);
	assert_hears(server, 'S', "B E:: S");
	peer_put(server, 'E', stale, sizeof(stale));
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 E:ERROR:stale Z:I");
	assert_heard(server, "");
	stage_free(&stage);
}

static void cancelled_query_is_not_repeated(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	parse(client);
	use(client);
	assert_hears(server, 'S', "B E:: S");
	peer_put(server, 'E', canceled, sizeof(canceled));
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 E:ERROR:canceled Z:I");
	stage_free(&stage);
}

static void begin(struct peer *client, struct peer *server, const char *more)
{
	peer_text(client, 'Q', "begin");
	assert_non_null(peer_hear(server, 'Q'));
	peer_answer(server, "BEGIN", 'T');
	assert_hears(client, 'Z', "C:BEGIN Z:T");
	if (!more)
		return;
	peer_text(client, 'Q', more);
	assert_non_null(peer_hear(server, 'Q'));
	peer_answer(server, "DONE", 'T');
	assert_hears(client, 'Z', "C:DONE Z:T");
}

static void in_a_block_it_is_answered_at_once(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	begin(client, server, "set local statement_timeout = 1");
	parse(client);
	assert_hears(client, '1', "1");
	use(client);
	assert_hears(server, 'S', "B E:: S");
	complete(server, 'T');
	assert_hears(client, 'Z', "2 C:SELECT 0 Z:T");
	stage_free(&stage);
}

/* Nothing is kept of the BEGIN that was its unnamed statement, so that the client may
 * go to another process. */
static void behind_a_deferred_begin_it_is_the_only_statement(void **state)
{
	static const char begin[] = "P\0\0\0\x0d\0begin\0\0\0"
				    "B\0\0\0\x0c\0\0\0\0\0\0\0\0"
				    "E\0\0\0\x09\0\0\0\0\0S\0\0\0\4";

	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	stage_set(stage, "defer_begin", "1");
	peer_send(client, begin, sizeof(begin) - 1);
	assert_hears(client, 'Z', "1 2 C:BEGIN Z:T");
	parse(client);
	assert_hears(client, '1', "1");
	use(client);
	assert_hears(server, 'S', "P B E:: B E:: S");
	peer_put(server, '1', NULL, 0);
	peer_put(server, '2', NULL, 0);
	peer_text(server, 'C', "BEGIN");
	complete(server, 'T');
	assert_hears(client, 'Z', "2 C:SELECT 0 Z:T");
	assert_int_equal(stage->site.unnamed_slab->used, 1);
	stage_free(&stage);
}

static void unusual_transaction_parses_itself(void **state)
{
	(void)state;
	static const char *const texts[] = {"set local role x", "create table t ()",
	    "select set_config('search_path', 'x', true)", "do 'begin end'",
	    "reset role", "savepoint a; set local transform_null_equals = on"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct peer *client, *server;
		struct stage *stage = shared(&client, &server);
		begin(client, server, texts[i]);
		parse(client);
		use(client);
		assert_hears(server, 'S', "P B E:: S");
		stage_free(&stage);
	}
}

static void failed_transaction_parses_itself(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	begin(client, server, NULL);
	peer_text(client, 'Q', "selec");
	assert_non_null(peer_hear(server, 'Q'));
	peer_put(server, 'E', bad_value, sizeof(bad_value));
	peer_ready(server, 'E');
	assert_non_null(peer_hear(client, 'Z'));
	parse(client);
	use(client);
	assert_hears(server, 'S', "P B E:: S");
	stage_free(&stage);
}

static void behind_other_messages_it_parses_itself(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	parse(client);
	use(client);
	parse(client);
	use(client);
	peer_hear(server, 'S');
	assert_hears(server, 'S', "P B E:: S");
	stage_free(&stage);
}

/* A Close and a Query end the statement, although the server's unnamed one is another.
 */
static void closed_statement_is_gone(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	parse(client);
	peer_put(client, 'S', NULL, 0);
	assert_hears(server, 'S', "S");
	peer_ready(server, 'I');
	assert_hears(client, 'Z', "1 Z:I");
	peer_put(client, 'C', "S\0", 2);
	assert_hears(client, '3', "3");
	use(client);
	assert_hears(server, 'S', "C:S B E:: S");
	stage_free(&stage);
}

static void setting_is_read_each_time(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);

	stage_set(stage, "prepare_unnamed", "0");
	parse(client);
	use(client);
	assert_hears(server, 'S', "P B E:: S");
	stage_free(&stage);
}

/* Sends a text again and again, each time as a new unnamed statement. */
static void repeat(struct peer *client, struct peer *server, const char *text)
{
	uint8_t body[64] = {0};

	for (int i = 0; i < 4; i++) {
		memcpy(body + 1, text, strlen(text));
		peer_put(client, 'P', body, strlen(text) + 4);
		use(client);
		assert_hears(server, 'S', "P B E:: S");
		peer_put(server, '1', NULL, 0);
		complete(server, 'I');
		assert_hears(client, 'Z', "1 2 C:SELECT 0 Z:I");
	}
}

/* What the client and its server have goes on to be tracked, but no text is added. */
static void limit_of_0_ends_the_sharing_of_texts(void **state)
{
	static const char *const limits[] = {
	    "max_prepared_statements", "prepare_unnamed", NULL};

	(void)state;
	for (size_t i = 0; limits[i]; i++) {
		struct peer *client, *server;
		struct stage *stage = shared(&client, &server);
		const struct stats *stats = &stage_pool(stage)->stats;
		size_t texts = prepared_registry_count(stage->site.prepared);

		assert_int_equal(texts, 1);
		stage_set(stage, limits[i], "0");
		repeat(client, server, "select 1");
		repeat(client, server, "select 2");
		assert_int_equal(prepared_registry_count(stage->site.prepared), texts);
		assert_int_equal(stats->saved_parse_count, 0);
		stage_free(&stage);
	}
}

static void limit_of_0_of_a_user_keeps_no_texts(void **state)
{
	static const char *const options[] = {
	    "prepare_unnamed=0", "max_prepared_statements=0", NULL};
	char settings[128];

	(void)state;
	for (size_t i = 0; options[i]; i++) {
		struct peer *client, *server;
		struct stage *stage;

		snprintf(settings, sizeof(settings),
		    "prepare_unnamed = 1\n[users]\nu = %s\n", options[i]);
		stage = stage_new("pool_size=1", settings);
		stage_pair(stage, &client, &server);
		repeat(client, server, "select 1");
		assert_int_equal(prepared_registry_count(stage->site.prepared), 0);
		assert_null(stage->site.text_counts);
		stage_free(&stage);
	}
}

/* What counts them has a fixed size: two hashes and a count for each of 4096 texts.
 * Hashes of 32 bits may be equal by chance, about once in a thousand million. */
static void texts_that_do_not_come_again_are_kept_nowhere(void **state)
{
	(void)state;
	enum { TEXTS = 1000 * 1000, BY_CHANCE = 2, MOST = 50 * 1000 };
	struct peer *client, *server;
	struct stage *stage = shared(&client, &server);
	struct node *first = list_first(&stage_pool(stage)->slots[SLOT_IDLE]);
	const struct slab *slab = stage->site.text_counts_slab;
	size_t known = prepared_registry_count(stage->site.prepared), shared_count = 0;
	char text[64];

	assert_non_null(first);
	for (int i = 2; i < TEXTS; i++) {
		int len = snprintf(text, sizeof(text), "select %d", i);
		/* behind the text: its NUL, and no types */
		memset(text + len, 0, 3);
		shared_count +=
		    common_texts_find(
			slot_server(container_of(first, struct slot, node)),
			(const uint8_t *)text, (size_t)len + 3, false) != NULL;
	}
	assert_true(shared_count <= BY_CHANCE);
	assert_true(prepared_registry_count(stage->site.prepared) <= known + BY_CHANCE);
	assert_int_equal(slab->used, 1);
	assert_true(slab->size <= MOST);
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(server_gets_no_parse),
	    cmocka_unit_test(other_clients_are_served_too),
	    cmocka_unit_test(parse_alone_is_answered_at_sync_and_flush),
	    cmocka_unit_test(stale_statement_is_parsed_by_the_client),
	    cmocka_unit_test(error_of_the_repeated_parse_is_the_clients),
	    cmocka_unit_test(what_the_client_has_heard_is_not_repeated),
	    cmocka_unit_test(named_parse_behind_it_ends_the_repetition),
	    cmocka_unit_test(cancelled_query_is_not_repeated),
	    cmocka_unit_test(in_a_block_it_is_answered_at_once),
	    cmocka_unit_test(behind_a_deferred_begin_it_is_the_only_statement),
	    cmocka_unit_test(unusual_transaction_parses_itself),
	    cmocka_unit_test(failed_transaction_parses_itself),
	    cmocka_unit_test(behind_other_messages_it_parses_itself),
	    cmocka_unit_test(closed_statement_is_gone),
	    cmocka_unit_test(setting_is_read_each_time),
	    cmocka_unit_test(limit_of_0_ends_the_sharing_of_texts),
	    cmocka_unit_test(limit_of_0_of_a_user_keeps_no_texts),
	    cmocka_unit_test(texts_that_do_not_come_again_are_kept_nowhere),
	};

	return stage_run_twice(tests);
}
