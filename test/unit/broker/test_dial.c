/*
 * Opening servers: the ways to authenticate, the failures, and attacks of a hostile
 * server.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../stage/stage.h"
#include "auth/scram.h"
#include "auth/secret.h"
#include "net/dns.h"
#include "wire/codec.h"
#include "wire/message.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

/* A client waits, and the server dialed for it has read the startup packet. */
static struct stage *dial(const char *options, const char *settings,
    struct peer **client, struct peer **server)
{
	struct stage *stage = stage_new(options, settings);
	*client = stage_client(stage);
	peer_start(*client, "u", "d", NULL, NULL);
	*server = stage_server(stage);
	assert_int_equal(peer_first_packet(*server), PROTOCOL_3_2);
	return stage;
}

static void ask_for(struct peer *server, uint32_t request, const void *data, size_t len)
{
	struct buf b;
	buf_init(&b, 0);
	codec_put_auth(&b, request, data, len);
	peer_send(server, b.bytes, b.len);
	buf_done(&b);
}

static void plain_password_is_sent(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	ask_for(server, AUTH_REQ_CLEARTEXT, NULL, 0);
	stage_settle(stage);
	assert_int_equal(server->in.len, 12);
	assert_string_equal((const char *)server->in.bytes + 5, "secret");
	buf_clear(&server->in);
	peer_greet(server);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void md5_answer_is_sent(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	struct secret secret;
	char answer[MD5_TEXT_LEN + 1];
	ask_for(server, AUTH_REQ_MD5, "salt", 4);
	stage_settle(stage);
	secret_init(&secret, "secret");
	secret_md5_answer(&secret, "u", (const uint8_t *)"salt", answer);
	secret_done(&secret);
	assert_string_equal((const char *)server->in.bytes + 5, answer);
	stage_free(&stage);
}

static void fail_with(struct peer *server, const char *sqlstate, const char *text)
{
	struct buf b;
	buf_init(&b, 0);
	codec_put_error(&b, "FATAL", sqlstate, text, NULL, NULL);
	peer_send(server, b.bytes, b.len);
	buf_done(&b);
}

/* Reports the role before the rest of the answer to the login. */
static void greet_as_primary(struct peer *server)
{
	peer_put(server, 'S', "in_hot_standby\0off", 19);
	peer_greet(server);
}

/* ---- SCRAM ---- */

struct guard {
	struct scram_verifier verifier;
	struct scram_server scram;
};

/* Runs the exchange up to the client's proof, which is in server->in. */
static void scram_begin(struct peer *server, struct guard *guard)
{
	static const char *const mechanisms[] = {"SCRAM-SHA-256", NULL};
	const char *mechanism;
	const uint8_t *data;
	size_t len;
	struct buf b, out;
	struct err err;

	scram_verifier_from_password(&guard->verifier, "secret", 4096);
	scram_server_init(&guard->scram, &guard->verifier, false, NULL);
	buf_init(&b, 0);
	buf_init(&out, 0);
	codec_put_auth_sasl(&b, mechanisms);
	peer_send(server, b.bytes, b.len);
	buf_done(&b);
	stage_settle(server->stage);
	assert_int_equal(codec_read_sasl_initial(server->in.bytes + 5,
			     server->in.len - 5, &mechanism, &data, &len),
	    0);
	assert_int_equal(
	    scram_server_step(&guard->scram, data, len, &out, &err), SCRAM_MORE);
	buf_clear(&server->in);
	ask_for(server, AUTH_REQ_SASL_CONTINUE, out.bytes, out.len);
	buf_done(&out);
}

static void scram_end(
    struct peer *server, struct guard *guard, enum scram_result wanted)
{
	struct buf out;
	struct err err;
	buf_init(&out, 0);
	peer_await(server);
	assert_int_equal(scram_server_step(&guard->scram, server->in.bytes + 5,
			     server->in.len - 5, &out, &err),
	    wanted);
	buf_clear(&server->in);
	if (wanted == SCRAM_DONE)
		ask_for(server, AUTH_REQ_SASL_FINAL, out.bytes, out.len);
	buf_done(&out);
	scram_server_done(&guard->scram);
	scram_verifier_done(&guard->verifier);
}

static void scram_proof_is_given(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	struct guard guard;
	scram_begin(server, &guard);
	scram_end(server, &guard, SCRAM_DONE);
	peer_greet(server);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

/* The user list changes the secret during the exchange. */
static void reload_within_scram(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	static const char *const mechanisms[] = {"SCRAM-SHA-256", NULL};
	struct buf b;
	buf_init(&b, 0);
	codec_put_auth_sasl(&b, mechanisms);
	peer_send(server, b.bytes, b.len);
	buf_clear(&b);
	stage_settle(stage);
	assert_int_equal(server->in.bytes[0], 'p');
	stage_users(
	    stage, "\"u\" \"another and a longer one, so that memory moves\"\n");
	const char *nonce = strstr((const char *)server->in.bytes + 5 + 14 + 4, "r=");
	assert_non_null(nonce);
	buf_printf(&b, "%.*sX,s=QUFBQUFBQUFBQUFBQUFBQQ==,i=4096",
	    (int)((const char *)server->in.bytes + server->in.len - nonce), nonce);
	buf_clear(&server->in);
	ask_for(server, AUTH_REQ_SASL_CONTINUE, b.bytes, b.len);
	buf_done(&b);
	peer_await(server);
	assert_int_equal(server->in.bytes[0], 'p');
	/* keys of the old password are not kept for the new one */
	assert_int_equal(stage_pool(stage)->user->scram_cache.iterations, 0);
	stage_free(&stage);
}

static void server_that_skips_its_proof_is_refused(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	struct guard guard;
	scram_begin(server, &guard);
	stage_settle(stage);
	buf_clear(&server->in);
	peer_greet(server);
	assert_string_equal(peer_last_words(client),
	    "E:FATAL:server login failed: failed to verify server signature");
	peer_last_words(server);
	scram_server_done(&guard.scram);
	scram_verifier_done(&guard.verifier);
	stage_free(&stage);
}

/* ---- failure ---- */

static void refusal_is_passed_on(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	peer_put(server, 'E', "SFATAL\0C28000\0Mgo away\0", 24);
	assert_string_equal(peer_last_words(client), "E:FATAL:go away");
	peer_last_words(server);
	stage_free(&stage);
}

static void error_without_fields_is_survived(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	/* it may be about the version */
	peer_put(server, 'E', "\0", 1);
	peer_last_words(server);
	server = stage_server(stage);
	peer_put(server, 'E', "\0", 1);
	peer_last_words(server);
	assert_string_equal(peer_last_words(client), "E:FATAL:no reason given");
	stage_free(&stage);
}

static void starting_server_is_waited_for(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	peer_put(server, 'E', "SFATAL\0C57P03\0Mstarting up\0", 28);
	peer_last_words(server);
	stage_ready_server(stage);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

/* Where clients wait for a host that serves, one that stops in the middle of a login is
 * not there now; see protocol.md 10.4. */
static void stopping_server_is_waited_for(void **state)
{
	(void)state;
	static const char *const states[] = {"57P01", "57P02", "57P03"};
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		struct peer *client, *monitor, *server;
		struct stage *stage = stage_new("target_session_attrs=primary", "");
		client = stage_client(stage);
		peer_start(client, "u", "d", NULL, NULL);
		monitor = stage_monitor(stage, false);
		server = stage_server(stage);
		peer_first_packet(server);
		if (i == 1)
			ask_for(server, AUTH_REQ_CLEARTEXT, NULL, 0);
		fail_with(server, states[i], "going down");
		peer_last_words(server);
		peer_tell_role(monitor, false);
		server = stage_server(stage);
		peer_first_packet(server);
		greet_as_primary(server);
		peer_hear(client, 'Z');
		stage_free(&stage);
	}
}

static void stopping_single_server_is_told(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	fail_with(server, "57P01", "going down");
	assert_string_equal(peer_last_words(client), "E:FATAL:going down");
	stage_free(&stage);
}

static void lost_connection_is_tried_again(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	peer_close(server);
	server = stage_ready_server(stage);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

/* ---- the version of the protocol ---- */

#define ANY_ERROR(code) "SFATAL\0C" code "\0Mno such version\0"

static void older_version_is_agreed_on(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	peer_put(server, 'v', "\0\3\0\0\0\0\0\0", 8);
	peer_greet(server);
	peer_hear(client, 'Z');
	assert_false(stage_pool(stage)->speaks_3_0);
	stage_free(&stage);
}

static void refused_version_is_asked_for_once(void **state)
{
	(void)state;
	static const char *const errors[] = {
	    ANY_ERROR("0A000"), ANY_ERROR("08P01"), ANY_ERROR("XX000")};
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct peer *client, *server;
		struct stage *stage =
		    dial("pool_size=2", "server_login_retry = 60\n", &client, &server);
		peer_put(server, 'E', errors[i], 31);
		peer_last_words(server);
		server = stage_server(stage);
		assert_int_equal(peer_first_packet(server), PROTOCOL_3_0);
		peer_greet(server);
		peer_hear(client, 'Z');
		peer_text(client, 'Q', "begin");
		peer_hear(server, 'Q');
		client = stage_login(stage, "u", NULL, NULL);
		peer_text(client, 'Q', "begin");
		server = stage_server(stage);
		assert_int_equal(peer_first_packet(server), PROTOCOL_3_0);
		stage_free(&stage);
	}
}

/* The error has another cause, and is passed on to the client. */
static void second_refusal_is_passed_on(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	for (int i = 0; i < 2; i++) {
		peer_put(server, 'E', ANY_ERROR("08P01"), 31);
		peer_last_words(server);
		if (i == 0)
			server = stage_server(stage);
	}
	assert_string_equal(peer_last_words(client), "E:FATAL:no such version");
	stage_free(&stage);
}

/* The server asked for the password, so the version cannot be the reason. */
static void later_refusal_is_passed_on(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	ask_for(server, AUTH_REQ_CLEARTEXT, NULL, 0);
	peer_put(server, 'E', ANY_ERROR("08P01"), 31);
	assert_string_equal(peer_last_words(client), "E:FATAL:no such version");
	stage_free(&stage);
}

static void silence_changes_the_version_asked_for(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	peer_close(server);
	server = stage_server(stage);
	assert_int_equal(peer_first_packet(server), PROTOCOL_3_0);
	peer_close(server);
	server = stage_server(stage);
	assert_int_equal(peer_first_packet(server), PROTOCOL_3_2);
	peer_greet(server);
	peer_hear(client, 'Z');
	stage_free(&stage);
}

static void nonsense_about_versions_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
	} nonsense[] = {
	    {"v\0\0\0\x0c\0\3\0\3\0\0\0\0", 13}, /* a newer one than asked for */
	    {"v\0\0\0\x0c\0\2\0\0\0\0\0\0", 13},
	    {"v\0\0\0\x0c\0\3\0\0\0\0\0\1", 13},
	    {"v\0\0\0\x0c\0\3\0\0\x7f\xff\xff\xff", 13},
	    {"v\0\0\0\x0c\0\3\0\0\0\0\0\0"
	     "v\0\0\0\x0c\0\3\0\0\0\0\0\0",
		26},
	    {"R\0\0\0\x08\0\0\0\0v\0\0\0\x0c\0\3\0\0\0\0\0\0", 22},
	};
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		struct peer *client, *server;
		struct stage *stage = dial("", "", &client, &server);
		peer_send(server, nonsense[i].bytes, nonsense[i].len);
		peer_last_words(server);
		assert_int_equal(stage->site.protocol_errors, 1);
		assert_false(client->has_ended);
		stage_free(&stage);
	}
}

