/* Passwords that programs print and files hold: what is run and read, and every way in
 * which it fails. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/password_job.h"
#include "base/mem.h"

static char folder[] = "/tmp/test-password-XXXXXX";
static char path[64], other[64];

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	unlink(other);
	return rmdir(folder);
}

static struct password_request request_for(const char *command, const char *file)
{
	return (struct password_request){
	    .command = command,
	    .file = file,
	    .host = "h.example",
	    .port = 5433,
	    .user = "u",
	    .database = "d b",
	    .limit_us = 30000000,
	};
}

/* The command of a shell that runs this script. */
static const char *script(char *out, size_t size, const char *text)
{
	snprintf(out, size, "/bin/sh -c \"%s\" x", text);
	return out;
}

static void gives(struct password_request request, const char *wanted)
{
	struct err err = {.text = ""};
	char *password = password_job_fetch(&request, NULL, &err);

	assert_string_equal(err.text, "");
	assert_non_null(password);
	assert_string_equal(password, wanted);
	mem_free_secret(password);
}

static void fails(struct password_request request, const char *reason)
{
	struct err err;

	assert_null(password_job_fetch(&request, NULL, &err));
	assert_non_null(strstr(err.text, reason));
	assert_null(strstr(err.text, "secret"));
}

static void runs(const char *text, const char *wanted)
{
	char command[512];

	gives(request_for(script(command, sizeof(command), text), NULL), wanted);
}

static void fails_to_run(const char *text, const char *reason)
{
	char command[512];

	fails(request_for(script(command, sizeof(command), text), NULL), reason);
}

static void a_program_gives_it(void **state)
{
	(void)state;
	runs("echo 'a secret'", "a secret");
	runs("printf secret", "secret");
	runs("printf 'a\\n\\n'", "a\n");
	runs("echo ignored >&2; echo secret", "secret");
	runs("cat; echo $PGHOST:$PGPORT:$PGUSER:$PGDATABASE:$1",
	    "h.example:5433:u:d b:");
	/* what another process keeps open is not waited for */
	runs("sleep 20 & echo secret", "secret");
	/* signals are as a program expects them */
	runs("sh -c 'kill -PIPE $$'; echo $?", "141");
}

static void the_place_replaces_what_was_there(void **state)
{
	struct password_request request =
	    request_for("/bin/sh -c \"echo $PGHOST-$PGUSER-$KEPT\"", NULL);

	(void)state;
	setenv("PGHOST", "wrong", 1);
	setenv("PGUSER", "wrong", 1);
	setenv("KEPT", "kept", 1);
	gives(request, "h.example-u-kept");
	request.host = "";
	gives(request, "wrong-u-kept");
	unsetenv("PGHOST");
	unsetenv("PGUSER");
	unsetenv("KEPT");
}

static void the_longest(void **state)
{
	char *wanted = mem_zero(PASSWORD_MAX + 1);

	(void)state;
	memset(wanted, 'K', PASSWORD_MAX);
	runs("head -c 65536 /dev/zero | tr '\\0' K", wanted);
	runs("head -c 65536 /dev/zero | tr '\\0' K; echo", wanted);
	mem_free(wanted);
	fails_to_run(
	    "head -c 65537 /dev/zero | tr '\\0' K", "/bin/sh: gives more than");
	fails_to_run(
	    "head -c 70000 /dev/zero | tr '\\0' K", "/bin/sh: prints too much");
	fails_to_run("yes", "prints too much");
}

static void a_program_fails(void **state)
{
	(void)state;
	fails_to_run("echo secret; exit 3", "/bin/sh: exit 3");
	fails_to_run(
	    "echo >&2; echo no account >&2; echo b >&2; exit 1", "exit 1: no account");
	fails_to_run("printf 'a\\033b' >&2; exit 1", "exit 1: a\\x1bb");
	fails_to_run("echo secret; kill -TERM $$", "was ended by signal 15");
	fails_to_run("true", "gives an empty password");
	fails_to_run("echo", "gives an empty password");
	fails_to_run("printf 'a\\0secret'", "gives a password with a NUL");
	fails(request_for("/nowhere/x y", NULL), "/nowhere/x: cannot be run: No such");
	fails(request_for(folder, NULL), "cannot be run: Permission denied");
	fails(
	    request_for("/bin/echo 'x", NULL), "a quote in the command is not closed");
}

