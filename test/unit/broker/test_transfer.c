/*
 * Servers that go to another site, as the same object: what they have goes along, they
 * count at every moment, and whatever happens on the way loses nothing.  Two stages are
 * two sites of one process; both loops run on this thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "../stage/stage_sites.h"
#include "session/workers.h"
#include "wire/prepared.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

static struct scene {
	struct stage_sites sites;
	struct stage *here, *there;
	/* a client at each, and the server of the first one */
	struct peer *first, *second, *server;
} s;

static void turn(void)
{
	stage_sites_turn(&s.sites);
}

static int scene_open(void **settings)
{
	stage_sites_open(&s.sites, 2, "pool_size=1", *settings);
	s.here = s.sites.at[0];
	s.there = s.sites.at[1];
	stage_pair(s.here, &s.first, &s.server);
	stage_sites_prefer(&s.sites, 1);
	s.second = stage_client(s.here);
	peer_start(s.second, "u", "d", NULL, NULL);
	stage_sites_await(&s.sites, s.there->site.clients.count);
	peer_heard(s.second);
	return 0;
}

static int scene_close(void **state)
{
	(void)state;
	stage_sites_close(&s.sites);
	return 0;
}

static int counted(void)
{
	return central_read(&stage_pool(s.here)->part.whole->servers);
}

static const char *hear(struct peer *peer)
{
	return stage_sites_hear(&s.sites, peer);
}

/* The second site opens another connection. */
static void open_next(void)
{
	stage_sites_await(&s.sites, !list_is_empty(&s.here->fresh));
	turn();
	s.server = stage_ready_server(s.here);
}

static void answer(void)
{
	peer_answer(s.server, "SELECT 1", 'I');
	turn();
}

/* The second client asks, and the server leaves the first site for it.  It has not
 * arrived yet. */
static void send_server(void)
{
	time_t end = time(NULL) + STAGE_SITES_PATIENCE_S;

	peer_text(s.second, 'Q', "select 2");
	while (s.here->site.transfer_counts.out == 0) {
		stage_turn(s.there);
		stage_turn(s.here);
		assert_true(time(NULL) <= end);
	}
	assert_int_equal(s.here->site.server_count, 0);
	assert_int_equal(s.there->site.server_count, 0);
	assert_int_equal(counted(), 1);
	assert_int_equal(s.here->site.server_slab->used, 0);
}

#define PARSE "mine\0select 1\0\0\0"

/* The first client's statement, on the first site's server. */
static void prepare(void)
{
	peer_put(s.first, 'P', PARSE, 16);
	peer_put(s.first, 'S', "", 0);
	hear(s.server);
	peer_put(s.server, '1', "", 0);
	peer_ready(s.server, 'I');
	hear(s.first);
}

static const struct server *resting_server(struct stage *stage)
{
	const struct pool *pool = stage_pool(stage);

	return container_of(
	    list_first(&pool->slots[SLOT_IDLE]), const struct server, slot.node);
}

static void same_object_arrives(void **state)
{
	(void)state;
	peer_text(s.first, 'Q', "set application_name to 'x'");
	hear(s.server);
	peer_put(s.server, 'S', "application_name\0x", 19);
	answer();
	hear(s.first);
	const struct server *before = resting_server(s.here);
	uint64_t id = before->conn.id;
	send_server();
	/* the parameters of the server have come along */
	assert_string_equal(hear(s.server), "Q:RESET application_name;");
	assert_int_equal(s.there->site.transfer_counts.in, 1);
	assert_int_equal(s.there->site.transfer_counts.waits_served, 1);
	peer_put(s.server, 'S', "application_name\0", 18);
	peer_answer(s.server, "SET", 'I');
	assert_string_equal(hear(s.server), "Q:select 2");
	answer();
	assert_string_equal(hear(s.second), "C:SELECT 1 Z:I");
	const struct server *after = resting_server(s.there);
	assert_ptr_equal(after, before);
	assert_int_equal(after->conn.id, id);
	assert_null(after->transfer);
	assert_int_equal(s.there->site.server_count, 1);
	assert_int_equal(counted(), 1);
	/* and back */
	peer_text(s.first, 'Q', "select 1");
	assert_string_equal(hear(s.server), "Q:SET application_name='x';");
}

