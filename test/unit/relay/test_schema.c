/*
 * Changes of the schema: from which answer on what was prepared before is out of date.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../stage/stage.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_hears(peer, type, expected) \
	assert_string_equal(peer_hear(peer, type), expected)
#define assert_heard(peer, expected) assert_string_equal(peer_heard(peer), expected)

#define CHANGE "alter table t add column more int"

static void prepare(struct peer *client, const char *name)
{
	struct buf out;

	buf_init(&out, 0);
	buf_put_str(&out, name);
	buf_put_str(&out, "select 1");
	buf_put_u16(&out, 0);
	peer_put(client, 'P', out.bytes, out.len);
	peer_put(client, 'S', NULL, 0);
	buf_done(&out);
}

/* The server gets the Parse, and so knows the statement as of now. */
static void prepared(
    struct peer *client, struct peer *server, const char *name, char status)
{
	prepare(client, name);
	assert_hears(server, 'S', "P S");
	peer_put(server, '1', NULL, 0);
	peer_ready(server, status);
	assert_non_null(peer_hear(client, 'Z'));
}

/* A block that is begun behind a Sync changes a table, and is rolled back. */
static void change_behind_an_answer_is_undone(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = stage_new("pool_size=1", "");

	stage_pair(stage, &client, &server);
	prepared(client, server, "a", 'I');
	peer_put(client, 'S', NULL, 0);
	peer_text(client, 'Q', "begin");
	peer_text(client, 'Q', CHANGE);
	assert_hears(server, 'S', "S");
	assert_heard(server, "Q:begin Q:" CHANGE);
	peer_ready(server, 'I');
	peer_answer(server, "BEGIN", 'T');
	peer_answer(server, "ALTER TABLE", 'T');
	assert_non_null(peer_heard(client));
	prepared(client, server, "b", 'T');
	peer_text(client, 'Q', "rollback");
	assert_hears(server, 'Q', "Q:rollback");
	peer_answer(server, "ROLLBACK", 'I');
	assert_non_null(peer_hear(client, 'Z'));
	/* what was prepared in the block knows the table that has gone */
	prepared(client, server, "c", 'I');
	stage_free(&stage);
}

/* Meanwhile another client prepares the statement on another server. */
static void change_behind_an_answer_is_not_over(void **state)
{
	(void)state;
	struct peer *client, *server, *other, *beside;
	struct stage *stage = stage_new("pool_size=2", "");

	stage_pair(stage, &client, &server);
	other = stage_login(stage, "u", NULL, NULL);
	peer_text(client, 'Q', "select");
	peer_put(client, 'P', "\0" CHANGE "\0\0\0", sizeof(CHANGE) + 3);
	peer_put(client, 'B', "\0\0\0\0\0\0\0\0", 8);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
	assert_hears(server, 'E', "Q:select P B E::");
	peer_answer(server, "SELECT 0", 'I');
	assert_hears(client, 'Z', "C:SELECT 0 Z:I");
	prepare(other, "a");
	beside = stage_ready_server(stage);
	assert_hears(beside, 'S', "P S");
	peer_put(beside, '1', NULL, 0);
	peer_ready(beside, 'I');
	assert_hears(other, 'Z', "1 Z:I");
	peer_put(client, 'S', NULL, 0);
	peer_put(server, '1', NULL, 0);
	peer_put(server, '2', NULL, 0);
	peer_answer(server, "ALTER TABLE", 'I');
	assert_hears(client, 'Z', "1 2 C:ALTER TABLE Z:I");
	/* the client that has the other server now */
	peer_text(client, 'Q', "begin");
	assert_non_null(peer_heard(server));
	prepared(other, beside, "b", 'I');
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(change_behind_an_answer_is_undone),
	    cmocka_unit_test(change_behind_an_answer_is_not_over),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
