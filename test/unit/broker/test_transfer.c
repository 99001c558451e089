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

enum { PATIENCE_S = 60 };

struct scene {
	struct stage_sites sites;
	struct stage *here, *there;
	/* a client at each, and the server of the first one */
	struct peer *first, *second, *server;
};

static void turn(struct scene *s)
{
	stage_sites_turn(&s->sites);
}

static void scene_open(struct scene *s, const char *settings)
{
	stage_sites_open(&s->sites, 2, "pool_size=1", settings);
	s->here = s->sites.at[0];
	s->there = s->sites.at[1];
	stage_pair(s->here, &s->first, &s->server);
	stage_sites_prefer(&s->sites, 1);
	s->second = stage_client(s->here);
	peer_start(s->second, "u", "d", NULL, NULL);
	while (s->there->site.clients.count == 0)
		turn(s);
	peer_heard(s->second);
}

static void scene_close(struct scene *s)
{
	stage_sites_close(&s->sites);
}

static int counted(struct scene *s)
{
	return central_read(&stage_pool(s->here)->part.whole->servers);
}

static size_t servers(const struct stage *stage)
{
	return stage->site.server_count;
}

static const char *hear(struct scene *s, struct peer *peer)
{
	return stage_sites_hear(&s->sites, peer);
}

/* The second site opens another connection. */
static void open_next(struct scene *s)
{
	time_t end = time(NULL) + PATIENCE_S;

	while (list_is_empty(&s->here->fresh)) {
		turn(s);
		assert_true(time(NULL) <= end);
	}
	turn(s);
	s->server = stage_ready_server(s->here);
}

static void answer(struct scene *s)
{
	peer_answer(s->server, "SELECT 1", 'I');
	turn(s);
}

/* The second client asks, and the server leaves the first site for it.  It has not
 * arrived yet. */
static void send_server(struct scene *s)
{
	time_t end = time(NULL) + PATIENCE_S;

	peer_text(s->second, 'Q', "select 2");
	while (s->here->site.transfer_counts.out == 0) {
		stage_turn(s->there);
		stage_turn(s->here);
		assert_true(time(NULL) <= end);
	}
	assert_int_equal(servers(s->here), 0);
	assert_int_equal(servers(s->there), 0);
	assert_int_equal(counted(s), 1);
	assert_int_equal(s->here->site.server_slab->used, 0);
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
	struct scene s;

	scene_open(&s, "");
	peer_text(s.first, 'Q', "set application_name to 'x'");
	hear(&s, s.server);
	peer_put(s.server, 'S', "application_name\0x", 19);
	answer(&s);
	hear(&s, s.first);
	const struct server *before = resting_server(s.here);
	uint64_t id = before->conn.id;
	send_server(&s);
	/* the parameters of the server have come along */
	assert_string_equal(hear(&s, s.server), "Q:RESET application_name;");
	assert_int_equal(s.there->site.transfer_counts.in, 1);
	assert_int_equal(s.there->site.transfer_counts.waits_served, 1);
	peer_put(s.server, 'S', "application_name\0", 18);
	peer_answer(s.server, "SET", 'I');
	assert_string_equal(hear(&s, s.server), "Q:select 2");
	answer(&s);
	assert_string_equal(hear(&s, s.second), "C:SELECT 1 Z:I");
	const struct server *after = resting_server(s.there);
	assert_ptr_equal(after, before);
	assert_int_equal(after->conn.id, id);
	assert_null(after->transfer);
	assert_int_equal(servers(s.there), 1);
	assert_int_equal(counted(&s), 1);
	/* and back */
	peer_text(s.first, 'Q', "select 1");
	assert_string_equal(hear(&s, s.server), "Q:SET application_name='x';");
	scene_close(&s);
}

