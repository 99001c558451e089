/*
 * The connection of the monitor of hosts: how it logs in, what it asks, and what it
 * makes of any answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../stage/stage.h"
#include "broker/host_connection.h"
#include "broker/host_monitor.h"
#include "broker/host_survey.h"
#include "wire/codec.h"
#include "wire/message.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

static struct watched_host *host(const struct stage *stage)
{
	return container_of(
	    list_first(stage->site.watched_hosts), struct watched_host, node);
}

static const struct host_value *value(const struct stage *stage)
{
	return &host(stage)->watch.value;
}

/* A client waits for a primary, and the monitor's connection has been opened. */
static struct stage *begin(const char *options, struct peer **monitor)
{
	struct stage *stage = stage_new(options, "");

	peer_start(stage_client(stage), "u", "d", NULL, NULL);
	*monitor = stage_server(stage);
	return stage;
}

static struct stage *begin_asked(struct peer **monitor)
{
	struct stage *stage = begin("target_session_attrs=primary", monitor);

	assert_int_equal(peer_first_packet(*monitor), PROTOCOL_3_2);
	peer_greet(*monitor);
	peer_await(*monitor);
	return stage;
}

/* The question that has come, which is removed. */
static bool is_asked_for(struct peer *monitor, const char *text)
{
	char question[1024] = "";

	peer_await(monitor);
	assert_int_equal(monitor->in.bytes[0], 'Q');
	assert_true(monitor->in.len < sizeof(question));
	memcpy(question, monitor->in.bytes + 5, monitor->in.len - 5);
	buf_clear(&monitor->in);
	return strstr(question, text) != NULL;
}

/* A field that is NULL in C is NULL in SQL. */
static void answer(struct peer *monitor, const char *const *fields, size_t count)
{
	struct buf row;

	buf_init(&row, 0);
	buf_put_u16(&row, (uint16_t)count);
	for (size_t i = 0; i < count; i++) {
		size_t len = fields[i] ? strlen(fields[i]) : 0;
		buf_put_u32(&row, fields[i] ? (uint32_t)len : UINT32_MAX);
		buf_put(&row, fields[i] ? fields[i] : "", len);
	}
	peer_put(monitor, 'D', row.bytes, row.len);
	buf_done(&row);
	peer_answer(monitor, "SELECT 1", 'I');
	stage_settle(monitor->stage);
}

static void fail_with(struct peer *monitor, const char *sqlstate, bool is_fatal)
{
	struct buf b;

	buf_init(&b, 0);
	codec_put_error(
	    &b, is_fatal ? "FATAL" : "ERROR", sqlstate, "it has to be", NULL, NULL);
	peer_send(monitor, b.bytes, b.len);
	buf_done(&b);
	if (!is_fatal)
		peer_ready(monitor, 'I');
	stage_settle(monitor->stage);
}

static const char *const a_primary[] = {"f", "off", "0000001A", "1234567890123"};

static bool has_text(const struct peer *peer, const char *text)
{
	return memmem(peer->in.bytes, peer->in.len, text, strlen(text)) != NULL;
}

static bool has_come(void *peer)
{
	return ((struct peer *)peer)->in.len > 8;
}

static void it_logs_in_as_a_user_of_the_pool(void **state)
{
	struct peer *monitor;
	struct stage *stage = begin("target_session_attrs=primary", &monitor);
	struct buf b;

	(void)state;
	stage_until(stage, has_come, monitor);
	assert_true(has_text(monitor, "pgbouncer monitor"));
	peer_first_packet(monitor);
	buf_init(&b, 0);
	codec_put_auth(&b, AUTH_REQ_CLEARTEXT, NULL, 0);
	peer_send(monitor, b.bytes, b.len);
	buf_done(&b);
	peer_await(monitor);
	assert_int_equal(monitor->in.bytes[0], 'p');
	assert_string_equal((const char *)monitor->in.bytes + 5, "secret");
	buf_clear(&monitor->in);
	peer_greet(monitor);
	assert_true(is_asked_for(monitor, "pg_is_in_recovery"));
	assert_int_equal(value(stage)->state, HOST_NOT_TRIED);
	stage_free(&stage);
}

