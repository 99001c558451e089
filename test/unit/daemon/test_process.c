/* Pidfiles: who owns them, and when another process may take them. */
#include <setjmp.h>
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

#include "daemon/process.h"

static char folder[] = "/tmp/test-process-XXXXXX";
static char path[64];
static struct log *quiet;

static int set_up(void **state)
{
	(void)state;
	quiet = log_new();
	log_quiet(quiet);
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/pid", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	log_free(&quiet);
	unlink(path);
	return rmdir(folder);
}

static void write_text(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void is_refused(const char *text)
{
	struct err err;
	char wanted[128];

	write_text(text);
	assert_int_equal(process_check_pidfile(path, quiet, &err), -1);
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
	char text[32];
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	snprintf(text, sizeof(text), "%ld\n", (long)child);
	write_text(text);
	assert_int_equal(process_check_pidfile(path, quiet, &err), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(process_check_pidfile(path, quiet, &err), 0);
}

static void written_once(void **state)
{
	char text[32] = "", wanted[32];
	struct err err;
	struct stat st;

	(void)state;
	assert_int_equal(process_write_pidfile(path, &err), 0);
	FILE *f = fopen(path, "r");
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	snprintf(wanted, sizeof(wanted), "%ld\n", (long)getpid());
	assert_string_equal(text, wanted);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777 & ~0644, 0);
	assert_int_equal(process_write_pidfile(path, &err), -1);
	assert_non_null(strstr(err.text, "could not open pidfile '"));
	unlink(path);
}

static void unknown_user(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(process_switch_user("no such account", &err), -1);
	assert_string_equal(
	    err.text, "could not find user 'no such account' to switch to");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(of_others),
	    cmocka_unit_test(of_the_dead),
	    cmocka_unit_test(written_once),
	    cmocka_unit_test(unknown_user),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
