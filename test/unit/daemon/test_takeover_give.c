/* When a process gives nothing away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/console.h"
#include "conf/config.h"
#include "daemon/daemon.h"
#include "daemon/site_build.h"
#include "daemon/takeover.h"
#include "handoff/record.h"
#include "session/client.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

/* What the reload brings would change what was offered. */
static void nothing_during_a_reload(void **state)
{
	struct daemon d = {.reloads.phase = RELOAD_READING};
	struct err err;
	int fd;

	(void)state;
	assert_int_equal(takeover_give(&d.site, NULL, RECORD_FORMAT, &fd, &err), -1);
	assert_string_equal(err.text, "a RELOAD is under way");
}

static void set_up(struct daemon *d)
{
	char path[] = "/tmp/test-give-XXXXXX";
	const char *ini = "[pgbouncer]\nio_engine = epoll\nadmin_users = boss\n";
	struct config *config;
	struct err err;
	int fd = mkstemp(path);

	assert_int_equal(write(fd, ini, strlen(ini)), (ssize_t)strlen(ini));
	close(fd);
	config = config_load(path, NULL, NULL, NULL, NULL, &err);
	assert_non_null(config);
	unlink(path);
	mem_init(&d->site.mem);
	d->site.log = log_new();
	log_quiet(d->site.log, true);
	d->site.version = "2.0.0";
	assert_int_equal(site_build(&d->site, &config->settings, NULL, 0, &err), 0);
	catalog_adopt(d->site.catalog, config, NULL, NULL, NULL);
	config_unref(&config);
}

static void tear_down(struct daemon *d)
{
	takeover_stop_giving(d);
	assert_int_equal(site_build_empty(&d->site), 0);
	site_build_free(&d->site);
	log_free(&d->site.log);
}

/* A console over which another process of this number has asked for the takeover. */
static struct client *console(struct daemon *d, int fd, int pid)
{
	static const struct conn_ops nobody = {.name = "nobody"};
	struct catalog *catalog = d->site.catalog;
	struct client *client = client_new(&d->site, &nobody);

	client->conn.remote.family = AF_UNIX;
	client->conn.peer_pid = pid;
	client->database = catalog_find_database(catalog, "pgbouncer");
	database_hold(client->database);
	database_enter(client->database, true);
	client->user = catalog_user(catalog, "boss");
	user_may_enter(client->user, true);
	client->is_counted = client->is_admin = true;
	client_settle(client);
	pool_join(
	    catalog_pool(client->database, client->user), &client->request.in_pool);
	client->request.in_pool.is_logged_in = true;
	conn_open(&client->conn, fd);
	console_service.adopt(client);
	return client;
}

/* Clients are served after it, whereupon what was handed over is not true any more; and
 * this process may be killed then, before its turn is over. */
static void it_is_told_at_once_that_it_was_given_up(void **state)
{
	struct daemon d = {.starter = -1};
	struct err err;
	char heard[4096] = "";
	int ends[2], fd;

	(void)state;
	set_up(&d);
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
	    0);
	struct client *client = console(&d, ends[0], 4712);
	assert_int_equal(takeover_give(&d.site, client, RECORD_FORMAT, &fd, &err), 0);
	takeover_interrupt(&d.site, "a test");
	ssize_t got = recv(ends[1], heard, sizeof(heard) - 1, MSG_DONTWAIT);
	assert_true(got > 0);
	assert_non_null(memmem(heard, (size_t)got, "the takeover was given up",
	    strlen("the takeover was given up")));
	close(fd);
	tear_down(&d);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_during_a_reload),
	    cmocka_unit_test(it_is_told_at_once_that_it_was_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
