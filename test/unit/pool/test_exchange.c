/*
 * Catalogs of several workers that are one: limits over all of them, servers that
 * change workers, the order of clients, and what workers tell each other.  Notes arrive
 * when the test delivers them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "pool/conn_limits.h"
#include "pool/exchange.h"
#include "pool/hosts.h"
#include "pool/notes.h"
#include "pool/pool_effective.h"
#include "pool_fixture.h"

enum { SITES = 3, SLOTS = 8, REQUESTS = 12, NOTES = 64, MS = 1000 };

static const char ini[] = "[databases]\n"
			  "d =\n"
			  "e =\n"
			  "h = host=a,b,c\n"
			  "r = host=a,b,c load_balance_hosts=random\n"
			  "f = host=a,b,c load_balance_hosts=disable\n"
			  "[pgbouncer]\n"
			  "pool_mode = transaction\n"
			  "server_check_query =\n"
			  "default_pool_size = 2\n";

struct shared_fixture {
	struct fixture sites[SITES];
	struct central *central;
	struct pool *pools[SITES]; /* of database d and user u */
	struct slot slots[SLOTS];
	struct pool_request requests[REQUESTS];
	struct central_note *sent[NOTES]; /* not yet delivered */
	size_t sent_count;
};

static struct shared_fixture shared;

/* ---- events ---- */

static void on_schedule(void *ctx, struct pool *pool)
{
	(void)ctx;
	pool->is_scheduled = true;
}

static void on_kill(void *ctx, struct pool *pool, const char *reason)
{
	(void)ctx, (void)pool, (void)reason;
}

static void on_note(void *ctx, struct central_note *note)
{
	(void)ctx;
	assert_true(shared.sent_count < NOTES);
	shared.sent[shared.sent_count++] = note;
}

static void on_freed(void *ctx, struct pool *pool)
{
	(void)ctx, (void)pool;
}

static const struct catalog_events events = {
    .schedule = on_schedule, .kill = on_kill, .freed = on_freed};

/* ---- the workers ---- */

static int set_up(void **state)
{
	(void)state;
	memset(&shared, 0, sizeof(shared));
	shared.central = central_new(SITES);
	for (unsigned i = 0; i < SITES; i++) {
		struct fixture *w = &shared.sites[i];
		w->now = 100 * SECOND;
		mem_init(&w->mem);
		w->c = catalog_new(&w->mem);
		w->c->events = &events;
		w->c->events_ctx = w;
		catalog_share(w->c, shared.central, i);
		w->c->view.post = on_note;
		fixture_adopt(w, ini, NULL);
		shared.pools[i] = fixture_pool(w, "d", "u");
	}
	return 0;
}

static void forget_notes(void)
{
	while (shared.sent_count > 0) {
		struct central_note *note = shared.sent[--shared.sent_count];
		if (note->pool && note->pool->places[note->worker].part)
			note->pool->places[note->worker].part->is_told = false;
		central_note_free(note);
	}
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < SLOTS; i++)
		pool_gone(&shared.slots[i], shared.sites[0].now);
	for (size_t i = 0; i < REQUESTS; i++)
		pool_part(&shared.requests[i]);
	forget_notes();
	/* nothing is counted any more */
	const struct central_pool *whole = shared.pools[0]->part.whole;
	assert_int_equal(whole->limits[CONN_LIMIT_PROCESS]->servers, 0);
	assert_int_equal(whole->servers, 0);
	assert_int_equal(whole->connected, 0);
	assert_int_equal(whole->waiting, 0);
	assert_int_equal(whole->queued, 0);
	for (unsigned i = 0; i < SITES; i++) {
		assert_int_equal(
		    whole->limits[CONN_LIMIT_PROCESS]->lines[i].resting, 0);
		assert_int_equal(whole->places[i].arriving, 0);
	}
	assert_int_equal(shared.central->starving, 0);
	for (unsigned i = 0; i < SITES; i++)
		fixture_done(&shared.sites[i]);
	assert_int_equal(map_count(shared.central->by_name), 0);
	central_free(&shared.central);
	return 0;
}

static void set_all(const char *name, const char *value)
{
	for (unsigned i = 0; i < SITES; i++)
		fixture_set(&shared.sites[i], name, value);
}

static void pass(uint64_t us)
{
	for (unsigned i = 0; i < SITES; i++)
		shared.sites[i].now += us;
}

static struct verdict next(unsigned site, enum verdict_kind kind)
{
	return fixture_next(&shared.sites[site], shared.pools[site], kind);
}

/* A client of this site asks for a server. */
static struct pool_request *ask(unsigned site, enum verdict_kind kind)
{
	struct pool_request *a = shared.requests;

	while (a->pool)
		assert_true(++a < shared.requests + REQUESTS);
	fixture_join(shared.pools[site], a);
	fixture_ask(&shared.sites[site], a, kind);
	return a;
}

static struct slot *unused_slot(void)
{
	struct slot *slot = shared.slots;

	while (slot->pool)
		assert_true(++slot < shared.slots + SLOTS);
	return slot;
}

static struct slot *dial_in(struct pool *pool, unsigned site, enum verdict_kind kind)
{
	struct slot *slot = unused_slot();

	fixture_dial(&shared.sites[site], pool, slot, kind);
	return slot;
}

/* A client of this site gets a new server. */
static struct pool_request *ask_and_dial(unsigned site)
{
	struct pool_request *a = ask(site, VERDICT_WAIT);

	dial_in(shared.pools[site], site, VERDICT_GRANT);
	assert_non_null(a->slot);
	return a;
}

/* How many count in the pool of database d and user u. */
static int servers(void)
{
	return shared.pools[0]->part.whole->servers;
}

static int servers_under(enum conn_limit kind)
{
	return shared.pools[0]->part.whole->limits[kind]->servers;
}

