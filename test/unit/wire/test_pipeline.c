/* The ledger: which request a message answers, case by case.  prop_pipeline tests it
 * with random messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "wire/pipeline.h"

static struct pipeline p;

static int start(void **state)
{
	(void)state;
	pipeline_init(&p);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	pipeline_done(&p);
	return 0;
}

/* Each letter is the type of a client's message; tags count from 1. */
static void owe(const char *types)
{
	for (uint32_t tag = 1; *types; types++, tag++)
		assert_int_equal(
		    pipeline_owe(&p, (uint8_t)*types, OWED_CLIENT, tag), 0);
}

static enum answer reply(char type, struct pipeline_entry *done)
{
	return pipeline_answer(&p, (uint8_t)type, type == 'Z' ? 'I' : 0, done);
}

/* Each letter is the type of a server's message that must be forwarded. */
static void forwards(const char *types)
{
	for (; *types; types++)
		assert_int_equal(reply(*types, NULL), ANSWER_FORWARD);
}

static void swallows(const char *types)
{
	for (; *types; types++)
		assert_int_equal(reply(*types, NULL), ANSWER_SWALLOW);
}

/* Each letter alone would be out of order here. */
static void breaks(const char *types)
{
	for (; *types; types++)
		assert_int_equal(reply(*types, NULL), ANSWER_BROKEN);
}

static void settled(bool is)
{
	assert_int_equal(pipeline_is_settled(&p), is);
}

static void test_simple_query(void **state)
{
	(void)state;
	settled(true);
	owe("Q");
	settled(false);
	forwards("TDDCTCI");
	settled(false);
	forwards("Z");
	settled(true);
	owe("QQ");
	forwards("EZ");
	assert_int_equal(p.syncs, 1);
	forwards("CZ");
	settled(true);
}

static void test_unasked(void **state)
{
	(void)state;
	breaks("ZCDTI123nsGHWdctVRKvxQ");
	forwards("NSA");
	forwards("E"); /* an error before the server closes */
	settled(true);
}

static void test_out_of_order_in_query(void **state)
{
	(void)state;
	owe("Q");
	breaks("Z123nstVdcRKv"); /* ReadyForQuery alone does not answer a Query */
	forwards("E");
	breaks("TDCIGHW");
	forwards("NEZ");
	settled(true);
}

static void test_status_byte(void **state)
{
	(void)state;
	owe("S");
	assert_int_equal(pipeline_answer(&p, 'Z', 'X', NULL), ANSWER_BROKEN);
	assert_int_equal(pipeline_answer(&p, 'Z', 0, NULL), ANSWER_BROKEN);
	assert_int_equal(pipeline_answer(&p, 'Z', 'T', NULL), ANSWER_FORWARD);
}

static void test_extended(void **state)
{
	struct pipeline_entry done;

	(void)state;
	owe("PBDECSPDS");
	breaks("23nCZ");
	assert_int_equal(reply('1', &done), ANSWER_FORWARD);
	assert_int_equal(done.type, 'P');
	assert_int_equal(done.tag, 1);
	forwards("2");
	assert_int_equal(reply('N', &done), ANSWER_FORWARD);
	assert_int_equal(done.type, 0);
	forwards("T");
	breaks("T2Z");
	forwards("DD");
	assert_int_equal(reply('D', &done), ANSWER_FORWARD);
	assert_int_equal(done.type, 0);
	assert_int_equal(reply('s', &done), ANSWER_FORWARD);
	assert_int_equal(done.tag, 4);
	forwards("3");
	assert_int_equal(reply('Z', &done), ANSWER_FORWARD);
	assert_int_equal(done.type, 'S');
	settled(false);
	forwards("1t");
	breaks("tZ");
	forwards("nZ");
	settled(true);
}

static void test_function_call(void **state)
{
	(void)state;
	owe("FF");
	breaks("ZCT");
	forwards("V");
	breaks("VC");
	forwards("ZEZ");
	settled(true);
}

static uint32_t dropped[16];
static unsigned dropped_count;