static bool is_alive(pid_t pid)
{
	return kill(pid, 0) == 0 || errno != ESRCH;
}

static void one_that_hangs_is_killed_with_its_children(void **state)
{
	struct password_request request = request_for(NULL, NULL);
	char command[512];
	FILE *f;
	int pid;

	(void)state;
	snprintf(command, sizeof(command),
	    "/bin/sh -c \"echo secret; sleep 60 & echo $! >%s; wait\"", path);
	request.command = command;
	request.limit_us = 500000;
	fails(request, "/bin/sh: has not ended within 0.5 s");
	f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &pid), 1);
	fclose(f);
	/* the kernel needs a moment, and the process a parent that collects it */
	for (int i = 0; i < 500 && is_alive(pid); i++) {
		char stat[64], line[256] = "";
		snprintf(stat, sizeof(stat), "/proc/%d/stat", pid);
		f = fopen(stat, "r");
		if (!f || !fgets(line, sizeof(line), f) || strstr(line, ") Z "))
			i = 500;
		if (f)
			fclose(f);
		poll(NULL, 0, 10);
		assert_true(i != 499);
	}
}

static void write_file(const char *name, const char *text, size_t len)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	fclose(f);
}

static void a_file(void **state)
{
	char *text = mem_zero(PASSWORD_MAX + 3);

	(void)state;
	unlink(path);
	fails(request_for(NULL, path), "/file: No such file");
	write_file(path, "a secret\n", 9);
	gives(request_for(NULL, path), "a secret");
	write_file(path, "b\r\n\n", 4);
	gives(request_for(NULL, path), "b\r\n");
	write_file(path, "\n", 1);
	fails(request_for(NULL, path), "/file: gives an empty password");
	write_file(path, "a\0secret", 8);
	fails(request_for(NULL, path), "gives a password with a NUL");
	memset(text, 'K', PASSWORD_MAX + 2);
	write_file(path, text, PASSWORD_MAX + 2);
	fails(request_for(NULL, path), "gives more than 65536 bytes");
	text[PASSWORD_MAX] = '\n';
	write_file(path, text, PASSWORD_MAX + 1);
	text[PASSWORD_MAX] = '\0';
	gives(request_for(NULL, path), text);
	mem_free(text);
	fails(request_for(NULL, folder), "is not a file");
	assert_int_equal(mkfifo(other, 0600), 0);
	fails(request_for(NULL, other), "is not a file");
}

/* ---- the job ---- */

struct seen {
	char *password;
	struct err err;
	unsigned count;
};

static void done(struct password_job *job)
{
	struct seen *seen = job->owner;

	seen->password = job->password;
	job->password = NULL;
	seen->err = job->err;
	seen->count++;
}

static struct helpers_job *submit(
    struct helpers *helpers, const char *command, struct seen *seen)
{
	struct password_request request = request_for(command, NULL);
	struct password_job *job = password_job_new(&request, done, seen);
	struct err err;

	assert_int_equal(helpers_submit(helpers, &job->job, &err), 0);
	return &job->job;
}

static void as_a_job(void **state)
{
	struct seen seen = {.count = 0};
	struct err err;
	struct helpers *helpers = helpers_new(1, 1, NULL, &err);
	struct pollfd fd = {.fd = helpers_fd(helpers), .events = POLLIN};

	(void)state;
	submit(helpers, "/bin/echo secret", &seen);
	while (seen.count < 1 && poll(&fd, 1, 20000) > 0)
		helpers_collect(helpers);
	assert_string_equal(seen.password, "secret");
	mem_free_secret(seen.password);
	/* one that nobody wants any more does not run on */
	helpers_cancel(submit(helpers, "/bin/sleep 60", &seen));
	submit(helpers, "/bin/sleep 60", &seen);
	helpers_free(&helpers);
	assert_int_equal(seen.count, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_program_gives_it),
	    cmocka_unit_test(the_place_replaces_what_was_there),
	    cmocka_unit_test(the_longest),
	    cmocka_unit_test(a_program_fails),
	    cmocka_unit_test(one_that_hangs_is_killed_with_its_children),
	    cmocka_unit_test(a_file),
	    cmocka_unit_test(as_a_job),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
