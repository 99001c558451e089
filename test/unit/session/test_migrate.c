/*
 * Clients that go from one site to another: what they have goes along, whoever does not
 * rest stays, and every count is right on the way.  Two stages are two sites of one
 * process; both loops run on this thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../stage/stage_sites.h"
#include "auth/scram.h"
#include "pool/credentials.h"
#include "session/cancel_keys.h"
#include "session/dispatch.h"
#include "session/migrate.h"
#include "session/workers.h"
#include "wire/prepared.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

struct scene {
	struct stage_sites sites;
	/* a worker, to which new clients come, and the control site */
	struct stage *here, *there;
	struct peer *client,
	    *server; /* a first client, logged in here, and its server */
};

static void scene_open(struct scene *s, const char *settings)
{
	stage_sites_open(&s->sites, 1, "pool_size=1", settings);
	s->here = s->sites.at[0];
	s->there = s->sites.at[1];
	stage_pair(s->here, &s->client, &s->server);
}

static void turn(struct scene *s)
{
	stage_sites_turn(&s->sites);
}

static void scene_close(struct scene *s)
{
	stage_sites_close(&s->sites);
}

/* Does what daemon/rebalance does.  Returns how many of the clients that were chosen
 * have gone; *left is how many have stayed.  Those that go arrive at the next turn. */
static size_t send_chosen(struct scene *s, size_t *left)
{
	size_t gone, sum = 0;

	for (int i = 0; i < 10; i++) {
		*left =
		    migrate_step(&s->here->site, &s->sites.workers->members[1], &gone);
		sum += gone;
		stage_settle(s->here);
	}
	migrate_end(&s->here->site);
	return sum;
}

static size_t move_all(struct scene *s)
{
	size_t left;

	(void)migrate_choose_idle(&s->here->site, 100);
	(void)send_chosen(s, &left);
	turn(s);
	return left;
}

static size_t clients(const struct stage *stage)
{
	return site_client_count(&stage->site);
}

static void query(struct scene *s, struct peer *client, const char *text)
{
	peer_text(client, 'Q', text);
	turn(s);
}

static const char *hear(struct scene *s, struct peer *peer)
{
	return stage_sites_hear(&s->sites, peer);
}

/* Answers as the server, whichever site has it. */
static void answer(struct scene *s, char status)
{
	peer_answer(s->server, "SELECT 1", status);
	turn(s);
}

/* The server, which rests here, follows the client. */
static void client_goes_with_all_it_has(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s, "max_prepared_statements = 10\n");
	peer_put(s.client, 'P', "mine\0select 1\0\0\0", 16);
	peer_put(s.client, 'S', "", 0);
	hear(&s, s.server);
	peer_put(s.server, '1', "", 0);
	peer_ready(s.server, 'I');
	turn(&s);
	assert_string_equal(hear(&s, s.client), "1 Z:I");
	query(&s, s.client, "set application_name to 'x'");
	assert_string_equal(hear(&s, s.server), "Q:set application_name to 'x'");
	peer_put(s.server, 'S', "application_name\0x", 19);
	answer(&s, 'I');
	hear(&s, s.client);

	const struct client *before =
	    container_of(list_first(&s.here->site.clients), struct client, site_node);
	uint64_t id = before->conn.id;
	assert_int_equal(move_all(&s), 0);
	assert_int_equal(clients(s.here), 0);
	assert_int_equal(clients(s.there), 1);
	const struct client *after =
	    container_of(list_first(&s.there->site.clients), struct client, site_node);
	assert_int_equal(after->conn.id, id);
	unsigned place;
	assert_ptr_equal(cancel_keys_find(s.sites.workers->cancel_keys, s.client->key,
			     s.client->key_len, 1, &place),
	    &after->cancel_key);
	assert_null(cancel_keys_find(
	    s.sites.workers->cancel_keys, s.client->key, s.client->key_len, 0, &place));
	assert_int_equal(place, 1);
	assert_int_equal(prepared_names_count(after->names), 1);
	assert_int_equal(workers_client_count(&s.here->site), 1);
	assert_int_equal(s.here->site.transfer_counts.clients_out, 1);
	assert_int_equal(s.there->site.transfer_counts.clients_in, 1);

	peer_put(s.client, 'B', "\0mine\0\0\0\0\0\0\0", 12);
	peer_put(s.client, 'E', "\0\0\0\0\0", 5);
	peer_put(s.client, 'S', "", 0);
	turn(&s);
	assert_int_equal(s.there->site.transfer_counts.in, 1);
	hear(&s, s.server);
	peer_put(s.server, '2', "", 0);
	answer(&s, 'I');
	assert_string_equal(hear(&s, s.client), "2 C:SELECT 1 Z:I");
	scene_close(&s);
}