static void note_drop(void *arg, const struct pipeline_entry *e)
{
	assert_ptr_equal(arg, &p);
	dropped[dropped_count++] = e->tag;
}

static void test_error_skips_to_sync(void **state)
{
	struct pipeline_entry done;

	(void)state;
	dropped_count = 0;
	pipeline_on_drop(&p, note_drop, &p);
	owe("PBQES");
	assert_int_equal(reply('E', &done), ANSWER_FORWARD);
	assert_int_equal(done.tag, 1);
	assert_int_equal(dropped_count, 3);
	assert_int_equal(dropped[2], 4);
	breaks("2C");
	settled(false);
	forwards("Z");
	settled(true);
}

static void test_error_before_sync_was_sent(void **state)
{
	struct pipeline_entry e;

	(void)state;
	dropped_count = 0;
	pipeline_on_drop(&p, note_drop, &p);
	owe("P");
	forwards("E");
	settled(false);
	assert_int_equal(pipeline_owe(&p, 'P', OWED_MADE_UP, 7), 0);
	assert_false(pipeline_next_made_up(&p, &e));
	assert_int_equal(dropped[0], 7);
	owe("BQFcS");
	assert_int_equal(pipeline_count(&p), 1);
	forwards("Z");
	settled(true);
	owe("Q");
	forwards("CZ");
	settled(true);
}

static void test_own_requests(void **state)
{
	(void)state;
	assert_int_equal(pipeline_owe(&p, 'Q', OWED_SELF, 0), 0);
	owe("Q");
	swallows("SCNAEZ");
	forwards("SCZ");
	assert_int_equal(pipeline_owe(&p, 'P', OWED_SELF, 0), 0);
	owe("BS");
	swallows("1");
	forwards("2Z");
	settled(true);
}

static void test_made_up(void **state)
{
	struct pipeline_entry e;

	(void)state;
	assert_false(pipeline_next_made_up(&p, &e));
	owe("B");
	assert_int_equal(pipeline_owe(&p, 'P', OWED_MADE_UP, 5), 0);
	assert_int_equal(pipeline_owe(&p, 'C', OWED_MADE_UP, 6), 0);
	owe("S");
	assert_false(pipeline_next_made_up(&p, &e));
	forwards("2");
	assert_true(pipeline_next_made_up(&p, &e));
	assert_int_equal(e.type, 'P');
	assert_int_equal(e.tag, 5);
	breaks("3Z"); /* the made-up answer is first */
	assert_true(pipeline_next_made_up(&p, &e));
	assert_int_equal(e.tag, 6);
	assert_false(pipeline_next_made_up(&p, &e));
	forwards("Z");
	settled(true);
}

static void test_copy_in(void **state)
{
	(void)state;
	owe("Q");
	forwards("G");
	assert_true(pipeline_is_copy_in(&p));
	breaks("CZDTGHWdc");
	owe("ddHd");
	settled(false);
	owe("c");
	assert_false(pipeline_is_copy_in(&p));
	forwards("CZ");
	settled(true);
}

static void test_copy_in_two_in_one_query(void **state)
{
	(void)state;
	owe("QdcSdc"); /* the client sends all before the server answers */
	forwards("G");
	assert_false(pipeline_is_copy_in(&p));
	forwards("CG");
	assert_false(pipeline_is_copy_in(&p));
	forwards("CZ"); /* the server read the Sync as part of the second COPY */
	settled(true);
}

static void test_copy_in_eats_sync(void **state)
{
	struct pipeline_entry done;

	(void)state;
	owe("PBES");
	forwards("12G");
	assert_int_equal(p.maybes, 1);
	owe("dSdc");
	assert_int_equal(p.maybes, 2);
	owe("S");
	assert_int_equal(reply('C', &done), ANSWER_FORWARD);
	assert_int_equal(done.type, 'E');
	assert_int_equal(done.tag, 3);
	assert_int_equal(pipeline_count(&p), 1);
	forwards("Z");
	settled(true);
}

