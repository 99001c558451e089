/*
 * Catalogs that share their counts, like those of several workers: limits over all of
 * them, servers that change sites, the order of clients, and wishes.  Wishes arrive
 * when the test delivers them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pool/elsewhere.h"
#include "pool/hosts.h"
#include "pool/room.h"
#include "pool/wishes.h"
#include "world.h"

enum { SITES = 3, SEATS = 8, ASKS = 12, WISHES = 64, MS = 1000 };

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

/* A wish that was sent and not yet delivered. */
struct sent {
	unsigned to;
	struct wish wish;
};

struct county {
	struct world sites[SITES];
	struct tallies *tallies;
	struct pool *pools[SITES]; /* of database d and user u */
	struct seat seats[SEATS];
	struct ask asks[ASKS];
	struct sent sent[WISHES];
	size_t sent_count;
	unsigned welcomed[SITES];
};

static struct county county;

/* ---- events ---- */

static unsigned site_of(const void *world)
{
	return (unsigned)((const struct world *)world - county.sites);
}

static void on_kick(void *ctx, struct pool *pool)
{
	(void)ctx;
	pool->is_kicked = true;
}

static void on_kill(void *ctx, struct pool *pool, const char *reason)
{
	(void)ctx, (void)pool, (void)reason;
}

static void on_wish(void *ctx, unsigned site, const struct wish *wish)
{
	assert_true(county.sent_count < WISHES);
	assert_true(site < SITES && site != site_of(ctx));
	assert_int_equal(wish->from, site_of(ctx));
	county.sent[county.sent_count++] = (struct sent){site, *wish};
}

static void on_welcomed(void *ctx, struct pool *pool)
{
	(void)pool;
	county.welcomed[site_of(ctx)]++;
}

static void on_freed(void *ctx, struct pool *pool)
{
	(void)ctx, (void)pool;
}

static const struct catalog_events events = {.kick = on_kick,
    .kill = on_kill,
    .wish = on_wish,
    .welcomed = on_welcomed,
    .freed = on_freed};

/* ---- the county ---- */

static int set_up(void **state)
{
	(void)state;
	memset(&county, 0, sizeof(county));
	county.tallies = tallies_new(SITES);
	for (unsigned i = 0; i < SITES; i++) {
		struct world *w = &county.sites[i];
		w->now = 100 * SECOND;
		mem_init(&w->mem);
		w->c = catalog_new(&w->mem);
		w->c->events = &events;
		w->c->events_ctx = w;
		catalog_share(w->c, county.tallies, i, SITES);
		world_adopt(w, ini, NULL);
		county.pools[i] = world_pool(w, "d", "u");
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < SEATS; i++)
		pool_gone(&county.seats[i], county.sites[0].now);
	for (size_t i = 0; i < ASKS; i++)
		pool_part(&county.asks[i]);
	/* nothing is counted any more */
	for (unsigned i = 0; i < SITES; i++) {
		const struct tally *tally = county.sites[i].c->tally;
		for (unsigned k = 0; k < SITES; k++) {
			assert_int_equal(tally->slots[k].servers, 0);
			assert_int_equal(tally->slots[k].resting, 0);
		}
		assert_int_equal(tally->waiting_count, 0);
		assert_int_equal(county.pools[i]->tally->waiting_count, 0);
		assert_int_equal(county.pools[i]->tally->slots[i].queued, 0);
	}
	for (unsigned i = 0; i < SITES; i++)
		world_done(&county.sites[i]);
	tallies_free(&county.tallies);
	return 0;
}

static void set_all(const char *name, const char *value)
{
	for (unsigned i = 0; i < SITES; i++)
		world_set(&county.sites[i], name, value);
}

static void pass(uint64_t us)
{
	for (unsigned i = 0; i < SITES; i++)
		county.sites[i].now += us;
}

static struct verdict next(unsigned site, enum verdict_kind kind)
{
	return world_next(&county.sites[site], county.pools[site], kind);
}

/* A client of this site asks for a server. */
static struct ask *ask(unsigned site, enum verdict_kind kind)
{
	struct ask *a = county.asks;

	while (a->pool)
		assert_true(++a < county.asks + ASKS);
	world_join(county.pools[site], a);
	world_ask(&county.sites[site], a, kind);
	return a;
}

static struct seat *unused_seat(void)
{
	struct seat *seat = county.seats;

	while (seat->pool)
		assert_true(++seat < county.seats + SEATS);
	return seat;
}

static struct seat *dial_in(struct pool *pool, unsigned site, enum verdict_kind kind)
{
	struct seat *seat = unused_seat();

	world_dial(&county.sites[site], pool, seat, kind);
	return seat;
}

/* A client of this site gets a new server. */
static struct ask *ask_and_dial(unsigned site)
{
	struct ask *a = ask(site, VERDICT_WAIT);

	dial_in(county.pools[site], site, VERDICT_GRANT);
	assert_non_null(a->seat);
	return a;
}

static int servers(const struct tally *tally)
{
	const struct tally_view view = {.tallies = county.tallies, .site_count = SITES};

	return tally_servers(&view, tally);
}

static void forget_wishes(void)
{
	county.sent_count = 0;
}

/* Returns the only undelivered wish of this kind. */
static const struct sent *only_wish(enum wish_kind kind)
{
	const struct sent *found = NULL;

	for (size_t i = 0; i < county.sent_count; i++) {
		if (county.sent[i].wish.kind != kind)
			continue;
		assert_null(found);
		found = &county.sent[i];
	}
	assert_non_null(found);
	return found;
}

static void no_wish(enum wish_kind kind)
{
	for (size_t i = 0; i < county.sent_count; i++)
		assert_int_not_equal(county.sent[i].wish.kind, kind);
}

static struct verdict hear(const struct sent *sent, enum verdict_kind kind)
{
	struct world *w = &county.sites[sent->to];
	struct verdict v = wishes_hear(w->c, &sent->wish, w->now);

	assert_int_equal(v.kind, kind);
	return v;
}

