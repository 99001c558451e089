/*
 * Cancel requests for clients of other workers: each finds its client, wherever that is
 * by then, and its socket is closed when it is over, and not later than
 * cancel_wait_timeout.  Three stages are two workers and the control site; all loops
 * run on this thread, so each worker can stand still.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../stage/stage_sites.h"
#include "login/startup_phase.h"
#include "session/migrate.h"
#include "session/workers.h"
#include "wire/codec.h"
#include "wire/message.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

enum { WORKERS = 2, CONTROL = WORKERS };

static struct buf passed; /* the last request for the other process of a takeover */

static bool pass_cancel(struct client *client, const uint8_t *packet, size_t len)
{
	assert_true(workers_is_control(client->conn.site));
	buf_clear(&passed);
	buf_put(&passed, packet, len);
	return true;
}

static const struct process_verbs passing_verbs = {.may_pass_cancel = pass_cancel};

static struct scene {
	struct stage_sites sites;
	struct peer *client, *server; /* of worker 0; the query runs */
	/* ends of sockets that are closed behind the sites */
	int open[3], open_count;
} s;

static void turn(void)
{
	stage_sites_turn(&s.sites);
}

static struct site *site_at(unsigned at)
{
	return &s.sites.at[at]->site;
}

static int scene_open(void **settings)
{
	stage_sites_open(&s.sites, WORKERS, "pool_size=2", *settings);
	stage_pair(s.sites.at[0], &s.client, &s.server);
	peer_text(s.client, 'Q', "select pg_sleep(10)");
	peer_hear(s.server, 'Q');
	buf_init(&passed, 0);
	return 0;
}

static int scene_close(void **state)
{
	(void)state;
	stage_sites_close(&s.sites);
	while (s.open_count)
		close(s.open[--s.open_count]);
	buf_done(&passed);
	return 0;
}

/* A connection with a cancel request for the client comes to this site.  Returns its
 * other end. */
static int ask_to_cancel(unsigned at)
{
	int fds[2];
	struct buf b;

	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	buf_init(&b, 0);
	codec_put_cancel_request(&b, s.client->key, s.client->key_len);
	startup_phase_admit(site_at(at), fds[0], PASSED_BY_NOBODY, b.bytes, b.len);
	buf_done(&b);
	turn();
	return fds[1];
}

static bool is_open(int fd)
{
	char byte;

	return recv(fd, &byte, 1, 0) < 0 && errno == EAGAIN;
}

static void await_end(int fd)
{
	stage_sites_await(&s.sites, !is_open(fd));
	close(fd);
}

/* The server is asked to cancel the query; the other end of that connection closes, and
 * so does the one that brought the request, if there is one. */
static void be_hit(int fd)
{
	struct peer *sender = stage_server(s.sites.at[0]);

	assert_int_equal(peer_first_packet(sender), STARTUP_CANCEL);
	peer_close(sender);
	turn();
	if (fd >= 0)
		await_end(fd);
}

static void other_worker_has_the_client(void **state)
{
	(void)state;
	for (unsigned at = 0; at <= CONTROL; at++) {
		int fd = ask_to_cancel(at);
		assert_true(is_open(fd));
		assert_int_equal(site_at(at)->cancel_clients.count, 1);
		be_hit(fd);
		assert_int_equal(site_at(at)->cancel_clients.count, 0);
	}
}

/* Many drivers close the socket at once. */
static void socket_closes_at_once(void **state)
{
	(void)state;
	close(ask_to_cancel(1));
	turn();
	be_hit(-1);
	assert_int_equal(site_at(1)->cancel_clients.count, 0);
}

/* Nobody knows the key: the control site is asked last. */
static void nobody_has_the_client(void **state)
{
	(void)state;
	s.client->key[7] ^= 1;
	for (unsigned at = 0; at <= CONTROL; at++)
		await_end(ask_to_cancel(at));
	site_at(CONTROL)->verbs = &passing_verbs;
	for (unsigned at = 0; at <= CONTROL; at++) {
		await_end(ask_to_cancel(at));
		assert_int_equal(passed.len, 8 + s.client->key_len);
		buf_clear(&passed);
	}
}