/* Returns the worker that gets the only undelivered note of this kind. */
static unsigned only_note(enum note_kind kind)
{
	int found = -1;

	for (size_t i = 0; i < shared.sent_count; i++) {
		if (shared.sent[i]->kind != kind)
			continue;
		assert_int_equal(found, -1);
		found = (int)shared.sent[i]->worker;
	}
	assert_int_not_equal(found, -1);
	return (unsigned)found;
}

static void no_note(enum note_kind kind)
{
	for (size_t i = 0; i < shared.sent_count; i++)
		assert_int_not_equal(shared.sent[i]->kind, kind);
}

/* Delivers all notes to this worker; only the last one may have this result. */
static struct verdict hear(unsigned worker, enum verdict_kind kind)
{
	struct fixture *w = &shared.sites[worker];
	struct verdict v = {0};
	size_t kept = 0;

	for (size_t i = 0; i < shared.sent_count; i++) {
		struct central_note *note = shared.sent[i];
		if (note->worker != worker) {
			shared.sent[kept++] = note;
			continue;
		}
		assert_int_equal(v.kind, VERDICT_NONE);
		v = notes_hear(w->c, note, w->now);
		central_note_free(note);
	}
	shared.sent_count = kept;
	assert_int_equal(v.kind, kind);
	return v;
}

/* Delivers what asks this worker to look at the pool, which hands a server over. */
static struct verdict hands(unsigned worker)
{
	shared.pools[worker]->is_scheduled = false;
	hear(worker, VERDICT_NONE);
	assert_true(shared.pools[worker]->is_scheduled);
	return next(worker, VERDICT_HAND);
}

static void expect_told(unsigned worker)
{
	shared.pools[worker]->is_scheduled = false;
	hear(worker, VERDICT_NONE);
	assert_true(shared.pools[worker]->is_scheduled);
}

/* Carries the slot of the verdict to its new site. */
static struct slot *carry(unsigned from, const struct verdict *v)
{
	struct pool *pool = shared.pools[v->site];
	struct slot *slot = unused_slot();
	struct slot was = *v->slot;

	assert_int_equal(v->kind, VERDICT_HAND);
	assert_int_equal(was.state, SLOT_NONE);
	was.state = was.carried_as;
	pool_carried(v->slot);
	fixture_gone(&shared.sites[from], v->slot);
	*slot = (struct slot){.state = SLOT_NONE};
	pool_move_in(pool, slot, NULL, &was, NULL, 5432, shared.sites[v->site].now);
	return slot;
}

/* ---- limits ---- */

static void pool_size_over_all(void **state)
{
	(void)state;
	ask(0, VERDICT_WAIT);
	next(0, VERDICT_DIAL);
	/* the server counts before it is dialed */
	assert_int_equal(servers(), 1);
	struct slot *slot = unused_slot();
	pool_dialing(shared.pools[0], slot, shared.sites[0].now);
	assert_int_equal(servers(), 1);
	pool_got_login_params(shared.pools[0]);
	pool_logged_in(slot, shared.sites[0].now);
	ask_and_dial(1);
	assert_int_equal(servers(), 2);
	for (unsigned i = 0; i < SITES; i++) {
		ask(i, VERDICT_WAIT);
		next(i, VERDICT_NONE);
	}
	assert_int_equal(servers(), 2);
}

/* In a full pool nobody logs in for the parameters, which the other worker has. */
static void first_login_of_a_site_counts(void **state)
{
	(void)state;
	ask_and_dial(0);
	ask_and_dial(0);
	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	assert_int_equal(servers(), 2);
}

static void expect_shared_limit(const char *name)
{
	set_all(name, "2");
	set_all("default_pool_size", "5");
	ask_and_dial(0);
	ask_and_dial(1);
	for (unsigned i = 0; i < SITES; i++) {
		ask(i, VERDICT_WAIT);
		next(i, VERDICT_NONE);
	}
	assert_int_equal(servers_under(CONN_LIMIT_PROCESS), 2);
}

static void max_db_connections_over_all(void **state)
{
	(void)state;
	expect_shared_limit("max_db_connections");
	assert_int_equal(servers_under(CONN_LIMIT_DATABASE), 2);
}

static void max_user_connections_over_all(void **state)
{
	(void)state;
	expect_shared_limit("max_user_connections");
	assert_int_equal(servers_under(CONN_LIMIT_USER), 2);
}

static void max_server_connections_over_all(void **state)
{
	(void)state;
	expect_shared_limit("max_server_connections");
}

static void max_waiting_clients_over_all(void **state)
{
	(void)state;
	set_all("max_waiting_clients", "2");
	set_all("default_pool_size", "1");
	ask_and_dial(0);
	ask(1, VERDICT_WAIT);
	struct pool_request *second = ask(0, VERDICT_WAIT);
	for (unsigned i = 0; i < SITES; i++) {
		ask(i, VERDICT_REFUSE);
		assert_int_equal(pool_queued_everywhere(shared.pools[i]), 2);
	}
	pool_part(second);
	ask(2, VERDICT_WAIT);
	ask(0, VERDICT_REFUSE);
}

/* Who waits for a moment only, because what it needs is at another site, is not
 * refused. */
static void queue_that_moves_refuses_nobody(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);
	set_all("max_waiting_clients", "1");
	fixture_give(&shared.sites[0], holder->slot, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	ask(2, VERDICT_WAIT);
}

/* But only as many wait so as there are servers, also while these are on their way. */
static void queue_that_moves_is_limited(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);
	set_all("default_pool_size", "1");
	set_all("max_waiting_clients", "1");
	fixture_give(&shared.sites[0], holder->slot, VERDICT_REST);
	struct pool_request *first = ask(1, VERDICT_WAIT);
	ask(1, VERDICT_WAIT);
	ask(1, VERDICT_REFUSE);
	ask(2, VERDICT_REFUSE);
	next(1, VERDICT_NONE);
	struct verdict v = hands(0);
	ask(2, VERDICT_REFUSE);
	pool_part(first);
	first = ask(2, VERDICT_WAIT);
	ask(0, VERDICT_REFUSE);
	carry(0, &v);
	ask(1, VERDICT_REFUSE);
	next(1, VERDICT_GRANT);
	ask(0, VERDICT_REFUSE);
}