/* Carries the seat of the verdict to its new site. */
static struct seat *carry(unsigned from, const struct verdict *v)
{
	struct pool *pool = county.pools[v->site];
	struct seat *seat = unused_seat();
	struct seat was = *v->seat;

	assert_int_equal(v->kind, VERDICT_HAND);
	assert_int_equal(was.state, SEAT_NONE);
	was.state = was.carried_as;
	was.carried_from = from;
	pool_carried(v->seat);
	world_gone(&county.sites[from], v->seat);
	if (!pool->is_welcome_valid)
		pool_welcomed(pool);
	*seat = (struct seat){.state = SEAT_NONE};
	pool_move_in(pool, seat, NULL, &was, NULL, 5432, county.sites[v->site].now);
	wishes_answered(pool, true, county.sites[v->site].now);
	return seat;
}

/* ---- limits ---- */

static void pool_size_over_all(void **state)
{
	(void)state;
	const struct tally *tally = county.pools[0]->tally;

	ask(0, VERDICT_WAIT);
	next(0, VERDICT_DIAL);
	/* the server counts before it is dialed */
	assert_int_equal(servers(tally), 1);
	struct seat *seat = unused_seat();
	pool_dialing(county.pools[0], seat, county.sites[0].now);
	assert_int_equal(servers(tally), 1);
	pool_welcomed(county.pools[0]);
	pool_logged_in(seat, county.sites[0].now);
	ask_and_dial(1);
	assert_int_equal(servers(tally), 2);
	for (unsigned i = 0; i < SITES; i++) {
		ask(i, VERDICT_WAIT);
		next(i, VERDICT_NONE);
	}
	assert_int_equal(servers(tally), 2);
}

/* While the welcome is unknown at all sites, a login of another site in a full pool
 * brings it as well. */
static void first_login_of_a_site_counts(void **state)
{
	(void)state;
	ask_and_dial(0);
	ask_and_dial(0);
	assert_false(county.pools[1]->is_welcome_valid);
	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	assert_int_equal(servers(county.pools[0]->tally), 2);
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
	assert_int_equal(servers(county.sites[0].c->tally), 2);
}

static void max_db_connections_over_all(void **state)
{
	(void)state;
	expect_shared_limit("max_db_connections");
	assert_int_equal(servers(county.pools[0]->database->tally), 2);
}

static void max_user_connections_over_all(void **state)
{
	(void)state;
	expect_shared_limit("max_user_connections");
	assert_int_equal(servers(county.pools[0]->user->tally), 2);
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
	struct ask *second = ask(0, VERDICT_WAIT);
	for (unsigned i = 0; i < SITES; i++) {
		ask(i, VERDICT_REFUSE);
		assert_int_equal(pool_queued_everywhere(county.pools[i]), 2);
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
	struct ask *holder = ask_and_dial(0);
	set_all("max_waiting_clients", "1");
	world_give(&county.sites[0], holder->seat, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	ask(2, VERDICT_WAIT);
}

/* But only as many wait so as there are servers, also while these are on their way. */
static void queue_that_moves_is_limited(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);
	set_all("default_pool_size", "1");
	set_all("max_waiting_clients", "1");
	world_give(&county.sites[0], holder->seat, VERDICT_REST);
	struct ask *first = ask(1, VERDICT_WAIT);
	ask(1, VERDICT_WAIT);
	ask(1, VERDICT_REFUSE);
	ask(2, VERDICT_REFUSE);
	next(1, VERDICT_NONE);
	struct verdict v = hear(only_wish(WISH_SERVER), VERDICT_HAND);
	ask(2, VERDICT_REFUSE);
	pool_part(first);
	first = ask(2, VERDICT_WAIT);
	ask(0, VERDICT_REFUSE);
	carry(0, &v);
	ask(1, VERDICT_REFUSE);
	next(1, VERDICT_GRANT);
	ask(0, VERDICT_REFUSE);
}

static struct seat *begin_cancel(unsigned site)
{
	struct seat *seat = unused_seat();

	assert_true(pool_may_dial_cancel(county.pools[site]));
	pool_dialing_cancel(county.pools[site], seat, county.sites[site].now);
	return seat;
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
	assert_false(pool_may_dial_cancel(county.pools[0]));
	struct seat *seat = begin_cancel(1);
	assert_false(pool_may_dial_cancel(county.pools[1]));
	pool_gone(seat, county.sites[1].now);
	assert_true(pool_may_dial_cancel(county.pools[1]));
}

/* A server that closes makes room for the site that waits. */
static void told_of_room(void **state)
{
	(void)state;
	struct ask *first = ask_and_dial(0);

	ask_and_dial(0);
	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	forget_wishes();
	struct seat *seat = first->seat;
	pool_abandon(seat, county.sites[0].now);
	world_gone(&county.sites[0], seat);
	const struct sent *look = only_wish(WISH_LOOK);
	assert_int_equal(look->to, 1);
	assert_int_equal(look->wish.of, TALLY_POOL);
	county.pools[1]->is_kicked = false;
	hear(look, VERDICT_NONE);
	assert_true(county.pools[1]->is_kicked);
	dial_in(county.pools[1], 1, VERDICT_GRANT);
}

/* Of two waiting sites the first is told; when it needs no more, it tells the other
 * one. */
static void told_of_what_is_left(void **state)
{
	(void)state;
	struct ask *first = ask_and_dial(0), *second = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	pass(1);
	ask(2, VERDICT_WAIT);
	next(2, VERDICT_NONE);
	struct seat *seats[] = {first->seat, second->seat};
	forget_wishes();
	for (size_t i = 0; i < 2; i++) {
		pool_abandon(seats[i], county.sites[0].now);
		world_gone(&county.sites[0], seats[i]);
	}
	for (size_t i = 0; i < county.sent_count; i++)
		assert_int_equal(county.sent[i].to, 1);
	forget_wishes();
	dial_in(county.pools[1], 1, VERDICT_GRANT);
	const struct sent *look = only_wish(WISH_LOOK);
	assert_int_equal(look->to, 2);
	hear(look, VERDICT_NONE);
	dial_in(county.pools[2], 2, VERDICT_GRANT);
	assert_int_equal(servers(county.pools[0]->tally), 2);
}

/* The same for a limit that pools share. */
static void told_of_what_is_left_under_a_limit(void **state)
{
	(void)state;
	set_all("max_user_connections", "2");
	set_all("default_pool_size", "5");
	struct ask *first = ask_and_dial(0), *second = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	pass(1);
	ask(2, VERDICT_WAIT);
	next(2, VERDICT_NONE);
	struct seat *seats[] = {first->seat, second->seat};
	for (size_t i = 0; i < 2; i++) {
		pool_abandon(seats[i], county.sites[0].now);
		world_gone(&county.sites[0], seats[i]);
	}
	forget_wishes();
	dial_in(county.pools[1], 1, VERDICT_GRANT);
	bool is_told = false;
	for (size_t i = 0; i < county.sent_count; i++)
		is_told = is_told || (county.sent[i].to == 2 &&
					 county.sent[i].wish.of == TALLY_USER);
	assert_true(is_told);
	dial_in(county.pools[2], 2, VERDICT_GRANT);
}

/* Room is left to a client of another site that has waited longer, and that site is
 * told.  The pool itself checks again only after a while. */
static void room_is_left_to_another_site(void **state)
{
	(void)state;
	set_all("max_user_connections", "1");
	struct ask *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	pass(10 * MS);
	ask(0, VERDICT_WAIT);
	next(0, VERDICT_NONE);
	/* however long the client here has waited, too */
	pass(SECOND);
	struct seat *seat = holder->seat;
	pool_abandon(seat, county.sites[0].now);
	world_gone(&county.sites[0], seat);
	forget_wishes();
	county.pools[0]->is_kicked = false;
	struct verdict v = next(0, VERDICT_NONE);
	assert_true(v.wake_us < UINT64_MAX);
	assert_false(county.pools[0]->is_kicked);
	assert_int_equal(only_wish(WISH_LOOK)->to, 1);
	/* the other site does not take the room; its thread may be busy */
	pass(SECOND);
	dial_in(county.pools[0], 0, VERDICT_GRANT);
}

/* A pool has become too small for its servers: the site where one rests closes it. */
static void surplus_rests_elsewhere(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);

	ask_and_dial(1);
	world_give(&county.sites[0], holder->seat, VERDICT_REST);
	set_all("default_pool_size", "1");
	forget_wishes();
	next(1, VERDICT_NONE);
	const struct sent *look = only_wish(WISH_LOOK);
	assert_int_equal(look->to, 0);
	county.pools[0]->is_kicked = false;
	hear(look, VERDICT_NONE);
	assert_true(county.pools[0]->is_kicked);
	next(0, VERDICT_RETIRE);
}

