/* A user list from roles, and files with secrets. */
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

#include "auth/secret.h"
#include "auth/userlist.h"
#include "base/text.h"
#include "tools/make_userlist.h"

#define MD5_SECRET "md50123456789abcdef0123456789abcdef"
#define SCRAM_SECRET                                    \
	"SCRAM-SHA-256$4096:c2FsdA==$"                  \
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:" \
	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

static char *text(const char *s)
{
	return (char *)(uintptr_t)s;
}

static void who_is_left_out(void **state)
{
	struct role list[] = {
	    {text("a \"quoted\" name"), text(MD5_SECRET), NULL},
	    {text("line\n\"evil\" \"secret\""), NULL, NULL},
	    {text("none"), NULL, NULL},
	    {text("old"), text(MD5_SECRET), text("2001-01-01 00:00:00+00")},
	    {text("plain"), text("quiesce"), NULL},
	    {text("scram"), text(SCRAM_SECRET), NULL},
	    {text("strange"), text("SCRAM-SHA-512$x"), NULL},
	};
	const struct roles roles = {.list = list, .count = 7};
	struct buf out, left_out;

	(void)state;
	buf_init(&out, 0);
	buf_init(&left_out, 0);
	assert_int_equal(make_userlist_put(&out, &left_out, &roles), 2);
	assert_string_equal(buf_text(&out),
	    "\"a \"\"quoted\"\" name\" \"" MD5_SECRET "\"\n"
	    "; \"line?\"evil\" \"secret\"\" is left out: it has no password\n"
	    "; \"none\" is left out: it has no password\n"
	    "; \"old\" is left out: its password has expired\n"
	    "; \"plain\" is left out: its secret is neither SCRAM-SHA-256 nor MD5: "
	    "set the password again\n"
	    "\"scram\" \"" SCRAM_SECRET "\"\n"
	    "; \"strange\" is left out: its secret is neither SCRAM-SHA-256 nor "
	    "MD5: set the password again\n");
	assert_non_null(strstr(buf_text(&left_out),
	    "role \"old\" is left out: its password has expired, VALID UNTIL "
	    "2001-01-01 00:00:00+00\n"));
	assert_null(strstr(buf_text(&left_out), "quiesce"));
	buf_done(&left_out);

	/* It is read as it was written. */
	struct userlist *users =
	    userlist_parse("list", buf_text(&out), out.len, NULL, NULL, NULL);
	assert_int_equal(userlist_count(users), 2);
	assert_non_null(userlist_find(users, "a \"quoted\" name"));
	assert_string_equal(userlist_find(users, "scram")->text, SCRAM_SECRET);
	userlist_unref(&users);
	buf_done(&out);
}

static void files_with_secrets(void **state)
{
	char folder[] = "/tmp/test-secrets-XXXXXX", path[64], link[64];
	struct stat st;
	struct err err;
	size_t len;
	char *read;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/list", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	umask(0);
	assert_int_equal(make_userlist_check_file(path, &err), 0);
	assert_int_equal(make_userlist_write_file(path, "one", 3, &err), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	/* The permissions of the file that is there stay; so does a link. */
	chmod(path, 0640);
	assert_int_equal(symlink(path, link), 0);
	assert_int_equal(make_userlist_write_file(link, "three", 5, &err), 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	chmod(path, 0644);
	assert_int_equal(make_userlist_check_file(path, &err), -1);
	assert_non_null(strstr(err.text, "first chmod o-rwx "));
	assert_int_equal(make_userlist_write_file(path, "four", 4, &err), -1);
	read = text_read_file(path, &len, &err);
	assert_string_equal(read, "three");
	free(read);
	assert_int_equal(make_userlist_check_file(folder, &err), -1);
	assert_int_equal(
	    make_userlist_write_file("/nonexistent/list", "x", 1, &err), -1);
	unlink(link);
	unlink(path);
	/* Nothing else is left behind. */
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(who_is_left_out),
	    cmocka_unit_test(files_with_secrets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