static void slow_server_is_given_up(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage =
	    dial("", "server_connect_timeout = 0.03\n", &client, &server);
	peer_last_words(server);
	assert_false(client->has_ended);
	stage_free(&stage);
}

static void failure_is_told_at_once_to_who_was_in(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("", "", &client, &server);
	peer_greet(server);
	peer_hear(client, 'Z');
	peer_close(server);
	stage_settle(stage);
	stage_set(stage, "server_login_retry", "60");
	peer_text(client, 'Q', "select 1");
	server = stage_server(stage);
	peer_close(server);
	stage_settle(stage);
	/* this client continues to wait, the next one gets the error */
	assert_false(client->has_ended);
	struct peer *second = stage_login(stage, "u", NULL, NULL);
	peer_text(second, 'Q', "select 1");
	assert_string_equal(peer_last_words(second),
	    "E:FATAL:server login has been failing, cached error: server conn crashed? "
	    "(server_login_retry)");
	stage_free(&stage);
}

/* ---- hostile servers ---- */

static void junk_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
	} junk[] = {{"Z\0\0\0\x05", 5}, /* cut off */
	    {"Z\0\0\0\x04", 5}, {"S\0\0\0\x04", 5}, {"S\xff\xff\xff\xff", 5},
	    {"S\0\0\0\x08"
	     "abcd",
		9},
	    {"R\0\0\0\x08\0\0\0\x63", 9}, {"R\0\0\0\x08\0\0\0\x05", 9},
	    {"R\0\0\0\x08\0\0\0\x0b", 9}, {"R\0\0\0\x08\0\0\0\x0c", 9},
	    {"R\0\0\0\x0a\0\0\0\x0a\0\0", 11}, {"K\0\0\0\x0c\0\0\0\0\0\0\0", 12},
	    {"D\0\0\0\x06\0\0", 7}, {"!!!!!!!!", 8}, {"E\x7f\xff\xff\xff", 5},
	    {"E\0\0\0\x08SabcC", 10}};

	for (size_t i = 0; i < sizeof(junk) / sizeof(junk[0]); i++) {
		struct peer *client, *server;
		struct stage *stage = dial("", "", &client, &server);
		peer_send(server, junk[i].bytes, junk[i].len);
		stage_settle(stage);
		peer_close(server);
		stage_settle(stage);
		stage_free(&stage);
	}
}

