/* --explain-config: what is printed about a configuration, and what is advised. */
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

#include "tools/explain.h"

static char folder[] = "/tmp/test-explain-XXXXXX";
static char ini[64], users[64];
static char *printed; /* by the last explanation, with blanks and line ends as one blank
			 each */

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
	chmod(path, 0600);
}

/* No line of the text is too long for a terminal, but for names of files. */
static void fits(const char *text)
{
	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		assert_true(strcspn(text, "\n") <= 80 || strstr(text, folder));
}

static void join_words(char *text)
{
	char *to = text;

	for (char *word = strtok(text, " \n"); word; word = strtok(NULL, " \n")) {
		size_t len = strlen(word);

		memmove(to, word, len);
		to += len;
		*to++ = ' ';
	}
	*to = '\0';
}

/* Explains these entries of [databases] and [users] and these settings. */
static unsigned explain(const char *databases, const char *own, const char *settings)
{
	const struct options options = {.file = ini, .program = "pgbouncer"};
	char text[2048];
	size_t len;

	snprintf(text, sizeof(text),
	    "[databases]\n%s\n[users]\n%s\n[pgbouncer]\nauth_file = %s\n"
	    "listen_addr = 127.0.0.1\nunix_socket_dir = %s\n%s\n",
	    databases, own, users, folder, settings);
	write_text(ini, text);
	write_text(users, "\"a\" \"b\"\n\"c\" \"\"\n");
	free(printed);
	printed = NULL;
	FILE *out = open_memstream(&printed, &len);
	unsigned problems = explain_config(out, &options);
	fclose(out);
	fits(printed);
	join_words(printed);
	return problems;
}

static void tells(const char *what)
{
	if (!strstr(printed, what))
		fail_msg("\"%s\" is missing in: %s", what, printed);
}

static void is_silent_about(const char *what)
{
	if (strstr(printed, what))
		fail_msg("\"%s\" is in: %s", what, printed);
}

static void where_values_come_from(void **state)
{
	(void)state;
	assert_int_equal(explain("x = host=h pool_size=7\ny = host=h user=c",
			     "c = pool_mode=statement pool_size=3",
			     "max_client_conn = 500\nmax_db_connections = 50"),
	    0);
	tells("max_client_conn 500 line 10 ");
	tells("max_server_connections no limit default ");
	tells("Database x (line 2) server h:5432 users 2 of auth_file "
	      "pool_mode session default pool_size 7 this entry ");
	tells("max_db_connections 50 line 11 ");
	tells("Database y (line 3) server h:5432 users c, whoever the client is "
	      "pool_mode statement user c, line 5 pool_size 3 user c, line 5 ");
	tells("User c (line 5) pool_mode statement this entry pool_size 3 this entry ");
	tells("h:5432 2 13 13 ");
	tells("needed at most 553 ");
}

static void findings_come_first(void **state)
{
	(void)state;
	assert_int_equal(explain("x = host=h", "", "pool_mode = nonsense"), 1);
	tells("a.ini:9: invalid value");
	tells("have to be solved first");
	tells("Database x");
}

static void what_means_nothing_together(void **state)
{
	(void)state;
	explain("x = host=h min_pool_size=30\ny = host=h pool_mode=session "
		"session_state=clean",
	    "", "pool_mode = transaction\nidle_transaction_timeout = 60");
	tells("* database x: min_pool_size is 30, but pool_size lets a pool have only "
	      "20 (line 2)");
	tells("* database y: session_state has no effect in session mode: it is for "
	      "pool_mode transaction and statement (line 3)");
	is_silent_about("idle_transaction_timeout is off");
	explain("x = host=h", "",
	    "reserve_pool_size = 3\nreserve_pool_timeout = 0\n"
	    "max_db_connections = 9\nmax_prepared_statements = 10\n"
	    "server_lifetime = 0\nquery_wait_timeout = 0");
	tells("* max_db_connections is 9, below pool_size");
	tells(
	    "* the reserve is never used, because reserve_pool_timeout is 0 (line 9)");
	tells("* max_prepared_statements has no effect in session mode");
	tells("* server_lifetime is 0: ");
	tells("* query_wait_timeout is 0: ");
	explain("x = host=h", "", "default_pool_size = 0\nmin_pool_size = 2");
	tells("* min_pool_size has no effect where pool_size has no limit (line 10)");
	tells("* nothing limits the server connections at 1 of 1 hosts, because "
	      "pool_size is 0: ");
}

