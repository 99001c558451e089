/*
 * Methods by HBA rule, and logins that wait for an answer: account, LDAP, key
 * derivation.  A waiting client may disconnect, and rules may change meanwhile.
 */
#include <pwd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../stage/asking.h"
#include "auth/external_auth.h"
#include "auth/helpers.h"
#include "auth/kerberos.h"
#include "login/login_state.h"
#include "session/salted.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define assert_ends_with(peer, expected) \
	assert_string_equal(peer_last_words(peer), expected)

/* Use these rules from now on. */
static void rule(struct stage *stage, const char *hba, const char *ident)
{
	struct site *site = &stage->site;
	struct ident *maps =
	    ident ? ident_parse("ident", ident, strlen(ident), NULL, NULL, NULL) : NULL;
	access_rules_unref(&site->rules);
	site->rules = access_rules_new(
	    hba_parse("hba", hba, strlen(hba), maps, NULL, NULL, NULL), maps);
	assert_non_null(site->rules->hba);
}

static struct stage *ruled(const char *hba, const char *ident)
{
	struct stage *stage = stage_new("", "");
	struct peer *client, *server;
	stage_pair(stage, &client, &server);
	stage_set(stage, "auth_type", "hba");
	rule(stage, hba, ident);
	return stage;
}

static void end(struct stage **stage)
{
	access_rules_unref(&(*stage)->site.rules);
	stage_free(stage);
}

static struct peer *log_in(struct stage *stage, const char *user)
{
	struct peer *client = stage_client(stage);
	peer_start(client, user, "d", NULL, NULL);
	return client;
}

/* Does the only login wait for an answer? */
static bool is_awaited(void *arg)
{
	struct stage *stage = arg;
	struct node *node = list_first(&stage->site.login_clients);
	const struct client *client =
	    node ? container_of(node, struct client, site_node) : NULL;
	return client && client->login && client->login->phase == LOGIN_AWAIT;
}

/* ---- rules ---- */

static void first_rule_counts(void **state)
{
	(void)state;
	struct stage *stage = ruled("local all v reject\nlocal d u trust\n"
				    "local d v trust\nhost all all all trust\n",
	    NULL);
	assert_string_equal(peer_hear(log_in(stage, "u"), 'Z'), "R S S S S S S K Z:I");
	assert_ends_with(log_in(stage, "v"), "E:FATAL:login rejected");
	assert_ends_with(
	    log_in(stage, "w"), "E:FATAL:no authentication method is found");
	end(&stage);
}

static void without_rules_nobody_gets_in(void **state)
{
	(void)state;
	struct stage *stage = ruled("", NULL);
	assert_ends_with(
	    log_in(stage, "u"), "E:FATAL:no authentication method is found");
	access_rules_unref(&stage->site.rules);
	assert_ends_with(
	    log_in(stage, "u"), "E:FATAL:no authentication method is found");
	stage_free(&stage);
}

/* ---- accounts ---- */

/* An ident map that lets the account of this process log in as this user. */
static const char *map_of_mine(const char *user, char out[256])
{
	const struct passwd *me = getpwuid(getuid());
	snprintf(out, 256, "m \"%s\" %s\n", me ? me->pw_name : "nobody", user);
	return out;
}

static void account_is_asked_for(void **state)
{
	(void)state;
	char map[256];
	struct stage *stage =
	    ruled("local all all peer map=m\n", map_of_mine("u", map));
	assert_string_equal(peer_hear(log_in(stage, "u"), 'Z'), "R S S S S S S K Z:I");
	assert_ends_with(log_in(stage, "v"), "E:FATAL:unix socket login rejected");
	assert_ends_with(log_in(stage, "w"), "E:FATAL:unix socket login rejected");
	end(&stage);
}

static void rules_change_while_the_account_is_asked_for(void **state)
{
	(void)state;
	char map[256];
	struct stage *stage =
	    ruled("local all all peer map=m\n", map_of_mine("u", map));
	struct peer *client = log_in(stage, "u");
	stage_until(stage, is_awaited, stage);
	rule(stage, "local all all reject\n", NULL);
	assert_string_equal(peer_hear(client, 'Z'), "R S S S S S S K Z:I");
	assert_ends_with(log_in(stage, "u"), "E:FATAL:login rejected");
	end(&stage);
}