static struct slot *begin_cancel(unsigned site)
{
	struct slot *slot = unused_slot();

	assert_true(pool_may_dial_cancel(shared.pools[site]));
	pool_dialing_cancel(shared.pools[site], slot, shared.sites[site].now);
	return slot;
}

/* Cancel requests may double the pool, and that of all sites together; but each site
 * may always send one. */
static void cancels_over_all(void **state)
{
	(void)state;
	ask_and_dial(0);
	ask_and_dial(1);
	begin_cancel(0);
	begin_cancel(0);
	assert_false(pool_may_dial_cancel(shared.pools[0]));
	struct slot *slot = begin_cancel(1);
	assert_false(pool_may_dial_cancel(shared.pools[1]));
	pool_gone(slot, shared.sites[1].now);
	assert_true(pool_may_dial_cancel(shared.pools[1]));
}

/* A server that closes makes room for the site that waits. */
static void told_of_room(void **state)
{
	(void)state;
	struct pool_request *first = ask_and_dial(0);

	ask_and_dial(0);
	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	forget_notes();
	struct slot *slot = first->slot;
	pool_abandon(slot, shared.sites[0].now);
	fixture_gone(&shared.sites[0], slot);
	expect_told(1);
	dial_in(shared.pools[1], 1, VERDICT_GRANT);
}

/* All who wait are told; each opens what it can. */
static void all_are_told_of_room(void **state)
{
	(void)state;
	struct pool_request *first = ask_and_dial(0), *second = ask_and_dial(0);

	for (unsigned i = 1; i < 3; i++) {
		ask(i, VERDICT_WAIT);
		next(i, VERDICT_NONE);
	}
	struct slot *slots[] = {first->slot, second->slot};
	forget_notes();
	for (size_t i = 0; i < 2; i++) {
		pool_abandon(slots[i], shared.sites[0].now);
		fixture_gone(&shared.sites[0], slots[i]);
	}
	for (unsigned i = 1; i < 3; i++) {
		expect_told(i);
		dial_in(shared.pools[i], i, VERDICT_GRANT);
	}
	assert_int_equal(servers(), 2);
}

/* Room is left to a client of another site that has waited longer, and that site is
 * told.  The pool itself checks again only after a while. */
static void room_is_left_to_another_site(void **state)
{
	(void)state;
	set_all("max_user_connections", "1");
	set_all("default_pool_size", "5");
	struct pool_request *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	pass(10 * MS);
	ask(0, VERDICT_WAIT);
	next(0, VERDICT_NONE);
	/* however long the client here has waited, too */
	pass(SECOND);
	struct slot *slot = holder->slot;
	pool_abandon(slot, shared.sites[0].now);
	fixture_gone(&shared.sites[0], slot);
	forget_notes();
	shared.pools[0]->is_scheduled = false;
	struct verdict v = next(0, VERDICT_NONE);
	assert_true(v.wake_us < UINT64_MAX);
	assert_false(shared.pools[0]->is_scheduled);
	assert_int_equal(only_note(NOTE_LOOK), 1);
	/* the other worker does not take the room, because its thread is busy; its
	 * client gets the server nevertheless */
	pass(SECOND);
	dial_in(shared.pools[0], 0, VERDICT_HAND);
	struct slot *opened = shared.slots;
	while (opened->pool != shared.pools[0] || !opened->is_carried)
		opened++;
	v = (struct verdict){.kind = VERDICT_HAND, .slot = opened, .site = 1};
	carry(0, &v);
	next(1, VERDICT_GRANT);
}

/* A pool has become too small for its servers: the site where one rests closes it. */
static void surplus_rests_elsewhere(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);

	ask_and_dial(1);
	fixture_give(&shared.sites[0], holder->slot, VERDICT_REST);
	set_all("default_pool_size", "1");
	forget_notes();
	next(1, VERDICT_NONE);
	expect_told(0);
	next(0, VERDICT_RETIRE);
}

/* Who waits in a killed pool does not wait in the one that has its name now. */
static void killed_pool_is_shown_no_more(void **state)
{
	(void)state;
	struct pool *old = shared.pools[1];
	const struct central_pool *whole = old->part.whole;

	struct pool_request *gone = ask(1, VERDICT_WAIT);
	assert_int_equal(whole->waiting, 1);
	catalog_kill(shared.sites[1].c, old->database, "killed");
	assert_int_equal(whole->waiting, 0);
	assert_int_equal(whole->queued, 0);
	shared.pools[1] = fixture_pool(&shared.sites[1], "d", "u");
	assert_ptr_not_equal(shared.pools[1], old);
	shared.pools[1]->database->paused = false;
	ask(1, VERDICT_WAIT);
	pool_part(gone);
	pool_free_if_unused(old);
	assert_int_equal(whole->waiting, 1);
	assert_int_equal(whole->clients, 1);
	assert_ptr_equal(whole->places[1].part, &shared.pools[1]->part);
}

/* A server that went to a paused pool would be closed there. */
static void paused_pool_receives_nothing(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	pass(SECOND);
	shared.pools[1]->database->paused = true;
	next(1, VERDICT_NONE);
	assert_int_equal(
	    pool_give(holder->slot, shared.sites[0].now).kind, VERDICT_REST);
	shared.pools[1]->database->paused = false;
	next(1, VERDICT_NONE);
	assert_int_equal(hands(0).site, 1);
}

