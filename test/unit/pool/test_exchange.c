/*
 * Catalogs of several workers that are one: limits over all of them, servers that
 * change workers, the order of clients, and what workers tell each other.  Most tests
 * are scripts of steps, such as "hold 0 a; ask 1 b; give a hand 1": worker 0's client a
 * gets a server, client b of worker 1 waits, and a gives its server back, which goes to
 * worker 1.  play_move, play_event and play_sight have all.  Notes arrive when a step
 * delivers them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "pool/conn_limits.h"
#include "pool/exchange.h"
#include "pool/hosts.h"
#include "pool/notes.h"
#include "pool/pool_effective.h"
#include "pool_fixture.h"

enum { SITES = 3, SLOTS = 8, NOTES = 64, MS = 1000 };
/* Clients and servers have names: a letter, up to M a capital for the pool of user v,
 * and up to Z for that of database e.  A server has the name of the client for which it
 * was opened. */
enum { NAMES = 'z' + 1 };

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
	struct pool_request requests[NAMES];
	struct slot *servers[NAMES];
	struct slot *login[SITES];        /* a server that is being opened */
	struct central_note *sent[NOTES]; /* not yet delivered */
	size_t sent_count;
	struct verdict on_the_way[SLOTS]; /* servers that are handed over, in order */
	size_t on_the_way_count;
	struct verdict last; /* of the last step that has one */
	struct slot *departed;
	char step[64]; /* the step that is played, which a failure shows */
};

static struct shared_fixture shared;

/* ---- the workers ---- */

static void on_note(void *ctx, struct central_note *note)
{
	(void)ctx;
	assert_true(shared.sent_count < NOTES);
	shared.sent[shared.sent_count++] = note;
}