/* Texts belong to the registry of the site where the server is. */
static void statements_go_along(void **state)
{
	(void)state;
	struct scene s;
	const char *parse = "mine\0select 1\0\0\0";

	scene_open(&s, "max_prepared_statements = 10\n");
	peer_put(s.first, 'P', parse, 16);
	peer_put(s.first, 'S', "", 0);
	hear(&s, s.server);
	peer_put(s.server, '1', "", 0);
	peer_ready(s.server, 'I');
	hear(&s, s.first);
	assert_int_equal(prepared_registry_count(s.here->site.prepared), 1);
	/* nobody there knows the text; then it is found again */
	for (int i = 0; i < 3; i++) {
		struct peer *peer = i % 2 ? s.first : s.second;
		struct stage *at = i % 2 ? s.here : s.there;
		if (i == 0)
			send_server(&s);
		else
			peer_text(peer, 'Q', "select 2");
		assert_string_equal(hear(&s, s.server), "Q:select 2");
		answer(&s);
		hear(&s, peer);
		const struct server *server = resting_server(at);
		struct prepared_item item;
		assert_int_equal(prepared_set_count(server->statements), 1);
		prepared_set_list(server->statements, &item);
		assert_ptr_equal(item.text->registry, at->site.prepared);
		assert_string_equal(item.text->name, PREPARED_PREFIX "1");
	}
	assert_int_equal(prepared_registry_count(s.there->site.prepared), 1);
	/* the other client's name leads to the same statement: it is not sent again */
	peer_put(s.second, 'P', parse, 16);
	peer_put(s.second, 'B', "\0mine\0\0\0\0\0\0\0", 12);
	peer_put(s.second, 'S', "", 0);
	assert_null(strstr(hear(&s, s.server), "P:"));
	scene_close(&s);
}

/* It closes on its way: the client that got it is told. */
static void server_ends_on_its_way(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s, "");
	send_server(&s);
	peer_close(s.server);
	assert_string_equal(hear(&s, s.second), "E:FATAL:server conn crashed?");
	assert_int_equal(servers(s.there), 0);
	assert_int_equal(counted(&s), 0);
	scene_close(&s);
}

/* RECONNECT has reached its next site, and not the one that it left. */
static void order_that_was_missed_ends_it(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s, "");
	send_server(&s);
	workers_follow_broadcast(
	    &s.there->site, workers_begin_broadcast(&s.there->site));
	turn(&s);
	assert_string_equal(peer_last_words(s.server), "X");
	open_next(&s);
	assert_string_equal(hear(&s, s.server), "Q:select 2");
	assert_int_equal(counted(&s), 1);
	scene_close(&s);
}

/* Its pool is killed while it is on its way. */
static void pool_is_killed_meanwhile(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s, "");
	send_server(&s);
	unsigned order = workers_begin_broadcast(&s.there->site);
	struct stage *stages[] = {s.here, s.there};
	for (int i = 0; i < 2; i++) {
		struct catalog *c = stages[i]->site.catalog;
		workers_follow_broadcast(&stages[i]->site, order);
		catalog_kill(c, catalog_find_database(c, "d"), "killed");
	}
	turn(&s);
	assert_string_equal(peer_last_words(s.server), "X");
	assert_int_equal(servers(s.here) + servers(s.there), 0);
	assert_int_equal(counted(&s), 0);
	scene_close(&s);
}

/* A site that is going down closes what arrives, without losing memory. */
static void nothing_arrives_at_the_end(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s, "max_prepared_statements = 10\n");
	peer_put(s.first, 'P', "mine\0select 1\0\0\0", 16);
	peer_put(s.first, 'S', "", 0);
	hear(&s, s.server);
	peer_put(s.server, '1', "", 0);
	peer_ready(s.server, 'I');
	hear(&s, s.first);
	send_server(&s);
	s.there->site.shutdown = SHUTDOWN_NOW;
	stage_settle(s.there);
	assert_string_equal(peer_last_words(s.server), "");
	assert_int_equal(servers(s.there), 0);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(same_object_arrives),
	    cmocka_unit_test(statements_go_along),
	    cmocka_unit_test(server_ends_on_its_way),
	    cmocka_unit_test(order_that_was_missed_ends_it),
	    cmocka_unit_test(pool_is_killed_meanwhile),
	    cmocka_unit_test(nothing_arrives_at_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
