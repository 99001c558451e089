/*
 * The views: columns and types exactly as tools know them, and the rows of a few pools.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conf/settings.h"
#include "pool/pool.h"
#include "rig.h"
#include "session/server.h"

static const char ini[] =
    "[databases]\n"
    "one = host=127.0.0.1 port=5433 pool_size=5 max_db_connections=9\n"
    "two = host=a,b user=owner pool_mode=session dbname=real server_lifetime=60\n"
    "* =\n"
    "[users]\n"
    "boss = pool_size=7 reserve_pool_size=1 pool_mode=statement "
    "max_user_connections=3\n"
    "[peers]\n"
    "3 = host=/tmp/peer port=7000 pool_size=2\n"
    "9 = host=far\n"
    "[pgbouncer]\n"
    "listen_port = 6543\n"
    "admin_users = boss\n";

struct fixture {
	struct rig *rig;
	struct console_client client;
};

static int open_fixture(void **state)
{
	struct fixture *w = calloc(1, sizeof(*w));

	w->rig = rig_new(ini);
	console_client_open(&w->client, w->rig, true);
	*state = w;
	return 0;
}

static int close_fixture(void **state)
{
	struct fixture *w = *state;

	console_client_close(&w->client);
	rig_free(&w->rig);
	free(w);
	return 0;
}

/* ---- columns ---- */

#define SOCKET                                                                 \
	"type:25|user:25|database:25|replication:25|state:25|addr:25|port:23|" \
	"local_addr:25|local_port:23|connect_time:25|request_time:25|wait:23|" \
	"wait_us:23|close_needed:23|ptr:25|link:25|remote_pid:23|tls:25|"      \
	"application_name:25|prepared_statements:23|id:23"
#define AUTH_METHOD "|auth_method:25"
#define BUFFERS                                                             \
	"|recv_pos:23|pkt_pos:23|pkt_remain:23|send_pos:23|send_remain:23|" \
	"pkt_avail:23|send_avail:23"

