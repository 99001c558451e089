/*
 * Accepting: at the descriptor limit only the console gets in, and the spare
 * descriptors come back; sockets open and close.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../stage/stage.h"
#include "login/evict.h"
#include "login/listen.h"
#include "session/reserved_fds.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

enum { FILLERS = 64 };

/* No descriptor can be opened from now on. */
static rlim_t use_up_descriptors(int fillers[FILLERS])
{
	struct rlimit limit;
	rlim_t before;
	int last = 0;
	getrlimit(RLIMIT_NOFILE, &limit);
	before = limit.rlim_cur;
	for (int i = 0; i < FILLERS; i++) {
		fillers[i] = open("/dev/null", O_RDONLY);
		last = fillers[i] > last ? fillers[i] : last;
	}
	limit.rlim_cur = (rlim_t)last + 1;
	setrlimit(RLIMIT_NOFILE, &limit);
	return before;
}

static void free_descriptors(int fillers[FILLERS], rlim_t before)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = before;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (int i = 0; i < FILLERS; i++)
		close(fillers[i]);
}

static void only_the_console_gets_in_at_the_limit(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *first = stage_client(stage), *second = stage_client(stage);
	int fillers[FILLERS];
	rlim_t before = use_up_descriptors(fillers);

	peer_start(first, "u", "d", NULL, NULL);
	assert_string_equal(peer_last_words(first),
	    "E:FATAL:no more connections allowed (descriptor limit)");
	stage_settle(stage);
	/* the first client's spare descriptor is back, the second has another */
	assert_int_equal(stage->site.spare_count, SITE_SPARES - 1);
	free_descriptors(fillers, before);
	peer_start(second, "nobody", "d", NULL, NULL);
	peer_last_words(second);
	stage_settle(stage);
	assert_int_equal(stage->site.spare_count, SITE_SPARES);
	stage_free(&stage);
}

static void lost_spare_comes_back(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	assert_true(reserved_fds_give_up(&stage->site));
	stage_client(stage);
	stage_settle(stage);
	assert_int_equal(stage->site.spare_count, SITE_SPARES);
	stage_free(&stage);
}

static struct client *newest_login(struct stage *stage)
{
	return container_of(
	    list_last(&stage->site.login_clients), struct client, site_node);
}

/* Clients that have not logged in and say nothing are closed when there is no
 * descriptor left, the oldest first.  Clients that just connected, that wait for the
 * pooler, or that belong to the owner of the process stay. */
static void silent_clients_are_sent_away(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	struct peer *peers[4];
	for (int i = 0; i < 4; i++) {
		peers[i] = stage_client(stage);
		stage_settle(stage);
		newest_login(stage)->is_unix_owner = i == 3;
		newest_login(stage)->conn.connect_us -= i == 2 ? 0 : 1000000;
	}
	/* this client waits for its pool */
	peer_start(peers[1], "u", "d", NULL, NULL);
	stage_settle(stage);
	assert_int_equal(evict_silent(&stage->site), 1);
	assert_string_equal(peer_last_words(peers[0]),
	    "E:FATAL:no more connections allowed (descriptor limit)");
	assert_int_equal(evict_silent(&stage->site), 0);
	assert_int_equal(site_client_count(&stage->site), 3);
	stage_free(&stage);
}

static void owner_of_the_process_is_known(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	stage_client(stage);
	stage_settle(stage);
	struct client *client = container_of(
	    list_first(&stage->site.login_clients), struct client, site_node);
	assert_true(client->is_unix_owner);
	assert_int_equal(client->conn.peer_pid, getpid());
	stage_free(&stage);
}

static void socket_in_use_is_seen(void **state)
{
	(void)state;
	struct stage *stage = stage_new("", "");
	assert_true(listen_is_in_use(&stage->site, site_settings(&stage->site), 0));
	listen_close(&stage->site, false);
	assert_true(listen_is_in_use(&stage->site, site_settings(&stage->site), 0));
	listen_close(&stage->site, true);
	assert_false(listen_is_in_use(&stage->site, site_settings(&stage->site), 0));
	stage_free(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_the_console_gets_in_at_the_limit),
	    cmocka_unit_test(lost_spare_comes_back),
	    cmocka_unit_test(silent_clients_are_sent_away),
	    cmocka_unit_test(owner_of_the_process_is_known),
	    cmocka_unit_test(socket_in_use_is_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
