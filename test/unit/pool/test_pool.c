/*
 * The decisions of a pool, one rule after the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "pool_fixture.h"

#define TRANSACTION "pool_mode=transaction\nserver_check_query=\n"

/* Database `db` in transaction mode, without checks, plus these settings. */
#define INI(settings) "[databases]\ndb=\n[pgbouncer]\n" TRANSACTION settings

/* Closes all servers and clients, and checks that no memory leaks. */
static void leave(struct fixture *w, struct slot *slots, size_t slot_count,
    struct pool_request *requests, size_t ask_count)
{
	for (size_t i = 0; i < slot_count; i++)
		pool_gone(&slots[i], w->now);
	for (size_t i = 0; i < ask_count; i++)
		pool_part(&requests[i]);
	fixture_done(w);
}
#define LEAVE(w, slots, requests)                                     \
	leave(w, slots, sizeof(slots) / sizeof((slots)[0]), requests, \
	    sizeof(requests) / sizeof((requests)[0]))

static void lends_and_takes_back(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[2];

	(void)state;
	fixture_init(&w, INI("default_pool_size=1\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fixture_join(pool, &requests[0]);
	fixture_join(pool, &requests[1]);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	assert_true(fixture_was_scheduled(&w, pool));
	w.now += 3;
	assert_int_equal(pool_max_wait(pool, w.now), 3);
	struct verdict v = fixture_dial(&w, pool, &slots[0], VERDICT_GRANT);
	assert_ptr_equal(v.request, &requests[0]);
	assert_ptr_equal(v.slot, &slots[0]);
	assert_int_equal(requests[0].state, REQUEST_LINKED);
	assert_int_equal(pool->stats.server_assignment_count, 1);
	assert_int_equal(pool->stats.wait_time_us, 3);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	assert_true(fixture_next(&w, pool, VERDICT_NONE).wake_us == UINT64_MAX);
	v = fixture_give(&w, &slots[0], VERDICT_GRANT);
	assert_ptr_equal(v.request, &requests[1]);
	assert_int_equal(requests[0].state, REQUEST_RESTING);
	v = fixture_give(&w, &slots[0], VERDICT_REST);
	assert_int_equal(v.wake_us, w.now + 600 * (uint64_t)SECOND);
	v = fixture_ask(&w, &requests[0], VERDICT_GRANT);
	assert_ptr_equal(v.slot, &slots[0]);
	pool_gone(&slots[0], w.now);
	assert_int_equal(requests[0].state, REQUEST_RESTING);
	assert_null(requests[0].slot);
	assert_int_equal(pool_server_count(pool), 0);
	LEAVE(&w, slots, requests);
}

/* Fills a pool with n idle servers, the last one at the front. */
static void fill(struct fixture *w, struct pool *pool, struct slot *slots,
    struct pool_request *requests, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fixture_join(pool, &requests[i]);
		fixture_ask(w, &requests[i], VERDICT_WAIT);
		fixture_dial(w, pool, &slots[i], VERDICT_GRANT);
	}
	for (size_t i = 0; i < n; i++) {
		fixture_give(w, &slots[i], VERDICT_REST);
		w->now++;
	}
}

static void last_used_first(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[3];

	(void)state;
	fixture_init(&w, INI(""));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 3);
	assert_ptr_equal(fixture_ask(&w, &requests[0], VERDICT_GRANT).slot, &slots[2]);
	fixture_give(&w, &slots[2], VERDICT_REST);
	fixture_set(&w, "server_round_robin", "1");
	assert_ptr_equal(fixture_ask(&w, &requests[0], VERDICT_GRANT).slot, &slots[2]);
	fixture_give(&w, &slots[2], VERDICT_REST);
	assert_ptr_equal(fixture_ask(&w, &requests[0], VERDICT_GRANT).slot, &slots[1]);
	LEAVE(&w, slots, requests);
}

static void resets_and_checks(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[2];

	(void)state;
	fixture_init(&w, INI("server_reset_query_always=1\nserver_check_delay=0\n"));
	fixture_set(&w, "server_check_query", "select 1");
	struct pool *pool = fixture_pool(&w, "db", "u");
	fixture_join(pool, &requests[0]);
	fixture_join(pool, &requests[1]);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	/* A new server has said that it is ready: its first use needs no check. */
	fixture_dial(&w, pool, &slots[0], VERDICT_GRANT);
	fixture_set(&w, "server_reset_query_always", "0");
	fixture_give(&w, &slots[0], VERDICT_REST);
	fixture_set(&w, "server_reset_query_always", "1");
	assert_int_equal(slots[0].state, SLOT_USED);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_CHECK).slot, &slots[0]);
	/* The client waits for the server that is being tested. */
	fixture_next(&w, pool, VERDICT_NONE);
	assert_ptr_equal(pool_tested(&slots[0], w.now).request, &requests[0]);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	fixture_give(&w, &slots[0], VERDICT_RESET);
	assert_int_equal(slots[0].state, SLOT_TESTED);
	/* After a reset the server is not checked. */
	assert_int_equal(pool_tested(&slots[0], w.now).kind, VERDICT_REST);
	assert_int_equal(slots[0].state, SLOT_USED);
	fixture_next(&w, pool, VERDICT_CHECK);
	/* The client has left: the server is checked again before the next one gets
	 * it. */
	pool_withdraw(&requests[1]);
	assert_int_equal(pool_tested(&slots[0], w.now).kind, VERDICT_REST);
	assert_int_equal(slots[0].state, SLOT_USED);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	/* No check query is configured any more. */
	fixture_set(&w, "server_check_query", "");
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_GRANT).slot, &slots[0]);
	fixture_give(&w, &slots[0], VERDICT_RESET);
	assert_int_equal(pool_tested(&slots[0], w.now).kind, VERDICT_REST);
	assert_int_equal(slots[0].state, SLOT_IDLE);
	fixture_set(&w, "server_reset_query_always", "0");
	fixture_ask(&w, &requests[1], VERDICT_GRANT);
	fixture_set(&w, "pool_mode", "session");
	fixture_give(&w, &slots[0], VERDICT_RESET);
	LEAVE(&w, slots, requests);
}