static const struct shape {
	const char *view, *columns;
} shapes[] = {
    {"VERSION", "version:25"},
    {"STATE", "key:25|value:25"},
    {"CONFIG", "key:25|value:25|default:25|changeable:25"},
    {"DATABASES",
	"name:25|host:25|port:23|database:25|force_user:25|pool_size:23|"
	"min_pool_size:23|reserve_pool_size:23|server_lifetime:23|pool_mode:25|"
	"load_balance_hosts:25|max_connections:23|current_connections:23|"
	"max_client_connections:23|current_client_connections:23|paused:23|disabled:"
	"23"},
    {"POOLS", "database:25|user:25|cl_active:23|cl_waiting:23|cl_active_cancel_req:23|"
	      "cl_waiting_cancel_req:23|sv_active:23|sv_active_cancel:23|sv_being_"
	      "canceled:23|"
	      "sv_idle:23|sv_used:23|sv_tested:23|sv_login:23|maxwait:23|maxwait_us:23|"
	      "pool_mode:25|load_balance_hosts:25|sv_pinned:23|cl_listening:23"},
    {"CLIENTS", SOCKET AUTH_METHOD},
    {"SERVERS", SOCKET AUTH_METHOD},
    {"SOCKETS", SOCKET BUFFERS AUTH_METHOD},
    {"ACTIVE_SOCKETS", SOCKET BUFFERS AUTH_METHOD},
    {"LISTS", "list:25|items:23"},
    {"USERS", "name:25|pool_size:25|reserve_pool_size:25|pool_mode:25|max_user_"
	      "connections:23|"
	      "current_connections:23|max_user_client_connections:23|"
	      "current_client_connections:23"},
    {"PEERS", "peer_id:23|host:25|port:23|pool_size:23"},
    {"PEER_POOLS", "peer_id:23|cl_active_cancel_req:23|cl_waiting_cancel_req:23|"
		   "sv_active_cancel:23|sv_login:23"},
    {"STATS",
	"database:25|total_server_assignment_count:1700|total_xact_count:1700|"
	"total_query_count:1700|total_received:1700|total_sent:1700|total_xact_time:"
	"1700|"
	"total_query_time:1700|total_wait_time:1700|total_client_parse_count:1700|"
	"total_server_parse_count:1700|total_bind_count:1700|"
	"total_client_login_count:1700|avg_server_assignment_count:1700|"
	"avg_xact_count:1700|avg_query_count:1700|avg_recv:1700|avg_sent:1700|"
	"avg_xact_time:1700|avg_query_time:1700|avg_wait_time:1700|"
	"avg_client_parse_count:1700|avg_server_parse_count:1700|avg_bind_count:1700|"
	"avg_client_login_count:1700|total_repeated_parse_count:1700|"
	"total_saved_parse_count:1700|avg_repeated_parse_count:1700|"
	"avg_saved_parse_count:1700"},
    {"STATS_TOTALS",
	"database:25|server_assignment_count:1700|xact_count:1700|query_count:1700|"
	"bytes_received:1700|bytes_sent:1700|xact_time:1700|query_time:1700|"
	"wait_time:1700|client_parse_count:1700|server_parse_count:1700|bind_count:"
	"1700|"
	"client_login_count:1700|repeated_parse_count:1700|saved_parse_count:1700"},
    {"STATS_AVERAGES",
	"database:25|server_assignment_count:1700|xact_count:1700|query_count:1700|"
	"bytes_received:1700|bytes_sent:1700|xact_time:1700|query_time:1700|"
	"wait_time:1700|avg_client_parse_count:1700|avg_server_parse_count:1700|"
	"avg_bind_count:1700|avg_client_login_count:1700|"
	"avg_repeated_parse_count:1700|avg_saved_parse_count:1700"},
    {"TOTALS", "name:25|value:1700"},
    {"MEM", "name:25|size:23|used:23|free:23|memtotal:23"},
    {"DNS_HOSTS", "hostname:25|ttl:20|addrs:25"},
    {"DNS_ZONES", "zonename:25|serial:20|count:23"},
    {"HOSTS", "database:25|host:25|port:23|role:25|state:25|weight:23|connections:23|"
	      "active:23|"
	      "assignments:20|failures:20|last_error:25|retry_in:20|"
	      "timeline:20|reason:25|lag_us:20|lag_bytes:20"},
    {"STATE_LEAKS",
	"database:25|user:25|application_name:25|kind:25|count:20|last_time:25"},
    {"PINS", "database:25|user:25|id:20|ptr:25|client_user:25|addr:25|port:23|"
	     "application_name:25|kinds:25|since:25|transactions:20|link:25|host:25|"
	     "host_port:23|remote_pid:23"},
    {"LISTENERS", "database:25|user:25|id:20|ptr:25|client_user:25|addr:25|port:23|"
		  "application_name:25|channels:25|since:25|notifications:20|queue:20"},
    {"LATENCY",
	"database:25|user:25|kind:25|count:20|p50:20|p90:20|p99:20|p99_9:20|max:20|"
	"avg:20|recent_count:20|recent_p50:20|recent_p90:20|recent_p99:20|"
	"recent_p99_9:20|recent_max:20|recent_avg:20"},
    {"BLOCKERS",
	"database:25|user:25|waiting:23|maxwait_us:20|waits_for:25|id:23|ptr:25|"
	"client_database:25|client_user:25|addr:25|port:23|application_name:25|"
	"state:25|state_us:20|held_us:20|link:25|host:25|host_port:23|remote_pid:23"},
    {"WORKERS", "worker:25|clients:23|servers:23|busy:23|turns:20|longest_turn_us:20|"
		"servers_out:20|servers_in:20|waits_served_elsewhere:20|"
		"clients_out:20|clients_in:20"},
};

static void test_columns(void **state)
{
	struct fixture *w = *state;

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		char query[64], expected[2048];
		snprintf(query, sizeof(query), "show %s", shapes[i].view);
		int len =
		    snprintf(expected, sizeof(expected), "T %s\n", shapes[i].columns);
		const char *answer = console_client_ask(&w->client, query);
		char *head = strndup(answer, (size_t)len);
		assert_string_equal(head, expected);
		free(head);
		assert_non_null(strstr(answer, "\nC SHOW\nZ I\n"));
	}
}

/* ---- rows ---- */