static void test_copy_fails_before_client_ends(void **state)
{
	(void)state;
	owe("Q");
	forwards("G");
	owe("d");
	forwards("E");
	settled(false);
	forwards("Z");
	assert_false(pipeline_is_copy_in(&p));
	/* messages still on the way to this server are ignored by any other one */
	settled(true);
	owe("dfc");
	settled(true);
}

static void test_copy_left_without_end(void **state)
{
	(void)state;
	owe("Q");
	forwards("GEZ");
	owe("Q"); /* the client saw the error and goes on */
	forwards("CZ");
	settled(true);
}

static void test_late_copy_messages(void **state)
{
	(void)state;
	owe("cfd");
	settled(true);
	owe("QcfS");
	forwards("CZ");
	settled(false);
	forwards("Z");
	settled(true);
}

/* What a client sends without an end must not take all memory. */
static void test_answers_owed_have_a_limit(void **state)
{
	uint32_t count = 0;

	(void)state;
	while (
	    count < UINT32_C(1) << 21 && pipeline_owe(&p, 'P', OWED_CLIENT, count) == 0)
		count++;
	assert_int_equal(count, 1 << 20);
	assert_int_equal(pipeline_count(&p), count);
	forwards("1");
	assert_int_equal(pipeline_owe(&p, 'P', OWED_CLIENT, count), 0);
}

static void waits(const char *types, bool is)
{
	for (; *types; types++)
		assert_int_equal(pipeline_must_wait(&p, (uint8_t)*types), is);
}

static void ask(void)
{
	assert_true(pipeline_must_ask(&p));
	assert_int_equal(pipeline_ask(&p), 0);
	assert_false(pipeline_must_ask(&p));
	settled(false);
}

static void test_failed_copy_with_sync_eaten(void **state)
{
	(void)state;
	owe("ES");
	forwards("G");
	owe("dcS");
	waits("PBDECQF", true);
	waits("SHdcf", false);
	forwards("E");
	waits("PBDECQFS", true);
	waits("Hdcf", false);
	ask();
	forwards("Z");
	swallows("Z3");
	waits("PBDECQFS", false);
	assert_false(pipeline_is_skipping(&p)); /* ended by the second Sync */
	swallows("Z");
	settled(true);
}

static void test_failed_copy_with_sync_read_later(void **state)
{
	(void)state;
	owe("ES");
	forwards("G");
	owe("cS");
	forwards("E");
	ask();
	forwards("Z");   /* one of the client's two ReadyForQuery */
	swallows("Z");   /* any one of the three may be kept back */
	forwards("Z");   /* the client's other one */
	breaks("Z");     /* a fourth is out of order */
	forwards("NSA"); /* these have nothing to do with the pooler's own Sync */
	swallows("3Z");
	settled(true);
}

/* The COPY read all Syncs: PostgreSQL would skip what comes now, and the pooler's own
 * Sync has ended that. */
static void test_failed_copy_then_skipping(void **state)
{
	(void)state;
	owe("ES");
	forwards("G");
	owe("c");
	forwards("E");
	ask();
	swallows("Z3");
	assert_true(pipeline_is_skipping(&p));
	swallows("Z");
	assert_true(pipeline_is_skipping(&p));
	settled(false);
	owe("S");
	assert_false(pipeline_is_skipping(&p));
	forwards("Z");
	settled(true);
}

/* The COPY read no Sync, so PostgreSQL has gone on after it. */
static void test_failed_copy_then_going_on(void **state)
{
	(void)state;
	owe("ES");
	forwards("G");
	owe("c");
	forwards("EZ"); /* before the pooler could send its own Sync */
	ask();
	swallows("Z3");
	assert_false(pipeline_is_skipping(&p));
	owe("PS");
	swallows("Z");
	forwards("1Z");
	settled(true);
}

static void test_failed_copy_then_next_query(void **state)
{
	(void)state;
	owe("QS");
	forwards("G");
	owe("c");
	forwards("E");
	waits("Q", true);
	forwards("Z");
	ask();
	swallows("Z");
	forwards("Z"); /* the additional ReadyForQuery */
	breaks("Z");
	swallows("3Z");
	settled(true);

	owe("QS");
	forwards("G");
	owe("c");
	forwards("EZ");
	ask();
	swallows("Z3"); /* no additional one came */
	waits("Q", false);
	swallows("Z");
	settled(true);
}