/* Parameters come without end while the login has no timeout. */
static void endless_parameters_are_cut_off(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage =
	    dial("", "server_connect_timeout = 0\n", &client, &server);
	struct buf b;
	uint8_t *value = calloc(1, 65536);
	size_t sent = 0;

	memset(value, 'v', 65535);
	buf_init(&b, 0);
	codec_put_auth(&b, AUTH_REQ_OK, NULL, 0);
	codec_put_parameter_status(&b, "something", (const char *)value);
	while (!server->has_ended) {
		peer_send(server, b.bytes, b.len);
		stage_settle(stage);
		sent += b.len;
		assert_true(sent < 8u << 20);
	}
	free(value);
	buf_done(&b);
	stage_free(&stage);
}

static void connect_query_comes_first(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial("connect_query='select 7'", "", &client, &server);
	peer_greet(server);
	assert_string_equal(peer_hear(server, 'Q'), "Q:select 7");
	peer_put(server, 'T', "\0\0", 2);
	peer_put(server, 'E', "SERROR\0Mno\0", 12);
	peer_ready(server, 'I');
	peer_hear(client, 'Z');
	stage_free(&stage);
}

/* ---- replication ---- */

/* A replication client has asked: its own server has read the startup packet, of which
 * the parameters are left in server->in. */