/* The tally of a pool's name shows only the pool that has the name now. */
static void killed_pool_is_shown_no_more(void **state)
{
	(void)state;
	struct pool *old = county.pools[1];
	struct tally_slot *slot = &old->tally->slots[1];

	pool_welcomed(old);
	struct ask *gone = ask(1, VERDICT_WAIT);
	catalog_kill(county.sites[1].c, old->database, "killed");
	assert_int_equal(slot->waiting_us, 0);
	assert_false(slot->has_welcome);
	county.pools[1] = world_pool(&county.sites[1], "d", "u");
	assert_ptr_not_equal(county.pools[1], old);
	county.pools[1]->database->paused = false;
	ask(1, VERDICT_WAIT);
	uint64_t since_us = slot->waiting_us;
	assert_true(since_us > 0);
	pool_part(gone);
	pool_free_if_unused(old);
	assert_true(slot->waiting_us == since_us);
}

/* A server that went to a paused pool would be closed there. */
static void paused_pool_receives_nothing(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	pass(SECOND);
	county.pools[1]->database->paused = true;
	next(1, VERDICT_NONE);
	assert_int_equal(
	    pool_give(holder->seat, county.sites[0].now).kind, VERDICT_REST);
	county.pools[1]->database->paused = false;
	next(1, VERDICT_NONE);
	assert_int_equal(hear(only_wish(WISH_SERVER), VERDICT_HAND).site, 1);
}

/* A client that waits for the welcome checks again when the other site does not answer
 * and there is no room for a server of its own. */
static void newcomer_looks_again(void **state)
{
	(void)state;
	struct ask *newcomer = &county.asks[ASKS - 1];

	set_all("default_pool_size", "1");
	pool_welcomed(county.pools[0]);
	ask_and_dial(0);
	world_join(county.pools[1], newcomer);
	assert_int_equal(
	    pool_ask(newcomer, ASK_WELCOME, county.sites[1].now).kind, VERDICT_WAIT);
	for (int i = 0; i < 3; i++) {
		struct verdict v = next(1, VERDICT_NONE);
		assert_true(v.wake_us < UINT64_MAX);
		pass(SECOND);
	}
	forget_wishes();
	for (int i = 0; i < 2; i++)
		next(1, VERDICT_NONE);
	assert_int_equal(only_wish(WISH_WELCOME)->to, 0);
}

/* One site opens the servers that min_pool_size asks of all sites together. */
static void min_pool_size_over_all(void **state)
{
	(void)state;
	set_all("min_pool_size", "1");
	for (unsigned i = 0; i < 2; i++)
		world_join(county.pools[i], &county.asks[i]);
	next(0, VERDICT_DIAL);
	next(1, VERDICT_NONE);
	struct seat *seat = unused_seat();
	pool_dialing(county.pools[0], seat, county.sites[0].now);
	next(1, VERDICT_NONE);
	pool_welcomed(county.pools[0]);
	pool_logged_in(seat, county.sites[0].now);
	for (unsigned i = 0; i < 2; i++)
		next(i, VERDICT_NONE);
	assert_int_equal(servers(county.pools[0]->tally), 1);
}