static void test_help(void **state)
{
	struct fixture *w = *state;

	assert_string_equal(console_client_ask(&w->client, "show help"),
	    "N S=NOTICE C=00000 M=Console usage D="
	    "\n\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION"
	    "\n\tSHOW PEERS|PEER_POOLS"
	    "\n\tSHOW FDS|SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|STATE"
	    "\n\tSHOW DNS_HOSTS|DNS_ZONES"
	    "\n\tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS"
	    "\n\tSET key = arg"
	    "\n\tRELOAD"
	    "\n\tPAUSE [<db>]"
	    "\n\tRESUME [<db>]"
	    "\n\tDISABLE <db>"
	    "\n\tENABLE <db>"
	    "\n\tRECONNECT [<db>]"
	    "\n\tKILL [<db>]"
	    "\n\tKILL_CLIENT <client_id>"
	    "\n\tSUSPEND"
	    "\n\tSHUTDOWN"
	    "\n\tSHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS"
	    "\n\tWAIT_CLOSE [<db>]"
	    "\n\tEXPLAIN LOGIN <user> <db> [<address>]"
	    "\n\tSWITCHOVER <db> [TO <host>]"
	    "\n\tTAKEOVER <format>"
	    "\n\tSHOW "
	    "HOSTS|PREPARED_STATEMENTS|STATE_LEAKS|LATENCY|BLOCKERS|PINS|LISTENERS|"
	    "ERRORS|"
	    "CERTIFICATES|ISSUERS|WARNINGS|WORKERS"
	    "\nC SHOW\nZ I\n");
}

/* The rows of an answer, without its first and its last two lines. */
static char *rows_of(struct console_client *client, const char *query)
{
	const char *answer = console_client_ask(client, query);
	const char *start = strchr(answer, '\n') + 1;
	const char *end = strstr(start, "C SHOW\nZ I\n");

	assert_non_null(end);
	return strndup(start, (size_t)(end - start));
}

static void has_rows(
    struct console_client *client, const char *query, const char *expected)
{
	char *rows = rows_of(client, query);
	assert_string_equal(rows, expected);
	free(rows);
}

static void begins_with_rows(
    struct console_client *client, const char *query, const char *expected)
{
	char *rows = rows_of(client, query);
	assert_memory_equal(rows, expected, strlen(expected));
	free(rows);
}

static void test_hosts(void **state)
{
	struct fixture *w = *state;
	struct database *db = catalog_find_database(w->rig->site.catalog, "two");
	struct host *host = db->hosts.list[1];

	host->is_down = host->was_tried = true;
	host->connections = 5;
	host->resting = 2;
	host->assignments = 7;
	host->failures = 4;
	host->retry_us = loop_now(w->rig->site.loop) + 1500000;
	snprintf(host->last_error, sizeof(host->last_error), "connect failed");
	db->hosts.list[0]->report.role = HOST_STANDBY;
	has_rows(&w->client, "show hosts",
	    "D one|127.0.0.1|5433|\\N|not tried|1|0|0|0|0|\\N|0|0|\\N|\\N|\\N\n"
	    "D two|a|5432|standby|not tried|1|0|0|0|0|\\N|0|0|\\N|\\N|\\N\n"
	    "D two|b|5432|\\N|down|1|5|3|7|4|connect failed|2|0|connect "
	    "failed|\\N|\\N\n");
	host->connections = host->resting = 0;
}

static void test_state(void **state)
{
	struct fixture *w = *state;

	begins_with_rows(&w->client, "show state",
	    "D active|yes\nD paused|no\nD suspended|no\nD io_engine|epoll\nD turns|");
	console_client_ask(&w->client, "pause");
	begins_with_rows(&w->client, "show state",
	    "D active|no\nD paused|yes\nD suspended|no\nD io_engine|epoll\nD turns|");
}

static void test_databases(void **state)
{
	struct fixture *w = *state;

	console_client_ask(&w->client, "pause two");
	console_client_ask(&w->client, "disable one");
	console_client_ask(&w->client, "disable auto");
	console_client_ask(&w->client, "reconnect idle"); /* not used: not shown */
	has_rows(&w->client, "show databases",
	    "D auto|\\N|5432|auto|\\N|20|0|0|3600|\\N|\\N|0|0|0|0|0|1\n"
	    "D one|127.0.0.1|5433|one|\\N|5|0|0|3600|\\N|\\N|9|0|0|0|0|1\n"
	    "D "
	    "pgbouncer|\\N|6543|pgbouncer|pgbouncer|2|0|0|3600|statement|\\N|0|0|0|1|0|"
	    "0\n"
	    "D two|a,b|5432|real|owner|20|0|0|60|session|round-robin|0|0|0|0|1|0\n");
}

static void test_users_and_peers(void **state)
{
	struct fixture *w = *state;

	has_rows(&w->client, "show users",
	    "D boss|        7|        1|statement|3|0|0|1\n"
	    "D owner|||\\N|0|0|0|0\n"
	    "D pgbouncer|||\\N|0|0|0|0\n");
	has_rows(&w->client, "show peers", "D 3|/tmp/peer|7000|2\nD 9|far|6432|20\n");
}

