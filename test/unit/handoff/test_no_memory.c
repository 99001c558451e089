/*
 * The new process has no memory for what the old one knows of a pool: who comes is
 * served all the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "../stage/stage.h"
#define NO_MEMORY_SPARES stage_plays
#include "../no_memory.h"
#include "handoff/handoff.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

/* Both processes track the same parameters. */
static struct handoff *handoff_of(struct site *site)
{
	struct record_var names[64] = {0};
	struct record_origin origin = {.names = {names, vars_schema_count(site->vars)}};
	struct err err;

	for (size_t i = 0; i < origin.names.count; i++)
		names[i].value = vars_schema_name(site->vars, i);
	return handoff_new(site, &origin, &err);
}

struct taker {
	struct stage *stage;
	struct handoff *handoff;
};

/* The configuration is the same but for the place of the servers. */
static int take(void *ctx, const struct record *record, int fd)
{
	const struct taker *to = ctx;
	struct catalog *catalog = to->stage->site.catalog;
	struct record ours = *record;

	if (record->kind == RECORD_SERVER) {
		ours.server.host = to->stage->back_dir;
		handoff_take_server(to->handoff, &ours.server, dup(fd));
	} else if (record->kind == RECORD_POOL) {
		ours.pool.entry = catalog_find_database(catalog, "d")->config->connstr;
		no_memory.is_on = true;
		handoff_note(to->handoff, &ours);
		no_memory.is_on = false;
	}
	return 0;
}

/* Its resting server goes along.  If the pool lacks its login parameters, one that
 * tells them takes the server's place. */
static void full_pool_serves_logins(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct stage *old = stage_new("pool_size=1", "");
		struct stage *new = stage_new("pool_size=1", "");
		struct taker to = {new, handoff_of(&new->site)};
		struct handoff_counts counts;
		struct peer *client, *server;

		stage_pair(old, &client, &server);
		peer_close(client);
		stage_settle(old);
		old->site.catalog->suspended = true;
		do {
			handoff_stop(&old->site, true, &counts);
			stage_turn(old);
		} while (counts.pending > 0);
		assert_int_equal(handoff_offer(&old->site, true, take, &to), 0);
		handoff_let_go(&old->site);
		handoff_free(&to.handoff);

		client = stage_client(new);
		peer_start(client, "u", "d", NULL, NULL);
		if (no_memory_has_failed())
			stage_ready_server(new);
		peer_hear(client, 'Z');
		old->site.catalog->suspended = false;
		handoff_keep(&old->site);
		stage_free(&new);
		stage_free(&old);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(full_pool_serves_logins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
