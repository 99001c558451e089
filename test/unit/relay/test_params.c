/*
 * Parameters that the administrator changes on the server: which clients follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../stage/stage.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, text) assert_string_equal(peer_hear(peer, type), text)

static void report(struct peer *server, const char *zone)
{
	struct buf status;

	buf_init(&status, 0);
	codec_put_parameter_status(&status, "TimeZone", zone);
	peer_send(server, status.bytes, status.len);
	buf_done(&status);
}

static void answer(struct peer *client, struct peer *server)
{
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(client, 'Z');
}

/* The first query after the change: a server reports the new value with its answer. */
static void query_that_sees(struct peer *client, struct peer *server, const char *zone)
{
	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:select 1");
	report(server, zone);
	answer(client, server);
}

/* The next client's: the pooler asks for the server's own value first. */
static void query_behind_reset(struct peer *client, struct peer *server)
{
	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:RESET TimeZone;");
	peer_answer(server, "RESET", 'I');
	assert_hears(server, 'Q', "Q:select 1");
	answer(client, server);
}

static void query(struct peer *client, struct peer *server)
{
	peer_text(client, 'Q', "select 1");
	assert_hears(server, 'Q', "Q:select 1");
	answer(client, server);
}

/* A client that saw a change first follows the next one as well, which another client
 * sees first. */
static void clients_follow_every_change(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *c, *server;

	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	c = stage_login(stage, "u", NULL, NULL);
	query_that_sees(a, server, "Asia/Tokyo");
	query_behind_reset(b, server);
	query(a, server);
	query_that_sees(b, server, "UTC");
	query_behind_reset(c, server);
	query(a, server);
	query(b, server);
	stage_free(&stage);
}

/* What was found to need nothing is looked at again when the values of the client or of
 * the server have changed. */
static void values_are_compared_again_after_a_change(void **state)
{
	(void)state;
	struct stage *stage = stage_new("pool_size=1", "");
	struct peer *a, *b, *server;

	stage_pair(stage, &a, &server);
	b = stage_login(stage, "u", NULL, NULL);
	query(b, server);
	query(a, server);
	query(b, server);
	query_that_sees(a, server, "Asia/Tokyo");
	query_behind_reset(b, server);
	query(b, server);
	query_that_sees(b, server, "UTC");
	query_behind_reset(a, server);
	query(b, server);
	query(a, server);
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(clients_follow_every_change),
	    cmocka_unit_test(values_are_compared_again_after_a_change),
	};
	return stage_run_twice(tests);
}
