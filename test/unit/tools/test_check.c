/* --check-config: which problems are found, and at which place they are reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/check.h"

static char folder[] = "/tmp/test-check-XXXXXX";
static char ini[64], users[64];
static char *printed; /* by the last check */

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(ini, sizeof(ini), "%s/a.ini", folder);
	snprintf(users, sizeof(users), "%s/users", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(printed);
	unlink(ini);
	unlink(users);
	return rmdir(folder);
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* The number of problems with `lines` in [pgbouncer], beginning on line 5. */
static unsigned check(const char *lines)
{
	const struct options options = {.file = ini, .program = "pgbouncer"};
	char text[1024];
	size_t len;

	snprintf(text, sizeof(text),
	    "[databases]\ndb = host=127.0.0.1\n[pgbouncer]\nauth_file = %s\n%s\n"
	    "unix_socket_dir = %s\n",
	    users, lines, folder);
	write_text(ini, text);
	free(printed);
	printed = NULL;
	FILE *out = open_memstream(&printed, &len);
	unsigned problems = check_config(out, &options);
	fclose(out);
	return problems;
}

/* Expects one problem, at this line and with this text. */
static void finds(const char *lines, unsigned line, const char *what)
{
	char place[128];

	assert_int_equal(check(lines), 1);
	snprintf(place, sizeof(place), "%s:%u: ", ini, line);
	assert_non_null(strstr(printed, place));
	assert_non_null(strstr(printed, what));
}

static void nothing_wrong(void **state)
{
	(void)state;
	write_text(users, "\"a\" \"b\"\n");
	assert_int_equal(check("listen_addr = 127.0.0.1, ::1"), 0);
	assert_int_equal(check("pool_mode = session"), 0);
}

static void the_world_around(void **state)
{
	(void)state;
	finds("listen_addr = 300.1.1.1.invalid", 5, "listen_addr: getaddrinfo(");
	finds("listen_addr = 127.0.0.1\nunix_socket_group = no such group", 6,
	    "there is no group");
	finds("resolv_conf = /nonexistent/resolv.conf", 5, "cannot read /nonexistent");
	finds("user = no such account", 5, "could not find user");
}

static void passwords_for_servers(void **state)
{
	char lines[256];

	(void)state;
	finds("server_password_command = /nonexistent/x y", 5,
	    "server_password_command: cannot run /nonexistent/x: ");
	finds("server_password_file = /nonexistent/x", 5,
	    "server_password_file: cannot read /nonexistent/x: ");
	finds("[users]\nu = server_password_file=/nonexistent/x\n[pgbouncer]", 6,
	    "server_password_file: cannot read /nonexistent/x: ");
	finds("[databases]\n* = server_password_command=/nonexistent/x\n[pgbouncer]", 6,
	    "server_password_command: cannot run /nonexistent/x: ");
	finds("server_password_command = x", 5, "absolute path");
	finds("[users]\nu = server_password_command=x\n[pgbouncer]", 6,
	    "server_password_command: a command begins with the absolute path");
	finds("server_password_command = /bin/sh\nserver_password_file = /bin/sh", 5,
	    "do not go together");
	finds("[databases]\ne = server_password_command=/bin/sh "
	      "server_password_file=/bin/sh\n[pgbouncer]",
	    6, "do not go together");
	snprintf(lines, sizeof(lines), "server_password_file = %s", users);
	chmod(folder, 0755);
	chmod(users, 0644);
	assert_int_equal(check(lines), 0);
	assert_non_null(strstr(printed, ":5: warning: server_password_file: other "
					"accounts can read the password in "));
	chmod(users, 0666);
	assert_int_equal(check(lines), 0);
	assert_non_null(strstr(
	    printed, ":5: warning: server_password_file: other accounts can write "));
	chmod(users, 0600);
	assert_int_equal(check(lines), 0);
	assert_null(strstr(printed, "server_password_file"));
	chmod(folder, 0700);
}

static void folders(void **state)
{
	(void)state;
	finds("logfile = /nonexistent/log", 5, "logfile: there is no folder");
	finds("pidfile = /nonexistent/pid", 5, "pidfile: there is no folder");
	if (getuid() != 0)
		finds(
		    "pidfile = /proc/pid", 5, "pidfile: cannot create files in /proc");
}

static void the_grammar(void **state)
{
	(void)state;
	finds("pool_mode = nonsense", 5, "pool_mode");
	assert_int_equal(
	    check("pool_mode = nonsense\nunknown = 1\nlisten_port = x"), 3);
}

static void the_user_list(void **state)
{
	char place[128];

	(void)state;
	write_text(users, "\"a\" \"b\"\nbroken\n");
	assert_int_equal(check("auth_type = md5"), 1);
	snprintf(place, sizeof(place), "%s:2: ", users);
	assert_non_null(strstr(printed, place));
	assert_int_equal(check("auth_type = any"), 0);
	unlink(users);
	finds("auth_type = md5", 4, "could not open auth_file");
	write_text(users, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_wrong),
	    cmocka_unit_test(the_world_around),
	    cmocka_unit_test(passwords_for_servers),
	    cmocka_unit_test(folders),
	    cmocka_unit_test(the_grammar),
	    cmocka_unit_test(the_user_list),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