/* One site opens the servers that min_pool_size asks of all sites together. */
static void min_pool_size_over_all(void **state)
{
	(void)state;
	set_all("min_pool_size", "1");
	for (unsigned i = 0; i < 2; i++)
		fixture_join(shared.pools[i], &shared.requests[i]);
	next(0, VERDICT_DIAL);
	next(1, VERDICT_NONE);
	struct slot *slot = unused_slot();
	pool_dialing(shared.pools[0], slot, shared.sites[0].now);
	next(1, VERDICT_NONE);
	pool_got_login_params(shared.pools[0]);
	pool_logged_in(slot, shared.sites[0].now);
	for (unsigned i = 0; i < 2; i++)
		next(i, VERDICT_NONE);
	assert_int_equal(servers(), 1);
}

/* A server of theirs that ends at a site without clients is replaced at one with
 * clients. */
static void min_pool_size_of_clients_elsewhere(void **state)
{
	(void)state;
	struct pool_request *leaver = ask_and_dial(0);
	struct slot *slot = leaver->slot;

	set_all("min_pool_size", "1");
	fixture_join(shared.pools[2], &shared.requests[REQUESTS - 1]);
	fixture_give(&shared.sites[0], slot, VERDICT_REST);
	pool_part(leaver);
	next(2, VERDICT_NONE);
	forget_notes();
	shared.pools[0]->is_scheduled = false;
	pool_abandon(slot, shared.sites[0].now);
	fixture_gone(&shared.sites[0], slot);
	assert_true(shared.pools[0]->is_scheduled);
	next(0, VERDICT_NONE);
	expect_told(2);
	next(2, VERDICT_DIAL);
	pool_dialing(shared.pools[2], unused_slot(), shared.sites[2].now);
	/* nobody is left to need any */
	pool_part(&shared.requests[REQUESTS - 1]);
	forget_notes();
	pool_gone(shared.slots, shared.sites[2].now);
	next(0, VERDICT_NONE);
	next(2, VERDICT_NONE);
	no_note(NOTE_LOOK);
}

/* A resting server of another pool at another site makes room. */
static void room_is_asked_for(void **state)
{
	(void)state;
	struct fixture *w = &shared.sites[1];
	struct pool *other = fixture_pool(w, "e", "u");
	struct pool_request *client = &shared.requests[REQUESTS - 1];

	set_all("max_user_connections", "1");
	fixture_join(other, client);
	fixture_ask(w, client, VERDICT_WAIT);
	struct slot *slot = dial_in(other, 1, VERDICT_GRANT);
	struct pool_request *first = ask(0, VERDICT_WAIT);
	next(0, VERDICT_NONE);
	no_note(NOTE_MAKE_ROOM);
	pool_withdraw(first);
	fixture_give(w, slot, VERDICT_REST);
	forget_notes();
	fixture_ask(&shared.sites[0], first, VERDICT_WAIT);
	next(0, VERDICT_NONE);
	assert_int_equal(only_note(NOTE_MAKE_ROOM), 1);
	struct verdict v = hear(1, VERDICT_RETIRE);
	assert_ptr_equal(v.slot, slot);
	fixture_gone(w, slot);
	dial_in(shared.pools[0], 0, VERDICT_GRANT);
}

static void client_limits_over_all(void **state)
{
	(void)state;
	set_all("max_db_client_connections", "2");
	set_all("max_user_client_connections", "2");
	for (unsigned i = 0; i < 2; i++) {
		assert_true(database_enter(shared.pools[i]->database, false));
		assert_true(user_may_enter(shared.pools[i]->user, false));
	}
	/* the client that is one too many counts until it leaves */
	assert_false(database_enter(shared.pools[2]->database, false));
	assert_false(user_may_enter(shared.pools[2]->user, false));
	assert_true(database_enter(shared.pools[2]->database, true));
	for (int i = 0; i < 2; i++)
		database_leave(shared.pools[2]->database);
	user_leave(shared.pools[2]->user);
	user_leave(shared.pools[0]->user);
	database_leave(shared.pools[0]->database);
	assert_true(database_enter(shared.pools[2]->database, false));
	assert_true(user_may_enter(shared.pools[2]->user, false));
	for (unsigned i = 1; i < SITES; i++) {
		database_leave(shared.pools[i]->database);
		user_leave(shared.pools[i]->user);
	}
}

/* A client on its way counts as well. */
static void client_limits_while_one_moves(void **state)
{
	struct pool *from = shared.pools[0], *to = shared.pools[1];

	(void)state;
	set_all("max_db_client_connections", "1");
	set_all("max_user_client_connections", "1");
	assert_true(database_enter(from->database, false));
	assert_true(user_may_enter(from->user, false));
	database_carry(from->database);
	user_carry(from->user);
	for (unsigned i = 0; i < SITES; i++) {
		assert_false(database_enter(shared.pools[i]->database, false));
		assert_false(user_may_enter(shared.pools[i]->user, false));
		database_leave(shared.pools[i]->database);
		user_leave(shared.pools[i]->user);
	}
	database_receive(to->database);
	user_receive(to->user);
	assert_false(database_enter(to->database, false));
	assert_false(user_may_enter(to->user, false));
	for (int i = 0; i < 2; i++) {
		database_leave(to->database);
		user_leave(to->user);
	}
}

/* ---- servers that change hands ---- */

/* A waiting client gets the server that comes to rest, or already rests, at another
 * site. */
static void given_back_for_another_site(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);
	struct central_part *const parts[] = {
	    &shared.pools[0]->part, &shared.pools[1]->part};

	set_all("default_pool_size", "1");
	struct pool_request *waiter = ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	struct verdict v = fixture_give(&shared.sites[0], holder->slot, VERDICT_HAND);
	assert_int_equal(v.site, 1);
	/* on its way the server counts, and nobody else has it */
	assert_int_equal(servers(), 1);
	assert_int_equal(parts[0]->resting, 0);
	assert_int_equal(parts[0]->connected, 0);
	assert_int_equal(parts[0]->whole->connected, 1);
	ask(2, VERDICT_WAIT);
	next(2, VERDICT_NONE);
	struct slot *slot = carry(0, &v);
	assert_int_equal(servers(), 1);
	assert_int_equal(parts[1]->resting, 1);
	assert_int_equal(parts[0]->whole->connected, 1);
	assert_int_equal(shared.pools[0]->database->server_count, 0);
	assert_int_equal(shared.pools[1]->database->server_count, 1);
	v = next(1, VERDICT_GRANT);
	assert_ptr_equal(v.request, waiter);
	assert_ptr_equal(v.slot, slot);
}