static void whoever_waits_may_go(void **state)
{
	(void)state;
	char map[256];
	struct stage *stage =
	    ruled("local all all peer map=m\n", map_of_mine("u", map));
	for (int i = 0; i < 10; i++) {
		struct peer *client = log_in(stage, "u");
		for (int turns = 0; turns < i; turns++)
			stage_turn(stage);
		peer_close(client);
	}
	end(&stage);
}

/* ---- Kerberos ---- */

/* A client as if it came over TCP, which the rules with gss are for. */
static struct peer *log_in_remotely(struct stage *stage, const char *user)
{
	struct peer *peer = stage_client(stage);
	struct client *client;

	stage_settle(stage);
	list_for (client, &stage->site.login_clients, site_node)
		client->conn.remote.family = AF_INET;
	peer_start(peer, user, "d", NULL, NULL);
	return peer;
}

/* Nobody has to know the user, and what is no ticket lets nobody in. */
static void a_ticket_is_read_elsewhere(void **state)
{
	static const char *const users[] = {"u", "nobody"};
	struct stage *stage;
	struct peer *client;

	(void)state;
	if (!kerberos_is_built())
		skip();
	stage = ruled("host all all all gss\n", NULL);
	stage_set(stage, "krb_server_keyfile", "/nonexistent/keytab");
	for (size_t i = 0; i < 2; i++) {
		char told[128];
		client = log_in_remotely(stage, users[i]);
		peer_text(client, 'p', "ticket");
		snprintf(told, sizeof(told),
		    "R E:FATAL:GSSAPI authentication failed for user \"%s\"", users[i]);
		assert_ends_with(client, told);
	}
	assert_null(catalog_find_user(stage->site.catalog, "nobody"));
	for (int turns = 0; turns < 10; turns++) {
		client = log_in_remotely(stage, "u");
		peer_text(client, 'p', "ticket");
		for (int i = 0; i < turns; i++)
			stage_turn(stage);
		peer_close(client);
	}
	end(&stage);
}

/* ---- directories ---- */

static void password_is_judged_elsewhere(void **state)
{
	(void)state;
	struct stage *stage = ruled(
	    "local all all ldap ldapserver=127.0.0.1 ldapport=1 ldapprefix=x\n", NULL);
	struct peer *client = log_in(stage, "nobody");
	peer_text(client, 'p', "secret");
	assert_ends_with(client, external_auth_has_ldap()
				     ? "R E:FATAL:LDAP authentication failed"
				     : "E:FATAL:ldap is not supported by this build");
	assert_null(catalog_find_user(stage->site.catalog, "nobody"));
	client = log_in(stage, "u");
	peer_text(client, 'p', "");
	peer_last_words(client);
	client = log_in(stage, "u");
	peer_text(client, 'p', "secret");
	if (external_auth_has_ldap())
		stage_until(stage, is_awaited, stage);
	peer_close(client);
	end(&stage);
}

/* ---- derived keys ---- */