static void an_own_user_that_is_refused_tells_nothing_of_the_host(void **state)
{
	static const char *const options[] = {"target_session_attrs=primary",
	    "target_session_attrs=primary role_check_user=v"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct peer *monitor;
		struct stage *stage = begin(options[i], &monitor);
		peer_first_packet(monitor);
		fail_with(monitor, "28000", true);
		assert_int_equal(value(stage)->state, i ? HOST_UP : HOST_REFUSES);
		assert_string_equal(
		    i ? value(stage)->unasked : value(stage)->reason, "it has to be");
		stage_free(&stage);
	}
}

static void what_is_told_is_kept(void **state)
{
	static const char *const standby[] = {"t", "off", NULL, "77"};
	struct peer *monitor;
	struct stage *stage = begin_asked(&monitor);
	const struct host_report *r = &value(stage)->report;

	(void)state;
	assert_true(is_asked_for(monitor, "pg_walfile_name"));
	answer(monitor, a_primary, 4);
	assert_int_equal(value(stage)->state, HOST_UP);
	assert_int_equal(r->role, HOST_PRIMARY);
	assert_int_equal(r->timeline, 0x1a);
	assert_true(r->position == 1234567890123);
	assert_false(r->is_read_only);
	/* a change that the server reports by itself is asked about at once */
	peer_put(monitor, 'S', "in_hot_standby\0on", 18);
	assert_true(is_asked_for(monitor, "pg_walfile_name"));
	answer(monitor, standby, 4);
	assert_int_equal(r->role, HOST_STANDBY);
	assert_int_equal(r->timeline, 0);
	assert_int_equal(r->position, 77);
	stage_free(&stage);
}

static void what_cannot_be_asked_is_asked_in_short(void **state)
{
	static const char *const short_row[] = {"f", "on"};
	struct peer *monitor;
	struct stage *stage = begin_asked(&monitor);

	(void)state;
	assert_true(is_asked_for(monitor, "pg_walfile_name"));
	fail_with(monitor, "42883", false);
	assert_false(is_asked_for(monitor, "pg_walfile_name"));
	answer(monitor, short_row, 2);
	assert_int_equal(value(stage)->state, HOST_UP);
	assert_true(value(stage)->report.is_read_only);
	assert_string_equal(value(stage)->unasked,
	    "timeline and lag cannot be asked for: it has to be");
	stage_free(&stage);
}

/* Neither a failure that may pass nor nonsense makes a primary of it. */
static void answers_that_say_nothing(void **state)
{
	static const char *const too_few[] = {"f"};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct peer *monitor;
		struct stage *stage = begin_asked(&monitor);
		assert_true(is_asked_for(monitor, "pg_walfile_name"));
		if (i == 0)
			fail_with(monitor, "57014", false);
		else if (i == 1)
			answer(monitor, too_few, 1);
		else if (i == 2)
			peer_answer(monitor, "SELECT 0", 'I');
		else
			peer_put(monitor, 'D', "\0\4\0\0\0\1", 6);
		if (i == 3)
			peer_answer(monitor, "SELECT 1", 'I');
		stage_settle(stage);
		/* the stage reports no role at a login */
		assert_int_equal(value(stage)->report.role, HOST_ROLE_UNKNOWN);
		assert_int_equal(value(stage)->report.timeline, 0);
		stage_free(&stage);
	}
}