/* A server of theirs that ends at a site without clients is replaced at one with
 * clients. */
static void min_pool_size_of_clients_elsewhere(void **state)
{
	(void)state;
	struct ask *leaver = ask_and_dial(0);
	struct seat *seat = leaver->seat;

	set_all("min_pool_size", "1");
	world_join(county.pools[2], &county.asks[ASKS - 1]);
	world_give(&county.sites[0], seat, VERDICT_REST);
	pool_part(leaver);
	next(2, VERDICT_NONE);
	forget_wishes();
	county.pools[0]->is_kicked = county.pools[2]->is_kicked = false;
	pool_abandon(seat, county.sites[0].now);
	world_gone(&county.sites[0], seat);
	assert_true(county.pools[0]->is_kicked);
	next(0, VERDICT_NONE);
	const struct sent *look = only_wish(WISH_LOOK);
	assert_int_equal(look->to, 2);
	hear(look, VERDICT_NONE);
	assert_true(county.pools[2]->is_kicked);
	next(2, VERDICT_DIAL);
	pool_dialing(county.pools[2], unused_seat(), county.sites[2].now);
	/* nobody is left to need any */
	pool_part(&county.asks[ASKS - 1]);
	forget_wishes();
	pool_gone(county.seats, county.sites[2].now);
	next(0, VERDICT_NONE);
	next(2, VERDICT_NONE);
	no_wish(WISH_LOOK);
}

/* A resting server of another pool at another site makes room. */
static void room_is_asked_for(void **state)
{
	(void)state;
	struct world *w = &county.sites[1];
	struct pool *other = world_pool(w, "e", "u");
	struct ask *client = &county.asks[ASKS - 1];

	set_all("max_user_connections", "1");
	world_join(other, client);
	world_ask(w, client, VERDICT_WAIT);
	struct seat *seat = dial_in(other, 1, VERDICT_GRANT);
	struct ask *first = ask(0, VERDICT_WAIT);
	next(0, VERDICT_NONE);
	no_wish(WISH_ROOM);
	pool_withdraw(first);
	world_give(w, seat, VERDICT_REST);
	forget_wishes();
	world_ask(&county.sites[0], first, VERDICT_WAIT);
	next(0, VERDICT_NONE);
	const struct sent *room = only_wish(WISH_ROOM);
	assert_int_equal(room->to, 1);
	assert_int_equal(room->wish.of, TALLY_USER);
	assert_string_equal(room->wish.user, "u");
	assert_null(room->wish.database);
	struct verdict v = hear(room, VERDICT_RETIRE);
	assert_ptr_equal(v.seat, seat);
	world_gone(w, seat);
	dial_in(county.pools[0], 0, VERDICT_GRANT);
}

static void client_limits_over_all(void **state)
{
	(void)state;
	set_all("max_db_client_connections", "2");
	set_all("max_user_client_connections", "2");
	for (unsigned i = 0; i < 2; i++) {
		assert_true(database_may_enter(county.pools[i]->database, false));
		assert_true(user_may_enter(county.pools[i]->user, false));
	}
	/* the client that is one too many counts until it leaves */
	assert_false(database_may_enter(county.pools[2]->database, false));
	assert_false(user_may_enter(county.pools[2]->user, false));
	assert_true(database_may_enter(county.pools[2]->database, true));
	for (int i = 0; i < 2; i++)
		database_leave(county.pools[2]->database);
	user_leave(county.pools[2]->user);
	user_leave(county.pools[0]->user);
	database_leave(county.pools[0]->database);
	assert_true(database_may_enter(county.pools[2]->database, false));
	assert_true(user_may_enter(county.pools[2]->user, false));
	for (unsigned i = 1; i < SITES; i++) {
		database_leave(county.pools[i]->database);
		user_leave(county.pools[i]->user);
	}
}

/* A client on its way counts as well, at the site that it goes to. */
static void client_limits_while_one_moves(void **state)
{
	struct pool *from = county.pools[0], *to = county.pools[1];

	(void)state;
	set_all("max_db_client_connections", "1");
	set_all("max_user_client_connections", "1");
	assert_true(database_may_enter(from->database, false));
	assert_true(user_may_enter(from->user, false));
	database_carry(from->database, 1);
	user_carry(from->user, 1);
	for (unsigned i = 0; i < SITES; i++) {
		assert_false(database_may_enter(county.pools[i]->database, false));
		assert_false(user_may_enter(county.pools[i]->user, false));
		database_leave(county.pools[i]->database);
		user_leave(county.pools[i]->user);
	}
	database_receive(to->database);
	user_receive(to->user);
	assert_false(database_may_enter(to->database, false));
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
	struct ask *holder = ask_and_dial(0);
	const struct tally *tally = county.pools[0]->tally;

	set_all("default_pool_size", "1");
	struct ask *waiter = ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	struct verdict v = world_give(&county.sites[0], holder->seat, VERDICT_HAND);
	assert_int_equal(v.site, 1);
	/* on its way the server counts, and nobody else has it */
	assert_int_equal(servers(tally), 1);
	assert_int_equal(tally->slots[0].resting, 0);
	ask(2, VERDICT_WAIT);
	next(2, VERDICT_NONE);
	struct seat *seat = carry(0, &v);
	assert_int_equal(servers(tally), 1);
	assert_int_equal(tally->slots[0].servers, 0);
	assert_int_equal(tally->slots[1].servers, 1);
	assert_int_equal(tally->slots[1].resting, 1);
	assert_int_equal(county.sites[0].c->server_count, 0);
	assert_int_equal(county.sites[1].c->server_count, 1);
	v = next(1, VERDICT_GRANT);
	assert_ptr_equal(v.ask, waiter);
	assert_ptr_equal(v.seat, seat);
}