/* The unnamed statement belongs to the client, and what it asked for at its login is
 * still what RESET brings back. */
static void unnamed_statement_and_startup_values_go(void **state)
{
	(void)state;
	struct scene s;
	struct peer *client;

	scene_open(&s, "max_prepared_statements = 10\n");
	client = stage_login(s.here, "u", "application_name", "first");
	query(&s, client, "set application_name to 'x'");
	assert_string_equal(hear(&s, s.server), "Q:SET application_name='first';");
	peer_put(s.server, 'S', "application_name\0first", 23);
	answer(&s, 'I');
	assert_string_equal(hear(&s, s.server), "Q:set application_name to 'x'");
	peer_put(s.server, 'S', "application_name\0x", 19);
	answer(&s, 'I');
	hear(&s, client);
	peer_put(client, 'P', "\0select 2\0\0\0", 12);
	peer_put(client, 'S', "", 0);
	hear(&s, s.server);
	peer_put(s.server, '1', "", 0);
	peer_ready(s.server, 'I');
	turn(&s);
	assert_string_equal(hear(&s, client), "1 Z:I");
	assert_int_equal(move_all(&s), 0);
	const struct client *after =
	    container_of(list_last(&s.there->site.clients), struct client, site_node);
	assert_string_equal(vars_get(&after->params.vars, VAR_APPLICATION_NAME), "x");
	assert_string_equal(
	    vars_get(after->params.asked, VAR_APPLICATION_NAME), "first");
	peer_put(client, 'B', "\0\0\0\0\0\0\0\0", 8);
	peer_put(client, 'E', "\0\0\0\0\0", 5);
	peer_put(client, 'S', "", 0);
	turn(&s);
	/* the server that follows does not have it any more, as far as is known */
	assert_string_equal(hear(&s, s.server), "P B E:: S");
	scene_close(&s);
}

/* The receiver can log in to servers as the client's user, although nobody has brought
 * it a proof or a password. */
static void what_logs_in_to_servers_goes(void **state)
{
	(void)state;
	struct scene s;
	struct secret found;

	scene_open(&s, "");
	struct pool *here = stage_pool(s.here);
	user_remember(here->user, "accepted");
	here->user->has_secret = false;
	secret_init(&found, "found");
	credential_keep_for_pool(here, &found, loop_now(s.here->site.loop));
	secret_done(&found);
	assert_int_equal(move_all(&s), 0);
	const struct pool *there = stage_pool(s.there);
	assert_string_equal(there->user->remembered->secret.text, "accepted");
	assert_string_equal(there->credentials.found->secret.text, "found");
	assert_int_equal(
	    there->credentials.found->asked_us, here->credentials.found->asked_us);
	scene_close(&s);
}

static struct user *scram_user(struct stage *stage, const uint8_t *stored_key)
{
	struct user *user = stage_pool(stage)->user;

	user->secret.kind = SECRET_SCRAM;
	memcpy(user->secret.scram.stored_key, stored_key, SCRAM_KEY_LEN);
	return user;
}

/* The keys of a SCRAM login go, if they belong to the secret that is in force there. */
static void keys_of_a_login_go(void **state)
{
	(void)state;
	for (uint8_t is_other = 0; is_other < 2; is_other++) {
		struct scene s;
		uint8_t stored_key[SCRAM_KEY_LEN];
		struct peer *second;

		scene_open(&s, "");
		struct pool_credentials *here = &stage_pool(s.here)->credentials;
		memset(&here->login_keys, 7, sizeof(here->login_keys));
		here->has_login_keys = true;
		scram_stored_key(here->login_keys.client_key, stored_key);
		scram_user(s.here, stored_key);
		second = stage_login(s.here, "u", NULL, NULL);
		/* so the pool is there at the other site before */
		(void)migrate_choose_idle(&s.here->site, 1);
		size_t left;
		assert_int_equal(send_chosen(&s, &left), 1);
		turn(&s);
		struct pool_credentials *there = &stage_pool(s.there)->credentials;
		there->has_login_keys = false;
		stored_key[0] ^= is_other;
		scram_user(s.there, stored_key);
		assert_int_equal(move_all(&s), 0);
		assert_int_equal(there->has_login_keys, !is_other);
		if (!is_other)
			assert_memory_equal(&there->login_keys, &here->login_keys,
			    sizeof(here->login_keys));
		peer_close(second);
		scene_close(&s);
	}
}

/* What a client sends while it is on its way is there when it arrives, whether it had
 * been received before or not. */
