/* Pidfiles: who owns them, and when another process may take them. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/pidfile.h"

static char folder[] = "/tmp/test-pidfile-XXXXXX";
static char path[64], new_path[72];
static struct log *quiet;

static int set_up(void **state)
{
	(void)state;
	quiet = log_new();
	log_quiet(quiet, true);
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/pid", folder);
	snprintf(new_path, sizeof(new_path), "%s/pid.new", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	log_free(&quiet);
	unlink(path);
	unlink(new_path);
	return rmdir(folder);
}

static void write_text(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void write_pid(long pid)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld\n", pid);
	write_text(text);
}

static long pid_at(const char *where)
{
	long pid = 0;
	FILE *f = fopen(where, "r");

	if (!f)
		return -1;
	if (fscanf(f, "%ld", &pid) != 1)
		pid = 0;
	fclose(f);
	return pid;
}

/* The process id of a process that has ended. */
static long dead_pid(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	return child;
}

static int check_for(int patience_ms, long elder, struct err *err)
{
	struct pidfile p;

	pidfile_init(&p, path);
	int result = pidfile_check(&p, elder, patience_ms, quiet, err);
	pidfile_done(&p);
	return result;
}

static int check(long elder, struct err *err)
{
	return check_for(0, elder, err);
}

static void is_refused(const char *text)
{
	struct err err;
	char wanted[128];

	write_text(text);
	assert_int_equal(check(0, &err), -1);
	snprintf(wanted, sizeof(wanted),
	    "pidfile '%s' exists, another instance running?", path);
	assert_string_equal(err.text, wanted);
	assert_int_equal(access(path, F_OK), 0);
}

static void of_others(void **state)
{
	char own[32];

	(void)state;
	is_refused("");
	is_refused("\n");
	is_refused("nonsense\n");
	is_refused("12x\n");
	is_refused("0\n");
	is_refused("-1\n");
	is_refused("99999999999999999999999\n");
	is_refused("1\n");
	snprintf(own, sizeof(own), "%ld\n", (long)getpid());
	is_refused(own);
	unlink(path);
}