/* A client that sends a wrong proof, which costs it no computation. */
static void guess(struct peer *client)
{
	static const char first[] = "n,,n=,r=abcdefghijkl";
	char nonce[256];
	struct buf b;

	peer_hear(client, 'R');
	buf_init(&b, 0);
	codec_put_sasl_initial(
	    &b, "SCRAM-SHA-256", (const uint8_t *)first, strlen(first));
	peer_send(client, b.bytes, b.len);
	buf_clear(&b);
	peer_await(client);
	assert_int_equal(
	    sscanf((const char *)client->in.bytes + 9, "r=%255[^,]", nonce), 1);
	buf_clear(&client->in);
	size_t at = codec_begin(&b, 'p');
	buf_printf(&b, "c=biws,r=%s,p=", nonce);
	buf_put_text(&b, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
	codec_end(&b, at);
	peer_send(client, b.bytes, b.len);
	buf_done(&b);
}

static bool has_all_waiting(void *arg)
{
	struct stage *stage = arg;
	const struct client *client;
	list_for (client, &stage->site.login_clients, site_node)
		if (!client->login || !client->login->verifier_wait)
			return false;
	return true;
}

/* Many logins of one user at once derive the keys once. */
static void keys_are_derived_once(void **state)
{
	(void)state;
	enum { MANY = 40 };
	struct stage *stage = ruled("local all all scram-sha-256\n", NULL);
	struct site *site = &stage->site;
	struct peer *clients[MANY];
	stage_set(stage, "scram_iterations", "1000000");
	for (int i = 0; i < MANY; i++)
		clients[i] = log_in(stage, "u");
	for (int i = 0; i < MANY; i++)
		guess(clients[i]);
	stage_until(stage, has_all_waiting, stage);
	assert_int_equal(site->login_clients.count, MANY);
	assert_int_equal(map_count(site->verifier_waits), 1);
	assert_true(helpers_waiting(site->helpers, HELPERS_COMPUTE) <= 1);
	peer_close(clients[0]);
	for (int i = 1; i < MANY; i++)
		assert_ends_with(clients[i], "E:FATAL:SASL authentication failed");
	assert_true(catalog_find_user(site->catalog, "u")->has_adhoc_keys);
	end(&stage);
}

static void wrong_proofs_wait_for_a_derivation(void **state)
{
	(void)state;
	static const char *const names[] = {"u", "nobody", "v"};
	char hashed[256], users[512];
	struct stage *stage = ruled("local all all scram-sha-256\n", NULL);
	snprintf(users, sizeof(users), "\"u\" \"secret\"\n\"v\" \"%s\"\n",
	    scram_secret("secret", hashed));
	stage_users(stage, users);
	for (int i = 0; i < 3; i++) {
		struct peer *client = log_in(stage, names[i]);
		scram_login(client, "wrong");
		assert_ends_with(client, "E:FATAL:SASL authentication failed");
	}
	rule(stage, "local all all password\n", NULL);
	for (int i = 0; i < 3; i++) {
		struct peer *client = log_in(stage, names[i]);
		peer_text(client, 'p', "wrong");
		assert_ends_with(client, "R E:FATAL:password authentication failed");
	}
	end(&stage);
}

/* A clear password is checked against a SCRAM secret: the key is derived once. */
static void right_password_is_derived_once(void **state)
{
	(void)state;
	char hashed[256], users[512];
	struct stage *stage = ruled("local all all password\n", NULL);
	snprintf(users, sizeof(users), "\"u\" \"secret\"\n\"v\" \"%s\"\n",
	    scram_secret("found", hashed));
	stage_users(stage, users);
	for (int i = 0; i < 2; i++) {
		struct peer *client = log_in(stage, "v");
		peer_text(client, 'p', "found");
		if (i == 0)
			stage_ready_server(stage);
		peer_hear(client, 'Z');
	}
	salted_forget_all(&stage->site);
	struct peer *client = log_in(stage, "v");
	peer_text(client, 'p', "found");
	peer_hear(client, 'Z');
	end(&stage);
}

static void derivations_may_be_left(void **state)
{
	(void)state;
	static const char *const methods[] = {
	    "local all all scram-sha-256\n", "local all all password\n"};
	struct stage *stage = ruled("", NULL);
	stage_set(stage, "scram_iterations", "100000");
	for (int i = 0; i < 8; i++) {
		rule(stage, methods[i % 2], NULL);
		struct peer *client = log_in(stage, i < 4 ? "u" : "nobody");
		if (i % 2)
			peer_text(client, 'p', "wrong");
		else
			guess(client);
		stage_until(stage, is_awaited, stage);
		peer_close(client);
		stage_settle(stage);
	}
	end(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(first_rule_counts),
	    cmocka_unit_test(without_rules_nobody_gets_in),
	    cmocka_unit_test(account_is_asked_for),
	    cmocka_unit_test(rules_change_while_the_account_is_asked_for),
	    cmocka_unit_test(whoever_waits_may_go),
	    cmocka_unit_test(a_ticket_is_read_elsewhere),
	    cmocka_unit_test(password_is_judged_elsewhere),
	    cmocka_unit_test(keys_are_derived_once),
	    cmocka_unit_test(wrong_proofs_wait_for_a_derivation),
	    cmocka_unit_test(right_password_is_derived_once),
	    cmocka_unit_test(derivations_may_be_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