static void resting_elsewhere(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);
	struct seat *seat = holder->seat;

	world_give(&county.sites[0], seat, VERDICT_REST);
	pass(5 * MS);
	ask(1, VERDICT_WAIT);
	struct verdict v = next(1, VERDICT_NONE);
	assert_true(v.wake_us < UINT64_MAX);
	const struct sent *wish = only_wish(WISH_SERVER);
	assert_int_equal(wish->to, 0);
	assert_string_equal(wish->wish.database, "d");
	assert_string_equal(wish->wish.user, "u");
	/* the server is asked for once, and nothing is dialed meanwhile */
	next(1, VERDICT_NONE);
	v = hear(only_wish(WISH_SERVER), VERDICT_HAND);
	assert_ptr_equal(v.seat, seat);
	assert_int_equal(v.site, 1);
	seat = carry(0, &v);
	v = next(1, VERDICT_GRANT);
	assert_ptr_equal(v.seat, seat);
	assert_int_equal(servers(county.pools[0]->tally), 1);
}

/* The site that asks is not the one whose client has waited longest. */
static void resting_elsewhere_for_another(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct ask *holder = ask_and_dial(0);

	struct ask *first = ask(2, VERDICT_WAIT);
	next(2, VERDICT_NONE);
	pass(50 * MS);
	ask(1, VERDICT_WAIT);
	/* the server comes to rest while no server may change sites */
	tallies_freeze(county.tallies, true);
	world_give(&county.sites[0], holder->seat, VERDICT_REST);
	tallies_freeze(county.tallies, false);
	next(1, VERDICT_NONE);
	struct verdict v = hear(only_wish(WISH_SERVER), VERDICT_HAND);
	assert_int_equal(v.site, 2);
	carry(0, &v);
	v = next(2, VERDICT_GRANT);
	assert_ptr_equal(v.ask, first);
}

/* The site that was asked has meanwhile given the server to its own client. */
static void nothing_left_to_give(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);

	world_give(&county.sites[0], holder->seat, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	world_ask(&county.sites[0], holder, VERDICT_GRANT);
	hear(only_wish(WISH_SERVER), VERDICT_NONE);
	wishes_answered(county.pools[1], false, county.sites[1].now);
	assert_true(county.pools[1]->is_kicked);
	dial_in(county.pools[1], 1, VERDICT_GRANT);
	assert_int_equal(servers(county.pools[0]->tally), 2);
}

static void fail_login(unsigned site)
{
	struct seat *seat = unused_seat();

	next(site, VERDICT_DIAL);
	pool_dialing(county.pools[site], seat, county.sites[site].now);
	pool_dial_failed(seat, DIAL_LOGIN, "too many", "53300", county.sites[site].now);
	world_gone(&county.sites[site], seat);
}

/* A login that fails at one site refuses nobody while the pool has servers at another
 * one, as it is with one site. */
static void login_fails_beside_servers_elsewhere(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);
	struct seat *seat = holder->seat;

	ask(1, VERDICT_WAIT);
	fail_login(1);
	next(1, VERDICT_NONE);
	pass(MS);
	struct ask *later = ask(1, VERDICT_WAIT);
	pass(50 * MS);
	struct verdict v = world_give(&county.sites[0], seat, VERDICT_HAND);
	seat = carry(0, &v);
	v = next(1, VERDICT_GRANT);
	assert_ptr_equal(v.seat, seat);
	/* when the pool has no server any more, they need not wait */
	pool_gone(seat, county.sites[1].now);
	pass(20 * (uint64_t)SECOND); /* server_login_retry */
	fail_login(1);
	v = next(1, VERDICT_REFUSE);
	assert_ptr_equal(v.ask, later);
	world_ask(&county.sites[1], later, VERDICT_REFUSE);
}

/* The only server of a pool is on its way to another site. */
static void login_fails_while_a_server_is_on_its_way(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);
	struct ask *waiter = ask(1, VERDICT_WAIT);
	struct seat *login = unused_seat();

	next(1, VERDICT_DIAL);
	pool_dialing(county.pools[1], login, county.sites[1].now);
	pass(50 * MS);
	struct verdict v = world_give(&county.sites[0], holder->seat, VERDICT_HAND);
	pool_dial_failed(login, DIAL_LOGIN, "too many", "53300", county.sites[1].now);
	world_gone(&county.sites[1], login);
	next(1, VERDICT_NONE);
	ask(1, VERDICT_WAIT);
	carry(0, &v);
	v = next(1, VERDICT_GRANT);
	assert_ptr_equal(v.ask, waiter);
}

/* A site that does not answer does not block a client for ever. */
static void no_answer(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);

	world_give(&county.sites[0], holder->seat, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	struct verdict v = next(1, VERDICT_NONE);
	pass(v.wake_us - county.sites[1].now);
	while ((v = pool_next(county.pools[1], county.sites[1].now)).kind ==
	       VERDICT_NONE) {
		assert_true(v.wake_us < 101 * (uint64_t)SECOND);
		pass(v.wake_us - county.sites[1].now);
	}
	assert_int_equal(v.kind, VERDICT_DIAL);
	struct seat *seat = unused_seat();
	pool_dialing(county.pools[1], seat, county.sites[1].now);
}

/* The client that asked has left: the server stays. */
static void asked_for_in_vain(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);

	world_give(&county.sites[0], holder->seat, VERDICT_REST);
	struct ask *waiter = ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	pool_part(waiter);
	hear(only_wish(WISH_SERVER), VERDICT_NONE);
}

static void longest_waiter_first(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct ask *holder = ask_and_dial(0);

	struct ask *second = ask(2, VERDICT_WAIT);
	pass(50 * MS);
	ask(1, VERDICT_WAIT);
	pass(50 * MS);
	struct ask *own = ask(0, VERDICT_WAIT);
	struct verdict v = world_give(&county.sites[0], holder->seat, VERDICT_HAND);
	assert_int_equal(v.site, 2);
	carry(0, &v);
	next(0, VERDICT_NONE);
	v = next(2, VERDICT_GRANT);
	assert_ptr_equal(v.ask, second);
	v = world_give(&county.sites[2], second->seat, VERDICT_HAND);
	assert_int_equal(v.site, 1);
	carry(2, &v);
	v = next(1, VERDICT_GRANT);
	v = world_give(&county.sites[1], v.seat, VERDICT_HAND);
	assert_int_equal(v.site, 0);
	carry(1, &v);
	v = next(0, VERDICT_GRANT);
	assert_ptr_equal(v.ask, own);
}