static void of_the_dead(void **state)
{
	struct err err;

	(void)state;
	write_pid(dead_pid());
	assert_int_equal(check(0, &err), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(check(0, &err), 0);
}

/* Its parent does not ask how it ended. */
static void of_one_that_was_killed(void **state)
{
	struct err err;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		for (;;)
			pause();
	write_pid(child);
	assert_int_equal(check(0, &err), -1);
	kill(child, SIGKILL);
	assert_int_equal(check_for(60000, 0, &err), 0);
	assert_int_equal(access(path, F_OK), -1);
	waitpid(child, NULL, 0);
}

static void of_the_elder(void **state)
{
	struct err err;

	(void)state;
	write_pid(getppid());
	assert_int_equal(check(getppid(), &err), 0);
	assert_int_equal(pid_at(path), getppid());
	assert_int_equal(check(getpid(), &err), -1);
	unlink(path);
}

static void a_folder(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(check(0, &err), -1);
	assert_non_null(strstr(err.text, "Is a directory"));
	assert_int_equal(rmdir(path), 0);
}

/* Until it is published nobody sees it. */
static void in_steps(void **state)
{
	struct pidfile p;
	struct err err;
	struct stat st;

	(void)state;
	pidfile_init(&p, path);
	assert_int_equal(pidfile_claim(&p, &err), 0);
	assert_int_equal(pidfile_write(&p, &err), 0);
	assert_int_equal(pid_at(path), -1);
	assert_int_equal(pid_at(new_path), getpid());
	write_pid(dead_pid());
	assert_int_equal(pidfile_publish(&p, &err), 0);
	assert_int_equal(pid_at(path), getpid());
	assert_int_equal(pid_at(new_path), -1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777 & ~0644, 0);
	pidfile_remove(&p);
	assert_int_equal(pid_at(path), -1);
	pidfile_done(&p);
}

static void claimed_by_one(void **state)
{
	struct pidfile first, second;
	struct err err;

	(void)state;
	pidfile_init(&first, path);
	pidfile_init(&second, path);
	assert_int_equal(pidfile_claim(&first, &err), 0);
	assert_int_equal(pidfile_write(&first, &err), 0);
	assert_int_equal(pidfile_claim(&second, &err), -1);
	assert_non_null(strstr(err.text, "is locked: another process is starting"));
	assert_int_equal(pid_at(new_path), getpid());
	pidfile_remove(&first);
	assert_int_equal(pid_at(new_path), -1);
	assert_int_equal(pidfile_claim(&second, &err), 0);
	pidfile_remove(&second);
	pidfile_done(&first);
	pidfile_done(&second);
}

/* One that was killed has left its file, which may be longer than ours. */
static void left_by_the_dead(void **state)
{
	struct pidfile p;
	struct err err;
	FILE *f = fopen(new_path, "w");

	(void)state;
	fputs("99999999999999\nmore\n", f);
	fclose(f);
	pidfile_init(&p, path);
	assert_int_equal(pidfile_claim(&p, &err), 0);
	assert_int_equal(pidfile_write(&p, &err), 0);
	assert_int_equal(pidfile_publish(&p, &err), 0);
	assert_int_equal(check(getpid(), &err), 0);
	pidfile_remove(&p);
	pidfile_done(&p);
}

static void of_a_successor(void **state)
{
	struct pidfile p;
	struct err err;

	(void)state;
	pidfile_init(&p, path);
	assert_int_equal(pidfile_claim(&p, &err), 0);
	assert_int_equal(pidfile_write(&p, &err), 0);
	assert_int_equal(pidfile_publish(&p, &err), 0);
	write_pid(getppid());
	pidfile_remove(&p);
	assert_int_equal(pid_at(path), getppid());
	unlink(path);
	pidfile_done(&p);
}

static void restored(void **state)
{
	struct pidfile p;
	struct err err;

	(void)state;
	pidfile_init(&p, path);
	assert_int_equal(pidfile_claim(&p, &err), 0);
	assert_int_equal(pidfile_write(&p, &err), 0);
	assert_int_equal(pidfile_publish(&p, &err), 0);
	unlink(path);
	assert_int_equal(pidfile_restore(&p, &err), 0);
	assert_int_equal(pid_at(path), getpid());
	pidfile_remove(&p);
	assert_int_equal(pidfile_restore(&p, &err), 0);
	assert_int_equal(pid_at(path), -1);
	pidfile_done(&p);
}

static void nowhere(void **state)
{
	struct pidfile p;
	struct err err;

	(void)state;
	pidfile_init(&p, "/absent/pid");
	assert_int_equal(pidfile_claim(&p, &err), -1);
	assert_string_equal(err.text,
	    "could not open pidfile '/absent/pid': No such file or directory");
	pidfile_remove(&p);
	pidfile_done(&p);
	pidfile_init(&p, "");
	assert_int_equal(pidfile_check(&p, 0, 0, quiet, &err), 0);
	assert_int_equal(pidfile_claim(&p, &err), 0);
	assert_int_equal(pidfile_write(&p, &err), 0);
	assert_int_equal(pidfile_publish(&p, &err), 0);
	pidfile_remove(&p);
	pidfile_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(of_others),
	    cmocka_unit_test(of_the_dead),
	    cmocka_unit_test(of_one_that_was_killed),
	    cmocka_unit_test(of_the_elder),
	    cmocka_unit_test(a_folder),
	    cmocka_unit_test(in_steps),
	    cmocka_unit_test(claimed_by_one),
	    cmocka_unit_test(left_by_the_dead),
	    cmocka_unit_test(of_a_successor),
	    cmocka_unit_test(restored),
	    cmocka_unit_test(nowhere),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