/* A client ends a COPY that has not begun yet: the messages behind it must wait. */
static void test_early_end(void **state)
{
	(void)state;
	owe("EScS");
	waits("PBDECQF", true);
	forwards("G");
	waits("PBDECQF", true);
	forwards("C");
	waits("PBDECQF", false);
	forwards("Z");
	settled(true);

	owe("ESc"); /* the Execute was no COPY */
	waits("Q", true);
	forwards("C");
	waits("Q", true);
	forwards("Z");
	waits("Q", false);
	settled(true);
}

/* A COPY without Syncs inside leaves nothing in doubt. */
static void test_known_copy_without_syncs(void **state)
{
	(void)state;
	owe("E");
	forwards("G");
	owe("dcS");
	waits("PBDECQF", false);
	owe("PS");
	forwards("E");
	assert_false(pipeline_must_ask(&p));
	forwards("Z1Z");
	settled(true);
}

/* PostgreSQL closes the connection after two errors. */
static void test_request_within_copy(void **state)
{
	(void)state;
	owe("ESPS");
	forwards("GEE");
	breaks("Z1C");
	settled(false);
	pipeline_done(&p);

	owe("E");
	forwards("G");
	owe("SQ");
	forwards("E");
	breaks("Z");
}

static void test_copy_out(void **state)
{
	(void)state;
	owe("Q");
	breaks("dc");
	forwards("Hdd");
	breaks("CZDTG");
	forwards("c");
	breaks("d");
	forwards("CZ");
	owe("ES");
	forwards("HdEZ");
	settled(true);
}

static void test_copy_both(void **state)
{
	(void)state;
	owe("Q");
	forwards("Wdd");
	assert_true(pipeline_is_copy_in(&p));
	owe("ddc");
	assert_false(pipeline_is_copy_in(&p));
	forwards("dcTDCCZ");
	settled(true);
	owe("Q");
	forwards("Wdc");
	settled(false);
	owe("c");
	forwards("CZ");
	settled(true);
}

/* A walsender answers one Query with several result sets and COPY OUTs, and ends a
 * stream with rows and two CommandCompletes. */
static void test_replication_commands(void **state)
{
	static const char *const answers[] = {
	    "TDCZ",                /* IDENTIFY_SYSTEM, CREATE_REPLICATION_SLOT */
	    "TDCTDDCHNddcTDCCZ",   /* BASE_BACKUP */
	    "TDCTDDCHdcHdcHcTDCCZ" /* BASE_BACKUP of servers before 15 */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		owe("Q");
		forwards(answers[i]);
		settled(true);
	}
	owe("Q"); /* UPLOAD_MANIFEST */
	forwards("G");
	owe("ddc");
	forwards("CZ");
	settled(true);
	owe("Q"); /* START_REPLICATION to the end of a timeline */
	forwards("WddNd");
	breaks("ZHGW123nst");
	forwards("c");
	owe("dc");
	forwards("TDCCZ");
	settled(true);
	owe("Q"); /* START_REPLICATION fails: the client has seen that and goes on */
	forwards("WddEZ");
	settled(true);
	owe("Q");
	forwards("TDCZ");
	settled(true);
}

static void test_second_error(void **state)
{
	(void)state;
	owe("Q");
	forwards("EE");
	owe("ES");
	forwards("Z");
	forwards("EE"); /* a FATAL error follows an ERROR */
	settled(false);
}

static void test_ring_grows_and_shrinks(void **state)
{
	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 1000; i++)
			owe("BE");
		owe("S");
		assert_int_equal(pipeline_count(&p), 2001);
		for (int i = 0; i < 1000; i++)
			forwards("2C");
		forwards("Z");
		assert_null(p.ring);
		owe("Q");
		forwards("CZ");
		assert_true(p.cap <= 16);
	}
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

/* ---- in another process ---- */