static void resting_elsewhere(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);
	struct slot *slot = holder->slot;

	fixture_give(&shared.sites[0], slot, VERDICT_REST);
	pass(5 * MS);
	ask(1, VERDICT_WAIT);
	struct verdict v = next(1, VERDICT_NONE);
	assert_true(v.wake_us < UINT64_MAX);
	/* the server is asked for once, and nothing is dialed meanwhile */
	next(1, VERDICT_NONE);
	assert_int_equal(only_note(NOTE_LOOK), 0);
	v = hands(0);
	assert_ptr_equal(v.slot, slot);
	assert_int_equal(v.site, 1);
	slot = carry(0, &v);
	v = next(1, VERDICT_GRANT);
	assert_ptr_equal(v.slot, slot);
	assert_int_equal(servers(), 1);
}

/* The site that asks is not the one whose client has waited longest. */
static void resting_elsewhere_for_another(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct pool_request *holder = ask_and_dial(0);

	struct pool_request *first = ask(2, VERDICT_WAIT);
	next(2, VERDICT_NONE);
	pass(50 * MS);
	ask(1, VERDICT_WAIT);
	/* the server comes to rest while no server may change sites */
	central_freeze(shared.central, true);
	fixture_give(&shared.sites[0], holder->slot, VERDICT_REST);
	central_freeze(shared.central, false);
	next(1, VERDICT_NONE);
	struct verdict v = hands(0);
	assert_int_equal(v.site, 2);
	carry(0, &v);
	v = next(2, VERDICT_GRANT);
	assert_ptr_equal(v.request, first);
}

/* The site that was asked has meanwhile given the server to its own client. */
static void nothing_left_to_give(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);

	fixture_give(&shared.sites[0], holder->slot, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	/* no server may change workers */
	central_freeze(shared.central, true);
	fixture_ask(&shared.sites[0], holder, VERDICT_GRANT);
	central_freeze(shared.central, false);
	expect_told(0);
	next(0, VERDICT_NONE);
	dial_in(shared.pools[1], 1, VERDICT_GRANT);
	assert_int_equal(servers(), 2);
}

static void fail_login(unsigned site)
{
	struct slot *slot = unused_slot();

	next(site, VERDICT_DIAL);
	pool_dialing(shared.pools[site], slot, shared.sites[site].now);
	pool_dial_failed(slot, DIAL_LOGIN, "too many", "53300", shared.sites[site].now);
	fixture_gone(&shared.sites[site], slot);
}

/* A login that fails at one site refuses nobody while the pool has servers at another
 * one, as it is with one site. */
static void login_fails_beside_servers_elsewhere(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);
	struct slot *slot = holder->slot;

	ask(1, VERDICT_WAIT);
	fail_login(1);
	next(1, VERDICT_NONE);
	pass(MS);
	struct pool_request *later = ask(1, VERDICT_WAIT);
	pass(50 * MS);
	struct verdict v = fixture_give(&shared.sites[0], slot, VERDICT_HAND);
	slot = carry(0, &v);
	v = next(1, VERDICT_GRANT);
	assert_ptr_equal(v.slot, slot);
	/* when the pool has no server any more, they need not wait */
	pool_gone(slot, shared.sites[1].now);
	pass(20 * (uint64_t)SECOND); /* server_login_retry */
	fail_login(1);
	v = next(1, VERDICT_REFUSE);
	assert_ptr_equal(v.request, later);
	fixture_ask(&shared.sites[1], later, VERDICT_REFUSE);
}

/* The only server of a pool is on its way to another site. */
static void login_fails_while_a_server_is_on_its_way(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);
	struct pool_request *waiter = ask(1, VERDICT_WAIT);
	struct slot *login = unused_slot();

	next(1, VERDICT_DIAL);
	pool_dialing(shared.pools[1], login, shared.sites[1].now);
	pass(50 * MS);
	struct verdict v = fixture_give(&shared.sites[0], holder->slot, VERDICT_HAND);
	pool_dial_failed(login, DIAL_LOGIN, "too many", "53300", shared.sites[1].now);
	fixture_gone(&shared.sites[1], login);
	next(1, VERDICT_NONE);
	ask(1, VERDICT_WAIT);
	carry(0, &v);
	v = next(1, VERDICT_GRANT);
	assert_ptr_equal(v.request, waiter);
}

/* A site that does not answer does not block a client for ever. */
static void no_answer(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);

	fixture_give(&shared.sites[0], holder->slot, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	struct verdict v = next(1, VERDICT_NONE);
	pass(v.wake_us - shared.sites[1].now);
	while ((v = pool_next(shared.pools[1], shared.sites[1].now)).kind ==
	       VERDICT_NONE) {
		assert_true(v.wake_us < 101 * (uint64_t)SECOND);
		pass(v.wake_us - shared.sites[1].now);
	}
	assert_int_equal(v.kind, VERDICT_DIAL);
	struct slot *slot = unused_slot();
	pool_dialing(shared.pools[1], slot, shared.sites[1].now);
}

/* The client that asked has left: the server stays. */
static void asked_for_in_vain(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);

	fixture_give(&shared.sites[0], holder->slot, VERDICT_REST);
	struct pool_request *waiter = ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	pool_part(waiter);
	expect_told(0);
	next(0, VERDICT_NONE);
}