static void bytes_on_the_way_are_kept(void **state)
{
	(void)state;
	struct scene s;
	size_t left;

	scene_open(&s, "");
	peer_send(s.client, "Q\0\0\0\x0dselect", 11);
	turn(&s);
	assert_int_equal(migrate_choose_idle(&s.here->site, 10), 1);
	assert_int_equal(send_chosen(&s, &left), 1);
	assert_int_equal(left, 0);
	assert_int_equal(clients(s.here), 0);
	assert_int_equal(workers_client_count(&s.here->site), 1);
	peer_send(s.client, " 1\0", 3);
	turn(&s);
	assert_string_equal(hear(&s, s.server), "Q:select 1");
	answer(&s, 'I');
	assert_string_equal(hear(&s, s.client), "C:SELECT 1 Z:I");
	scene_close(&s);
}

/* A client that does not rest stays, and notices nothing. */
static void who_does_not_rest_stays(void **state)
{
	(void)state;
	struct scene s;
	struct peer *waiter;

	scene_open(&s, "");
	waiter = stage_login(s.here, "u", NULL, NULL);
	assert_int_equal(migrate_choose_idle(&s.here->site, 10), 2);
	query(&s, s.client, "begin");
	hear(&s, s.server);
	answer(&s, 'T');
	assert_string_equal(hear(&s, s.client), "C:SELECT 1 Z:T");
	query(&s, waiter, "select 2");
	size_t left;
	assert_int_equal(send_chosen(&s, &left), 0);
	assert_int_equal(left, 2);
	query(&s, s.client, "commit");
	hear(&s, s.server);
	answer(&s, 'I');
	assert_string_equal(hear(&s, s.client), "C:SELECT 1 Z:I");
	assert_string_equal(hear(&s, s.server), "Q:select 2");
	answer(&s, 'I');
	assert_string_equal(hear(&s, waiter), "C:SELECT 1 Z:I");
	scene_close(&s);
}

/* A RELOAD may have removed it meanwhile. */
static void client_whose_database_is_gone_there_is_closed(void **state)
{
	static const struct service another;
	(void)state;
	struct scene s;

	scene_open(&s, "");
	struct database *db = catalog_find_database(s.there->site.catalog, "d");
	db->service = &another;
	assert_int_equal(move_all(&s), 0);
	assert_true(s.client->has_ended);
	assert_int_equal(clients(s.here) + clients(s.there), 0);
	assert_int_equal(db->client_count, 0);
	db->service = stage_pool(s.here)->database->service;
	scene_close(&s);
}

/* One that SUSPEND has stopped stays, and goes on here. */
static void who_was_stopped_stays(void **state)
{
	(void)state;
	struct scene s;
	size_t left;

	scene_open(&s, "");
	assert_int_equal(migrate_choose_idle(&s.here->site, 10), 1);
	struct client *client =
	    container_of(list_first(&s.here->site.clients), struct client, site_node);
	conn_stop(&client->conn);
	assert_int_equal(send_chosen(&s, &left), 0);
	assert_int_equal(left, 1);
	query(&s, s.client, "select 1");
	assert_string_equal(peer_heard(s.server), "");
	conn_start(&client->conn);
	turn(&s);
	assert_string_equal(hear(&s, s.server), "Q:select 1");
	answer(&s, 'I');
	assert_string_equal(hear(&s, s.client), "C:SELECT 1 Z:I");
	scene_close(&s);
}

/* One that has closed meanwhile is forgotten. */
static void who_has_closed_is_forgotten(void **state)
{
	(void)state;
	struct scene s;
	size_t left;

	scene_open(&s, "");
	assert_int_equal(migrate_choose_idle(&s.here->site, 10), 1);
	peer_close(s.client);
	turn(&s);
	assert_int_equal(send_chosen(&s, &left), 0);
	assert_int_equal(left, 0);
	assert_int_equal(workers_client_count(&s.here->site), 0);
	scene_close(&s);
}

/* At every moment the sum over the sites is right. */
static void limits_count_each_client_once(void **state)
{
	(void)state;
	struct scene s;
	size_t left;

	scene_open(&s, "max_db_client_connections = 1\n");
	const struct pool *pool = stage_pool(s.here);
	assert_int_equal(pool->database->limit->clients, 1);
	assert_int_equal(migrate_choose_idle(&s.here->site, 10), 1);
	(void)send_chosen(&s, &left);
	assert_int_equal(left, 0);
	assert_int_equal(pool->database->limit->clients, 1);
	assert_int_equal(pool->user->limit->clients, 1);
	assert_int_equal(pool->database->client_count, 0);
	turn(&s);
	assert_int_equal(pool->database->limit->clients, 1);
	assert_int_equal(pool->user->limit->clients, 1);
	assert_int_equal(stage_pool(s.there)->database->client_count, 1);
	assert_int_equal(stage_pool(s.there)->user->client_count, 1);
	peer_close(s.client);
	turn(&s);
	assert_int_equal(pool->database->limit->clients, 0);
	assert_int_equal(pool->user->limit->clients, 0);
	scene_close(&s);
}