static struct stage *dial_replica_of(
    const char *kind, const char *settings, struct peer **client, struct peer **server)
{
	struct stage *stage = stage_new("options='-c a=b'", settings);
	struct peer *first, *ordinary;
	stage_pair(stage, &first, &ordinary);
	*client = stage_login(stage, "u", "replication", kind);
	peer_text(*client, 'Q', "IDENTIFY_SYSTEM");
	*server = stage_server(stage);
	assert_int_equal(peer_first_packet(*server), PROTOCOL_3_2);
	return stage;
}

static void replica_gets_a_server_of_its_own(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial_replica_of("database", "", &client, &server);
	peer_greet(server);
	assert_string_equal(peer_hear(server, 'Q'), "Q:IDENTIFY_SYSTEM");
	peer_answer(server, "IDENTIFY_SYSTEM", 'I');
	peer_hear(client, 'Z');
	/* no other client gets it, and it closes with its client */
	struct peer *other = stage_login(stage, "u", NULL, NULL);
	peer_text(other, 'Q', "select 1");
	stage_settle(stage);
	assert_int_equal(server->in.len, 0);
	assert_int_equal(stage_pool(stage)->slots[SLOT_ACTIVE].count, 2);
	peer_close(client);
	assert_string_equal(peer_last_words(server), "X");
	stage_free(&stage);
}