static void longest_waiter_first(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct pool_request *holder = ask_and_dial(0);

	struct pool_request *second = ask(2, VERDICT_WAIT);
	pass(50 * MS);
	ask(1, VERDICT_WAIT);
	pass(50 * MS);
	struct pool_request *own = ask(0, VERDICT_WAIT);
	struct verdict v = fixture_give(&shared.sites[0], holder->slot, VERDICT_HAND);
	assert_int_equal(v.site, 2);
	carry(0, &v);
	next(0, VERDICT_NONE);
	v = next(2, VERDICT_GRANT);
	assert_ptr_equal(v.request, second);
	v = fixture_give(&shared.sites[2], second->slot, VERDICT_HAND);
	assert_int_equal(v.site, 1);
	carry(2, &v);
	v = next(1, VERDICT_GRANT);
	v = fixture_give(&shared.sites[1], v.slot, VERDICT_HAND);
	assert_int_equal(v.site, 0);
	carry(1, &v);
	v = next(0, VERDICT_GRANT);
	assert_ptr_equal(v.request, own);
}

/* For each client of a worker one server is sent, and no more: the thread may stand
 * still. */
static void one_server_for_each_client(void **state)
{
	(void)state;
	struct pool_request *holders[4];

	set_all("default_pool_size", "4");
	for (unsigned i = 0; i < 4; i++)
		holders[i] = ask_and_dial(0);
	ask(1, VERDICT_WAIT);
	ask(1, VERDICT_WAIT);
	pass(20 * MS);
	ask(2, VERDICT_WAIT);
	struct verdict sent[3];
	for (unsigned i = 0; i < 3; i++) {
		sent[i] =
		    fixture_give(&shared.sites[0], holders[i]->slot, VERDICT_HAND);
		assert_int_equal(sent[i].site, i < 2 ? 1 : 2);
	}
	fixture_give(&shared.sites[0], holders[3]->slot, VERDICT_REST);
	/* nothing is opened for them meanwhile, but one that does not come is not
	 * waited for */
	for (unsigned i = 1; i < 3; i++)
		next(i, VERDICT_NONE);
	carry(0, &sent[0]);
	carry(0, &sent[1]);
	next(1, VERDICT_GRANT);
	next(1, VERDICT_GRANT);
	pass(50 * MS);
	forget_notes();
	next(2, VERDICT_NONE);
	assert_int_equal(hands(0).site, 2);
	pool_carried(sent[2].slot);
	fixture_gone(&shared.sites[0], sent[2].slot);
	notes_lost(shared.sites[2].c, shared.pools[2]->part.whole);
}

static bool does_not_answer(void *ctx, unsigned worker)
{
	return worker == *(unsigned *)ctx;
}

/* A thread that stands still gets nothing, is asked for nothing, and nobody leaves room
 * to it. */
static void unresponsive_worker_is_left_out(void **state)
{
	(void)state;
	unsigned silent = 1;

	set_all("default_pool_size", "2");
	struct pool_request *first = ask_and_dial(0), *second = ask_and_dial(0);
	ask(1, VERDICT_WAIT);
	pass(SECOND);
	struct pool_request *waiter = ask(2, VERDICT_WAIT);
	central_on_unresponsive(shared.central, does_not_answer, &silent);
	struct verdict v = fixture_give(&shared.sites[0], first->slot, VERDICT_HAND);
	assert_int_equal(v.site, 2);
	carry(0, &v);
	assert_ptr_equal(next(2, VERDICT_GRANT).request, waiter);
	silent = 0;
	fixture_give(&shared.sites[2], waiter->slot, VERDICT_HAND);
	forget_notes();
	fixture_give(&shared.sites[0], second->slot, VERDICT_REST);
	ask(2, VERDICT_WAIT);
	next(2, VERDICT_NONE);
	assert_int_equal(shared.sent_count, 0);
}

/* A client waits for a server of its own worker for a moment, and then looks for one of
 * another worker again and again: one may come to rest there. */
static void looked_for_in_time(void **state)
{
	(void)state;
	struct pool_request *holder = ask_and_dial(0);

	set_all("default_pool_size", "2");
	ask_and_dial(1);
	struct pool_request *waiter = ask(1, VERDICT_WAIT);
	assert_int_equal(next(1, VERDICT_NONE).wake_us, waiter->queued_us + 2 * MS);
	pass(2 * MS);
	assert_int_equal(next(1, VERDICT_NONE).wake_us, waiter->queued_us + 4 * MS);
	no_note(NOTE_LOOK);
	struct verdict v = fixture_give(&shared.sites[0], holder->slot, VERDICT_HAND);
	assert_int_equal(v.site, 1);
}

/* A client that joins a queue changes nothing for the pool. */
static void one_more_waits(void **state)
{
	(void)state;

	set_all("default_pool_size", "1");
	ask_and_dial(0);
	shared.pools[0]->is_scheduled = false;
	ask(0, VERDICT_WAIT);
	assert_true(shared.pools[0]->is_scheduled);
	shared.pools[0]->is_scheduled = false;
	ask(0, VERDICT_WAIT);
	assert_false(shared.pools[0]->is_scheduled);
}

/* Nobody is told of a server that goes to another worker. */
static void moves_quietly(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct pool_request *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	pass(MS);
	ask(2, VERDICT_WAIT);
	struct verdict v = fixture_give(&shared.sites[0], holder->slot, VERDICT_HAND);
	assert_int_equal(v.site, 1);
	assert_int_equal(v.slot->rested_us, shared.sites[0].now);
	struct slot *slot = carry(0, &v);
	assert_int_equal(slot->state, SLOT_IDLE);
	assert_int_equal(shared.sent_count, 0);
	next(1, VERDICT_GRANT);
}

/* A slightly longer wait does not make a server change sites. */
static void about_as_long(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct pool_request *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	pass(1 * MS);
	struct pool_request *own = ask(0, VERDICT_WAIT);
	struct verdict v = pool_give(holder->slot, shared.sites[0].now);
	assert_int_equal(v.kind, VERDICT_GRANT);
	assert_ptr_equal(v.request, own);
}