static void shared_pools(void **state)
{
	(void)state;
	explain("x = host=h", "",
	    "pool_mode = transaction\ntrack_sql_prepare = 1\n"
	    "max_prepared_statements = 0");
	tells("* idle_transaction_timeout is off: 20 clients");
	tells("* track_sql_prepare has no effect while max_prepared_statements is 0");
	/* One entry that is not in session mode is reason enough. */
	explain("x = host=h pool_mode=statement", "", "track_sql_prepare = 1");
	is_silent_about("no effect in session mode");
}

static void great_numbers(void **state)
{
	(void)state;
	explain("x = host=h pool_size=49", "", "");
	tells("* h:5432 may get 98 connections: ");
	explain("x = host=h pool_size=48", "", "");
	is_silent_about("may get 96");
	explain("x = host=h", "", "max_client_conn = 100000000");
	tells("* 100000080 descriptors may be needed, and the limit is ");
	explain("* = host=h", "", "");
	tells("because any number of databases may be made from \"*\": ");
	tells("Database * (line 2)");
}

static void names(void **state)
{
	(void)state;
	explain(
	    "x = host=h user=f\ny = host=h auth_user=asker role_check_user=r", "", "");
	tells("* database x: user f has no password here, nor one in auth_file: ");
	tells("* database y: auth_user asker is not in auth_file: ");
	tells("* database y: role_check_user r is not in auth_file: ");
	explain("x = host=h user=f password=p", "a = pool_size=1\ng = pool_size=1", "");
	tells("* user g is not in auth_file and cannot log in: ");
	is_silent_about("has no password here");
	explain("x = host=h user=f\ny = host=h user=g auth_user=asker",
	    "f = server_password_file=/x", "server_password_command = /x");
	is_silent_about("has no password here");
	is_silent_about("without a password");
	explain("x = host=h user=f", "f = server_password_file=''",
	    "server_password_command = /x");
	tells("* database x: user f has no password here, nor one in auth_file: ");
	explain("x = host=h user=f password=p", "a = pool_size=1\ng = pool_size=1", "");
	is_silent_about("user a is not");
}

static void logins_without_proof(void **state)
{
	(void)state;
	explain("x = host=h", "", "listen_addr = *\nauth_type = trust");
	tells("* auth_type is trust: whoever reaches listen_addr gets in without a "
	      "password (line 10)");
	explain("x = host=h", "", "listen_addr = ::1, 0.0.0.0\nauth_type = plain");
	tells("* auth_type is plain: passwords come in clear text over the network");
	explain("x = host=h", "", "auth_type = trust");
	is_silent_about("gets in without");
}

static void explain_again(const struct options *options)
{
	size_t len;

	free(printed);
	printed = NULL;
	FILE *out = open_memstream(&printed, &len);
	assert_int_equal(explain_config(out, options), 0);
	fclose(out);
	join_words(printed);
}

static void secrets_that_others_can_read(void **state)
{
	const struct options options = {.file = ini, .program = "pgbouncer"};

	(void)state;
	explain("x = host=h user=a password=p", "", "");
	is_silent_about("every account");
	chmod(ini, 0644);
	chmod(users, 0604);
	/* nobody gets at them in a closed folder */
	explain_again(&options);
	is_silent_about("every account");
	is_silent_about("other accounts");
	chmod(folder, 0755);
	explain_again(&options);
	tells("other accounts can read the secrets in");
	is_silent_about("can write");
	chmod(ini, 0646);
	explain_again(&options);
	tells("other accounts can write this file");
	tells("* every account of this machine can read the passwords in");
	tells("* every account of this machine can read the secrets in");
	tells("users, 1 of them in plain text: chmod o-rwx ");
}

static void a_folder_that_lets_only_a_group_in(void **state)
{
	const struct options options = {.file = ini, .program = "pgbouncer"};
	const gid_t group = 61234;

	(void)state;
	explain("x = host=h user=a password=p", "", "");
	if (chown(folder, (uid_t)-1, group) < 0)
		skip();
	assert_int_equal(chown(users, (uid_t)-1, group), 0);
	chmod(folder, 0750);
	chmod(ini, 0644);
	chmod(users, 0644);
	explain_again(&options);
	is_silent_about("every account");
	tells("other accounts can read the secrets in");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(where_values_come_from),
	    cmocka_unit_test(findings_come_first),
	    cmocka_unit_test(what_means_nothing_together),
	    cmocka_unit_test(shared_pools),
	    cmocka_unit_test(great_numbers),
	    cmocka_unit_test(names),
	    cmocka_unit_test(logins_without_proof),
	    cmocka_unit_test(secrets_that_others_can_read),
	    cmocka_unit_test(a_folder_that_lets_only_a_group_in),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