/* While a server is on its way to a site, the next one goes to another site that waits,
 * or stays: the thread of the first may stand still. */
static void one_server_at_a_time(void **state)
{
	(void)state;
	struct ask *holders[3];

	set_all("default_pool_size", "3");
	for (unsigned i = 0; i < 3; i++)
		holders[i] = ask_and_dial(0);
	ask(1, VERDICT_WAIT);
	ask(1, VERDICT_WAIT);
	pass(50 * MS);
	ask(2, VERDICT_WAIT);
	struct verdict v = world_give(&county.sites[0], holders[0]->seat, VERDICT_HAND);
	assert_int_equal(v.site, 1);
	struct verdict other =
	    world_give(&county.sites[0], holders[1]->seat, VERDICT_HAND);
	assert_int_equal(other.site, 2);
	world_give(&county.sites[0], holders[2]->seat, VERDICT_REST);
	carry(0, &v);
	next(1, VERDICT_GRANT);
	pass(5 * MS);
	forget_wishes();
	next(1, VERDICT_NONE);
	v = hear(only_wish(WISH_SERVER), VERDICT_HAND);
	assert_int_equal(v.site, 1);
}

static uint64_t shown(unsigned site)
{
	return county.pools[site]->tally->slots[site].waiting_us;
}

/* Others see a client only when its own site has let it wait for a millisecond; the
 * site that has no server shows it at once. */
static void shown_after_a_while(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct ask *holder = ask_and_dial(0);
	struct ask *waiter = ask(0, VERDICT_WAIT);

	assert_int_equal(shown(0), 0);
	assert_int_equal(next(0, VERDICT_NONE).wake_us, waiter->queued_us + 2 * MS);
	pass(MS - 1);
	next(0, VERDICT_NONE);
	assert_int_equal(shown(0), 0);
	pass(1);
	next(0, VERDICT_NONE);
	assert_int_equal(shown(0), waiter->queued_us);
	world_give(&county.sites[0], holder->seat, VERDICT_GRANT);
	assert_int_equal(shown(0), 0);
	waiter = ask(1, VERDICT_WAIT);
	assert_int_equal(shown(1), waiter->queued_us);
}

/* What is shown follows the first client with less than a millisecond of delay. */
static void shown_a_little_too_early(void **state)
{
	(void)state;
	struct ask *waiters[3], *holder = ask_and_dial(0);

	set_all("default_pool_size", "1");
	for (unsigned i = 0; i < 3; i++) {
		waiters[i] = ask(0, VERDICT_WAIT);
		pass(MS / 2);
	}
	pass(50 * MS);
	next(0, VERDICT_NONE);
	assert_int_equal(shown(0), waiters[0]->queued_us);
	world_give(&county.sites[0], holder->seat, VERDICT_GRANT);
	assert_int_equal(shown(0), waiters[0]->queued_us);
	world_give(&county.sites[0], waiters[0]->seat, VERDICT_GRANT);
	assert_int_equal(shown(0), waiters[2]->queued_us);
}

/* When the first client was served before anybody had to see the next one, the time to
 * show that one is set. */
static void next_one_is_shown_in_time(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);

	set_all("default_pool_size", "1");
	ask(0, VERDICT_WAIT);
	pass(MS);
	next(0, VERDICT_NONE);
	assert_int_not_equal(shown(0), 0);
	const struct ask *second = ask(0, VERDICT_WAIT);
	county.pools[0]->is_kicked = false;
	world_give(&county.sites[0], holder->seat, VERDICT_GRANT);
	assert_int_equal(shown(0), 0);
	assert_true(county.pools[0]->is_kicked);
	assert_int_equal(next(0, VERDICT_NONE).wake_us, second->queued_us + 2 * MS);
}

/* A client that joins a queue changes nothing for the pool. */
static void one_more_waits(void **state)
{
	(void)state;

	set_all("default_pool_size", "1");
	ask_and_dial(0);
	county.pools[0]->is_kicked = false;
	ask(0, VERDICT_WAIT);
	assert_true(county.pools[0]->is_kicked);
	county.pools[0]->is_kicked = false;
	ask(0, VERDICT_WAIT);
	assert_false(county.pools[0]->is_kicked);
}

/* Servers that rested there only for a moment: the site is left alone for a while, or
 * until it tells that one rests. */