static void a_lost_connection_is_opened_again(void **state)
{
	struct peer *monitor;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct stage *stage = begin_asked(&monitor);
		if (i == 0)
			peer_close(monitor);
		else if (i == 3)
			/* as a connection does for which there is no memory */
			conn_doom_quietly(&host(stage)->server->conn, "out of memory");
		else if (i == 1)
			peer_send(monitor, "\0\0\0\0\0\0", 6);
		else
			peer_put(monitor, 'S', "cut", 3);
		/* that it was lost alone says nothing about the host */
		assert_int_equal(value(stage)->state, HOST_NOT_TRIED);
		monitor = stage_server(stage);
		peer_first_packet(monitor);
		peer_greet(monitor);
		assert_true(is_asked_for(monitor, "pg_walfile_name"));
		answer(monitor, a_primary, 4);
		assert_int_equal(value(stage)->report.timeline, 0x1a);
		stage_free(&stage);
	}
}

/* There is no memory for the monitor's packets before it is logged in. */
static void a_login_that_is_lost_begins_again(void **state)
{
	struct peer *monitor;
	struct stage *stage = begin("target_session_attrs=primary", &monitor);

	(void)state;
	peer_first_packet(monitor);
	conn_doom_quietly(&host(stage)->server->conn, "out of memory");
	monitor = stage_server(stage);
	peer_first_packet(monitor);
	peer_greet(monitor);
	assert_true(is_asked_for(monitor, "pg_walfile_name"));
	answer(monitor, a_primary, 4);
	assert_int_equal(value(stage)->report.timeline, 0x1a);
	stage_free(&stage);
}

/* What comes without a question is no answer. */
static void what_was_not_asked_for(void **state)
{
	static const char *const standby[] = {"t", "off", NULL, "77"};
	struct peer *monitor;
	struct stage *stage = begin_asked(&monitor);

	(void)state;
	buf_clear(&monitor->in);
	answer(monitor, a_primary, 4);
	answer(monitor, standby, 4);
	assert_int_equal(value(stage)->report.role, HOST_PRIMARY);
	stage_free(&stage);
}

/* A promotion is reported once, with the next answer: here with that to the pooler's
 * own SET. */
static void report_within_an_answer_to_the_pooler(void **state)
{
	struct peer *monitor, *server, *client;
	struct stage *stage = begin_asked(&monitor);

	(void)state;
	buf_clear(&monitor->in);
	answer(monitor, a_primary, 4);
	server = stage_server(stage);
	peer_first_packet(server);
	peer_put(server, 'S', "in_hot_standby\0off", 19);
	peer_greet(server);
	client = stage_login(stage, "u", "application_name", "x");
	peer_text(client, 'Q', "select 1");
	assert_string_equal(peer_hear(server, 'Q'), "Q:SET application_name='x';");
	assert_false(host(stage)->watch.is_hinted);
	peer_put(server, 'S', "in_hot_standby\0on", 18);
	stage_settle(stage);
	/* the monitor will ask, or has just asked */
	assert_true(host(stage)->watch.is_hinted || monitor->in.len);
	stage_free(&stage);
}

/* What pools notice while everything is being closed begins nothing again. */
static void hints_come_too_late_at_the_end(void **state)
{
	struct peer *monitor;
	struct stage *stage = begin_asked(&monitor);
	struct site *site = &stage->site;
	const struct host *host = stage_pool(stage)->database->hosts.list[0];

	(void)state;
	host_monitor_end(site);
	host_monitor_hint(site, host, NULL);
	host_monitor_review(site);
	stage_settle(stage);
	assert_true(list_is_empty(&site->host_monitor->hosts));
	assert_true(list_is_empty(&site->host_monitor->databases));
	stage_free(&stage);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_logs_in_as_a_user_of_the_pool),
	    cmocka_unit_test(an_own_user_that_is_refused_tells_nothing_of_the_host),
	    cmocka_unit_test(what_is_told_is_kept),
	    cmocka_unit_test(what_cannot_be_asked_is_asked_in_short),
	    cmocka_unit_test(answers_that_say_nothing),
	    cmocka_unit_test(a_lost_connection_is_opened_again),
	    cmocka_unit_test(a_login_that_is_lost_begins_again),
	    cmocka_unit_test(what_was_not_asked_for),
	    cmocka_unit_test(report_within_an_answer_to_the_pooler),
	    cmocka_unit_test(hints_come_too_late_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