/* The worker of the client keeps the request, and gets it when it goes on. */
static void worker_stands_still_for_a_moment(void **state)
{
	(void)state;
	s.sites.stands_still[0] = true;
	int fd = ask_to_cancel(1);
	assert_true(is_open(fd));
	s.sites.stands_still[0] = false;
	turn();
	be_hit(fd);
}

/* It stands still for so long that the request is dropped: it has no effect later, when
 * the client has another query. */
static void worker_stands_still_for_long(void **state)
{
	(void)state;
	s.sites.stands_still[0] = true;
	await_end(ask_to_cancel(1));
	assert_int_equal(site_at(1)->cancel_clients.count, 0);
	s.sites.stands_still[0] = false;
	turn();
	assert_true(list_is_empty(&s.sites.at[0]->fresh));
	assert_int_equal(stage_pool(s.sites.at[0])->cancels_waiting.count, 0);
}

/* The client has left its worker when the request comes there. */
static void client_leaves_meanwhile(void **state)
{
	(void)state;
	s.sites.stands_still[0] = true;
	int fd = ask_to_cancel(1);
	s.sites.stands_still[0] = false;
	stage_drop_all(s.sites.at[0]);
	site_at(0)->shutdown = SHUTDOWN_NONE;
	await_end(fd);
	assert_true(list_is_empty(&s.sites.at[0]->fresh));
}

/* A client goes to the other worker.  Who looks for it meanwhile asks the one that it
 * has left, which has posted the client first. */
static void client_is_on_its_way(void **state)
{
	(void)state;
	size_t gone;
	peer_answer(s.server, "SELECT 1", 'I');
	peer_hear(s.client, 'Z');
	assert_int_equal(migrate_choose_idle(site_at(0), 10), 1);
	assert_int_equal(
	    migrate_step(site_at(0), &s.sites.workers->members[1], &gone), 0);
	migrate_end(site_at(0));
	assert_int_equal(gone, 1);
	/* these come to worker 1 after the client, and find that it does nothing */
	s.sites.stands_still[1] = true;
	int first = ask_to_cancel(0), second = ask_to_cancel(CONTROL);
	turn();
	assert_true(is_open(first));
	s.sites.stands_still[1] = false;
	await_end(first);
	await_end(second);
	assert_int_equal(site_at(1)->clients.count, 1);
	/* and this one finds its query there */
	peer_text(s.client, 'Q', "select pg_sleep(10)");
	turn();
	peer_hear(s.server, 'Q');
	int third = ask_to_cancel(0);
	be_hit(third);
}

/* The clients are being handed over to another process: the request waits, also without
 * its socket, and goes there if its client has gone. */
static void takeover_meanwhile(void **state)
{
	(void)state;
	site_at(CONTROL)->verbs = &passing_verbs;
	site_at(0)->catalog->is_offered = true;
	int fd = ask_to_cancel(1);
	shutdown(fd, SHUT_WR);
	turn();
	assert_true(is_open(fd));
	assert_true(list_is_empty(&s.sites.at[0]->fresh));
	stage_drop_all(s.sites.at[0]);
	site_at(0)->shutdown = SHUTDOWN_NONE;
	site_at(0)->catalog->is_offered = false;
	await_end(fd);
	assert_int_equal(passed.len, 8 + s.client->key_len);
}

/* The process ends while requests are on their way and being served. */
static void end_of_the_process(void **state)
{
	(void)state;
	s.open[s.open_count++] = ask_to_cancel(1);
	s.sites.stands_still[0] = true;
	s.open[s.open_count++] = ask_to_cancel(1);
	s.open[s.open_count++] = ask_to_cancel(CONTROL);
	for (unsigned at = 0; at <= CONTROL; at++)
		stage_drop_all(s.sites.at[at]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    SCENE(other_worker_has_the_client, ""),
	    SCENE(socket_closes_at_once, ""),
	    SCENE(nobody_has_the_client, ""),
	    SCENE(worker_stands_still_for_a_moment, ""),
	    SCENE(worker_stands_still_for_long, "cancel_wait_timeout = 0.05\n"),
	    SCENE(client_leaves_meanwhile, ""),
	    SCENE(client_is_on_its_way, ""),
	    SCENE(takeover_meanwhile, ""),
	    SCENE(end_of_the_process, ""),
	};

	return stage_run_twice(tests);
}