/* A reset runs once, and not while a cancel request is on its way to the server. */
static void session_state_left_behind_is_reset(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[1];

	(void)state;
	fixture_init(&w, INI(TRANSACTION "server_reset_query=clean\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fixture_join(pool, &requests[0]);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_dial(&w, pool, &slots[0], VERDICT_GRANT);
	slots[0].needs_reset = true;
	slots[0].cancels_in_flight = 1;
	fixture_give(&w, &slots[0], VERDICT_PARK);
	assert_int_equal(pool_cancel_done(&slots[0], w.now).kind, VERDICT_RESET);
	assert_int_equal(pool_tested(&slots[0], w.now).kind, VERDICT_REST);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_give(&w, &slots[0], VERDICT_REST);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	slots[0].needs_reset = true;
	fixture_set(&w, "server_reset_query", "");
	fixture_give(&w, &slots[0], VERDICT_RETIRE);
	LEAVE(&w, slots, requests);
}

/* Who had a session while pool_mode was session leaves nothing to those who share the
 * server from then on, and a session begins with a server that nobody else has used. */
static void another_mode_inherits_no_session_state(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[3];

	(void)state;
	fixture_init(&w, INI(TRANSACTION "server_reset_query=clean\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 3);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_ask(&w, &requests[1], VERDICT_GRANT);
	fixture_set(&w, "pool_mode", "session");
	fixture_next(&w, pool, VERDICT_RETIRE);
	requests[1].slot->cancels_in_flight = 1;
	struct slot *first = requests[0].slot, *second = requests[1].slot;
	fixture_give(&w, second, VERDICT_PARK);
	fixture_set(&w, "pool_mode", "transaction");
	fixture_give(&w, first, VERDICT_RESET);
	assert_int_equal(pool_tested(first, w.now).kind, VERDICT_REST);
	assert_int_equal(pool_cancel_done(second, w.now).kind, VERDICT_RESET);
	assert_int_equal(pool_tested(second, w.now).kind, VERDICT_REST);
	/* Between the other modes nothing changes. */
	fixture_set(&w, "pool_mode", "statement");
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_give(&w, requests[0].slot, VERDICT_REST);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	first = requests[0].slot;
	fixture_set(&w, "pool_mode", "session");
	assert_string_equal(fixture_next(&w, pool, VERDICT_RETIRE).text,
	    "database configuration changed");
	fixture_give(&w, first, VERDICT_RESET);
	assert_int_equal(pool_tested(first, w.now).kind, VERDICT_REST);
	LEAVE(&w, slots, requests);
}

static void session_state_in_force(void **state)
{
	struct fixture w;

	(void)state;
	fixture_init(&w, INI("session_state=clean\n"));
	assert_int_equal(
	    scope_session_state(scope_of_pool(fixture_pool(&w, "db", "u"))),
	    SESSION_STATE_CLEAN);
	fixture_done(&w);
}

static void idle_ones_are_reviewed(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[3];

	(void)state;
	fixture_init(&w, INI("server_idle_timeout=60\nserver_lifetime=300\n"
			     "default_pool_size=3\nmin_pool_size=2\n"));
	fixture_set(&w, "server_check_query", "select 1");
	struct pool *pool = fixture_pool(&w, "db", "u");
	uint64_t start = w.now;
	fill(&w, pool, slots, requests, 3);
	struct verdict v = pool_review(&slots[0], w.now);
	assert_int_equal(v.kind, VERDICT_REST);
	assert_int_equal(v.wake_us, start + 30 * SECOND);
	w.now = v.wake_us;
	v = pool_review(&slots[0], w.now);
	assert_int_equal(slots[0].state, SLOT_USED);
	assert_int_equal(v.wake_us, start + 60 * SECOND);
	w.now = start + 60 * SECOND + 3;
	v = pool_review(&slots[0], w.now);
	assert_int_equal(v.kind, VERDICT_RETIRE);
	assert_string_equal(v.text, "server idle timeout");
	assert_int_equal(pool_server_count(pool), 2);
	assert_ptr_equal(slots[0].pool, pool);
	pool_gone(&slots[0], w.now);
	/* min_pool_size keeps the other servers. */
	assert_int_equal(pool_review(&slots[1], w.now).kind, VERDICT_REST);
	w.now = start + 300 * SECOND;
	v = pool_review(&slots[1], w.now);
	assert_int_equal(v.kind, VERDICT_RETIRE);
	assert_string_equal(v.text, "server lifetime over");
	pool_gone(&slots[1], w.now);
	/* One server is closed per server_lifetime / pool_size. */
	v = pool_review(&slots[2], w.now);
	assert_int_equal(v.kind, VERDICT_REST);
	w.now += 100 * SECOND;
	assert_int_equal(pool_review(&slots[2], w.now).kind, VERDICT_RETIRE);
	assert_int_equal(pool_review(&slots[2], w.now).kind, VERDICT_NONE);
	LEAVE(&w, slots, requests);
}

/* A pool of three with one server, which is over its lifetime and was released. */
static struct pool *with_old_server(struct fixture *w, struct slot slots[2],
    struct pool_request *request, enum verdict_kind kind)
{
	fixture_init(w, INI("server_lifetime=100\ndefault_pool_size=3\n"));
	struct pool *pool = fixture_pool(w, "db", "u");
	fill(w, pool, slots, request, 1);
	fixture_ask(w, request, VERDICT_GRANT);
	w->now += 200 * SECOND;
	fixture_give(w, &slots[0], kind);
	return pool;
}

/* The login of the server that takes its place begins. */
static void open_another(struct fixture *w, struct pool *pool, struct slot *fresh)
{
	assert_true(fixture_was_scheduled(w, pool));
	fixture_next(w, pool, VERDICT_DIAL);
	*fresh = (struct slot){.state = SLOT_NONE};
	pool_dialing(pool, fresh, w->now);
	fixture_next(w, pool, VERDICT_NONE);
}

static void lifetime_replaces_first(void **state)
{
	struct fixture w;
	struct slot slots[2];
	struct pool_request requests[1];

	(void)state;
	struct pool *pool = with_old_server(&w, slots, requests, VERDICT_REST);
	open_another(&w, pool, &slots[1]);
	/* meanwhile the old one goes on serving */
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_give(&w, &slots[0], VERDICT_REST);
	struct verdict v = pool_logged_in(&slots[1], w.now);
	assert_int_equal(v.kind, VERDICT_PREPARE);
	assert_ptr_equal(v.slot, &slots[1]);
	assert_ptr_equal(v.model, &slots[0]);
	fixture_next(&w, pool, VERDICT_NONE);
	assert_int_equal(pool_review(&slots[0], w.now).kind, VERDICT_REST);
	assert_int_equal(pool_tested(&slots[1], w.now).kind, VERDICT_REST);
	v = fixture_next(&w, pool, VERDICT_RETIRE);
	assert_ptr_equal(v.slot, &slots[0]);
	assert_string_equal(v.text, "server lifetime over");
	fixture_next(&w, pool, VERDICT_NONE);
	pool_gone(&slots[0], w.now);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	assert_ptr_equal(requests[0].slot, &slots[1]);
	fixture_give(&w, &slots[1], VERDICT_REST);
	pool_gone(&slots[1], w.now);
	pool_part(&requests[0]);
	fixture_done(&w);
}

static void an_old_server_in_use_closes_at_its_release(void **state)
{
	struct fixture w;
	struct slot slots[2];
	struct pool_request requests[1];

	(void)state;
	struct pool *pool = with_old_server(&w, slots, requests, VERDICT_REST);
	open_another(&w, pool, &slots[1]);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	assert_int_equal(pool_logged_in(&slots[1], w.now).kind, VERDICT_PREPARE);
	assert_int_equal(pool_tested(&slots[1], w.now).kind, VERDICT_REST);
	fixture_next(&w, pool, VERDICT_NONE);
	assert_string_equal(
	    fixture_give(&w, &slots[0], VERDICT_RETIRE).text, "server lifetime over");
	pool_gone(&slots[0], w.now);
	pool_gone(&slots[1], w.now);
	pool_part(&requests[0]);
	fixture_done(&w);
}

/* A client waits for a new server that is checked.  Returns whether the next one may
 * follow at once when that one is lost after so long. */
static bool follows_at_once(uint64_t after_us)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[1];

	fixture_init(&w, INI("server_idle_timeout=5\nserver_check_delay=0\n"
			     "server_check_query=select 1\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fixture_join(pool, &requests[0]);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_DIAL);
	slots[0] = (struct slot){.state = SLOT_NONE};
	pool_dialing(pool, &slots[0], w.now);
	pool_withdraw(&requests[0]);
	assert_int_equal(pool_logged_in(&slots[0], w.now).kind, VERDICT_REST);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_CHECK);
	w.now += after_us;
	pool_abandon(&slots[0], w.now);
	pool_gone(&slots[0], w.now);
	bool is_next = pool_next(pool, w.now).kind == VERDICT_DIAL;
	pool_part(&requests[0]);
	fixture_done(&w);
	return is_next;
}

static void a_check_that_takes_too_long_is_no_failure(void **state)
{
	(void)state;
	assert_false(follows_at_once(SECOND));
	assert_true(follows_at_once(5 * SECOND));
}

/* PostgreSQL may have room for no more: the old one closes, and that is no failure that
 * clients are told. */
static void a_replacement_that_fails_is_no_failure(void **state)
{
	struct fixture w;
	struct slot slots[2];
	struct pool_request requests[1];

	(void)state;
	struct pool *pool = with_old_server(&w, slots, requests, VERDICT_REST);
	open_another(&w, pool, &slots[1]);
	assert_int_equal(pool_logged_in(&slots[1], w.now).kind, VERDICT_PREPARE);
	pool_abandon(&slots[1], w.now);
	assert_int_equal(pool->failure.kind, 0);
	pool_gone(&slots[1], w.now);
	fixture_next(&w, pool, VERDICT_RETIRE);
	pool_gone(&slots[0], w.now);
	pool_part(&requests[0]);
	fixture_done(&w);
	pool = with_old_server(&w, slots, requests, VERDICT_REST);
	open_another(&w, pool, &slots[1]);
	pool_dial_failed(&slots[1], DIAL_LOGIN, "too many clients", "53300", w.now);
	assert_int_equal(pool->failure.kind, 0);
	pool_gone(&slots[1], w.now);
	fixture_next(&w, pool, VERDICT_RETIRE);
	pool_gone(&slots[0], w.now);
	/* the next one can be opened at once, and closes without another one */
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_dial(&w, pool, &slots[0], VERDICT_GRANT);
	fixture_set(&w, "server_lifetime", "10");
	w.now += 20 * SECOND;
	fixture_give(&w, &slots[0], VERDICT_RETIRE);
	pool_gone(&slots[0], w.now);
	pool_part(&requests[0]);
	fixture_done(&w);
}

static void an_old_server_closes_without_another(void **state)
{
	struct fixture w;
	struct slot slots[2];
	struct pool_request requests[1];

	(void)state;
	/* while a pause lasts, as any server at rest */
	struct pool *pool = with_old_server(&w, slots, requests, VERDICT_REST);
	w.c->paused = true;
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_RETIRE).slot, &slots[0]);
	pool_gone(&slots[0], w.now);
	w.c->paused = false;
	fixture_next(&w, pool, VERDICT_NONE);
	/* while connections fail */
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_dial(&w, pool, &slots[0], VERDICT_GRANT);
	w.now += 200 * SECOND;
	pool->failure.kind = FAILURE_LOST;
	fixture_give(&w, &slots[0], VERDICT_RETIRE);
	pool->failure.kind = 0;
	pool_gone(&slots[0], w.now);
	/* when nobody has used it for a minute */
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_dial(&w, pool, &slots[0], VERDICT_GRANT);
	fixture_give(&w, &slots[0], VERDICT_REST);
	w.now += 200 * SECOND;
	assert_int_equal(pool_review(&slots[0], w.now).kind, VERDICT_RETIRE);
	pool_gone(&slots[0], w.now);
	/* when the other one does not come */
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_dial(&w, pool, &slots[0], VERDICT_GRANT);
	w.now += 200 * SECOND;
	fixture_give(&w, &slots[0], VERDICT_REST);
	open_another(&w, pool, &slots[1]);
	w.now += 10 * SECOND;
	assert_int_equal(pool_review(&slots[0], w.now).kind, VERDICT_RETIRE);
	pool_gone(&slots[0], w.now);
	assert_int_equal(pool_logged_in(&slots[1], w.now).kind, VERDICT_REST);
	pool_gone(&slots[1], w.now);
	pool_part(&requests[0]);
	fixture_done(&w);
}

static void lifetime_ends_at_release(void **state)
{
	struct fixture w;
	struct slot slots[2];
	struct pool_request requests[2];

	(void)state;
	fixture_init(&w, INI("server_lifetime=100\ndefault_pool_size=2\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 2);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_ask(&w, &requests[1], VERDICT_GRANT);
	w.now += 200 * SECOND;
	assert_string_equal(
	    fixture_give(&w, &slots[0], VERDICT_RETIRE).text, "server lifetime over");
	fixture_give(&w, &slots[1], VERDICT_REST);
	fixture_set(&w, "server_lifetime", "0");
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_give(&w, &slots[1], VERDICT_RETIRE);
	/* A new server is kept until its first use. */
	pool_gone(&slots[0], w.now);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_DIAL);
	slots[0] = (struct slot){.state = SLOT_NONE};
	pool_dialing(pool, &slots[0], w.now);
	pool_withdraw(&requests[0]);
	assert_int_equal(pool_logged_in(&slots[0], w.now).kind, VERDICT_REST);
	assert_int_equal(pool_review(&slots[0], w.now).kind, VERDICT_REST);
	LEAVE(&w, slots, requests);
}

static void dirty_ones_go(void **state)
{
	struct fixture w;
	struct slot slots[4];
	struct pool_request requests[4];

	(void)state;
	fixture_init(&w, INI("default_pool_size=4\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 3);
	slots[3] = (struct slot){.state = SLOT_NONE};
	pool_dialing(pool, &slots[3], w.now);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_was_scheduled(&w, pool);
	pool_mark_dirty(pool);
	assert_true(fixture_was_scheduled(&w, pool));
	assert_false(pool_has_login_params(pool));
	/* The pool never lends the old servers, even before pool_next has seen them. */
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	assert_string_equal(
	    fixture_next(&w, pool, VERDICT_RETIRE).text, "connect string changed");
	for (int i = 0; i < 2; i++)
		assert_string_equal(fixture_next(&w, pool, VERDICT_RETIRE).text,
		    "database configuration changed");
	fixture_next(&w, pool, VERDICT_DIAL);
	assert_string_equal(
	    fixture_give(&w, &slots[2], VERDICT_RETIRE).text, "close_needed");
	fixture_join(pool, &requests[3]);
	LEAVE(&w, slots, requests);
}

/* pool_size holds also while the login parameters are not valid, for clients that want
 * it and for replication clients. */
static void login_params(void **state)
{
	struct fixture w;
	struct slot slots[2];
	struct pool_request requests[4];

	(void)state;
	fixture_init(&w, INI("default_pool_size=1\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	for (int i = 0; i < 4; i++)
		fixture_join(pool, &requests[i]);
	requests[0].is_logged_in = false;
	assert_int_equal(
	    pool_ask(&requests[0], REQUEST_PARAMS, w.now).kind, VERDICT_WAIT);
	fixture_dial(&w, pool, &slots[0], VERDICT_REST);
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_ADMIT).request, &requests[0]);
	fixture_next(&w, pool, VERDICT_NONE);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_NONE);
	pool_mark_dirty(pool);
	assert_int_equal(
	    pool_ask(&requests[2], REQUEST_PARAMS, w.now).kind, VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_NONE);
	assert_int_equal(
	    pool_ask(&requests[3], REQUEST_REPLICATION, w.now).kind, VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_NONE);
	fixture_give(&w, &slots[0], VERDICT_RETIRE);
	fixture_next(&w, pool, VERDICT_DIAL);
	slots[1] = (struct slot){.state = SLOT_NONE};
	pool_dialing(pool, &slots[1], w.now);
	fixture_next(&w, pool, VERDICT_NONE);
	pool_got_login_params(pool);
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_ADMIT).request, &requests[2]);
	assert_ptr_equal(pool_logged_in(&slots[1], w.now).request, &requests[1]);
	/* The next one is the replication client's turn. */
	fixture_ask(&w, &requests[2], VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_NONE);
	assert_string_equal(
	    fixture_give(&w, &slots[1], VERDICT_RETIRE).text, "evicted");
	assert_true(fixture_next(&w, pool, VERDICT_DIAL).is_replication);
	LEAVE(&w, slots, requests);
}

/* Servers that rest, here or at other workers, are closed for it from then on. */
static void a_replication_client_becomes_the_first(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[3];

	(void)state;
	fixture_init(&w, INI("default_pool_size=1\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 1);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_join(pool, &requests[1]);
	fixture_join(pool, &requests[2]);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	assert_int_equal(
	    pool_ask(&requests[2], REQUEST_REPLICATION, w.now).kind, VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_NONE);
	fixture_was_scheduled(&w, pool);
	fixture_give(&w, &slots[0], VERDICT_GRANT);
	assert_true(fixture_was_scheduled(&w, pool));
	LEAVE(&w, slots, requests);
}

static void paused_pools(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[5];

	(void)state;
	fixture_init(&w, INI(""));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 2);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	for (int i = 2; i < 5; i++)
		fixture_join(pool, &requests[i]);
	fixture_was_scheduled(&w, pool);
	pool->database->paused = true;
	catalog_schedule_all(w.c, pool->database);
	assert_true(fixture_was_scheduled(&w, pool));
	fixture_ask(&w, &requests[2], VERDICT_WAIT);
	struct verdict v = fixture_next(&w, pool, VERDICT_RETIRE);
	assert_ptr_equal(v.slot, &slots[0]);
	assert_string_equal(v.text, "pause mode");
	fixture_next(&w, pool, VERDICT_NONE);
	assert_string_equal(
	    fixture_give(&w, &slots[1], VERDICT_RETIRE).text, "pause mode");
	/* The pool opens no server, not for a login either. */
	pool_mark_dirty(pool);
	assert_int_equal(
	    pool_ask(&requests[3], REQUEST_PARAMS, w.now).kind, VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_NONE);
	pool_got_login_params(pool);
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_ADMIT).request, &requests[3]);
	pool->database->paused = false;
	fixture_next(&w, pool, VERDICT_DIAL);
	slots[2] = (struct slot){.state = SLOT_NONE};
	pool_dialing(pool, &slots[2], w.now);
	w.c->paused = true;
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_RETIRE).slot, &slots[2]);
	pool_gone(&slots[2], w.now);
	w.c->paused = false;
	/* A cancelled dial was no failure: the next attempt may follow at once. */
	fixture_dial(&w, pool, &slots[2], VERDICT_GRANT);
	/* The reset runs before the pause. */
	fixture_set(&w, "server_reset_query_always", "1");
	w.c->paused = true;
	fixture_give(&w, &slots[2], VERDICT_RESET);
	v = pool_tested(&slots[2], w.now);
	assert_string_equal(v.text, "pause mode");
	LEAVE(&w, slots, requests);
}