static void refused_replica_ends_its_client_only(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial_replica_of("on", "", &client, &server);
	struct peer *other = stage_login(stage, "u", NULL, NULL);
	peer_put(server, 'E', "SFATAL\0C42501\0Mgo away\0", 24);
	assert_string_equal(peer_last_words(client), "E:FATAL:login failed");
	peer_last_words(server);
	assert_false(stage_pool(stage)->failure.kind == FAILURE_LOGIN);
	stage_settle(stage);
	assert_false(other->has_ended);
	stage_free(&stage);
}

/* It ends within what its login has sent. */
static void replica_that_ends_at_once_is_replaced(void **state)
{
	(void)state;
	if (getenv(STAGE_PIECE))
		return;
	struct peer *client, *server;
	struct stage *stage =
	    dial_replica_of("database", "server_login_retry = 0\n", &client, &server);
	peer_greet(server);
	peer_put(server, 'E', "SFATAL\0C57P01\0Mgo away\0", 24);
	peer_last_words(server);
	server = stage_server(stage);
	assert_int_equal(peer_first_packet(server), PROTOCOL_3_2);
	peer_greet(server);
	assert_string_equal(peer_hear(server, 'Q'), "Q:IDENTIFY_SYSTEM");
	stage_free(&stage);
}

static void replica_whose_client_goes_is_given_up(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage = dial_replica_of("on", "", &client, &server);
	peer_close(client);
	assert_string_equal(peer_last_words(server), "");
	stage_settle(stage);
	assert_int_equal(stage->site.login_server_count, 0);
	assert_int_equal(stage->site.server_count, 1);
	stage_free(&stage);
}

static void clock_of_a_replica_outlives_changes(void **state)
{
	(void)state;
	struct peer *client, *server;
	struct stage *stage =
	    dial_replica_of("on", "server_connect_timeout = 0.1\n", &client, &server);
	struct client *asker =
	    container_of(list_last(&stage->site.clients), struct client, site_node);
	asker->conn.ops->review(&asker->conn);
	assert_string_equal(peer_last_words(client), "E:FATAL:connect timeout");
	peer_last_words(server);
	stage_free(&stage);
}

/* Port of a name server that says nothing; 0 before there is one. */
static in_port_t silent_port;

/* Sends the resolver to that port. */
int connect(int fd, const struct sockaddr *to, socklen_t len)
{
	struct sockaddr_in in;

	if (to->sa_family == AF_INET && len >= sizeof(in)) {
		memcpy(&in, to, sizeof(in));
		if (in.sin_port == htons(53)) {
			in.sin_port = silent_port;
			to = (const struct sockaddr *)&in;
		}
		return (int)syscall(SYS_connect, fd, to, len);
	}
	return (int)syscall(SYS_connect, fd, to, len);
}

static void look_up_is_given_up_with_its_server(void **state)
{
	(void)state;
	struct sockaddr_in silent = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(silent);
	int server = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(server, (struct sockaddr *)&silent, len), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&silent, &len), 0);
	silent_port = silent.sin_port;
	char path[] = "/tmp/test-resolv-XXXXXX";
	static const char text[] = "nameserver 127.0.0.1\n";
	struct err err;
	int fd = mkstemp(path);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	struct stage *stage = stage_new("", "server_connect_timeout = 0.05\n");
	stage->site.dns = dns_new(stage->site.loop, path, 0, &err);
	unlink(path);
	assert_non_null(stage->site.dns);
	struct database *db = catalog_find_database(stage->site.catalog, "d");
	mem_free(db->hosts.list[0]->name);
	db->hosts.list[0]->name = mem_strdup("host.example.invalid");
	struct peer *client = stage_client(stage);
	peer_start(client, "u", "d", NULL, NULL);
	stage_settle(stage);
	assert_int_equal(stage->site.login_server_count, 1);
	catalog_kill(stage->site.catalog, NULL, "database removed");
	peer_last_words(client);
	stage_settle(stage);
	assert_int_equal(stage->site.server_count, 0);
	struct dns *dns = stage->site.dns;
	dns_free(&dns);
	close(server);
	stage_free(&stage);
}

/* ---- server_connect_rate ---- */

