/*
 * The first packets of a client: which are answered, refused, kept and dropped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../stage/stage.h"
#include "wire/codec.h"
#include "wire/kept_settings.h"
#include "wire/message.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_ends_with(peer, expected) \
	assert_string_equal(peer_last_words(peer), expected)

/* A stage whose pool has its login parameters, so that no client waits for a server. */
static struct stage *warm_stage(const char *settings)
{
	struct stage *stage = stage_new("", settings);
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	return stage;
}

static struct peer *say(struct stage *stage, const void *bytes, size_t len)
{
	struct peer *client = stage_client(stage);
	peer_send(client, bytes, len);
	return client;
}

/* Names and values up to NULL. */
static struct peer *start(struct stage *stage, const char *const *params)
{
	struct peer *client = stage_client(stage);
	struct buf b;
	buf_init(&b, 0);
	size_t at = codec_begin_startup(&b, PROTOCOL_3_0);
	codec_put_param(&b, "user", "u");
	codec_put_param(&b, "database", "d");
	for (; *params; params += 2)
		codec_put_param(&b, params[0], params[1]);
	codec_end_startup(&b, at);
	peer_send(client, b.bytes, b.len);
	buf_done(&b);
	return client;
}
#define START(stage, ...) start(stage, (const char *const[]){__VA_ARGS__, NULL})