/* ---- servers that do not arrive ---- */

static void lost_before_it_went(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct pool_request *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	struct verdict v = fixture_give(&shared.sites[0], holder->slot, VERDICT_HAND);
	ask(0, VERDICT_WAIT);
	forget_notes();
	shared.pools[0]->is_scheduled = false;
	fixture_gone(&shared.sites[0], v.slot);
	assert_int_equal(servers(), 0);
	assert_int_equal(shared.pools[0]->part.whole->places[1].arriving, 0);
	assert_true(shared.pools[0]->is_scheduled);
	assert_int_equal(only_note(NOTE_LOOK), 1);
}

static void lost_on_arrival(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct pool_request *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	struct verdict v = fixture_give(&shared.sites[0], holder->slot, VERDICT_HAND);
	pool_carried(v.slot);
	fixture_gone(&shared.sites[0], v.slot);
	assert_int_equal(servers(), 1);
	ask(2, VERDICT_WAIT);
	next(2, VERDICT_NONE);
	forget_notes();
	shared.pools[1]->is_scheduled = false;
	notes_lost(shared.sites[1].c, shared.pools[1]->part.whole);
	assert_int_equal(servers(), 0);
	assert_int_equal(servers_under(CONN_LIMIT_PROCESS), 0);
	assert_int_equal(shared.pools[0]->part.whole->places[1].arriving, 0);
	assert_true(shared.pools[1]->is_scheduled);
	assert_int_equal(only_note(NOTE_LOOK), 2);
}

/* ---- login parameters ---- */

static void login_params_of_another_worker(void **state)
{
	(void)state;
	struct pool_request *param_waiter = &shared.requests[REQUESTS - 1];

	fixture_join(shared.pools[1], param_waiter);
	struct verdict v = pool_ask(param_waiter, REQUEST_PARAMS, shared.sites[1].now);
	assert_int_equal(v.kind, VERDICT_WAIT);
	assert_true(shared.pools[1]->part.wants_params);
	ask_and_dial(0);
	expect_told(1);
	v = next(1, VERDICT_ADMIT);
	assert_ptr_equal(v.request, param_waiter);
	assert_false(shared.pools[1]->part.wants_params);
	assert_int_equal(servers(), 1);
}