/* Two pools want a server at the same host; the second has to wait for its turn. */
static struct stage *two_dials(const char *settings, struct peer *servers[2])
{
	struct stage *stage = stage_new("", settings);

	peer_start(stage_client(stage), "u", "d", NULL, NULL);
	servers[0] = stage_server(stage);
	peer_start(stage_client(stage), "v", "d", NULL, NULL);
	servers[1] = NULL;
	return stage;
}

static bool is_asked_for(void *arg)
{
	struct stage *stage = arg;

	return stage->site.login_server_count == 2;
}

static void connects_keep_their_distance(void **state)
{
	(void)state;
	struct peer *servers[2];
	struct stage *stage = two_dials("server_connect_rate=2\n", servers);
	/* the first dial began before this time */
	uint64_t first_us = loop_now(stage->site.loop);

	stage_until(stage, is_asked_for, stage);
	if (loop_now(stage->site.loop) < first_us + 400000)
		assert_int_equal(stage->dialed, 1);
	servers[1] = stage_server(stage);
	assert_true(loop_now(stage->site.loop) >= first_us + 400000);
	assert_int_equal(peer_first_packet(servers[1]), PROTOCOL_3_2);
	stage_free(&stage);
}

static void limit_of_connects_ends_at_once(void **state)
{
	(void)state;
	struct peer *servers[2];
	struct stage *stage = two_dials("server_connect_rate=1\n", servers);

	stage_until(stage, is_asked_for, stage);
	stage_set(stage, "server_connect_rate", "0");
	stage_review(stage); /* as the console does */
	stage_settle(stage);
	assert_int_equal(stage->dialed, 2);
	assert_int_equal(map_count(stage->site.dial_turns), 0);
	stage_free(&stage);
}

/* The client for whom the dial had to wait disconnects. */
static void who_waits_for_a_turn_may_go(void **state)
{
	(void)state;
	struct peer *servers[2];
	struct stage *stage = two_dials("server_connect_rate=1\n", servers);

	stage_until(stage, is_asked_for, stage);
	pool_mark_dirty(
	    catalog_find_pool(catalog_find_database(stage->site.catalog, "d"),
		catalog_find_user(stage->site.catalog, "v")));
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plain_password_is_sent),
	    cmocka_unit_test(md5_answer_is_sent),
	    cmocka_unit_test(scram_proof_is_given),
	    cmocka_unit_test(reload_within_scram),
	    cmocka_unit_test(server_that_skips_its_proof_is_refused),
	    cmocka_unit_test(refusal_is_passed_on),
	    cmocka_unit_test(error_without_fields_is_survived),
	    cmocka_unit_test(starting_server_is_waited_for),
	    cmocka_unit_test(stopping_server_is_waited_for),
	    cmocka_unit_test(stopping_single_server_is_told),
	    cmocka_unit_test(lost_connection_is_tried_again),
	    cmocka_unit_test(older_version_is_agreed_on),
	    cmocka_unit_test(refused_version_is_asked_for_once),
	    cmocka_unit_test(second_refusal_is_passed_on),
	    cmocka_unit_test(later_refusal_is_passed_on),
	    cmocka_unit_test(silence_changes_the_version_asked_for),
	    cmocka_unit_test(nonsense_about_versions_is_refused),
	    cmocka_unit_test(slow_server_is_given_up),
	    cmocka_unit_test(failure_is_told_at_once_to_who_was_in),
	    cmocka_unit_test(junk_is_refused),
	    cmocka_unit_test(endless_parameters_are_cut_off),
	    cmocka_unit_test(connect_query_comes_first),
	    cmocka_unit_test(replica_gets_a_server_of_its_own),
	    cmocka_unit_test(refused_replica_ends_its_client_only),
	    cmocka_unit_test(replica_that_ends_at_once_is_replaced),
	    cmocka_unit_test(replica_whose_client_goes_is_given_up),
	    cmocka_unit_test(clock_of_a_replica_outlives_changes),
	    cmocka_unit_test(look_up_is_given_up_with_its_server),
	    cmocka_unit_test(connects_keep_their_distance),
	    cmocka_unit_test(limit_of_connects_ends_at_once),
	    cmocka_unit_test(who_waits_for_a_turn_may_go),
	};
	return stage_run_twice(tests);
}