/* Texts belong to the registry of the site where the server is. */
static void statements_go_along(void **state)
{
	(void)state;
	prepare();
	assert_int_equal(prepared_registry_count(s.here->site.prepared), 1);
	/* nobody there knows the text; then it is found again */
	for (int i = 0; i < 3; i++) {
		struct peer *peer = i % 2 ? s.first : s.second;
		struct stage *at = i % 2 ? s.here : s.there;
		if (i == 0)
			send_server();
		else
			peer_text(peer, 'Q', "select 2");
		assert_string_equal(hear(s.server), "Q:select 2");
		answer();
		hear(peer);
		const struct server *server = resting_server(at);
		struct prepared_item item;
		assert_int_equal(prepared_set_count(server->statements), 1);
		prepared_set_list(server->statements, &item);
		assert_ptr_equal(item.text->registry, at->site.prepared);
		assert_string_equal(item.text->name, PREPARED_PREFIX "1");
	}
	assert_int_equal(prepared_registry_count(s.there->site.prepared), 1);
	/* the other client's name leads to the same statement: it is not sent again */
	peer_put(s.second, 'P', PARSE, 16);
	peer_put(s.second, 'B', "\0mine\0\0\0\0\0\0\0", 12);
	peer_put(s.second, 'S', "", 0);
	assert_null(strstr(hear(s.server), "P:"));
}

/* It closes on its way: the client that got it is told. */
static void server_ends_on_its_way(void **state)
{
	(void)state;
	send_server();
	peer_close(s.server);
	assert_string_equal(hear(s.second), "E:FATAL:server conn crashed?");
	assert_int_equal(s.there->site.server_count, 0);
	assert_int_equal(counted(), 0);
}

/* RECONNECT has reached its next site, and not the one that it left. */
static void order_that_was_missed_ends_it(void **state)
{
	(void)state;
	send_server();
	workers_follow_broadcast(
	    &s.there->site, workers_begin_broadcast(&s.there->site));
	turn();
	assert_string_equal(peer_last_words(s.server), "X");
	open_next();
	assert_string_equal(hear(s.server), "Q:select 2");
	assert_int_equal(counted(), 1);
}

/* Its pool is killed while it is on its way. */
static void pool_is_killed_meanwhile(void **state)
{
	(void)state;
	send_server();
	unsigned order = workers_begin_broadcast(&s.there->site);
	struct stage *stages[] = {s.here, s.there};
	for (int i = 0; i < 2; i++) {
		struct catalog *c = stages[i]->site.catalog;
		workers_follow_broadcast(&stages[i]->site, order);
		catalog_kill(c, catalog_find_database(c, "d"), "killed");
	}
	turn();
	assert_string_equal(peer_last_words(s.server), "X");
	assert_int_equal(s.here->site.server_count + s.there->site.server_count, 0);
	assert_int_equal(counted(), 0);
}

/* A site that is going down closes what arrives, without losing memory. */
static void nothing_arrives_at_the_end(void **state)
{
	(void)state;
	prepare();
	send_server();
	s.there->site.shutdown = SHUTDOWN_NOW;
	stage_settle(s.there);
	assert_string_equal(peer_last_words(s.server), "");
	assert_int_equal(s.there->site.server_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    SCENE(same_object_arrives, ""),
	    SCENE(statements_go_along, "max_prepared_statements = 10\n"),
	    SCENE(server_ends_on_its_way, ""),
	    SCENE(order_that_was_missed_ends_it, ""),
	    SCENE(pool_is_killed_meanwhile, ""),
	    SCENE(nothing_arrives_at_the_end, "max_prepared_statements = 10\n"),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