static int set_up(void **state)
{
	(void)state;
	memset(&shared, 0, sizeof(shared));
	shared.central = central_new(SITES);
	for (unsigned i = 0; i < SITES; i++) {
		struct fixture *w = &shared.sites[i];
		fixture_init_worker(w, ini, shared.central, i);
		w->c->view.post = on_note;
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
	if (*shared.step)
		print_message("in the step \"%s\"\n", shared.step);
	for (size_t i = 0; i < SLOTS; i++)
		pool_gone(&shared.slots[i], shared.sites[0].now);
	for (size_t i = 0; i < NAMES; i++)
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

/* ---- steps ---- */

static const char *const verdicts[] = {
    [VERDICT_NONE] = "none",
    [VERDICT_WAIT] = "wait",
    [VERDICT_GRANT] = "grant",
    [VERDICT_REFUSE] = "refuse",
    [VERDICT_DIAL] = "dial",
    [VERDICT_REST] = "rest",
    [VERDICT_RETIRE] = "retire",
    [VERDICT_HAND] = "hand",
    [VERDICT_RESET] = "reset",
    [VERDICT_ADMIT] = "admit",
};

/* The words of a step behind its verb, such as 1 b grant; NULL behind the last one. */
typedef const char *const *words_of;
#define IS(word) (strcmp(verb, word) == 0)

static unsigned site_in(const char *word)
{
	assert_in_range(*word, '0', '0' + SITES - 1);
	return (unsigned)(*word - '0');
}

static struct pool_request *client_in(const char *word)
{
	return &shared.requests[(unsigned char)*word];
}

static struct slot **server_in(const char *word)
{
	return &shared.servers[(unsigned char)*word];
}

/* The pool of this client at this site. */
static struct pool *pool_for(unsigned site, const char *client)
{
	if (!client || *client > 'Z')
		return shared.pools[site];
	return *client < 'N' ? fixture_pool(&shared.sites[site], "d", "v")
			     : fixture_pool(&shared.sites[site], "e", "u");
}

static enum verdict_kind verdict_in(const char *word, enum verdict_kind usual)
{
	for (unsigned i = 0; word && i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
		if (verdicts[i] && strcmp(verdicts[i], word) == 0)
			return (enum verdict_kind)i;
	assert_null(word);
	return usual;
}

/* Behind a verdict may stand what it is about: "grant CLIENT SERVER", "refuse CLIENT",
 * "retire SERVER", "hand SITE SERVER".  A server that is handed is on its way then. */
static void heed(struct verdict v, words_of w)
{
	const char *about = *w ? w[1] : NULL, *server = about ? w[2] : NULL;

	shared.last = v;
	if (v.kind == VERDICT_HAND) {
		assert_int_equal(v.site, site_in(about));
		shared.on_the_way[shared.on_the_way_count++] = v;
	} else if (v.kind == VERDICT_RETIRE) {
		server = about;
	} else if (about) {
		assert_ptr_equal(v.request, client_in(about));
	}
	if (server)
		assert_ptr_equal(v.slot, *server_in(server));
}

static struct slot *unused_slot(void)
{
	struct slot *slot = shared.slots;

	while (slot->pool)
		assert_true(++slot < shared.slots + SLOTS);
	return slot;
}

static void do_join(words_of w)
{
	if (!client_in(w[1])->pool)
		fixture_join(pool_for(site_in(w[0]), w[1]), client_in(w[1]));
}

static void do_ask(words_of w)
{
	do_join(w);
	heed(fixture_ask(&shared.sites[site_in(w[0])], client_in(w[1]),
		 verdict_in(w[2], VERDICT_WAIT)),
	    w + 2);
}

static void do_open(words_of w)
{
	unsigned site = site_in(w[0]);
	struct slot *slot = unused_slot();
	struct verdict v = fixture_dial(&shared.sites[site], pool_for(site, w[1]), slot,
	    verdict_in(w[1] ? w[2] : NULL, VERDICT_GRANT));

	if (w[1] && v.kind == VERDICT_GRANT)
		assert_ptr_equal(v.request, client_in(w[1]));
	*server_in(w[1] ? w[1] : "?") = slot;
	heed(v, w[1] ? w + 2 : w + 1);
}

static void do_next(words_of w)
{
	unsigned site = site_in(w[0]);

	heed(fixture_next(&shared.sites[site], shared.pools[site],
		 verdict_in(w[1], VERDICT_NONE)),
	    w + 1);
}

/* A client of the other pool waits for room under a limit. */
static void do_other(words_of w)
{
	struct fixture *site = &shared.sites[site_in(w[0])];
	struct pool *pool = pool_for(site_in(w[0]), w[1]);

	do_ask(w);
	fixture_next(site, pool, VERDICT_NONE);
	assert_true(conn_limits_is_wanted(pool));
}

static void do_give(words_of w)
{
	struct slot *slot = client_in(w[0])->slot;
	unsigned site = slot->pool->part.worker;

	heed(fixture_give(&shared.sites[site], slot, verdict_in(w[1], VERDICT_REST)),
	    w + 1);
}

/* The server that is first on its way leaves its site. */
static struct verdict depart(void)
{
	struct verdict v = shared.on_the_way[0];

	memmove(shared.on_the_way, shared.on_the_way + 1,
	    --shared.on_the_way_count * sizeof(v));
	pool_carried(v.slot);
	shared.departed = v.slot;
	fixture_gone(&shared.sites[v.slot->pool->part.worker], v.slot);
	return v;
}

static void arrive(void)
{
	struct slot was = *shared.on_the_way[0].slot;
	struct slot *slot = unused_slot();

	assert_int_equal(was.state, SLOT_NONE);
	was.state = was.carried_as;
	struct verdict v = depart();
	*slot = (struct slot){.state = SLOT_NONE};
	pool_move_in(shared.pools[v.site], slot, NULL, &was, NULL, 5432,
	    shared.sites[v.site].now);
	for (size_t i = 0; i < NAMES; i++)
		if (shared.servers[i] == v.slot)
			shared.servers[i] = slot;
	shared.last.slot = slot;
}

static void do_told(words_of w)
{
	struct pool *pool = shared.pools[site_in(w[0])];

	pool->is_scheduled = false;
	hear(site_in(w[0]), VERDICT_NONE);
	assert_true(pool->is_scheduled);
}

static void set(const char *name, const char *value)
{
	for (unsigned i = 0; i < SITES; i++)
		fixture_set(&shared.sites[i], name, value);
}

/* What clients do, and servers that change sites. */
static bool play_move(const char *verb, words_of w)
{
	if (IS("join")) /* SITE CLIENT: needs no server yet */
		do_join(w);
	else if (IS("ask")) /* SITE CLIENT [VERDICT]: wait, if none is named */
		do_ask(w);
	else if (IS("open")) /* SITE [SERVER [VERDICT]]: expects DIAL; it logs in, and
			      * the client of its name gets it */
		do_open(w);
	else if (IS("hold")) /* SITE CLIENT: ask and open */
		do_ask(w), do_open(w);
	else if (IS("other")) /* SITE CLIENT: of another pool, waits for room */
		do_other(w);
	else if (IS("next")) /* SITE [VERDICT]: none, if none is named */
		do_next(w);
	else if (IS("give")) /* CLIENT [VERDICT]: rest, if none is named */
		do_give(w);
	else if (IS("part")) /* CLIENT: leaves */
		pool_part(client_in(w[0]));
	else if (IS("withdraw")) /* CLIENT: waits no longer */
		pool_withdraw(client_in(w[0]));
	else if (IS("arrive")) /* the server that is first on its way */
		arrive();
	else if (IS("depart")) /* it has left its site, and comes to none */
		depart();
	else if (IS("told")) /* SITE: notes ask it to look at the pool */
		do_told(w);
	else if (IS("look")) /* SITE [VERDICT]: the same, and it looks */
		do_told(w), do_next(w);
	else if (IS("hear")) /* SITE [VERDICT]: gets its notes */
		heed(hear(site_in(w[0]), verdict_in(w[1], VERDICT_NONE)), w + 1);
	else if (IS("forget")) /* notes that are not delivered */
		forget_notes();
	else if (IS("freeze")) /* 1 or 0: no server may change sites */
		central_freeze(shared.central, *w[0] == '1');
	else if (IS("ms")) /* COUNT: so much time passes */
		for (unsigned i = 0; i < SITES; i++)
			shared.sites[i].now += (uint64_t)atoi(w[0]) * MS;
	else if (IS("set")) /* NAME VALUE */
		set(w[0], w[1]);
	else if (IS("size")) /* VALUE */
		set("default_pool_size", w[0]);
	else
		return false;
	return true;
}

/* What happens at one site. */
static bool play_event(const char *verb, words_of w)
{
	unsigned i = w[0] ? (unsigned)atoi(w[0]) % SITES : 0;
	struct pool *pool = shared.pools[i];
	struct fixture *site = &shared.sites[i];

	if (IS("start")) /* SITE: begins to open the server of a DIAL */
		pool_dialing(pool, shared.login[i] = unused_slot(), site->now);
	else if (IS("login")) /* SITE: that one logs in */
		pool_got_login_params(pool), pool_logged_in(shared.login[i], site->now);
	else if (IS("fail")) /* SITE: its login fails */
		pool_dial_failed(
		    shared.login[i], DIAL_LOGIN, "too many", "53300", site->now),
		    fixture_gone(site, shared.login[i]);
	else if (IS("drop")) /* SITE: it is closed */
		fixture_gone(site, shared.login[i]);
	else if (IS("end")) /* SERVER: is lost */
		pool_abandon(*server_in(w[0]), site->now),
		    fixture_gone(site, *server_in(w[0]));
	else if (IS("gone")) /* SERVER: is closed, and counts no longer */
		fixture_gone(site, *server_in(w[0]));
	else if (IS("lose")) /* SITE: will not get the server that has departed */
		notes_lost(site->c, pool->part.whole, shared.departed);
	else if (IS("pause")) /* SITE 1 or 0 */
		pool->database->paused = *w[1] == '1';
	else if (IS("suspend"))
		for (i = 0; i < SITES; i++)
			shared.sites[i].c->suspended = true;
	else if (IS("clock")) /* SITE COUNT: so many ms pass, the others do not know */
		site->now += (uint64_t)atoi(w[1]) * MS;
	else if (IS("unschedule")) /* SITE: its pool need not be looked at */
		pool->is_scheduled = false;
	else
		return false;
	return true;
}

static const struct central_pool *whole(void)
{
	return shared.pools[0]->part.whole;
}

/* "note look 1": one such note is not delivered yet, that to site 1; "note look": none
 * is. */
static void expect_note(enum note_kind kind, const char *site)
{
	size_t count = 0;

	for (size_t i = 0; i < shared.sent_count; i++) {
		if (shared.sent[i]->kind != kind)
			continue;
		count++;
		assert_non_null(site);
		assert_int_equal(shared.sent[i]->worker, site_in(site));
	}
	assert_int_equal(count, site != NULL);
}

/* What is to be seen. */
static bool play_sight(const char *verb, words_of w)
{
	struct central_limit *const *limits = whole()->limits;
	const struct host *host = shared.pools[0]->database->hosts.list[0];
	unsigned i = w[0] ? (unsigned)atoi(w[0]) % SITES : 0;

	if (IS("servers")) /* COUNT: so many count in the pool */
		assert_int_equal(whole()->servers, atoi(w[0]));
	else if (IS("host")) /* COUNT: so many count at its host */
		assert_int_equal(host->shared->servers, atoi(w[0]));
	else if (IS("process")) /* COUNT: so many under this limit */
		assert_int_equal(limits[CONN_LIMIT_PROCESS]->servers, atoi(w[0]));
	else if (IS("database"))
		assert_int_equal(limits[CONN_LIMIT_DATABASE]->servers, atoi(w[0]));
	else if (IS("user"))
		assert_int_equal(limits[CONN_LIMIT_USER]->servers, atoi(w[0]));
	else if (IS("arriving")) /* SITE COUNT */
		assert_int_equal(whole()->places[i].arriving, atoi(w[1]));
	else if (IS("queued")) /* SITE COUNT: over all sites */
		assert_int_equal(pool_queued_everywhere(shared.pools[i]), atoi(w[1]));
	else if (IS("note")) /* KIND [SITE] */
		expect_note(
		    strcmp(w[0], "look") == 0 ? NOTE_LOOK : NOTE_MAKE_ROOM, w[1]);
	else if (IS("quiet")) /* no note is on its way */
		assert_int_equal(shared.sent_count, 0);
	else if (IS("wake") && w[0]) /* COUNT: the pool wants to be looked at then */
		assert_int_equal(shared.last.wake_us,
		    shared.sites[0].now + (uint64_t)atoi(w[0]) * MS);
	else if (IS("sleep")) /* it need not be looked at by time alone */
		assert_int_equal(shared.last.wake_us, UINT64_MAX);
	else if (IS("wake")) /* at some time */
		assert_true(shared.last.wake_us < UINT64_MAX);
	else if (IS("scheduled")) /* SITE */
		assert_true(shared.pools[i]->is_scheduled);
	else if (IS("unscheduled"))
		assert_false(shared.pools[i]->is_scheduled);
	else
		return false;
	return true;
}

static void play(const char *script)
{
	for (size_t len; *script; script += len + strspn(script + len, "; ")) {
		char text[sizeof(shared.step)], *save = NULL;
		const char *w[6] = {NULL};
		len = strcspn(script, ";");
		assert_true(len < sizeof(text));
		snprintf(shared.step, sizeof(shared.step), "%.*s", (int)len, script);
		memcpy(text, shared.step, sizeof(text));
		w[0] = strtok_r(text, " ", &save);
		for (int i = 1; i < 5 && w[i - 1]; i++)
			w[i] = strtok_r(NULL, " ", &save);
		assert_true(play_move(w[0], w + 1) || play_event(w[0], w + 1) ||
			    play_sight(w[0], w + 1));
	}
	*shared.step = '\0';
}

/* ---- tests that look at more than steps show ---- */

/* Cancel requests may double the pool, and that of all sites together; but each site
 * may always send one. */
static void cancels_over_all(void **state)
{
	struct slot *last = NULL;

	(void)state;
	play("hold 0 a; hold 1 b");
	for (int i = 0; i < 3; i++) {
		struct pool *pool = shared.pools[i == 2];
		assert_true(pool_may_dial_cancel(pool));
		last = unused_slot();
		pool_dialing_cancel(pool, last, shared.sites[0].now);
		assert_int_equal(pool_may_dial_cancel(pool), i == 0);
	}
	pool_gone(last, shared.sites[1].now);
	assert_true(pool_may_dial_cancel(shared.pools[1]));
}

/* Who waits in a killed pool does not wait in the one that has its name now. */
static void killed_pool_is_shown_no_more(void **state)
{
	(void)state;
	struct pool *old = shared.pools[1];

	play("ask 1 a");
	assert_int_equal(whole()->waiting, 1);
	catalog_kill(shared.sites[1].c, old->database, "killed");
	assert_int_equal(whole()->waiting, 0);
	assert_int_equal(whole()->queued, 0);
	shared.pools[1] = fixture_pool(&shared.sites[1], "d", "u");
	assert_ptr_not_equal(shared.pools[1], old);
	play("pause 1 0; ask 1 b; part a");
	pool_free_if_unused(old);
	assert_int_equal(whole()->waiting, 1);
	assert_int_equal(whole()->clients, 1);
	assert_ptr_equal(whole()->places[1].part, &shared.pools[1]->part);
}

/* A client comes to this site, under the limits of its database and its user. */
static void enter(unsigned site, bool has_room)
{
	assert_int_equal(database_enter(shared.pools[site]->database, false), has_room);
	assert_int_equal(user_may_enter(shared.pools[site]->user, false), has_room);
}

static void leave(unsigned site)
{
	database_leave(shared.pools[site]->database);
	user_leave(shared.pools[site]->user);
}

static void client_limits_over_all(void **state)
{
	(void)state;
	play("set max_db_client_connections 2; set max_user_client_connections 2");
	enter(0, true);
	enter(1, true);
	/* the client that is one too many counts until it leaves */
	enter(2, false);
	assert_true(database_enter(shared.pools[2]->database, true));
	database_leave(shared.pools[2]->database);
	leave(2);
	leave(0);
	enter(2, true);
	leave(1);
	leave(2);
}

/* A client on its way counts as well. */
static void client_limits_while_one_moves(void **state)
{
	(void)state;
	play("set max_db_client_connections 1; set max_user_client_connections 1");
	enter(0, true);
	database_carry(shared.pools[0]->database);
	user_carry(shared.pools[0]->user);
	for (unsigned i = 0; i < SITES; i++) {
		enter(i, false);
		leave(i);
	}
	database_receive(shared.pools[1]->database);
	user_receive(shared.pools[1]->user);
	enter(1, false);
	leave(1);
	leave(1);
}

/* A waiting client gets the server that comes to rest at another site.  On its way the
 * server counts, and nobody else has it. */
static void given_back_for_another_site(void **state)
{
	(void)state;
	play("hold 0 a; size 1; ask 1 b; next 1; give a hand 1; servers 1");
	assert_int_equal(shared.pools[0]->part.resting, 0);
	assert_int_equal(shared.pools[0]->part.connected, 0);
	assert_int_equal(whole()->connected, 1);
	play("ask 2 c; next 2; arrive; servers 1");
	assert_int_equal(shared.pools[1]->part.resting, 1);
	assert_int_equal(whole()->connected, 1);
	assert_int_equal(shared.pools[0]->database->server_count, 0);
	assert_int_equal(shared.pools[1]->database->server_count, 1);
	play("next 1 grant b a");
}

/* Nobody is told of a server that goes to another worker. */
static void moves_quietly(void **state)
{
	(void)state;
	play("size 1; hold 0 a; ask 1 b; ms 1; ask 2 c; give a hand 1");
	assert_int_equal(shared.last.slot->rested_us, shared.sites[0].now);
	play("arrive");
	assert_int_equal(shared.last.slot->state, SLOT_IDLE);
	play("quiet; next 1 grant");
}

/* A site that does not answer does not block a client for ever. */
static void no_answer(void **state)
{
	(void)state;
	play("hold 0 a; give a; ask 1 b; next 1");
	while (shared.last.kind == VERDICT_NONE) {
		assert_true(shared.last.wake_us < 101 * (uint64_t)SECOND);
		for (unsigned i = 0; i < SITES; i++)
			shared.sites[i].now = shared.last.wake_us;
		shared.last = pool_next(shared.pools[1], shared.sites[1].now);
	}
	assert_int_equal(shared.last.kind, VERDICT_DIAL);
	play("start 1");
}

static bool does_not_answer(void *ctx, unsigned worker)
{
	return worker == *(unsigned *)ctx;
}

/* A thread that stands still gets nothing, is asked for nothing, and nobody leaves room
 * to it.  It is told to look when it goes on. */
static void unresponsive_worker_is_left_out(void **state)
{
	unsigned silent = 1;

	(void)state;
	play("size 2; hold 0 a; hold 0 b; ask 1 c; ms 1000; ask 2 d");
	central_on_unresponsive(shared.central, does_not_answer, &silent);
	play("forget; give a hand 2; note look 1; arrive; next 2 grant d");
	silent = 0;
	play("give d hand 1; forget; give b; ask 2 e; next 2; note look 0");
	silent = SITES;
	play("look 0 hand 2; arrive; next 1 grant c; arrive; next 2 grant e");
	/* that it stands still is known only after it was asked */
	play("give c; give e; forget; ask 0 f; next 0; note look 1; forget");
	silent = 1;
	play("ms 20; next 0; wake 20; look 2 hand 0; arrive; next 0 grant f");
}

static void login_params_of_another_worker(void **state)
{
	(void)state;
	play("join 1 a");
	struct verdict v =
	    pool_ask(client_in("a"), REQUEST_PARAMS, shared.sites[1].now);
	assert_int_equal(v.kind, VERDICT_WAIT);
	assert_true(shared.pools[1]->part.wants_params);
	play("hold 0 b; told 1; next 1 admit a; servers 1");
	assert_false(shared.pools[1]->part.wants_params);
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

/* ---- scripts ---- */

#define BOTH_ARE_LENT                                                                  \
	"size 5; hold 0 a; hold 1 b; ask 0 c; next 0; ask 1 d; next 1; ask 2 e; next " \
	"2; "                                                                          \
	"process 2"

static const struct {
	const char *name, *script;
} scripts[] = {
    /* limits; the server counts before it is dialed */
    {"pool_size_over_all",
	"ask 0 a; next 0 dial; servers 1; start 0; servers 1; login 0; hold 1 b; "
	"servers 2;"
	"ask 0 c; next 0; ask 1 d; next 1; ask 2 e; next 2; servers 2"},
    {"max_db_connections_over_all",
	"set max_db_connections 2;" BOTH_ARE_LENT "; database 2"},
    {"max_user_connections_over_all",
	"set max_user_connections 2;" BOTH_ARE_LENT "; user 2"},
    {"max_server_connections_over_all", "set max_server_connections 2;" BOTH_ARE_LENT},
    {"max_waiting_clients_over_all",
	"set max_waiting_clients 2; size 1; hold 0 a; ask 1 b; ask 0 c;"
	"ask 0 d refuse; queued 0 2; ask 1 e refuse; queued 1 2; ask 2 f refuse; "
	"queued 2 2;"
	"part c; ask 2 g; ask 0 h refuse"},
    /* who waits for a moment only, because what it needs is at another site, is not
     * refused */
    {"queue_that_moves_refuses_nobody",
	"hold 0 a; set max_waiting_clients 1; give a; ask 1 b; ask 2 c"},
    /* but only as many wait so as there are servers, also while these are on their way
     */
    {"queue_that_moves_is_limited",
	"hold 0 a; size 1; set max_waiting_clients 1; give a;"
	"ask 1 b; ask 1 c; ask 1 d refuse; ask 2 e refuse; next 1;"
	"look 0 hand 1; ask 2 f refuse; part b; ask 2 g; ask 0 h refuse;"
	"arrive; ask 1 i refuse; next 1 grant; ask 0 j refuse"},
    /* In a full pool nobody logs in for the parameters, which another worker has.
     * Servers that close make room: all who wait are told, and open what they can. */
    {"all_are_told_of_room",
	"hold 0 a; hold 0 b; ask 1 c; next 1; ask 2 d; next 2; forget; end a; end b;"
	"told 1; open 1 c; told 2; open 2 d; servers 2"},
    /* Room is left to a client of another site that has waited longer, and that site is
     * told, however long the client here has waited, too.  The pool itself checks again
     * only after a while.  The other worker does not take the room, because its thread
     * is busy; its client gets the server nevertheless. */
    {"room_is_left_to_another_site",
	"set max_user_connections 1; size 5; hold 0 a; ask 1 b; next 1;"
	"ms 10; ask 0 c; next 0; ms 1000; end a; forget; unschedule 0;"
	"next 0; wake; unscheduled 0; note look 1;"
	"ms 1000; open 0 c hand 1; arrive; next 1 grant b"},
    /* a pool has become too small: the site where a server rests closes it */
    {"surplus_rests_elsewhere",
	"hold 0 a; hold 1 b; give a; size 1; forget; next 1; told 0; next 0 retire"},
    /* a server that went to a paused pool would be closed there */
    {"paused_pool_receives_nothing",
	"hold 0 a; ask 1 b; ms 1000; pause 1 1; next 1; give a;"
	"pause 1 0; next 1; look 0 hand 1"},
    /* one site opens the servers that min_pool_size asks of all sites together */
    {"min_pool_size_over_all",
	"set min_pool_size 1; join 0 a; join 1 b; next 0 dial; next 1; start 0; next 1;"
	"login 0; next 0; next 1; servers 1"},
    {"refill_comes_last", "hold 0 a; set min_pool_size 2; ask 1 b; next 0; open 1 b"},
    /* one that ends is replaced where clients are; without any, none is needed */
    {"min_pool_size_of_clients_elsewhere",
	"hold 0 a; set min_pool_size 1; join 2 b; give a; part a; next 2; forget;"
	"unschedule 0; end a; scheduled 0; next 0; told 2; next 2 dial; start 2;"
	"part b; forget; drop 2; next 0; next 2; note look"},
    /* a resting server of another pool at another site makes room */
    {"room_is_asked_for",
	"set max_user_connections 1; hold 1 N; ask 0 b; next 0; note room;"
	"withdraw b; give N; forget; ask 0 b; next 0; note room 1; hear 1 retire N; "
	"gone N; open 0 b"},

    /* servers that change sites */
    {"resting_elsewhere",
	"hold 0 a; give a; ms 5; ask 1 b; next 1; wake;"
	/* it is asked for once, and nothing is dialed meanwhile */
	"next 1; note look 0; look 0 hand 1 a; arrive; next 1 grant b a; servers 1"},
    /* another client than that of the site that asks has waited longest */
    {"resting_elsewhere_for_another",
	"size 1; hold 0 a; ask 2 b; next 2; ms 50; ask 1 c; freeze 1; give a; freeze 0;"
	"next 1; look 0 hand 2; arrive; next 2 grant b"},
    /* the site that was asked has meanwhile given the server to its own client */
    {"nothing_left_to_give",
	"hold 0 a; give a; ask 1 b; next 1; freeze 1; ask 0 a grant; freeze 0;"
	"told 0; next 0; open 1 b; servers 2"},
    /* A login that fails at one site refuses nobody while the pool has servers at
     * another one, as it is with one site.  When it has none, nobody need wait. */
    {"login_fails_beside_servers_elsewhere",
	"hold 0 a; ask 1 b; next 1 dial; start 1; fail 1; next 1; ms 1; ask 1 c; ms 50;"
	"give a hand 1; arrive; next 1 grant b a; gone a;"
	"ms 20000; next 1 dial; start 1; fail 1; next 1 refuse c; ask 1 c refuse"},
    /* the only server of a pool is on its way to another site */
    {"login_fails_while_a_server_is_on_its_way",
	"hold 0 a; ask 1 b; next 1 dial; start 1; ms 50; give a hand 1; fail 1; next 1;"
	"ask 1 c; arrive; next 1 grant b"},
    /* the client that asked has left: the server stays */
    {"asked_for_in_vain", "hold 0 a; give a; ask 1 b; next 1; part b; told 0; next 0"},
    {"longest_waiter_first",
	"size 1; hold 0 a; ask 2 b; ms 50; ask 1 c; ms 50; ask 0 d;"
	"give a hand 2; arrive; next 0; next 2 grant b; give b hand 1; arrive;"
	"next 1 grant c; give c hand 0; arrive; next 0 grant d"},
    /* For each client of a worker one server is sent, and no more: the thread may stand
     * still.  Nothing is opened for them meanwhile, but one that does not come is not
     * waited for. */
    {"one_server_for_each_client",
	"size 4; hold 0 a; hold 0 b; hold 0 c; hold 0 d; ask 1 e; ask 1 f; ms 20; ask "
	"2 g;"
	"give a hand 1; give b hand 1; give c hand 2; give d; next 1; next 2;"
	"arrive; arrive; next 1 grant; next 1 grant;"
	"ms 50; forget; next 2; look 0 hand 2; host 4; depart; host 4; lose 2; host 3"},
    /* A client waits for a server of its own worker for a moment.  From then on those
     * of other workers are sent as they come to rest. */
    {"looked_for_in_time", "hold 0 a; size 2; hold 1 b; ask 1 c; next 1; wake 2; ms 2; "
			   "next 1; sleep; ask 1 d; next 1; wake 2; part d;"
			   "note look; give a hand 1"},
    /* So is one of a worker by whose clock the client is not due yet. */
    {"looked_for_by_another_clock",
	"hold 0 a; size 2; hold 1 b; ask 1 c; next 1; clock 1 2; next 1; sleep;"
	"give a hand 1; arrive; next 1 grant c"},
    /* A server logs in and rests while a client of another worker waits that is not due
     * yet.  That one looks when it is due. */
    {"logs_in_before_a_client_is_due",
	"size 2; hold 1 b; ask 0 a; next 0 dial; start 0; withdraw a; ask 1 c; next 1;"
	"wake 2; ms 1; login 0; forget; next 0; sleep; ms 1; next 1; note look 0; wake "
	"20;"
	"look 0 hand 1; arrive; next 1 grant c"},
    /* A server that comes to rest while no server may change sites is looked at again
     * by its own site: the other one has looked before. */
    {"comes_to_rest_while_frozen",
	"size 1; hold 0 a; ask 1 b; next 1; forget; freeze 1; give a; next 0; wake 2;"
	"freeze 0; ms 2; next 0 hand 1; arrive; next 1 grant b"},
    /* a client that joins a queue changes nothing for the pool */
    {"one_more_waits",
	"size 1; hold 0 a; unschedule 0; ask 0 b; scheduled 0; unschedule 0; ask 0 c;"
	"unscheduled 0"},
    /* a slightly longer wait does not make a server change sites */
    {"about_as_long", "size 1; hold 0 a; ask 1 b; ms 1; ask 0 c; give a grant c"},
    {"lost_before_it_went", "size 1; hold 0 a; ask 1 b; give a hand 1; ask 0 c; "
			    "forget; unschedule 0; gone a;"
			    "servers 0; arriving 1 0; scheduled 0; note look 1"},
    {"lost_on_arrival",
	"size 1; hold 0 a; ask 1 b; give a hand 1; depart; servers 1; ask 2 c; next 2;"
	"forget; unschedule 1; lose 1; servers 0; process 0; arriving 1 0;"
	"scheduled 1; note look 2"},
    /* sites with one server each do not take servers that others have just given back
     */
    {"own_server_is_awaited",
	"hold 0 a; hold 1 b; give a; ask 1 c; next 1; wake 2; note look; ms 2; next 1;"
	"look 0 hand 1"},
    /* nor does one wait for the reset query of such a server for longer */
    {"own_server_under_test_is_not_awaited",
	"hold 0 a; hold 1 b; give a; set server_reset_query reset;"
	"set server_reset_query_always 1; give b reset; ask 1 c; next 1; wake 2;"
	"note look; ms 2; next 1; look 0 hand 1"},
    /* a server that is given back goes to another site's client only if that site lets
     * its client wait */
    {"given_back_while_own_server_is_awaited",
	"hold 0 a; hold 1 b; ask 1 c; next 1; give a; ask 0 a grant; ms 2; give a hand "
	"1"},

    /* Room for other pools.  The clients of a pool never all rest, but each site has
     * one of them alone: a server that is given back is closed when another pool's
     * client has waited longer than all of them. */
    {"busy_pool_makes_room", "set max_db_connections 1; hold 0 a; other 2 A; ms 1000; "
			     "ask 1 b; next 1; ms 50;"
			     "give a retire; forget; gone a; database 0"},
    /* the same pool's client at another site has waited longer */
    {"busy_pool_keeps_its_turn", "set max_db_connections 1; hold 0 a; ask 1 b; next 1; "
				 "ms 1000; other 2 A; ms 1000;"
				 "ask 0 c; ms 1000; give a hand 1"},
    /* Under max_server_connections only a pool without any server takes one that
     * min_pool_size keeps, not a part of a pool whose servers are at other sites; nor
     * when another site asks. */
    {"minimum_of_another_pool_stays",
	"set max_server_connections 2; set min_pool_size 1; hold 0 a; hold 1 A; give A;"
	"ask 1 b; ms 50; next 1; forget; ask 2 c; ms 50; next 2; note room 1; hear 1;"
	"ms 5000; next 2; hear 1 retire A"},
    /* its client may be at another site than its server */
    {"minimum_of_a_client_elsewhere_stays",
	"set max_server_connections 2; set min_pool_size 1; hold 0 a; hold 1 A; give A;"
	"join 2 B; part A; ask 1 b; ms 1000; next 1; part B; next 1 retire A"},
    /* the only client may ask again before the other site asks for room */
    {"resting_server_makes_room",
	"set max_db_connections 1; hold 0 a; give a; ask 0 a grant; other 2 A; ms 1;"
	"give a retire"},
    {"suspended_server_stays",
	"set max_db_connections 1; hold 0 a; other 2 A; ms 1000; suspend; give a"},
};
enum { SCRIPTS = sizeof(scripts) / sizeof(scripts[0]) };

static void play_script(void **state)
{
	play(*state);
}

#define TEST(test)                                   \
	{                                            \
#		test, test, set_up, tear_down, NULL \
	}

int main(void)
{
	struct CMUnitTest tests[SCRIPTS + 11] = {
	    TEST(cancels_over_all),
	    TEST(killed_pool_is_shown_no_more),
	    TEST(client_limits_over_all),
	    TEST(client_limits_while_one_moves),
	    TEST(given_back_for_another_site),
	    TEST(moves_quietly),
	    TEST(no_answer),
	    TEST(unresponsive_worker_is_left_out),
	    TEST(login_params_of_another_worker),
	    TEST(sites_begin_at_other_hosts),
	    TEST(sites_draw_other_hosts),
	};

	for (size_t i = 0; i < SCRIPTS; i++)
		tests[i + 11] = (struct CMUnitTest){scripts[i].name, play_script,
		    set_up, tear_down, (void *)scripts[i].script};
	return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