static void shutting_down(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[3];

	(void)state;
	fixture_init(&w, INI("default_pool_size=1\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 1);
	fixture_join(pool, &requests[1]);
	fixture_join(pool, &requests[2]);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	w.c->paused = w.c->refuse_waiting = true;
	assert_string_equal(
	    fixture_ask(&w, &requests[2], VERDICT_REFUSE).text, "server shutting down");
	struct verdict v = fixture_next(&w, pool, VERDICT_REFUSE);
	assert_ptr_equal(v.request, &requests[1]);
	assert_string_equal(v.text, "server shutting down");
	assert_string_equal(v.sqlstate, "57P01");
	assert_int_equal(requests[1].state, REQUEST_RESTING);
	fixture_next(&w, pool, VERDICT_NONE);
	fixture_give(&w, &slots[0], VERDICT_RETIRE);
	LEAVE(&w, slots, requests);
}

/* Another process has taken over, and only there the pause can be ended. */
static void paused_clients_are_sent_away(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[3];

	(void)state;
	fixture_init(&w, INI("default_pool_size=1\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 1);
	fixture_join(pool, &requests[1]);
	fixture_join(pool, &requests[2]);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	catalog_refuse_paused(w.c);
	pool->database->paused = true;
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	catalog_refuse_paused(w.c);
	struct verdict v = fixture_next(&w, pool, VERDICT_REFUSE);
	assert_ptr_equal(v.request, &requests[1]);
	assert_string_equal(v.text, "server shutting down");
	fixture_next(&w, pool, VERDICT_NONE);
	/* those who come later may be moved before the next look */
	fixture_ask(&w, &requests[2], VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_NONE);
	catalog_refuse_paused(w.c);
	fixture_next(&w, pool, VERDICT_REFUSE);
	fixture_next(&w, pool, VERDICT_NONE);
	fixture_give(&w, &slots[0], VERDICT_RETIRE);
	LEAVE(&w, slots, requests);
}

static void queue_has_a_limit(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[5];

	(void)state;
	fixture_init(&w, INI("default_pool_size=1\nmax_waiting_clients=2\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 1);
	for (int i = 1; i < 5; i++)
		fixture_join(pool, &requests[i]);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	fixture_ask(&w, &requests[2], VERDICT_WAIT);
	struct verdict v = fixture_ask(&w, &requests[3], VERDICT_REFUSE);
	assert_true(v.is_full);
	assert_string_equal(
	    v.text, "too many clients are waiting (max_waiting_clients)");
	assert_string_equal(v.sqlstate, "53300");
	assert_int_equal(requests[3].state, REQUEST_RESTING);
	assert_int_equal(pool->waiting.count, 2);
	/* a client that logs in gets the known login parameters and does not wait */
	v = pool_ask(&requests[4], REQUEST_PARAMS, w.now);
	assert_int_equal(v.kind, VERDICT_WAIT);
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_ADMIT).request, &requests[4]);
	fixture_set(&w, "max_waiting_clients", "3");
	fixture_ask(&w, &requests[3], VERDICT_WAIT);
	/* a lower limit does not refuse clients that already wait */
	fixture_set(&w, "max_waiting_clients", "1");
	fixture_next(&w, pool, VERDICT_NONE);
	assert_int_equal(pool->waiting.count, 3);
	assert_true(fixture_ask(&w, &requests[4], VERDICT_REFUSE).is_full);
	fixture_set(&w, "max_waiting_clients", "0");
	fixture_ask(&w, &requests[4], VERDICT_WAIT);
	assert_ptr_equal(
	    fixture_give(&w, &slots[0], VERDICT_GRANT).request, &requests[1]);
	LEAVE(&w, slots, requests);
}

static void failed_dial(struct fixture *w, struct pool *pool, enum dial_failure kind,
    const char *text, const char *sqlstate)
{
	struct slot slot = {.state = SLOT_NONE};

	fixture_next(w, pool, VERDICT_DIAL);
	pool_dialing(pool, &slot, w->now);
	fixture_was_scheduled(w, pool);
	pool_dial_failed(&slot, kind, text, sqlstate, w->now);
	assert_int_equal(slot.state, SLOT_NONE);
	assert_int_equal(pool_server_count(pool), pool_connected_count(pool));
	assert_true(fixture_was_scheduled(w, pool));
	pool_gone(&slot, w->now);
	assert_null(slot.pool);
}

static void retries_are_spaced(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[3];

	(void)state;
	fixture_init(&w, INI("server_login_retry=15\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	for (int i = 0; i < 3; i++)
		fixture_join(pool, &requests[i]);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	uint64_t start = w.now;
	failed_dial(&w, pool, DIAL_NETWORK, "connect failed", NULL);
	w.now += SECOND;
	/* Clients that wait continue to wait; a client that asks now is refused. */
	assert_int_equal(
	    fixture_next(&w, pool, VERDICT_NONE).wake_us, start + 15 * SECOND);
	struct verdict v = fixture_ask(&w, &requests[1], VERDICT_REFUSE);
	assert_string_equal(v.text, "server login has been failing, cached error: "
				    "connect failed (server_login_retry)");
	assert_string_equal(v.sqlstate, "57P03");
	requests[2].is_logged_in = false;
	assert_int_equal(
	    pool_ask(&requests[2], REQUEST_PARAMS, w.now).kind, VERDICT_WAIT);
	w.now = start + 15 * SECOND;
	failed_dial(
	    &w, pool, DIAL_NOT_YET, "the database system is starting up", "57P03");
	fixture_next(&w, pool, VERDICT_NONE);
	pool_withdraw(&requests[0]);
	pool_withdraw(&requests[2]);
	/* No client waits; a client that is refused after server_login_retry makes the
	 * pool try again. */
	w.now += 15 * SECOND;
	fixture_next(&w, pool, VERDICT_NONE);
	fixture_ask(&w, &requests[1], VERDICT_REFUSE);
	fixture_dial(&w, pool, &slots[0], VERDICT_REST);
	fixture_ask(&w, &requests[1], VERDICT_GRANT);
	/* The success ends the failure: clients of a full pool wait again. */
	pool_gone(&slots[0], w.now);
	fixture_ask(&w, &requests[2], VERDICT_WAIT);
	LEAVE(&w, slots, requests);
}

/* Each attempt fails within the turn in which it began. */
static void no_row_of_attempts_in_one_turn(void **state)
{
	struct fixture w;
	struct pool_request requests[1];

	(void)state;
	fixture_init(&w, INI("server_login_retry=0\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fixture_join(pool, &requests[0]);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	failed_dial(&w, pool, DIAL_NETWORK, "connect failed", NULL);
	uint64_t wake_us = fixture_next(&w, pool, VERDICT_NONE).wake_us;
	assert_true(wake_us > w.now && wake_us < w.now + SECOND / 10);
	w.now = wake_us;
	failed_dial(&w, pool, DIAL_NETWORK, "connect failed", NULL);
	fixture_next(&w, pool, VERDICT_NONE);
	pool_part(&requests[0]);
	fixture_done(&w);
}

/* A reset or check query that hangs delays no client while there is room. */
static void tests_that_hang_are_not_awaited(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[2];

	(void)state;
	fixture_init(
	    &w, INI("pool_mode=session\ndefault_pool_size=3\nserver_check_delay=1\n"));
	fixture_set(&w, "server_check_query", "select 1");
	struct pool *pool = fixture_pool(&w, "db", "u");
	for (int i = 0; i < 2; i++)
		fixture_join(pool, &requests[i]);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_dial(&w, pool, &slots[0], VERDICT_GRANT);
	fixture_give(&w, &slots[0], VERDICT_RESET);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	/* The client waits for the reset, but only for a moment. */
	uint64_t wake_us = fixture_next(&w, pool, VERDICT_NONE).wake_us;
	assert_true(wake_us > w.now && wake_us <= w.now + SECOND);
	w.now = wake_us;
	fixture_dial(&w, pool, &slots[1], VERDICT_GRANT);
	fixture_give(&w, &slots[1], VERDICT_RESET);
	assert_int_equal(pool_tested(&slots[1], w.now).kind, VERDICT_REST);
	w.now += 2 * SECOND;
	assert_int_equal(pool_review(&slots[1], w.now).kind, VERDICT_REST);
	assert_int_equal(slots[1].state, SLOT_USED);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	/* One reset hangs already; the check of the other server hangs as well. */
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_CHECK).slot, &slots[1]);
	wake_us = fixture_next(&w, pool, VERDICT_NONE).wake_us;
	assert_true(wake_us > w.now && wake_us <= w.now + SECOND);
	w.now = wake_us;
	fixture_dial(&w, pool, &slots[2], VERDICT_GRANT);
	/* The pool has no room for another server. */
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	assert_true(fixture_next(&w, pool, VERDICT_NONE).wake_us == UINT64_MAX);
	LEAVE(&w, slots, requests);
}

static void login_errors_reach_who_waits(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[2];
	char text[1000];

	(void)state;
	fixture_init(&w, INI(""));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fixture_join(pool, &requests[0]);
	fixture_join(pool, &requests[1]);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	pool_ask(&requests[1], REQUEST_PARAMS, w.now);
	failed_dial(&w, pool, DIAL_LOGIN, "no such role", "28000");
	for (int i = 0; i < 2; i++) {
		struct verdict v = fixture_next(&w, pool, VERDICT_REFUSE);
		assert_ptr_equal(v.request, &requests[i]);
		assert_string_equal(v.text, "no such role");
		assert_string_equal(v.sqlstate, "28000");
	}
	fixture_next(&w, pool, VERDICT_NONE);
	/* A pool with a server and login parameters refuses no client. */
	w.now += 15 * SECOND;
	fixture_ask(&w, &requests[0], VERDICT_REFUSE);
	fixture_dial(&w, pool, &slots[0], VERDICT_REST);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text + 399, "\xc3\xa4", 2); /* this two-byte character must not be cut */
	failed_dial(&w, pool, DIAL_LOGIN, text, "53300");
	fixture_next(&w, pool, VERDICT_NONE);
	pool_gone(&slots[0], w.now);
	pool_withdraw(&requests[1]);
	struct verdict v = fixture_ask(&w, &requests[1], VERDICT_REFUSE);
	assert_true(strlen(v.text) < 480);
	assert_non_null(strstr(v.text, "xxx (server_login_retry)"));
	assert_int_equal(strlen(pool->failure.text), 99);
	LEAVE(&w, slots, requests);
}

static void reserve(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[4];

	(void)state;
	fixture_init(&w, INI("default_pool_size=1\nreserve_pool_size=1\n"
			     "reserve_pool_timeout=5\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 1);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	for (int i = 1; i < 4; i++)
		fixture_join(pool, &requests[i]);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	assert_int_equal(
	    fixture_next(&w, pool, VERDICT_NONE).wake_us, w.now + 5 * SECOND);
	w.now += 5 * SECOND;
	fixture_ask(&w, &requests[2], VERDICT_WAIT);
	struct verdict v = fixture_next(&w, pool, VERDICT_DIAL);
	assert_true(v.is_reserve);
	assert_ptr_equal(
	    fixture_dial(&w, pool, &slots[1], VERDICT_GRANT).request, &requests[1]);
	/* The reserve is used up, so the pool need not look again. */
	assert_true(fixture_next(&w, pool, VERDICT_NONE).wake_us == UINT64_MAX);
	pool_withdraw(&requests[2]);
	fixture_give(&w, &slots[0], VERDICT_REST);
	fixture_give(&w, &slots[1], VERDICT_REST);
	fixture_set(&w, "reserve_pool_size", "0");
	v = fixture_next(&w, pool, VERDICT_RETIRE);
	assert_ptr_equal(v.slot, &slots[0]);
	assert_string_equal(v.text, "too many servers in the pool");
	fixture_next(&w, pool, VERDICT_NONE);
	slots[2] = (struct slot){.state = SLOT_NONE};
	LEAVE(&w, slots, requests);
}

static void room_is_made_and_handed_on(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[5];

	(void)state;
	fixture_init(&w, INI("max_db_connections=2\n"));
	struct pool *a = fixture_pool(&w, "db", "a"), *b = fixture_pool(&w, "db", "b");
	struct pool *c = fixture_pool(&w, "db", "c");
	fill(&w, a, slots, requests, 2);
	fixture_join(b, &requests[2]);
	fixture_join(c, &requests[3]);
	fixture_join(a, &requests[4]);
	fixture_ask(&w, &requests[2], VERDICT_WAIT);
	/* The server of another pool that was idle longest is evicted. */
	struct verdict v = fixture_next(&w, b, VERDICT_RETIRE);
	assert_ptr_equal(v.slot, &slots[0]);
	assert_string_equal(v.text, "evicted");
	pool_gone(&slots[0], w.now);
	fixture_dial(&w, b, &slots[0], VERDICT_GRANT);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	/* No server can be evicted now: both pools are queued, in order. */
	fixture_ask(&w, &requests[3], VERDICT_WAIT);
	fixture_next(&w, c, VERDICT_NONE);
	assert_true(heap_has(&c->part.rooms[CONN_LIMIT_DATABASE]));
	fixture_ask(&w, &requests[4], VERDICT_WAIT);
	fixture_next(&w, a, VERDICT_NONE);
	fixture_was_scheduled(&w, c);
	/* Pool a has a waiting client of its own. */
	assert_ptr_equal(
	    fixture_give(&w, &slots[1], VERDICT_GRANT).request, &requests[4]);
	fixture_was_scheduled(&w, c);
	fixture_give(&w, &slots[1], VERDICT_REST);
	assert_true(fixture_was_scheduled(&w, c));
	assert_ptr_equal(fixture_next(&w, c, VERDICT_RETIRE).slot, &slots[1]);
	pool_gone(&slots[1], w.now);
	fixture_dial(&w, c, &slots[1], VERDICT_GRANT);
	assert_false(heap_has(&c->part.rooms[CONN_LIMIT_DATABASE]));
	/* The next pool in the queue is scheduled when the first needs no room. */
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_next(&w, a, VERDICT_NONE);
	assert_true(heap_has(&a->part.rooms[CONN_LIMIT_DATABASE]));
	fixture_was_scheduled(&w, a);
	fixture_give(&w, &slots[0], VERDICT_REST);
	assert_true(fixture_was_scheduled(&w, a));
	pool_withdraw(&requests[0]);
	fixture_next(&w, a, VERDICT_NONE);
	assert_true(heap_is_empty(&a->database->limit->starving));
	slots[2] = (struct slot){.state = SLOT_NONE};
	LEAVE(&w, slots, requests);
}

/* Two pools share one connection.  The first pool's clients ask again and again. */
static void room_is_shared_by_waiting_time(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[4];

	(void)state;
	fixture_init(&w, INI("max_db_connections=1\n"));
	struct pool *a = fixture_pool(&w, "db", "a"), *b = fixture_pool(&w, "db", "b");
	for (int i = 0; i < 4; i++)
		fixture_join(i < 3 ? a : b, &requests[i]);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_dial(&w, a, &slots[0], VERDICT_GRANT);
	w.now += SECOND;
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	fixture_next(&w, a, VERDICT_NONE);
	w.now += SECOND;
	fixture_ask(&w, &requests[3], VERDICT_WAIT);
	fixture_next(&w, b, VERDICT_NONE);
	w.now += SECOND;
	/* The pool's own client has waited longer. */
	fixture_ask(&w, &requests[2], VERDICT_WAIT);
	assert_ptr_equal(
	    fixture_give(&w, &slots[0], VERDICT_GRANT).request, &requests[1]);
	/* Now the other pool's client has waited longer. */
	fixture_was_scheduled(&w, b);
	struct verdict v = fixture_give(&w, &slots[0], VERDICT_RETIRE);
	assert_string_equal(v.text, "evicted");
	assert_true(fixture_was_scheduled(&w, b));
	/* There is room, but not for the pool whose client came later. */
	fixture_next(&w, a, VERDICT_NONE);
	pool_gone(&slots[0], w.now);
	fixture_next(&w, a, VERDICT_NONE);
	assert_ptr_equal(
	    fixture_dial(&w, b, &slots[0], VERDICT_GRANT).request, &requests[3]);
	w.now += SECOND;
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_give(&w, &slots[0], VERDICT_REST);
	assert_ptr_equal(fixture_next(&w, a, VERDICT_RETIRE).slot, &slots[0]);
	pool_gone(&slots[0], w.now);
	assert_ptr_equal(
	    fixture_dial(&w, a, &slots[0], VERDICT_GRANT).request, &requests[2]);
	LEAVE(&w, slots, requests);
}

static void room_of_users(void **state)
{
	struct fixture w;
	struct slot slots[2];
	struct pool_request requests[3];

	(void)state;
	fixture_init(&w, "[databases]\nx=\ny=\n[users]\nu=max_user_connections=1\n"
			 "[pgbouncer]\n" TRANSACTION);
	struct pool *x = fixture_pool(&w, "x", "u"), *y = fixture_pool(&w, "y", "u");
	fill(&w, x, slots, requests, 1);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_join(y, &requests[1]);
	fixture_join(y, &requests[2]);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	fixture_next(&w, y, VERDICT_NONE);
	assert_true(heap_has(&y->part.rooms[CONN_LIMIT_USER]));
	fixture_was_scheduled(&w, y);
	fixture_give(&w, &slots[0], VERDICT_REST);
	assert_true(fixture_was_scheduled(&w, y));
	assert_ptr_equal(fixture_next(&w, y, VERDICT_RETIRE).slot, &slots[0]);
	fixture_dial(&w, y, &slots[1], VERDICT_GRANT);
	assert_int_equal(y->user->server_count, 1);
	LEAVE(&w, slots, requests);
}

/* min_pool_size opens servers and never evicts any. */
static void least_size(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[1];

	(void)state;
	fixture_init(&w, "[databases]\nx=user=f min_pool_size=2 max_db_connections=9\n"
			 "y=\n[pgbouncer]\nmax_user_connections=3\n" TRANSACTION);
	struct pool *x = fixture_pool(&w, "x", "anyone"),
		    *y = fixture_pool(&w, "y", "f");
	assert_string_equal(x->user->name, "f");
	assert_true(fixture_was_scheduled(&w, x));
	fill(&w, y, slots, requests, 1);
	fixture_dial(&w, x, &slots[1], VERDICT_REST);
	assert_true(fixture_was_scheduled(&w, x));
	fixture_set(&w, "max_user_connections", "2");
	assert_int_equal(fixture_next(&w, x, VERDICT_NONE).wake_us, w.now + SECOND);
	fixture_set(&w, "max_user_connections", "3");
	fixture_dial(&w, x, &slots[2], VERDICT_REST);
	fixture_next(&w, x, VERDICT_NONE);
	/* A pool without clients and without a forced user opens no servers. */
	struct pool *unused = fixture_pool(&w, "y", "other");
	fixture_set(&w, "min_pool_size", "1");
	fixture_next(&w, unused, VERDICT_NONE);
	/* The value 0 is unlimited, and then min_pool_size does not apply. */
	pool_gone(&slots[2], w.now);
	fixture_set(&w, "default_pool_size", "0");
	fixture_next(&w, x, VERDICT_NONE);
	LEAVE(&w, slots, requests);
}

static void cancels(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[2];

	(void)state;
	fixture_init(&w, INI("default_pool_size=1\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 1);
	fixture_join(pool, &requests[1]);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	assert_true(pool_may_dial_cancel(pool));
	slots[1] = slots[2] = (struct slot){.state = SLOT_NONE};
	pool_dialing_cancel(pool, &slots[1], w.now);
	assert_false(pool_may_dial_cancel(pool));
	slots[0].cancels_in_flight = 2;
	fixture_give(&w, &slots[0], VERDICT_PARK);
	assert_int_equal(slots[0].state, SLOT_BEING_CANCELED);
	assert_int_equal(pool_cancel_done(&slots[0], w.now).kind, VERDICT_NONE);
	assert_ptr_equal(pool_cancel_done(&slots[0], w.now).request, &requests[1]);
	pool_gone(&slots[1], w.now);
	assert_int_equal(pool->database->server_count, 1);
	/* The cancel request gets the server that was being opened anyway. */
	pool_dialing(pool, &slots[1], w.now);
	pool_dialing_cancel(pool, &slots[1], w.now);
	assert_int_equal(slots[1].state, SLOT_ACTIVE_CANCEL);
	LEAVE(&w, slots, requests);
}

/* The pool has servers of the reserve, or of the time before the limit was lowered. */
static void one_cancel_may_always_go(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[2];

	(void)state;
	fixture_init(&w, INI("default_pool_size=2\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 2);
	fixture_set(&w, "default_pool_size", "1");
	assert_true(pool_may_dial_cancel(pool));
	slots[2] = (struct slot){.state = SLOT_NONE};
	pool_dialing_cancel(pool, &slots[2], w.now);
	assert_false(pool_may_dial_cancel(pool));
	pool_gone(&slots[2], w.now);
	assert_true(pool_may_dial_cancel(pool));
	catalog_kill(w.c, pool->database, "database removed");
	assert_false(pool_may_dial_cancel(pool));
	assert_null(catalog_durations_of(pool));
	LEAVE(&w, slots, requests);
}

static void replication(void **state)
{
	struct fixture w;
	struct slot slots[3];
	struct pool_request requests[3];

	(void)state;
	fixture_init(&w, INI("default_pool_size=2\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 2);
	fixture_join(pool, &requests[2]);
	assert_int_equal(
	    pool_ask(&requests[2], REQUEST_REPLICATION, w.now).kind, VERDICT_WAIT);
	/* Only one server is closed to make room. */
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_RETIRE).slot, &slots[0]);
	struct verdict v = fixture_next(&w, pool, VERDICT_DIAL);
	assert_true(v.is_replication);
	assert_ptr_equal(v.request, &requests[2]);
	slots[2] = (struct slot){.is_replication = true, .request = v.request};
	pool_dialing(pool, &slots[2], w.now);
	assert_int_equal(requests[2].state, REQUEST_LINKED);
	/* Other clients are served meanwhile. */
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	v = pool_logged_in(&slots[2], w.now);
	assert_int_equal(v.kind, VERDICT_GRANT);
	assert_ptr_equal(v.request, &requests[2]);
	pool_mark_dirty(pool);
	v = fixture_next(&w, pool, VERDICT_RETIRE);
	assert_ptr_equal(v.slot, &slots[2]);
	assert_ptr_equal(v.request, &requests[2]);
	pool_gone(&slots[2], w.now);
	assert_int_equal(requests[2].state, REQUEST_RESTING);
	/* A replication client is told its own login error. */
	pool_gone(&slots[0], w.now);
	pool_gone(&slots[1], w.now);
	pool_ask(&requests[2], REQUEST_REPLICATION, w.now);
	v = fixture_next(&w, pool, VERDICT_DIAL);
	slots[2] = (struct slot){.is_replication = true, .request = v.request};
	pool_dialing(pool, &slots[2], w.now);
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	pool_dial_failed(&slots[2], DIAL_LOGIN, "no", "42501", w.now);
	pool_gone(&slots[2], w.now);
	assert_int_equal(requests[2].state, REQUEST_RESTING);
	v = fixture_next(&w, pool, VERDICT_DIAL);
	assert_false(v.is_replication);
	LEAVE(&w, slots, requests);
}

/* After SUSPEND, a new client is not served before those that have waited. */
static void nobody_overtakes(void **state)
{
	struct fixture w;
	struct slot slots[1];
	struct pool_request requests[2];

	(void)state;
	fixture_init(&w, INI(""));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 1);
	fixture_join(pool, &requests[1]);
	w.c->suspended = true;
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_next(&w, pool, VERDICT_NONE);
	assert_int_equal(slots[0].state, SLOT_IDLE);
	w.c->suspended = false;
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	assert_ptr_equal(fixture_next(&w, pool, VERDICT_GRANT).request, &requests[0]);
	LEAVE(&w, slots, requests);
}

/* A server that a waiting client of its own pool may need is not evicted; when that
 * client leaves, the pools waiting for room are scheduled. */
static void last_seeker_leaves(void **state)
{
	struct fixture w;
	struct slot slots[2];
	struct pool_request requests[3];

	(void)state;
	fixture_init(&w, INI("max_db_connections=2\nserver_check_delay=0\n"));
	struct pool *a = fixture_pool(&w, "db", "a"), *b = fixture_pool(&w, "db", "b");
	fill(&w, a, slots, requests, 2);
	fixture_join(b, &requests[2]);
	fixture_set(&w, "server_check_query", "select 1");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pool_review(&slots[i], w.now).kind, VERDICT_REST);
		assert_int_equal(slots[i].state, SLOT_USED);
	}
	fixture_ask(&w, &requests[0], VERDICT_WAIT);
	fixture_next(&w, a, VERDICT_CHECK);
	fixture_ask(&w, &requests[2], VERDICT_WAIT);
	fixture_next(&w, b, VERDICT_NONE);
	assert_true(heap_has(&b->part.rooms[CONN_LIMIT_DATABASE]));
	fixture_was_scheduled(&w, b);
	pool_withdraw(&requests[0]);
	assert_true(fixture_was_scheduled(&w, b));
	fixture_next(&w, b, VERDICT_RETIRE);
	LEAVE(&w, slots, requests);
}

static void abandoned(void **state)
{
	struct fixture w;
	struct slot slots[2];
	struct pool_request requests[2];

	(void)state;
	fixture_init(&w, INI("default_pool_size=1\n"));
	struct pool *pool = fixture_pool(&w, "db", "u");
	fill(&w, pool, slots, requests, 1);
	fixture_join(pool, &requests[1]);
	fixture_ask(&w, &requests[0], VERDICT_GRANT);
	fixture_ask(&w, &requests[1], VERDICT_WAIT);
	pool_abandon(&slots[0], w.now);
	assert_int_equal(requests[0].state, REQUEST_RESTING);
	assert_int_equal(pool_server_count(pool), 0);
	/* The room is free before the socket is closed. */
	assert_ptr_equal(
	    fixture_dial(&w, pool, &slots[1], VERDICT_GRANT).request, &requests[1]);
	LEAVE(&w, slots, requests);
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(slot_state_shown(SLOT_LOGIN), "new");
	assert_string_equal(slot_state_socket_shown(SLOT_IDLE), "sv_idle");
	assert_string_equal(slot_state_shown(SLOT_BEING_CANCELED), "being_canceled");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lends_and_takes_back),
	    cmocka_unit_test(last_used_first),
	    cmocka_unit_test(resets_and_checks),
	    cmocka_unit_test(session_state_left_behind_is_reset),
	    cmocka_unit_test(another_mode_inherits_no_session_state),
	    cmocka_unit_test(session_state_in_force),
	    cmocka_unit_test(idle_ones_are_reviewed),
	    cmocka_unit_test(lifetime_replaces_first),
	    cmocka_unit_test(an_old_server_in_use_closes_at_its_release),
	    cmocka_unit_test(a_check_that_takes_too_long_is_no_failure),
	    cmocka_unit_test(a_replacement_that_fails_is_no_failure),
	    cmocka_unit_test(an_old_server_closes_without_another),
	    cmocka_unit_test(lifetime_ends_at_release),
	    cmocka_unit_test(dirty_ones_go),
	    cmocka_unit_test(login_params),
	    cmocka_unit_test(paused_pools),
	    cmocka_unit_test(shutting_down),
	    cmocka_unit_test(paused_clients_are_sent_away),
	    cmocka_unit_test(queue_has_a_limit),
	    cmocka_unit_test(retries_are_spaced),
	    cmocka_unit_test(no_row_of_attempts_in_one_turn),
	    cmocka_unit_test(tests_that_hang_are_not_awaited),
	    cmocka_unit_test(login_errors_reach_who_waits),
	    cmocka_unit_test(reserve),
	    cmocka_unit_test(room_is_made_and_handed_on),
	    cmocka_unit_test(room_is_shared_by_waiting_time),
	    cmocka_unit_test(room_of_users),
	    cmocka_unit_test(least_size),
	    cmocka_unit_test(cancels),
	    cmocka_unit_test(one_cancel_may_always_go),
	    cmocka_unit_test(replication),
	    cmocka_unit_test(a_replication_client_becomes_the_first),
	    cmocka_unit_test(nobody_overtakes),
	    cmocka_unit_test(last_seeker_leaves),
	    cmocka_unit_test(abandoned),
	    cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
