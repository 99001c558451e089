/*
 * Encoding and decoding records: nothing is lost, and input that is cut, too long or
 * impossible is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "handoff/record.h"

static struct record_var vars[] = {{.value = "UTF8"}, {.value = NULL},
    {.value = "", .other = "ISO", .other_encoding = "LATIN1"}};
static struct record_statement statements[] = {
    {.id = 7, .name = "one", .is_marked = true},
    {.id = UINT64_MAX >> 1, .is_sql = true},
};
static struct pipeline_entry entries[] = {
    {'Q', OWED_CLIENT, 0, 0, 12}, {'S', 1, 1, 0, 0}};

static struct record_conn some_conn(void)
{
	return (struct record_conn){.id = UINT64_C(0x1122334455667788),
	    .age_us = 5,
	    .remote = {.family = 2, .port = 6432, .ip = {127, 0, 0, 1}, .scope = 9},
	    .peer_pid = -1,
	    .unix_port = 65535,
	    .passing = 1,
	    .unread = {(const uint8_t *)"Q\0\0", 3}};
}

static struct sql_effects some_effects(void)
{
	return (struct sql_effects){.leaves = 3,
	    .sets = 1,
	    .resets = {.local = 2, .has_default = true},
	    .command = {COMMAND_EXECUTE, 1, 2, 3},
	    .may_forget = true};
}

static struct record some_client(void)
{
	return (struct record){.kind = RECORD_CLIENT,
	    .client = {.conn = some_conn(),
		.database = "db",
		.user = "somebody",
		.vars = {vars, 3},
		.has_asked = true,
		.own = 4,
		.statements = {statements, 2},
		.unnamed = {.is_there = true,
		    .ours = "PGBOUNCER_SQL_1",
		    .effects = some_effects(),
		    .parse = {(const uint8_t *)"P", 1}},
		.key = {(const uint8_t *)"12345678", 8},
		.is_skipping = true,
		.is_linked = true,
		.query_us = UINT64_MAX,
		.slow = {.is_there = true,
		    .received = 1000,
		    .worked_us = 70,
		    .query_count = 3,
		    .xact = {.traceparent = "00-ab-cd-01"},
		    .query = {.sent = 9, .traceparent = ""}}}};
}

static struct record some_server(void)
{
	return (struct record){.kind = RECORD_SERVER,
	    .server = {.conn = some_conn(),
		.database = "db",
		.user = "somebody",
		.slot = {.state = SLOT_ACTIVE, .born_us = 3, .was_lent = true},
		.status = 'T',
		.vars = {vars, 3},
		.statements = {statements, 2},
		.key = {(const uint8_t *)"abc", 3},
		.host = "localhost",
		.port = 5432,
		.is_linked = true,
		.link = {.hold = LINK_UNTIL_READY,
		    .unnamed.is_owned = true,
		    .params.reported = 8},
		.ledger = {.copy = 'G', .copy_open = true},
		.entries = entries,
		.entry_count = 2,
		.replay = {.is_there = true,
		    .tag = 77,
		    .bytes = {(const uint8_t *)"S\0\0\0\4", 5}}}};
}

static struct record some_pool(void)
{
	return (struct record){.kind = RECORD_POOL,
	    .pool = {.database = "db",
		.user = "u",
		.found = "md5",
		.has_keys = true,
		.keys = {.client_key = {1, 2, 3}, .server_key = {4, 5, 6}},
		.entry = "host=a",
		.has_known = true,
		.login_params = {vars, 3}}};
}

static struct record some_record(int i)
{
	switch (i) {
	case 0:
		return some_client();
	case 1:
		return some_server();
	case 2:
		return some_pool();
	case 3:
		return (struct record){.kind = RECORD_TEXT,
		    .text = {.id = 3,
			.reading = "'a',",
			.key = {(const uint8_t *)"select 1\0\0", 10},
			.effects = some_effects()}};
	case 4:
		return (struct record){.kind = RECORD_DATABASE,
		    .database = {.name = "db",
			.is_paused = true,
			.has_elected = true,
			.elected = "a",
			.elected_port = 5432,
			.has_primary = true,
			.primary = "b",
			.primary_port = 5433,
			.timeline = 7}};
	case 5:
		return (struct record){.kind = RECORD_ORIGIN,
		    .origin = {.version = "1",
			.pid = 2,
			.names = {vars, 3},
			.mock_secret = {(const uint8_t *)"salt", 4}}};
	default:
		return (struct record){
		    .kind = RECORD_LISTENER, .listener = {.is_unix = true}};
	}
}

enum { RECORDS = 7 };

static void there_and_back(void **state)
{
	(void)state;
	for (int i = 0; i < RECORDS; i++) {
		struct record record = some_record(i), read;
		struct arena *arena = arena_new();
		struct buf first, second;

		buf_init(&first, 0);
		buf_init(&second, 0);
		record_encode(&record, &first);
		assert_false(first.failed);
		assert_int_equal(
		    record_decode(&read, record.kind, first.bytes, first.len, arena),
		    0);
		record_encode(&read, &second);
		assert_int_equal(first.len, second.len);
		assert_memory_equal(first.bytes, second.bytes, first.len);
		buf_done(&first);
		buf_done(&second);
		arena_free(&arena);
	}
}

static void values_are_the_same(void **state)
{
	struct record record = some_client(), read;
	const struct record_client *c = &read.client;
	struct arena *arena = arena_new();
	struct buf bytes;

	(void)state;
	buf_init(&bytes, 0);
	record_encode(&record, &bytes);
	assert_int_equal(
	    record_decode(&read, RECORD_CLIENT, bytes.bytes, bytes.len, arena), 0);
	assert_string_equal(c->database, "db");
	assert_true(c->conn.id == UINT64_C(0x1122334455667788));
	assert_int_equal(c->conn.peer_pid, -1);
	assert_int_equal(c->conn.remote.ip[0], 127);
	assert_int_equal(c->vars.count, 3);
	assert_string_equal(c->vars.list[0].value, "UTF8");
	assert_null(c->vars.list[1].value);
	assert_string_equal(c->vars.list[2].other, "ISO");
	assert_null(c->vars.list[2].encoding);
	assert_string_equal(c->vars.list[2].other_encoding, "LATIN1");
	assert_string_equal(c->statements.list[0].name, "one");
	assert_null(c->statements.list[1].name);
	assert_true(c->query_us == UINT64_MAX);
	assert_int_equal(c->unnamed.effects.command.kind, COMMAND_EXECUTE);
	assert_memory_equal(c->key.at, "12345678", 8);
	assert_true(c->slow.is_there);
	assert_int_equal(c->slow.received, 1000);
	assert_int_equal(c->slow.query_count, 3);
	assert_string_equal(c->slow.xact.traceparent, "00-ab-cd-01");
	assert_int_equal(c->slow.query.sent, 9);
	buf_done(&bytes);
	arena_free(&arena);
}

/* The client has sent its server nothing yet: if the server dies now, the client gets
 * another one. */
