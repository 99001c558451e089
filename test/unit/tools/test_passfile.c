/* Password files: which line counts, and which file is not used. */
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

#include "base/mem.h"
#include "tools/libpq_entry.h"

struct file {
	char path[64];
	struct err err;
};

static int set_up(void **state)
{
	struct file *f = mem_zero(sizeof(*f));
	int fd;

	snprintf(f->path, sizeof(f->path), "/tmp/passfile-XXXXXX");
	fd = mkstemp(f->path);
	*state = f;
	return fd < 0 || close(fd);
}

static int tear_down(void **state)
{
	struct file *f = *state;

	(void)unlink(f->path);
	mem_free(f);
	return 0;
}

static void fill(const struct file *f, const char *text)
{
	FILE *out = fopen(f->path, "w");

	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

static void gives(struct file *f, const char *host, const char *port, const char *user,
    const char *wanted)
{
	const struct passfile_key key = {host, port, "pgbouncer", user};
	char *secret = libpq_entry_find_password(f->path, &key, &f->err);

	if (wanted)
		assert_string_equal(secret ? secret : "nothing", wanted);
	else
		assert_null(secret);
	assert_string_equal(f->err.text, "");
	mem_free_secret(secret);
}

static void the_first_line_that_fits_counts(void **state)
{
	struct file *f = *state;

	fill(f, "# h:1:pgbouncer:u:comment\n"
		"\n"
		"h:1:pgbouncer\n"
		"h:1:pgbouncer:u:\n"
		"h:1:other:u:wrong database\n"
		"h:1:pgbouncer:user:longer name\n"
		"hh:1:pgbouncer:u:longer host\n"
		"h:1:pgbouncer:u:first\r\n"
		"*:1:*:u:second\n"
		"*:*:*:*:last one: all of it");
	gives(f, "h", "1", "u", "first");
	gives(f, "x", "1", "u", "second");
	gives(f, "x", "2", "u", "last one: all of it");
	gives(f, "h", "1", "user", "longer name");
	fill(f, "h:1:pgbouncer:u:x\n");
	gives(f, "h", "1", "v", NULL);
}

static void colons_and_backslashes(void **state)
{
	struct file *f = *state;

	fill(f, "\\:\\:1:1:*:a\\\\b\\:c:s\\:e\\\\c:ret\\\n");
	gives(f, "::1", "1", "a\\b:c", "s:e\\c:ret\\");
}

static void sockets_and_lists(void **state)
{
	struct file *f = *state;

	fill(f, "/srv/run:6432:*:*:folder\nlocalhost:6432:*:*:local\nb:7:*:*:b\n");
	gives(f, "/srv/run", "6432", "u", "folder");
	gives(f, "/tmp", "6432", "u", "local");
	gives(f, "/var/run/postgresql", "6432", "u", "local");
	gives(f, "a,b", "6,7", "u", "b");
	gives(f, "a,b", "7", "u", "b");
	gives(f, "a,b", "7,6", "u", NULL);
	fill(f, "a:5432:*:*:usual port\n");
	gives(f, "a", "", "u", "usual port");
}

static void files_that_are_not_used(void **state)
{
	const struct passfile_key key = {"h", "1", "d", "u"};
	struct file *f = *state;

	fill(f, "*:*:*:*:seen by others\n");
	assert_int_equal(chmod(f->path, 0640), 0);
	assert_null(libpq_entry_find_password(f->path, &key, &f->err));
	assert_non_null(strstr(f->err.text, "chmod 600"));
	assert_null(strstr(f->err.text, "seen"));
	assert_null(libpq_entry_find_password("/tmp", &key, &f->err));
	assert_non_null(strstr(f->err.text, "/tmp is not a file"));
	assert_null(libpq_entry_find_password("/nonexistent/pgpass", &key, &f->err));
	assert_string_equal(f->err.text, "");
}

static void where_it_is(void **state)
{
	char *path;

	(void)state;
	setenv("HOME", "/somewhere", 1);
	unsetenv("PGPASSFILE");
	path = libpq_entry_passfile_path();
	assert_string_equal(path, "/somewhere/.pgpass");
	mem_free(path);
	setenv("PGPASSFILE", "/else", 1);
	path = libpq_entry_passfile_path();
	assert_string_equal(path, "/else");
	mem_free(path);
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WITH_FILE(the_first_line_that_fits_counts),
	    WITH_FILE(colons_and_backslashes),
	    WITH_FILE(sockets_and_lists),
	    WITH_FILE(files_that_are_not_used),
	    cmocka_unit_test(where_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