static void startup_may_come_byte_by_byte(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	static const char packet[] = "\0\0\0\x1b\0\3\0\0user\0u\0database\0d\0";
	struct peer *client = stage_client(stage);
	assert_int_equal(sizeof(packet), 0x1b);
	for (size_t i = 0; i < sizeof(packet); i++) {
		peer_send(client, packet + i, 1);
		stage_turn(stage);
	}
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void encryption_is_declined(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	struct peer *client = say(stage, "\0\0\0\x08\x04\xd2\x16\x2f", 8);
	stage_settle(stage);
	assert_int_equal(client->in.len, 1);
	assert_int_equal(client->in.bytes[0], 'N');
	buf_clear(&client->in);
	peer_send(client, "\0\0\0\x08\x04\xd2\x16\x30", 8);
	stage_settle(stage);
	assert_int_equal(client->in.len, 1);
	buf_clear(&client->in);
	peer_start(client, "u", "d", NULL, NULL);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void bytes_behind_an_encryption_request_are_an_attack(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	assert_ends_with(say(stage, "\0\0\0\x08\x04\xd2\x16\x2f\0", 9),
	    "E:FATAL:received unencrypted data after SSL request");
	assert_ends_with(say(stage, "\0\0\0\x08\x04\xd2\x16\x30\0", 9),
	    "E:FATAL:received unencrypted data after GSSAPI encryption request");
	stage_free(&stage);
}

static void nonsense_is_refused(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	assert_ends_with(say(stage, "\0\0\0\x08\0\2\0\0", 8),
	    "E:FATAL:old V2 protocol not supported");
	assert_ends_with(say(stage, "\0\0\0\x08\0\4\0\0", 8),
	    "E:FATAL:bad packet header: '0000000800040000'");
	assert_ends_with(say(stage, "\0\0\0\x07\0\3\0\0", 8),
	    "E:FATAL:bad packet header: '0000000700030000'");
	assert_ends_with(say(stage, "p\0\0\0\x05\0", 6),
	    "E:FATAL:client password pkt before startup packet");
	assert_ends_with(say(stage, "Q\0\0\0\x05\0", 6), "");
	assert_ends_with(say(stage,
			     "\0\0\0\x0c\x04\xd2\x16\x2e"
			     "abcd",
			     12),
	    "");
	assert_ends_with(
	    say(stage, "\0\0\0\x09\0\3\0\0\0", 9), "E:FATAL:no username supplied");
	assert_ends_with(say(stage, "\0\0\0\x0c\0\3\0\0user", 12),
	    "E:FATAL:invalid startup packet layout: expected terminator as last byte");
	stage_free(&stage);
}

static void long_names_are_no_danger(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	char name[30001];
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	struct peer *client = stage_client(stage);
	peer_start(client, name, "d", NULL, NULL);
	assert_ends_with(client, "E:FATAL:username too long");
	client = stage_client(stage);
	peer_start(client, "u", name, NULL, NULL);
	assert_non_null(strstr(peer_last_words(client), "no such database: nnn"));
	client = stage_client(stage);
	peer_start(client, "u", "d", name, name);
	assert_non_null(
	    strstr(peer_last_words(client), "unsupported startup parameter"));
	client = stage_client(stage);
	peer_start(client, "u", "d", "application_name", name);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void half_a_long_packet_is_not_kept_beyond_the_limit(void **state)
{
	(void)state;
	static const char half[8000] = "\0\0\xff\xff\0\3\0\0user\0u\0options";
	struct stage *stage = warm_stage("");
	struct peer *early = say(stage, half, sizeof(half));
	assert_string_equal(peer_heard(early), "");
	stage_set(stage, "max_client_conn", "2");
	assert_ends_with(say(stage, half, sizeof(half)),
	    "E:FATAL:no more connections allowed (max_client_conn)");
	assert_string_equal(peer_heard(say(stage, half, 1000)), "");
	stage_free(&stage);
}

static void parameters_are_sorted_out(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("ignore_startup_parameters = geqo\n");
	assert_ends_with(START(stage, "work_mem", "1GB"),
	    "E:FATAL:unsupported startup parameter: work_mem");
	peer_hear(START(stage, "geqo", "off"), 'Z');
	peer_hear(START(stage, "TimeZone", "UTC", "client_encoding", "UTF8"), 'Z');
	peer_hear(START(stage, "replication", "off"), 'Z');
	stage_free(&stage);
}

/* Whether they are kept for the user is known when it has proven who it is. */
static void parameters_are_kept(void **state)
{
	(void)state;
	static const char *const refused[] = {"session_state = forward\n",
	    "session_state = clean\n", "session_state = keep\npool_mode = session\n"};
	struct stage *stage = warm_stage("session_state = keep\n");
	peer_hear(START(stage, "work_mem", "1GB", "Lock_Timeout", "1"), 'Z');
	struct client *client =
	    container_of(list_last(&stage->site.clients), struct client, site_node);
	assert_true(kept_settings_has(client->params.startup, "work_mem"));
	assert_true(kept_settings_has(client->params.startup, "lock_timeout"));
	peer_hear(START(stage, "options", "-c work_mem=1GB --app.a=b"), 'Z');
	assert_ends_with(START(stage, "wrong name", "1"),
	    "E:FATAL:unsupported startup parameter: \"wrong name\"");
	assert_ends_with(START(stage, "replication", "true", "work_mem", "1"),
	    "E:FATAL:unsupported startup parameter: work_mem");
	stage_free(&stage);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		stage = warm_stage(refused[i]);
		assert_ends_with(START(stage, "work_mem", "1GB"),
		    "E:FATAL:unsupported startup parameter: work_mem");
		stage_free(&stage);
	}
}

static void options_are_read(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("ignore_startup_parameters = geqo\n");
	peer_hear(START(stage, "options",
		      " -c geqo=off --timezone=UTC -capplication_name=a\\ b"),
	    'Z');
	struct client *client =
	    container_of(list_last(&stage->site.clients), struct client, site_node);
	assert_string_equal(
	    vars_get(&client->params.vars, VAR_APPLICATION_NAME), "a b");
	assert_string_equal(vars_get(&client->params.vars, VAR_TIMEZONE), "UTC");
	assert_ends_with(START(stage, "options", "-c work_mem=1GB"),
	    "E:FATAL:unsupported startup parameter in options: work_mem");
	/* named as the client has sent it */
	assert_ends_with(START(stage, "options", "--work-mem=1GB"),
	    "E:FATAL:unsupported startup parameter in options: work-mem");
	static const char *const bad[] = {
	    "-c", "-x", "geqo=off", "-c geqo", "--", "-c \\"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_non_null(strstr(peer_last_words(START(stage, "options", bad[i])),
		    "unsupported options startup parameter"));
	stage_free(&stage);
}

/* Processor time in which a packet of 64 KB, made of parameters with this name and no
 * value, is read and answered. */
static double cost_of_params(struct stage *stage, const char *name)
{
	struct timespec from, to;
	struct peer *client = stage_client(stage);
	struct buf b;

	buf_init(&b, 0);
	size_t at = codec_begin_startup(&b, PROTOCOL_3_0);
	codec_put_param(&b, "user", "u");
	codec_put_param(&b, "database", "d");
	while (b.len + strlen(name) + 3 < 65535)
		codec_put_param(&b, name, "");
	codec_end_startup(&b, at);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	peer_send(client, b.bytes, b.len);
	peer_hear(client, 'Z');
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	buf_done(&b);
	peer_close(client);
	return (double)(to.tv_sec - from.tv_sec) +
	       (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* Each parameter is read once, however many there are. */
static void each_parameter_costs_the_same(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("ignore_startup_parameters = ignored\n");
	double ordinary = cost_of_params(stage, "ignored");
	assert_true(cost_of_params(stage, "options") < 0.05 + 5 * ordinary);
	assert_true(cost_of_params(stage, "_pq_.x") < 0.05 + 5 * ordinary);
	stage_free(&stage);
}

static const struct client *last_client(const struct stage *stage)
{
	return container_of(list_last(&stage->site.clients), struct client, site_node);
}

static void replication_is_one_of_two(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		enum replication is;
	} words[] = {{"database", REPLICATION_LOGICAL}, {"DATABASE", REPLICATION_NONE},
	    {"databas", REPLICATION_NONE}, {"true", REPLICATION_PHYSICAL},
	    {"YE", REPLICATION_PHYSICAL}, {"on", REPLICATION_PHYSICAL},
	    {"1", REPLICATION_PHYSICAL}, {"o", REPLICATION_NONE},
	    {"f", REPLICATION_NONE}, {"", REPLICATION_NONE}};
	struct stage *stage = warm_stage("");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		peer_hear(START(stage, "replication", words[i].value), 'Z');
		assert_int_equal(last_client(stage)->replication, words[i].is);
	}
	peer_hear(START(stage, "replication", "on", "replication", "off"), 'Z');
	assert_int_equal(last_client(stage)->replication, REPLICATION_NONE);
	stage_free(&stage);
}

static void options_of_replication_are_kept(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	peer_hear(START(stage, "options", "-d 1", "options", "-c  a\\ b", "replication",
		      "database"),
	    'Z');
	assert_string_equal(last_client(stage)->options, "-c  a\\ b");
	/* `options` does not permit other unknown parameters */
	assert_ends_with(START(stage, "work_mem", "1GB", "replication", "on"),
	    "E:FATAL:unsupported startup parameter: work_mem");
	/* the startup packet is followed by half a packet */
	peer_send(stage_client(stage), "\0\0\0\x1c\0\3\0\0options\0x\0replicatio", 28);
	stage_settle(stage);
	stage_free(&stage);
}

static void newer_protocol_is_negotiated(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	static const struct {
		const char *packet, *answer;
		size_t len;
	} cases[] = {
	    {"\0\0\0\x10\0\3\0\1user\0u\0", "v\0\0\0\x0c\0\3\0\0\0\0\0\0", 16},
	    {"\0\0\0\x10\0\3\0\3user\0u\0", "v\0\0\0\x0c\0\3\0\2\0\0\0\0", 16},
	    {"\0\0\0\x10\0\3\xff\xffuser\0u\0", "v\0\0\0\x0c\0\3\0\2\0\0\0\0", 16},
	    {"\0\0\0\x19\0\3\0\0user\0u\0_pq_.x\0y\0",
		"v\0\0\0\x13\0\3\0\0\0\0\0\1_pq_.x\0", 25},
	    {"\0\0\0\x19\0\3\0\2user\0u\0_pq_.x\0y\0",
		"v\0\0\0\x13\0\3\0\2\0\0\0\1_pq_.x\0", 25},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct peer *client = say(stage, cases[i].packet, cases[i].len);
		size_t len = 1 + get_u32((const uint8_t *)cases[i].answer + 1);
		stage_settle(stage);
		assert_true(client->in.len > len);
		assert_memory_equal(client->in.bytes, cases[i].answer, len);
	}
	stage_free(&stage);
}

static void version_decides_the_length_of_the_key(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("");
	static const struct {
		uint32_t version;
		size_t key_len;
	} cases[] = {
	    {PROTOCOL_3_0, 8}, {0x30001, 8}, {PROTOCOL_3_2, 36}, {0x30003, 36}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct peer *client = stage_login_version(stage, cases[i].version);
		assert_int_equal(client->key_len, cases[i].key_len);
		assert_true(client->key[0] < 0x80);
	}
	struct peer *client = stage_login_version(stage, PROTOCOL_3_2);
	assert_int_equal(buf_text(&client->text)[0], 'R');
	stage_free(&stage);
}

static void host_is_added_to_the_name(void **state)
{
	(void)state;
	struct stage *stage = warm_stage("application_name_add_host = 1\n");
	peer_hear(START(stage, "application_name", "app"), 'Z');
	struct client *client =
	    container_of(list_last(&stage->site.clients), struct client, site_node);
	assert_memory_equal(
	    vars_get(&client->params.vars, VAR_APPLICATION_NAME), "app - unix(", 11);
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(startup_may_come_byte_by_byte),
	    cmocka_unit_test(encryption_is_declined),
	    cmocka_unit_test(bytes_behind_an_encryption_request_are_an_attack),
	    cmocka_unit_test(nonsense_is_refused),
	    cmocka_unit_test(long_names_are_no_danger),
	    cmocka_unit_test(half_a_long_packet_is_not_kept_beyond_the_limit),
	    cmocka_unit_test(parameters_are_sorted_out),
	    cmocka_unit_test(parameters_are_kept),
	    cmocka_unit_test(options_are_read),
	    cmocka_unit_test(each_parameter_costs_the_same),
	    cmocka_unit_test(replication_is_one_of_two),
	    cmocka_unit_test(options_of_replication_are_kept),
	    cmocka_unit_test(newer_protocol_is_negotiated),
	    cmocka_unit_test(version_decides_the_length_of_the_key),
	    cmocka_unit_test(host_is_added_to_the_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