static void link_without_a_message(void **state)
{
	struct record record = some_server(), read;
	struct arena *arena = arena_new();

	(void)state;
	for (int is_fresh = 0; is_fresh < 2; is_fresh++) {
		struct buf bytes;
		buf_init(&bytes, 0);
		record.server.link.is_fresh = is_fresh;
		record_encode(&record, &bytes);
		assert_int_equal(
		    record_decode(&read, RECORD_SERVER, bytes.bytes, bytes.len, arena),
		    0);
		assert_int_equal(read.server.link.is_fresh, is_fresh);
		buf_done(&bytes);
	}
	arena_free(&arena);
}

static void cut_or_too_long(void **state)
{
	(void)state;
	for (int i = 0; i < RECORDS; i++) {
		struct record record = some_record(i), read;
		struct arena *arena = arena_new();
		struct buf bytes;

		buf_init(&bytes, 0);
		record_encode(&record, &bytes);
		for (size_t len = 0; len < bytes.len; len++)
			assert_int_equal(
			    record_decode(&read, record.kind, bytes.bytes, len, arena),
			    -1);
		buf_put_u8(&bytes, 0);
		assert_int_equal(
		    record_decode(&read, record.kind, bytes.bytes, bytes.len, arena),
		    -1);
		buf_done(&bytes);
		arena_free(&arena);
	}
}

static int decode_origin(const char *bytes, size_t len)
{
	struct arena *arena = arena_new();
	struct record read;
	int result =
	    record_decode(&read, RECORD_ORIGIN, (const uint8_t *)bytes, len, arena);

	arena_free(&arena);
	return result;
}

/* A wrong count or length must not make the decoder allocate. */
static void lying_lengths(void **state)
{
	char bytes[2 + 4 + 3 * 8 + 1 + 8 + 8] = "1";
	size_t at = sizeof(bytes) - 16;

	(void)state;
	assert_int_equal(decode_origin(bytes, sizeof(bytes)), 0);
	memset(bytes + at, 0xff, 8);
	assert_int_equal(decode_origin(bytes, sizeof(bytes)), -1);
	memset(bytes + at, 0, 8);
	bytes[at + 7] = 1;
	assert_int_equal(decode_origin(bytes, sizeof(bytes)), -1);
	bytes[at + 7] = 0;
	bytes[at - 1] = 2; /* no valid bool */
	assert_int_equal(decode_origin(bytes, sizeof(bytes)), -1);
}

static void impossible_values(void **state)
{
	struct record record = some_server(), read;
	struct arena *arena = arena_new();
	struct buf bytes;

	(void)state;
	buf_init(&bytes, 0);
	record.server.is_linked = false; /* but its state is active */
	record_encode(&record, &bytes);
	assert_int_equal(
	    record_decode(&read, RECORD_SERVER, bytes.bytes, bytes.len, arena), -1);
	buf_clear(&bytes);
	record.server.is_linked = true;
	record.server.slot.state = SLOT_LOGIN;
	record_encode(&record, &bytes);
	assert_int_equal(
	    record_decode(&read, RECORD_SERVER, bytes.bytes, bytes.len, arena), -1);
	buf_clear(&bytes);
	record = some_client();
	record.client.slow.xact.traceparent =
	    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0100";
	record_encode(&record, &bytes);
	assert_int_equal(
	    record_decode(&read, RECORD_CLIENT, bytes.bytes, bytes.len, arena), -1);
	assert_int_equal(
	    record_decode(&read, (enum record_kind)'?', bytes.bytes, 0, arena), -1);
	buf_done(&bytes);
	arena_free(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(there_and_back),
	    cmocka_unit_test(values_are_the_same),
	    cmocka_unit_test(link_without_a_message),
	    cmocka_unit_test(cut_or_too_long),
	    cmocka_unit_test(lying_lengths),
	    cmocka_unit_test(impossible_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