/* A site that is going down closes who arrives, without losing count. */
static void nobody_arrives_at_the_end(void **state)
{
	(void)state;
	struct scene s;
	size_t left;

	scene_open(&s, "");
	assert_int_equal(migrate_choose_idle(&s.here->site, 10), 1);
	(void)send_chosen(&s, &left);
	assert_int_equal(left, 0);
	s.there->site.shutdown = SHUTDOWN_NOW;
	turn(&s);
	assert_string_equal(peer_last_words(s.client), "");
	assert_int_equal(clients(s.there), 0);
	scene_close(&s);
}

static void who_connects_at_the_end_is_closed(void **state)
{
	(void)state;
	const struct sock_addr remote = {.family = AF_UNIX};
	struct scene s;
	int fds[2];
	char c;

	scene_open(&s, "");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	struct worker *to = workers_pick(s.sites.workers);
	assert_int_equal(workers_client_count(&s.here->site), 2);
	s.here->site.shutdown = SHUTDOWN_NOW;
	dispatch_send(to, fds[0], &remote, true);
	turn(&s);
	assert_int_equal(recv(fds[1], &c, 1, MSG_DONTWAIT), 0);
	assert_int_equal(workers_client_count(&s.here->site), 1);
	close(fds[1]);
	scene_close(&s);
}

/* ---- the choice ---- */

static void work(struct scene *s, struct peer *client, int times)
{
	for (int i = 0; i < times; i++) {
		query(s, client, "select 1");
		hear(s, s->server);
		answer(s, 'I');
		hear(s, client);
	}
}

/* Of the clients that use servers so many go that half of the work goes. */
static void half_of_the_work_goes(void **state)
{
	(void)state;
	struct scene s;
	struct peer *peers[4];

	scene_open(&s, "");
	for (int i = 0; i < 4; i++)
		peers[i] = stage_login(s.here, "u", NULL, NULL);
	migrate_watch(&s.here->site);
	for (int i = 0; i < 4; i++)
		work(&s, peers[i], 3);
	assert_int_equal(migrate_choose_active(&s.here->site, 50), 2);
	size_t left;
	assert_int_equal(send_chosen(&s, &left), 2);
	assert_int_equal(left, 0);
	turn(&s);
	assert_int_equal(clients(s.here), 3);
	assert_int_equal(clients(s.there), 2);
	for (int i = 0; i < 4; i++)
		work(&s, peers[i], 1);
	scene_close(&s);
}

/* A client that makes all the work would take it along. */
static void one_that_does_it_all_stays(void **state)
{
	(void)state;
	struct scene s;
	struct peer *small;

	scene_open(&s, "");
	small = stage_login(s.here, "u", NULL, NULL);
	migrate_watch(&s.here->site);
	work(&s, s.client, 20);
	work(&s, small, 1);
	assert_int_equal(migrate_choose_active(&s.here->site, 50), 1);
	size_t left;
	(void)send_chosen(&s, &left);
	assert_int_equal(left, 0);
	turn(&s);
	assert_int_equal(clients(s.here), 1);
	work(&s, s.client, 1);
	assert_int_equal(clients(s.here), 1);
	scene_close(&s);
}

/* One that leaves while it is counted is not chosen. */
static void who_leaves_is_not_counted(void **state)
{
	(void)state;
	struct scene s;

	scene_open(&s, "");
	migrate_watch(&s.here->site);
	work(&s, s.client, 3);
	peer_close(s.client);
	turn(&s);
	assert_int_equal(migrate_choose_active(&s.here->site, 50), 0);
	migrate_end(&s.here->site);
	assert_null(s.here->site.catalog->activity);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(client_goes_with_all_it_has),
	    cmocka_unit_test(unnamed_statement_and_startup_values_go),
	    cmocka_unit_test(what_logs_in_to_servers_goes),
	    cmocka_unit_test(keys_of_a_login_go),
	    cmocka_unit_test(bytes_on_the_way_are_kept),
	    cmocka_unit_test(who_does_not_rest_stays),
	    cmocka_unit_test(client_whose_database_is_gone_there_is_closed),
	    cmocka_unit_test(who_was_stopped_stays),
	    cmocka_unit_test(who_has_closed_is_forgotten),
	    cmocka_unit_test(limits_count_each_client_once),
	    cmocka_unit_test(nobody_arrives_at_the_end),
	    cmocka_unit_test(who_connects_at_the_end_is_closed),
	    cmocka_unit_test(half_of_the_work_goes),
	    cmocka_unit_test(one_that_does_it_all_stays),
	    cmocka_unit_test(who_leaves_is_not_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