/* Sites with one server each do not take servers that others have just given back. */
static void own_server_is_awaited(void **state)
{
	(void)state;
	struct pool_request *first = ask_and_dial(0);

	ask_and_dial(1);
	fixture_give(&shared.sites[0], first->slot, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	struct verdict v = next(1, VERDICT_NONE);
	assert_int_equal(v.wake_us, shared.sites[1].now + 2 * MS);
	no_note(NOTE_LOOK);
	pass(2 * MS);
	next(1, VERDICT_NONE);
	assert_int_equal(hands(0).site, 1);
}

/* A server that is given back goes to another site's client only if that site lets its
 * client wait. */
static void given_back_while_own_server_is_awaited(void **state)
{
	(void)state;
	struct pool_request *first = ask_and_dial(0);

	ask_and_dial(1);
	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	fixture_give(&shared.sites[0], first->slot, VERDICT_REST);
	fixture_ask(&shared.sites[0], first, VERDICT_GRANT);
	pass(2 * MS);
	struct verdict v = pool_give(first->slot, shared.sites[0].now);
	assert_int_equal(v.kind, VERDICT_HAND);
	assert_int_equal(v.site, 1);
}

/* A client of database d's other user waits at this site for room under the limit. */
static void ask_of_other_pool(unsigned site)
{
	struct fixture *w = &shared.sites[site];
	struct pool *other = fixture_pool(w, "d", "v");
	struct pool_request *a = shared.requests;

	while (a->pool)
		assert_true(++a < shared.requests + REQUESTS);
	fixture_join(other, a);
	fixture_ask(w, a, VERDICT_WAIT);
	fixture_next(w, other, VERDICT_NONE);
	assert_true(conn_limits_is_wanted(other));
}

/* The clients of a pool never all rest, but each site has one of them alone.  A server
 * that is given back is closed when another pool's client has waited longer than all of
 * them. */
static void busy_pool_makes_room(void **state)
{
	(void)state;
	set_all("max_db_connections", "1");
	struct pool_request *first = ask_and_dial(0);

	ask_of_other_pool(2);
	pass(SECOND);
	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	pass(50 * MS);
	struct verdict v = pool_give(first->slot, shared.sites[0].now);
	assert_int_equal(v.kind, VERDICT_RETIRE);
	forget_notes();
	fixture_gone(&shared.sites[0], v.slot);
	assert_int_equal(servers_under(CONN_LIMIT_DATABASE), 0);
}

/* The same pool's client at another site has waited longer. */
static void busy_pool_keeps_its_turn(void **state)
{
	(void)state;
	set_all("max_db_connections", "1");
	struct pool_request *first = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	pass(SECOND);
	ask_of_other_pool(2);
	pass(SECOND);
	ask(0, VERDICT_WAIT);
	pass(SECOND);
	struct verdict v = pool_give(first->slot, shared.sites[0].now);
	assert_int_equal(v.kind, VERDICT_HAND);
	assert_int_equal(v.site, 1);
}

/* Under max_server_connections only a pool without any server takes one that
 * min_pool_size keeps, not a part of a pool whose servers are at other sites. */
static void minimum_of_another_pool_stays(void **state)
{
	(void)state;
	set_all("max_server_connections", "2");
	set_all("min_pool_size", "1");
	struct fixture *w = &shared.sites[1];
	struct pool *other = fixture_pool(w, "d", "v");
	struct pool_request *owner = &shared.requests[REQUESTS - 1];

	ask_and_dial(0);
	fixture_join(other, owner);
	fixture_ask(w, owner, VERDICT_WAIT);
	dial_in(other, 1, VERDICT_GRANT);
	fixture_give(w, owner->slot, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	pass(50 * MS);
	next(1, VERDICT_NONE);
	/* nor does it when another site asks */
	forget_notes();
	ask(2, VERDICT_WAIT);
	pass(50 * MS);
	next(2, VERDICT_NONE);
	assert_int_equal(only_note(NOTE_MAKE_ROOM), 1);
	hear(1, VERDICT_NONE);
	pass(5 * SECOND);
	next(2, VERDICT_NONE);
	assert_ptr_equal(hear(1, VERDICT_RETIRE).slot->pool, other);
}

/* Its client may be at another site than its server. */
static void minimum_of_a_client_elsewhere_stays(void **state)
{
	(void)state;
	set_all("max_server_connections", "2");
	set_all("min_pool_size", "1");
	struct fixture *w = &shared.sites[1];
	struct pool *other = fixture_pool(w, "d", "v");
	struct pool_request *leaver = &shared.requests[REQUESTS - 1],
			    *stayer = &shared.requests[REQUESTS - 2];

	ask_and_dial(0);
	fixture_join(other, leaver);
	fixture_ask(w, leaver, VERDICT_WAIT);
	dial_in(other, 1, VERDICT_GRANT);
	fixture_give(w, leaver->slot, VERDICT_REST);
	fixture_join(fixture_pool(&shared.sites[2], "d", "v"), stayer);
	pool_part(leaver);
	ask(1, VERDICT_WAIT);
	pass(SECOND);
	next(1, VERDICT_NONE);
	pool_part(stayer);
	assert_ptr_equal(next(1, VERDICT_RETIRE).slot->pool, other);
}

/* The only client may ask again before the other site asks for room. */
static void resting_server_makes_room(void **state)
{
	(void)state;
	set_all("max_db_connections", "1");
	struct pool_request *first = ask_and_dial(0);

	fixture_give(&shared.sites[0], first->slot, VERDICT_REST);
	fixture_ask(&shared.sites[0], first, VERDICT_GRANT);
	ask_of_other_pool(2);
	pass(MS);
	fixture_give(&shared.sites[0], first->slot, VERDICT_RETIRE);
}

static void suspended_server_stays(void **state)
{
	(void)state;
	set_all("max_db_connections", "1");
	struct pool_request *first = ask_and_dial(0);

	ask_of_other_pool(2);
	pass(SECOND);
	for (unsigned i = 0; i < SITES; i++)
		shared.sites[i].c->suspended = true;
	fixture_give(&shared.sites[0], first->slot, VERDICT_REST);
}

/* Each site balances its own clients, and its first ones are few. */
static void sites_begin_at_other_hosts(void **state)
{
	static const char *const names[SITES] = {"a", "b", "c"};

	(void)state;
	for (unsigned i = 0; i < SITES; i++) {
		struct fixture *w = &shared.sites[i];
		struct pool *pool = fixture_pool(w, "h", "u");
		assert_string_equal(hosts_next(pool)->name, names[i]);
		assert_int_equal(hosts_next(pool)->assignments, 0);
		/* The first host of the list is taken as long as it serves. */
		pool = fixture_pool(w, "f", "u");
		assert_string_equal(hosts_next(pool)->name, "a");
	}
}

static void sites_draw_other_hosts(void **state)
{
	enum { DRAWS = 32 };
	struct pool *pools[2];
	unsigned same = 0;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		pools[i] = fixture_pool(&shared.sites[i], "r", "u");
	for (unsigned k = 0; k < DRAWS; k++) {
		same +=
		    strcmp(hosts_next(pools[0])->name, hosts_next(pools[1])->name) == 0;
		for (unsigned i = 0; i < 2; i++)
			pools[i]->database->hosts.draws++;
	}
	assert_in_range(same, 1, DRAWS - 1);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(pool_size_over_all),
	    TEST(first_login_of_a_site_counts),
	    TEST(max_db_connections_over_all),
	    TEST(max_user_connections_over_all),
	    TEST(max_server_connections_over_all),
	    TEST(max_waiting_clients_over_all),
	    TEST(queue_that_moves_refuses_nobody),
	    TEST(queue_that_moves_is_limited),
	    TEST(cancels_over_all),
	    TEST(told_of_room),
	    TEST(all_are_told_of_room),
	    TEST(room_is_left_to_another_site),
	    TEST(killed_pool_is_shown_no_more),
	    TEST(paused_pool_receives_nothing),
	    TEST(min_pool_size_over_all),
	    TEST(min_pool_size_of_clients_elsewhere),
	    TEST(room_is_asked_for),
	    TEST(client_limits_over_all),
	    TEST(client_limits_while_one_moves),
	    TEST(given_back_for_another_site),
	    TEST(resting_elsewhere),
	    TEST(own_server_is_awaited),
	    TEST(given_back_while_own_server_is_awaited),
	    TEST(resting_elsewhere_for_another),
	    TEST(busy_pool_makes_room),
	    TEST(busy_pool_keeps_its_turn),
	    TEST(resting_server_makes_room),
	    TEST(suspended_server_stays),
	    TEST(sites_begin_at_other_hosts),
	    TEST(sites_draw_other_hosts),
	    TEST(nothing_left_to_give),
	    TEST(login_fails_beside_servers_elsewhere),
	    TEST(login_fails_while_a_server_is_on_its_way),
	    TEST(no_answer),
	    TEST(asked_for_in_vain),
	    TEST(longest_waiter_first),
	    TEST(one_server_for_each_client),
	    TEST(unresponsive_worker_is_left_out),
	    TEST(looked_for_in_time),
	    TEST(one_more_waits),
	    TEST(moves_quietly),
	    TEST(surplus_rests_elsewhere),
	    TEST(minimum_of_another_pool_stays),
	    TEST(minimum_of_a_client_elsewhere_stays),
	    TEST(about_as_long),
	    TEST(lost_before_it_went),
	    TEST(lost_on_arrival),
	    TEST(login_params_of_another_worker),
	};

	return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