static void test_config(void **state)
{
	struct fixture *w = *state;
	char *rows = rows_of(&w->client, "show config");
	size_t lines = 0, settings = 0;

	for (const char *at = rows; (at = strchr(at, '\n')); at++)
		lines++;
	while (setting_at(settings))
		settings++;
	assert_int_equal(lines, settings);
	assert_non_null(strstr(rows, "\nD listen_port|6543|6432|no\n"));
	assert_non_null(strstr(rows, "\nD auth_user|\\N|\\N|yes\n"));
	assert_non_null(strstr(rows, "\nD server_lifetime|3600|3600|yes\n"));
	free(rows);
}

static void test_lists(void **state)
{
	struct fixture *w = *state;

	has_rows(&w->client, "show lists",
	    "D databases|3\nD users|3\nD peers|2\nD pools|1\nD peer_pools|0\n"
	    "D free_clients|0\nD used_clients|1\nD login_clients|0\nD free_servers|0\n"
	    "D used_servers|0\nD dns_names|0\nD dns_zones|0\nD dns_queries|0\n"
	    "D dns_pending|0\n");
}

static void test_mem(void **state)
{
	struct fixture *w = *state;
	char *rows = rows_of(&w->client, "show mem");

	assert_non_null(strstr(rows, "D client_cache|"));
	/* iobuf_cache counts the blocks with their bookkeeping */
	assert_non_null(strstr(rows, "D iobuf_cache|65568|"));
	free(rows);
}

static void test_stats(void **state)
{
	struct fixture *w = *state;
	struct catalog *catalog = w->rig->site.catalog;
	struct database *one = catalog_find_database(catalog, "one");
	struct stats a = {.xact_count = 4,
	    .query_count = 10,
	    .bytes_received = 1000,
	    .query_time_us = 500,
	    .xact_time_us = 800,
	    .server_assignment_count = 2,
	    .wait_time_us = 70};

	stats_add(&catalog_pool(one, catalog_user(catalog, "boss"))->stats, &a);
	stats_add(&catalog_pool(one, catalog_user(catalog, "owner"))->stats, &a);
	/* the older snapshot is ten seconds old, and its counters were all 0 */
	rig_turn(w->rig, 1);
	catalog->older_snapshot_us = loop_now(w->rig->site.loop) - 10000000;
	catalog->snapshot_us = loop_now(w->rig->site.loop);
	char *rows = rows_of(&w->client, "show stats");
	assert_int_equal(
	    strncmp(rows, "D one|4|8|20|2000|0|1600|1000|140|0|0|0|0|0|0|1|", 47), 0);
	assert_non_null(strstr(rows, "|200|50|35|0|0|0|0|0|0|0|0\nD pgbouncer|0|1|1|"));
	free(rows);
	rows = rows_of(&w->client, "show totals");
	assert_non_null(
	    strstr(rows, "D total_query_count|21\nD total_client_bytes|2000\n"
			 "D total_server_bytes|0\n"));
	assert_non_null(strstr(rows, "\nD avg_query_time|"));
	assert_non_null(strstr(rows, "\nD avg_ps_bind_count|0\n"));
	free(rows);
	rows = rows_of(&w->client, "show stats_totals");
	assert_non_null(
	    strstr(rows, "D one|4|8|20|2000|0|1600|1000|140|0|0|0|0|0|0\n"));
	free(rows);
}

/* ---- connections ---- */

/* The n-th field of a row, as a new string. */
static char *field(const char *row, unsigned n)
{
	row += strlen("D ");
	while (n-- > 0)
		row = strchr(row, '|') + 1;
	return strndup(row, strcspn(row, "|\n"));
}

static void has_field(const char *row, unsigned n, const char *expected)
{
	char *value = field(row, n);
	assert_string_equal(value, expected);
	free(value);
}

