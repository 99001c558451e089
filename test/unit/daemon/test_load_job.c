/*
 * A configuration that a helper thread loads: who holds the snapshot that was in force
 * when it is taken over.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/load_job.h"

struct taken {
	struct loaded_config *running;
	unsigned held; /* references before */
	bool is_done;
};

static void take(void *owner, struct loaded_config *next, int result)
{
	struct taken *t = owner;

	assert_int_equal(result, 0);
	assert_ptr_not_equal(next->config, t->running->config);
	assert_int_equal(t->running->config->refs, t->held);
	t->is_done = true;
}

/* Otherwise the job would be the last to let go, on the loop's thread. */
static void job_lets_go_before_the_end(void **state)
{
	(void)state;
	char path[] = "/tmp/load-job-XXXXXX";
	int fd = mkstemp(path);
	FILE *changed;
	struct loaded_config running;
	struct taken t = {.running = &running};
	struct err err;

	assert_true(fd >= 0);
	dprintf(fd, "[databases]\nd = host=h\n[pgbouncer]\nauth_type = any\n");
	close(fd);
	loaded_config_init(&running);
	assert_int_equal(loaded_config_load(&running, path, NULL, STRICT), 0);
	struct helpers *helpers = helpers_new(1, 1, NULL, &err);
	struct pollfd watch = {.fd = helpers_fd(helpers), .events = POLLIN};
	t.held = running.config->refs;
	changed = fopen(path, "a");
	assert_non_null(changed);
	fputs("max_client_conn = 7\n", changed);
	fclose(changed);
	assert_non_null(load_job_submit(helpers, path, &running, take, &t));
	while (!t.is_done) {
		poll(&watch, 1, -1);
		helpers_collect(helpers);
	}
	helpers_free(&helpers);
	loaded_config_done(&running);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(job_lets_go_before_the_end),
	};

	return cmocka_run_group_tests_name("load_job", tests, NULL, NULL);
}
