/*
 * A server goes to another site with its parameters and statements, and there is no
 * memory for a part of that: it is closed, and nothing is asked of it; the client that
 * waits gets another one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../stage/stage_sites.h"
#define NO_MEMORY_SPARES stage_plays
#include "../no_memory.h"
#include "session/workers.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

static char asked[64]; /* the last query that a server got */

static void answer_one(struct peer *peer, uint8_t type, const char *text)
{
	static const char replies[][2] = {{'P', '1'}, {'B', '2'}, {'C', '3'}};

	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++)
		if (type == (uint8_t)replies[i][0])
			peer_put(peer, (uint8_t)replies[i][1], "", 0);
	if (type == 'Q' && strstr(text, "application_name"))
		peer_put(peer, 'S',
		    strstr(text, "RESET") ? "application_name\0\0"
					  : "application_name\0x",
		    strstr(text, "RESET") ? 18 : 19);
	if (type == 'Q')
		snprintf(asked, sizeof(asked), "%s", text);
	if (type == 'E' || type == 'Q')
		peer_text(peer, 'C', "DONE");
	if (type == 'S' || type == 'Q')
		peer_ready(peer, 'I');
}

static void serve(struct peer *peer)
{
	size_t size;

	if (!peer->started) {
		if (peer->in.len < 8 || peer->in.len < get_u32(peer->in.bytes))
			return;
		peer_first_packet(peer);
		peer_greet(peer);
	}
	while ((size = peer_message(peer))) {
		answer_one(peer, peer->in.bytes[0], (const char *)peer->in.bytes + 5);
		buf_shift(&peer->in, size);
	}
}

struct scene {
	struct stage_sites sites;
	struct stage *here, *there;
	struct peer *first, *second; /* a client at each */
};

static void scene_open(struct scene *s)
{
	stage_sites_open(&s->sites, 2, "pool_size=1", "max_prepared_statements=9\n");
	s->here = s->sites.at[0];
	s->there = s->sites.at[1];
	s->here->play = serve;
	s->first = stage_login(s->here, "u", NULL, NULL);
	stage_sites_prefer(&s->sites, 1);
	s->second = stage_client(s->here);
	peer_start(s->second, "u", "d", NULL, NULL);
	stage_sites_await(&s->sites, peer_message(s->second));
	peer_heard(s->second);
	peer_text(s->first, 'Q', "set application_name to 'x'");
	peer_put(s->first, 'P', "mine\0select 1\0\0\0", 16);
	peer_put(s->first, 'S', "", 0);
	stage_sites_turn(&s->sites);
	peer_heard(s->first);
}

/* Each client is answered, by whatever server. */
static void check_served(struct scene *s, struct peer *client)
{
	peer_text(client, 'Q', "select 3");
	stage_sites_await(&s->sites, peer_message(client));
	assert_non_null(strstr(peer_heard(client), "C:DONE Z:I"));
}

static void another_server_is_opened(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		struct scene s;
		scene_open(&s);
		peer_text(s.second, 'Q', "select 2");
		*asked = '\0';
		no_memory.is_on = true;
		stage_sites_turn(&s.sites);
		stage_sites_await(
		    &s.sites, peer_message(s.second) || s.second->has_ended);
		no_memory.is_on = false;
		const char *heard = peer_heard(s.second);
		if (s.second->has_ended) {
			/* there was none for its own parameters */
			assert_true(no_memory_has_failed());
			assert_string_equal(asked, "");
		} else {
			assert_non_null(strstr(heard, "C:DONE Z:I"));
			assert_string_equal(asked, "select 2");
			check_served(&s, s.second);
		}
		check_served(&s, s.first);
		stage_sites_close(&s.sites);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(another_server_is_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