/* A pool that has counted nothing has no rows; all together always have. */
static void test_latency(void **state)
{
	struct fixture *w = *state;
	struct catalog *catalog = w->rig->site.catalog;
	struct database *one = catalog_find_database(catalog, "one");
	struct pool *boss = catalog_pool(one, catalog_user(catalog, "boss"));
	struct pool *owner = catalog_pool(one, catalog_user(catalog, "owner"));

	for (int i = 0; i < 3; i++)
		latency_add(&owner->latency, LATENCY_QUERY, 100);
	latency_snapshot(&owner->latency);
	latency_snapshot(&owner->latency);
	latency_add(&boss->latency, LATENCY_WAIT, 0);
	latency_add(&boss->latency, LATENCY_QUERY, 100);
	begins_with_rows(&w->client, "show latency",
	    "D one|boss|wait|1|0|0|0|0|0|0|1|0|0|0|0|0|0\n"
	    "D one|boss|query|1|97|99|100|100|100|100|1|97|99|100|100|100|100\n"
	    "D one|owner|query|3|97|99|100|100|100|100|0|0|0|0|0|0|0\n"
	    "D \\N|\\N|wait|1|0|0|0|0|0|0|1|0|0|0|0|0|0\n"
	    "D \\N|\\N|query|4|97|99|100|100|100|100|1|97|99|100|100|100|100\n"
	    "D \\N|\\N|transaction|0|0|0|0|0|0|0|0|0|0|0|0|0|0\n"
	    "D \\N|\\N|connect|0|0|0|0|0|0|0|0|0|0|0|0|0|0\n"
	    "D \\N|\\N|login|0|0|0|0|0|0|0|0|0|0|0|0|0|0\n");
}

static void test_clients(void **state)
{
	struct fixture *w = *state;
	char *rows = rows_of(&w->client, "show clients"), ptr[32];
	int year, month, day, hour, minute, second;
	char zone[16];

	assert_int_equal(
	    strncmp(rows, "D C|boss|pgbouncer|none|idle|unix|6432|unix|6432|",
		strlen("D C|boss|pgbouncer|none|idle|unix|6432|unix|6432|")),
	    0);
	char *since = field(rows, 9);
	assert_int_equal(sscanf(since, "%4d-%2d-%2d %2d:%2d:%2d %15s", &year, &month,
			     &day, &hour, &minute, &second, zone),
	    7);
	free(since);
	snprintf(ptr, sizeof(ptr), "%p", (void *)w->client.client);
	has_field(rows, 14, ptr);
	has_field(rows, 15, "");
	has_field(rows, 18, "test");
	has_field(rows, 20, "1");
	free(rows);
	/* the console that asks counts as active */
	rows = rows_of(&w->client, "show active_sockets");
	has_field(rows, 4, "cl_active");
	free(rows);
}

static void test_servers(void **state)
{
	struct fixture *w = *state;
	struct catalog *catalog = w->rig->site.catalog;
	struct pool *pool = catalog_pool(
	    catalog_find_database(catalog, "two"), catalog_user(catalog, "boss"));
	struct server server = {.slot = {.pool = pool, .state = SLOT_IDLE}};

	server.conn.remote =
	    (struct sock_addr){.family = AF_INET, .port = 5432, .ip = {10, 1, 2, 3}};
	server.conn.id = 77;
	server.remote_pid = 4711;
	server.slot.dirty = DIRTY_OLD;
	vars_init(&server.vars, w->rig->site.vars);
	list_push_back(&pool->slots[SLOT_IDLE], &server.slot.node);
	char *rows = rows_of(&w->client, "show servers");
	assert_int_equal(
	    strncmp(rows, "D S|owner|two|none|idle|10.1.2.3|5432|", 38), 0);
	has_field(rows, 13, "1");
	has_field(rows, 16, "4711");
	has_field(rows, 20, "77");
	free(rows);
	rows = rows_of(&w->client, "show pools");
	assert_string_equal(rows,
	    "D pgbouncer|pgbouncer|1|0|0|0|0|0|0|0|0|0|0|0|0|statement|\\N|0|0\n"
	    "D two|owner|0|0|0|0|0|0|0|1|0|0|0|0|0|session|round-robin|0|0\n");
	free(rows);
	rows = rows_of(&w->client, "show sockets");
	assert_non_null(strstr(rows, "|sv_idle|10.1.2.3|"));
	free(rows);
	list_remove(&pool->slots[SLOT_IDLE], &server.slot.node);
	vars_done(&server.vars);
}

int main(void)
{
#define IN_FIXTURE(test) \
	cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)
	const struct CMUnitTest tests[] = {
	    IN_FIXTURE(test_columns),
	    IN_FIXTURE(test_hosts),
	    IN_FIXTURE(test_help),
	    IN_FIXTURE(test_state),
	    IN_FIXTURE(test_databases),
	    IN_FIXTURE(test_users_and_peers),
	    IN_FIXTURE(test_config),
	    IN_FIXTURE(test_lists),
	    IN_FIXTURE(test_mem),
	    IN_FIXTURE(test_stats),
	    IN_FIXTURE(test_latency),
	    IN_FIXTURE(test_clients),
	    IN_FIXTURE(test_servers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