/* Rebuilds the ledger from its saved state; the first one is freed. */
static void move(void)
{
	struct pipeline_entry entries[32];
	struct pipeline state = p, moved;
	size_t count = pipeline_count(&p);

	assert_true(count <= 32);
	for (uint32_t i = 0; i < count; i++)
		entries[i] = *pipeline_at(&p, i);
	pipeline_init(&moved);
	assert_int_equal(pipeline_restore(&moved, &state, entries, count), 0);
	pipeline_done(&p);
	p = moved;
}

static void test_restored_in_the_middle(void **state)
{
	(void)state;
	owe("PBDESQ");
	forwards("12T");
	move();
	assert_int_equal(p.syncs, 2);
	forwards("D");
	move();
	forwards("CZT");
	move();
	forwards("DCZ");
	assert_true(pipeline_is_settled(&p));
}

static void test_restored_in_copies_and_errors(void **state)
{
	(void)state;
	owe("Q");
	forwards("G");
	move();
	assert_true(pipeline_is_copy_in(&p));
	owe("ddc");
	move();
	forwards("CZ");
	owe("PBE");
	forwards("1E");
	move();
	assert_true(pipeline_is_skipping(&p));
	owe("S");
	move();
	forwards("Z");
	assert_true(pipeline_is_settled(&p));
}

static void test_impossible_ledgers_are_refused(void **state)
{
	const struct pipeline none = {0}, odd = {.copy = 'x'};
	const struct pipeline_entry bad[] = {{.type = 'x'}, {.type = 'c'},
	    {.type = 'Q', .to = 3}, {.type = 'Q', .maybe = 1},
	    {.type = 'S', .is_early = 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(pipeline_restore(&p, &none, &bad[i], 1), -1);
	assert_int_equal(pipeline_restore(&p, &odd, NULL, 0), -1);
	/* states that belong to an answer, without one or with another one */
	const struct pipeline states[] = {{.copy_open = true}, {.failed_head = true},
	    {.in_answer = true}, {.copy = 'x'}, {.copy = 'G'}};
	const struct pipeline_entry sync = {.type = 'S'};
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		assert_int_equal(pipeline_restore(&p, &states[i], NULL, 0), -1);
	assert_int_equal(pipeline_restore(&p, &states[0], &sync, 1), -1);
	assert_int_equal(pipeline_restore(&p, &states[3], &sync, 1), -1);
	assert_int_equal(pipeline_restore(&p, &states[4], &sync, 1), -1);
	const struct pipeline_entry eaten[] = {
	    {.type = 'Q'}, {.type = 'S', .maybe = 1}};
	assert_int_equal(pipeline_restore(&p, &none, eaten, 2), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_simple_query),
	    CASE(test_unasked),
	    CASE(test_answers_owed_have_a_limit),
	    CASE(test_out_of_order_in_query),
	    CASE(test_status_byte),
	    CASE(test_extended),
	    CASE(test_function_call),
	    CASE(test_error_skips_to_sync),
	    CASE(test_error_before_sync_was_sent),
	    CASE(test_own_requests),
	    CASE(test_made_up),
	    CASE(test_copy_in),
	    CASE(test_copy_in_two_in_one_query),
	    CASE(test_copy_in_eats_sync),
	    CASE(test_copy_fails_before_client_ends),
	    CASE(test_copy_left_without_end),
	    CASE(test_late_copy_messages),
	    CASE(test_failed_copy_with_sync_eaten),
	    CASE(test_failed_copy_with_sync_read_later),
	    CASE(test_failed_copy_then_next_query),
	    CASE(test_failed_copy_then_skipping),
	    CASE(test_failed_copy_then_going_on),
	    CASE(test_early_end),
	    CASE(test_known_copy_without_syncs),
	    CASE(test_request_within_copy),
	    CASE(test_copy_out),
	    CASE(test_copy_both),
	    CASE(test_replication_commands),
	    CASE(test_second_error),
	    CASE(test_ring_grows_and_shrinks),
	    CASE(test_restored_in_the_middle),
	    CASE(test_restored_in_copies_and_errors),
	    CASE(test_impossible_ledgers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