static void asked_in_vain_and_again(void **state)
{
	(void)state;
	struct ask *holder = ask_and_dial(0);

	world_give(&county.sites[0], holder->seat, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	for (int i = 0; i < 2; i++) {
		forget_wishes();
		next(1, VERDICT_NONE);
		only_wish(WISH_SERVER);
		wishes_answered(county.pools[1], false, county.sites[1].now);
		forget_wishes();
		assert_int_equal(
		    next(1, VERDICT_NONE).wake_us, county.sites[1].now + 2 * MS);
		no_wish(WISH_SERVER);
		pass(2 * MS);
	}
	next(1, VERDICT_NONE);
	wishes_answered(county.pools[1], false, county.sites[1].now);
	forget_wishes();
	const struct wish look = {
	    .kind = WISH_LOOK, .of = TALLY_POOL, .database = "d", .user = "u"};
	wishes_hear(county.sites[1].c, &look, county.sites[1].now);
	next(1, VERDICT_NONE);
	only_wish(WISH_SERVER);
}

/* Nobody is told of a server that goes to another site, or that a client waits for
 * where it arrives. */
static void moves_quietly(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct ask *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	pass(MS);
	ask(2, VERDICT_WAIT);
	struct verdict v = world_give(&county.sites[0], holder->seat, VERDICT_HAND);
	assert_int_equal(v.site, 1);
	assert_int_equal(v.seat->rested_us, county.sites[0].now);
	struct seat *seat = carry(0, &v);
	assert_int_equal(seat->state, SEAT_IDLE);
	assert_int_equal(county.sent_count, 0);
	next(1, VERDICT_GRANT);
}

/* A slightly longer wait does not make a server change sites. */
static void about_as_long(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct ask *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	pass(1 * MS);
	struct ask *own = ask(0, VERDICT_WAIT);
	struct verdict v = pool_give(holder->seat, county.sites[0].now);
	assert_int_equal(v.kind, VERDICT_GRANT);
	assert_ptr_equal(v.ask, own);
}

/* ---- servers that do not arrive ---- */

static void lost_before_it_went(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct ask *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	struct verdict v = world_give(&county.sites[0], holder->seat, VERDICT_HAND);
	ask(0, VERDICT_WAIT);
	forget_wishes();
	county.pools[0]->is_kicked = false;
	world_gone(&county.sites[0], v.seat);
	assert_int_equal(servers(county.pools[0]->tally), 0);
	assert_int_equal(county.pools[0]->tally->slots[1].arriving, 0);
	assert_true(county.pools[0]->is_kicked);
	assert_int_equal(only_wish(WISH_LOOK)->to, 1);
}

static void lost_on_arrival(void **state)
{
	(void)state;
	set_all("default_pool_size", "1");
	struct ask *holder = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	struct verdict v = world_give(&county.sites[0], holder->seat, VERDICT_HAND);
	pool_carried(v.seat);
	world_gone(&county.sites[0], v.seat);
	assert_int_equal(servers(county.pools[0]->tally), 1);
	ask(2, VERDICT_WAIT);
	next(2, VERDICT_NONE);
	forget_wishes();
	county.pools[1]->is_kicked = false;
	wishes_lost(county.sites[1].c, "d", "u", 0);
	assert_int_equal(servers(county.pools[0]->tally), 0);
	assert_int_equal(servers(county.sites[0].c->tally), 0);
	assert_int_equal(county.pools[0]->tally->slots[1].arriving, 0);
	assert_true(county.pools[1]->is_kicked);
	assert_int_equal(only_wish(WISH_LOOK)->to, 2);
}

/* ---- welcomes ---- */

static void welcome_is_asked_for(void **state)
{
	(void)state;
	struct ask *newcomer = &county.asks[ASKS - 1];

	ask_and_dial(0);
	assert_int_equal(county.welcomed[0], 1);
	world_join(county.pools[1], newcomer);
	struct verdict v = pool_ask(newcomer, ASK_WELCOME, county.sites[1].now);
	assert_int_equal(v.kind, VERDICT_WAIT);
	assert_true(county.pools[1]->tally->slots[1].wants_welcome);
	next(1, VERDICT_NONE);
	const struct sent *wish = only_wish(WISH_WELCOME);
	assert_int_equal(wish->to, 0);
	assert_int_equal(
	    tally_find_welcome(&county.sites[1].c->view, county.pools[1]->tally), 0);
	pool_welcomed(county.pools[1]);
	wishes_answered(county.pools[1], false, county.sites[1].now);
	v = next(1, VERDICT_ADMIT);
	assert_ptr_equal(v.ask, newcomer);
	assert_false(county.pools[1]->tally->slots[1].wants_welcome);
	assert_int_equal(servers(county.pools[0]->tally), 1);
}

/* Sites with one server each do not take servers that others have just given back. */
static void own_server_is_awaited(void **state)
{
	(void)state;
	struct ask *first = ask_and_dial(0);

	ask_and_dial(1);
	world_give(&county.sites[0], first->seat, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	struct verdict v = next(1, VERDICT_NONE);
	assert_true(v.wake_us <= county.sites[1].now + MS);
	no_wish(WISH_SERVER);
	pass(MS);
	next(1, VERDICT_NONE);
	assert_int_equal(hear(only_wish(WISH_SERVER), VERDICT_HAND).site, 1);
}

/* A site that asks has already waited long enough, so it is not refused; otherwise it
 * would ask again at once. */
static void who_asks_gets(void **state)
{
	(void)state;
	struct ask *first = ask_and_dial(0);
	const struct sent sent = {.to = 0,
	    .wish = {.kind = WISH_SERVER,
		.from = 1,
		.of = TALLY_POOL,
		.database = "d",
		.user = "u"}};

	ask_and_dial(1);
	ask(1, VERDICT_WAIT);
	world_give(&county.sites[0], first->seat, VERDICT_REST);
	pass(MS);
	next(1, VERDICT_NONE);
	assert_int_equal(hear(&sent, VERDICT_HAND).site, 1);
}

/* A server that is given back goes to another site's client only if that site lets its
 * client wait. */
static void given_back_while_own_server_is_awaited(void **state)
{
	(void)state;
	struct ask *first = ask_and_dial(0);

	ask_and_dial(1);
	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	world_give(&county.sites[0], first->seat, VERDICT_REST);
	world_ask(&county.sites[0], first, VERDICT_GRANT);
	pass(MS);
	next(1, VERDICT_NONE);
	struct verdict v = pool_give(first->seat, county.sites[0].now);
	assert_int_equal(v.kind, VERDICT_HAND);
	assert_int_equal(v.site, 1);
}

/* A client of database d's other user waits at this site for room under the limit. */
static void ask_of_other_pool(unsigned site)
{
	struct world *w = &county.sites[site];
	struct pool *other = world_pool(w, "d", "v");
	struct ask *a = county.asks;

	while (a->pool)
		assert_true(++a < county.asks + ASKS);
	world_join(other, a);
	world_ask(w, a, VERDICT_WAIT);
	world_next(w, other, VERDICT_NONE);
	assert_true(room_is_wanted(other));
}

/* The clients of a pool never all rest, but each site has one of them alone.  A server
 * that is given back is closed when another pool's client has waited longer than all of
 * them. */
static void busy_pool_makes_room(void **state)
{
	(void)state;
	set_all("max_db_connections", "1");
	struct ask *first = ask_and_dial(0);

	ask_of_other_pool(2);
	pass(SECOND);
	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	pass(50 * MS);
	struct verdict v = pool_give(first->seat, county.sites[0].now);
	assert_int_equal(v.kind, VERDICT_RETIRE);
	forget_wishes();
	world_gone(&county.sites[0], v.seat);
	assert_int_equal(servers(county.pools[0]->database->tally), 0);
	for (size_t i = 0; i < county.sent_count; i++)
		if (county.sent[i].wish.of == TALLY_DATABASE)
			assert_int_equal(county.sent[i].to, 2);
}

/* The same pool's client at another site has waited longer. */
static void busy_pool_keeps_its_turn(void **state)
{
	(void)state;
	set_all("max_db_connections", "1");
	struct ask *first = ask_and_dial(0);

	ask(1, VERDICT_WAIT);
	next(1, VERDICT_NONE);
	pass(SECOND);
	ask_of_other_pool(2);
	pass(SECOND);
	ask(0, VERDICT_WAIT);
	pass(SECOND);
	struct verdict v = pool_give(first->seat, county.sites[0].now);
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
	struct world *w = &county.sites[1];
	struct pool *other = world_pool(w, "d", "v");
	struct ask *owner = &county.asks[ASKS - 1];

	ask_and_dial(0);
	world_join(other, owner);
	world_ask(w, owner, VERDICT_WAIT);
	dial_in(other, 1, VERDICT_GRANT);
	world_give(w, owner->seat, VERDICT_REST);
	ask(1, VERDICT_WAIT);
	pass(50 * MS);
	next(1, VERDICT_NONE);
	/* nor does it when another site asks */
	forget_wishes();
	ask(2, VERDICT_WAIT);
	pass(50 * MS);
	next(2, VERDICT_NONE);
	const struct sent *room = only_wish(WISH_ROOM);
	assert_int_equal(room->to, 1);
	hear(room, VERDICT_NONE);
	pass(5 * SECOND);
	assert_ptr_equal(hear(room, VERDICT_RETIRE).seat->pool, other);
}

/* Its client may be at another site than its server. */
static void minimum_of_a_client_elsewhere_stays(void **state)
{
	(void)state;
	set_all("max_server_connections", "2");
	set_all("min_pool_size", "1");
	struct world *w = &county.sites[1];
	struct pool *other = world_pool(w, "d", "v");
	struct ask *leaver = &county.asks[ASKS - 1], *stayer = &county.asks[ASKS - 2];

	ask_and_dial(0);
	world_join(other, leaver);
	world_ask(w, leaver, VERDICT_WAIT);
	dial_in(other, 1, VERDICT_GRANT);
	world_give(w, leaver->seat, VERDICT_REST);
	world_join(world_pool(&county.sites[2], "d", "v"), stayer);
	pool_part(leaver);
	ask(1, VERDICT_WAIT);
	pass(SECOND);
	next(1, VERDICT_NONE);
	pool_part(stayer);
	assert_ptr_equal(next(1, VERDICT_RETIRE).seat->pool, other);
}

/* The only client may ask again before the other site asks for room. */
static void resting_server_makes_room(void **state)
{
	(void)state;
	set_all("max_db_connections", "1");
	struct ask *first = ask_and_dial(0);

	world_give(&county.sites[0], first->seat, VERDICT_REST);
	world_ask(&county.sites[0], first, VERDICT_GRANT);
	ask_of_other_pool(2);
	pass(MS);
	world_give(&county.sites[0], first->seat, VERDICT_RETIRE);
}

static void suspended_server_stays(void **state)
{
	(void)state;
	set_all("max_db_connections", "1");
	struct ask *first = ask_and_dial(0);

	ask_of_other_pool(2);
	pass(SECOND);
	for (unsigned i = 0; i < SITES; i++)
		county.sites[i].c->suspended = true;
	world_give(&county.sites[0], first->seat, VERDICT_REST);
}

/* Each site balances its own clients, and its first ones are few. */
static void sites_begin_at_other_hosts(void **state)
{
	static const char *const names[SITES] = {"a", "b", "c"};

	(void)state;
	for (unsigned i = 0; i < SITES; i++) {
		struct world *w = &county.sites[i];
		struct pool *pool = world_pool(w, "h", "u");
		assert_string_equal(hosts_next(pool)->name, names[i]);
		assert_int_equal(hosts_next(pool)->assignments, 0);
		/* The first host of the list is taken as long as it serves. */
		pool = world_pool(w, "f", "u");
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
		pools[i] = world_pool(&county.sites[i], "r", "u");
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
	    TEST(told_of_what_is_left),
	    TEST(told_of_what_is_left_under_a_limit),
	    TEST(room_is_left_to_another_site),
	    TEST(killed_pool_is_shown_no_more),
	    TEST(paused_pool_receives_nothing),
	    TEST(newcomer_looks_again),
	    TEST(min_pool_size_over_all),
	    TEST(min_pool_size_of_clients_elsewhere),
	    TEST(room_is_asked_for),
	    TEST(client_limits_over_all),
	    TEST(client_limits_while_one_moves),
	    TEST(given_back_for_another_site),
	    TEST(resting_elsewhere),
	    TEST(own_server_is_awaited),
	    TEST(who_asks_gets),
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
	    TEST(one_server_at_a_time),
	    TEST(shown_after_a_while),
	    TEST(shown_a_little_too_early),
	    TEST(next_one_is_shown_in_time),
	    TEST(one_more_waits),
	    TEST(asked_in_vain_and_again),
	    TEST(moves_quietly),
	    TEST(surplus_rests_elsewhere),
	    TEST(minimum_of_another_pool_stays),
	    TEST(minimum_of_a_client_elsewhere_stays),
	    TEST(about_as_long),
	    TEST(lost_before_it_went),
	    TEST(lost_on_arrival),
	    TEST(welcome_is_asked_for),
	};

	return cmocka_run_group_tests_name("elsewhere", tests, NULL, NULL);
}
