/*
 * A client goes to another site with its parameters, statements and bytes, and there is
 * no memory for a part of that: it is closed, or arrives with everything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../stage/stage_sites.h"
#define NO_MEMORY_SPARES stage_plays
#include "../no_memory.h"
#include "session/migrate.h"
#include "session/workers.h"
#include "wire/prepared.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

struct scene {
	struct stage_sites sites;
	struct stage *here, *there;
	struct peer *client, *server;
};

/* The client has changed a parameter, has a statement, and has sent half a query. */
static void scene_open(struct scene *s)
{
	stage_sites_open(&s->sites, 1, "pool_size=1", "max_prepared_statements=9\n");
	s->here = s->sites.at[0];
	s->there = s->sites.at[1];
	s->client = stage_client(s->here);
	peer_start(s->client, "u", "d", "application_name", "first");
	s->server = stage_ready_server(s->here);
	peer_hear(s->client, 'Z');
	peer_put(s->client, 'P', "mine\0select 1\0\0\0", 16);
	peer_put(s->client, 'S', "", 0);
	peer_hear(s->server, 'Q');
	peer_put(s->server, 'S', "application_name\0first", 23);
	peer_answer(s->server, "SET", 'I');
	peer_hear(s->server, 'S');
	peer_put(s->server, '1', "", 0);
	peer_put(s->server, 'S', "application_name\0caf\xc3\xa9", 23);
	peer_ready(s->server, 'I');
	peer_hear(s->client, 'Z');
	peer_send(s->client, "Q\0\0\0\x0dselect", 11);
	stage_sites_turn(&s->sites);
}

static void go(struct scene *s)
{
	size_t gone;

	(void)migrate_choose_idle(&s->here->site, 1);
	for (int i = 0; i < 5; i++) {
		(void)migrate_step(
		    &s->here->site, &s->sites.workers->members[1], &gone);
		stage_settle(s->here);
	}
	migrate_end(&s->here->site);
	stage_sites_turn(&s->sites);
}

static void check_arrived(struct scene *s)
{
	assert_int_equal(site_client_count(&s->there->site), 1);
	const struct client *client =
	    container_of(list_first(&s->there->site.clients), struct client, site_node);
	assert_string_equal(
	    vars_get(&client->params.vars, VAR_APPLICATION_NAME), "caf\xc3\xa9");
	assert_string_equal(
	    vars_get(client->params.asked, VAR_APPLICATION_NAME), "first");
	assert_int_equal(prepared_names_count(client->names), 1);
	peer_send(s->client, " 1\0", 3);
	stage_sites_turn(&s->sites);
	assert_string_equal(stage_sites_hear(&s->sites, s->server), "Q:select 1");
}

static void a_client_arrives_with_everything_or_is_closed(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct scene s;
		scene_open(&s);
		no_memory.is_on = true;
		go(&s);
		no_memory.is_on = false;
		if (s.client->has_ended)
			assert_true(no_memory_has_failed());
		else
			check_arrived(&s);
		stage_sites_close(&s.sites);
	}
}

/* A request to cancel, with a key that nobody has here, goes to the control site. */
static void a_first_packet_goes_there_or_its_client_is_closed(void **state)
{
	static const char request[] = "\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\1none";
	(void)state;
	for_each_failure(n)
	{
		struct stage_sites sites;
		stage_sites_open(&sites, 1, "", "");
		struct peer *client = stage_client(sites.at[0]);
		peer_send(client, request, sizeof(request) - 1);
		no_memory.is_on = true;
		stage_sites_turn(&sites);
		no_memory.is_on = false;
		assert_true(client->has_ended);
		for (unsigned i = 0; i < sites.count; i++)
			assert_int_equal(site_client_count(&sites.at[i]->site), 0);
		stage_sites_close(&sites);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_client_arrives_with_everything_or_is_closed),
	    cmocka_unit_test(a_first_packet_goes_there_or_its_client_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
