/*
 * session_state=keep: when the numbers of sequences in a server's session are
 * discarded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"
#include "relay/sequences.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define KEEP     "session_state = keep\n"
#define READS    "select currval('s')"
#define DISCARDS "Q:DISCARD SEQUENCES;"

static struct peer *client, *other, *server;
static bool has_question, has_called;

/* Two clients share one server, which both have used if wanted. */
static struct stage *begin(const char *settings, bool is_shared)
{
	struct stage *stage = stage_new("pool_size=1", settings);

	has_question = *settings;
	has_called = false;
	stage_pair(stage, &client, &server);
	other = stage_login(stage, "u", NULL, NULL);
	for (int i = 0; i < 1 + is_shared; i++) {
		struct peer *one = i ? other : client;
		peer_text(one, 'Q', "select 1");
		peer_hear(server, 'Q');
		peer_answer(server, "SELECT 1", 'I');
		peer_hear(one, 'Z');
	}
	return stage;
}

/* The client runs this, and the server hears the two texts. */
static void runs(struct peer *one, const char *sql, bool is_discarded, char status)
{
	peer_text(one, 'Q', sql);
	if (is_discarded) {
		assert_string_equal(peer_hear(server, 'Q'), DISCARDS);
		peer_answer(server, "DISCARD SEQUENCES", 'I');
	}
	char expected[64] = "Q:";
	strcat(expected, sql);
	assert_string_equal(peer_hear(server, 'Q'), expected);
	peer_answer(server, "SELECT 1", status);
	/* what the call has left is asked behind it, or behind its transaction */
	has_called |= strstr(sql, "val(") != NULL;
	if (has_question && status == 'I' && has_called) {
		has_called = false;
		peer_hear(server, 'S');
		for (const char *type = "3312"; *type; type++)
			peer_put(server, (uint8_t)*type, "", 0);
		peer_text(server, 'C', "SELECT");
		peer_put(server, '3', "", 0);
		peer_put(server, '3', "", 0);
		peer_ready(server, 'I');
	}
	peer_hear(one, 'Z');
}

static void numbers_of_others_are_discarded(void **state)
{
	(void)state;
	struct stage *stage = begin(KEEP, true);
	runs(client, READS, true, 'I');
	/* nobody has used it since */
	runs(client, READS, false, 'I');
	runs(client, "select 1", false, 'I');
	runs(other, "select 1", false, 'I');
	/* from now on at the begin of the link */
	runs(client, "select 1", true, 'I');
	runs(other, READS, true, 'I');
	stage_free(&stage);
}

static void own_numbers_stay(void **state)
{
	(void)state;
	struct stage *stage = begin(KEEP, false);
	runs(client, READS, false, 'I');
	runs(client, "select lastval()", false, 'I');
	stage_free(&stage);
}

static void numbers_of_the_transaction_stay(void **state)
{
	(void)state;
	struct stage *stage = begin(KEEP, true);
	runs(client, "begin; select 1", false, 'T');
	runs(client, READS, false, 'T');
	runs(client, "commit", false, 'I');
	stage_free(&stage);
}

/* Behind a BEGIN there are none, and a ReadyForQuery with T follows the DISCARD. */
static void begin_alone_makes_none(void **state)
{
	(void)state;
	struct stage *stage = begin(KEEP, true);
	runs(client, "BEGIN", false, 'T');
	peer_text(client, 'Q', READS);
	assert_string_equal(peer_hear(server, 'Q'), DISCARDS);
	peer_answer(server, "DISCARD SEQUENCES", 'T');
	assert_string_equal(peer_hear(server, 'Q'), "Q:" READS);
	peer_answer(server, "SELECT 1", 'T');
	peer_hear(client, 'Z');
	stage_free(&stage);
}

/* A BEGIN that was put off comes behind the DISCARD, too. */
static void begin_that_was_put_off_makes_none(void **state)
{
	(void)state;
	struct stage *stage = begin(KEEP "defer_begin = 1\n", true);
	peer_text(client, 'Q', "begin");
	assert_string_equal(peer_hear(client, 'Z'), "C:BEGIN Z:T");
	peer_text(client, 'Q', READS);
	assert_string_equal(peer_hear(server, 'Q'), DISCARDS);
	peer_answer(server, "DISCARD SEQUENCES", 'I');
	assert_string_equal(peer_hear(server, 'Q'), "P B E:: C:P Q:" READS);
	stage_free(&stage);
}

static void other_settings_discard_nothing(void **state)
{
	(void)state;
	struct stage *stage = begin("", true);
	runs(client, READS, false, 'I');
	stage_free(&stage);
}

static void what_is_a_begin_and_nothing_else(void **state)
{
	static const struct {
		const char *text;
		bool is_begin;
	} cases[] = {{"begin", true}, {"BEGIN;", true}, {"begin read only", true},
	    {"begin; select 1", false}, {"commit", false}, {"", false}, {"beg", false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[64] = {'Q'};
		size_t size = 5 + strlen(cases[i].text) + 1;
		memcpy(bytes + 5, cases[i].text, size - 5);
		struct message m = {
		    .type = 'Q', .bytes = bytes, .have = size, .size = size};
		assert_int_equal(sequences_is_begin(&m), cases[i].is_begin);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_of_others_are_discarded),
	    cmocka_unit_test(own_numbers_stay),
	    cmocka_unit_test(numbers_of_the_transaction_stay),
	    cmocka_unit_test(begin_alone_makes_none),
	    cmocka_unit_test(begin_that_was_put_off_makes_none),
	    cmocka_unit_test(other_settings_discard_nothing),
	    cmocka_unit_test(what_is_a_begin_and_nothing_else),
	};
	return stage_run_twice(tests);
}
