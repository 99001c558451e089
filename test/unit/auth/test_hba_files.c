/* Files named in HBA files: lists of names, includes, folders, and the depth of
 * includes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../no_memory.h"
#include "hba_asking.h"

struct tree {
	char dir[64];
	struct buf notes;
	struct hba *hba;
};

static char *path_in(const struct tree *t, const char *name)
{
	static const char pattern[] = "%s/%s";
	size_t size = strlen(t->dir) + strlen(name) + 2;
	char *path = mem_alloc(size);

	snprintf(path, size, pattern, t->dir, name);
	return path;
}

static void put_file(const struct tree *t, const char *name, const char *text)
{
	char *path = path_in(t, name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	mem_free(path);
}

static void make_dir(const struct tree *t, const char *name)
{
	char *path = path_in(t, name);

	assert_int_equal(mkdir(path, 0700), 0);
	mem_free(path);
}

static int set_up(void **state)
{
	struct tree *t = mem_zero(sizeof(*t));

	strcpy(t->dir, "/tmp/auth-hba-XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	buf_init(&t->notes, 0);
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct tree *t = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -r '%s'", t->dir);
	assert_int_equal(system(command), 0);
	hba_free(&t->hba);
	buf_done(&t->notes);
	mem_free(t);
	return 0;
}

/* Collects reports without the folder's name. */
static void note_inside(
    void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	struct tree *t = ctx;

	(void)kind;
	size_t len = strlen(t->dir) + 1;

	for (int i = 0; i < 2; i++) {
		const char *at = i ? text : where, *found;
		while ((found = strstr(at, t->dir))) {
			buf_put(&t->notes, at, (size_t)(found - at));
			at = found + len;
		}
		buf_put_text(&t->notes, at);
		buf_put_text(&t->notes, i ? "\n" : "|");
	}
}

static void load(struct tree *t, const char *notes)
{
	char *path = path_in(t, "hba");
	struct err err;

	buf_clear(&t->notes);
	hba_free(&t->hba);
	t->hba = hba_load(path, NULL, note_inside, t, &err);
	/* every report here refuses the file */
	assert_int_equal(t->hba != NULL, !*notes);
	assert_string_equal(buf_text(&t->notes), notes);
	mem_free(path);
}

/* Returns FILE:LINE of the rule that matches, or "". */
static const char *place_for(struct tree *t, const char *database, const char *user)
{
	struct hba_peer p = peer_at(NULL);
	const struct hba_rule *rule;

	p.database = database;
	p.user = user;
	buf_clear(&t->notes);
	if (hba_match(t->hba, &p, &rule) == HBA_MATCH)
		buf_printf(
		    &t->notes, "%s:%u", rule->file + strlen(t->dir) + 1, rule->line);
	return buf_text(&t->notes);
}

static void test_no_file(void **state)
{
	struct tree *t = *state;
	struct err err;
	char *path = path_in(t, "none"), text[256];

	snprintf(text, sizeof(text),
	    "could not open hba config file %s: No such file or directory", path);
	assert_null(hba_load(path, NULL, note_inside, t, &err));
	assert_string_equal(err.text, text);
	mem_free(path);
}

static void test_name_files(void **state)
{
	struct tree *t = *state;

	make_dir(t, "sub");
	put_file(t, "hba",
	    "local @sub/names joe trust\n"
	    "local all @\"sub/my users\" trust\n");
	put_file(t, "sub/names", "a, \"all\"\nb,@more # c\n");
	put_file(t, "sub/more", "c");
	put_file(t, "sub/my users", "ann,/^x\n");
	load(t, "");
	assert_string_equal(place_for(t, "a", "joe"), "hba:1");
	assert_string_equal(place_for(t, "b", "joe"), "hba:1");
	assert_string_equal(place_for(t, "c", "joe"), "hba:1");
	assert_string_equal(place_for(t, "all", "joe"), "hba:1");
	assert_string_equal(place_for(t, "d", "joe"), "");
	assert_string_equal(place_for(t, "d", "ann"), "hba:2");
	assert_string_equal(place_for(t, "d", "xyz"), "hba:2");
	put_file(t, "sub/more", "c\nall\n");
	load(t, "");
	assert_string_equal(place_for(t, "anything", "joe"), "hba:1");
	/* Names behind the first list of a line are a fault, not ignored. */
	put_file(t, "sub/more", "c d e\nall\n");
	load(t, "hba:1|hba line 1: sub/more:1: only the first list of names counts; "
		"separate names by commas\n"
		"hba:1|could not parse hba config line 1\n");
}

static void test_bad_name_files(void **state)
{
	struct tree *t = *state;

	put_file(t, "hba",
	    "local @none all trust\n"
	    "local @empty all trust\n"
	    "local @comment all trust\n"
	    "local @comma all trust\n"
	    "local @nested all trust\n"
	    "local all @loop trust\n"
	    "local all @ trust\n"
	    "local all @nul reject\n"
	    "local last all trust\n");
	put_file(t, "empty", "a\n\nb\n");
	put_file(t, "comment", "# a\nb\n");
	put_file(t, "comma", "a,\nb\n");
	put_file(t, "nested", "a,@none\n");
	put_file(t, "loop", "@loop\n");
	put_file(t, "nul", "a\n");
	char *nul = path_in(t, "nul");
	assert_int_equal(truncate(nul, strlen("a\nb\n")), 0);
	mem_free(nul);
	load(t, "hba:1|hba line 1: could not open file \"none\": No such file or "
		"directory\n"
		"hba:1|could not parse hba config line 1\n"
		"hba:2|hba line 2: empty:2: a line without a name; remove it\n"
		"hba:2|could not parse hba config line 2\n"
		"hba:3|hba line 3: comment:1: a line without a name; remove it\n"
		"hba:3|could not parse hba config line 3\n"
		"hba:4|hba line 4: database name is missing\n"
		"hba:4|could not parse hba config line 4\n"
		"hba:5|hba line 5: could not open file \"none\": No such file or "
		"directory\n"
		"hba:5|could not parse hba config line 5\n"
		"hba:6|hba line 6: could not open file \"loop\": maximum nesting depth "
		"exceeded\n"
		"hba:6|could not parse hba config line 6\n"
		"hba:7|hba line 7: could not open file \"\": Is a directory\n"
		"hba:7|could not parse hba config line 7\n"
		"hba:8|hba line 8: a NUL byte in nul:2; write that line again\n"
		"hba:8|could not parse hba config line 8\n");
}

static void test_includes(void **state)
{
	struct tree *t = *state;

	make_dir(t, "sub");
	make_dir(t, "sub/dir.conf");
	put_file(t, "hba",
	    "local a all trust\n"
	    "include \"sub/one\"\n"
	    "include_if_exists none\n"
	    "include_dir sub\n"
	    "local z all trust\n");
	put_file(t, "sub/one", "local b all trust\nbad\ninclude two # c\n");
	put_file(t, "sub/two", "local a,c all trust\n");
	put_file(t, "sub/20.conf", "local e,d all trust\n");
	put_file(t, "sub/10.conf", "local d all trust\n");
	put_file(t, "sub/.hidden.conf", "local x all trust\n");
	put_file(t, "sub/other.txt", "local x all trust\n");
	load(t, "sub/one:2|hba line 2: unknown type\n"
		"sub/one:2|could not parse hba config line 2\n");
	put_file(t, "sub/one", "local b all trust\ninclude two # c\n");
	load(t, "");
	assert_int_equal(hba_count(t->hba), 6);
	assert_string_equal(place_for(t, "a", "joe"), "hba:1");
	assert_string_equal(place_for(t, "b", "joe"), "sub/one:1");
	assert_string_equal(place_for(t, "c", "joe"), "sub/two:1");
	assert_string_equal(place_for(t, "d", "joe"), "sub/10.conf:1");
	assert_string_equal(place_for(t, "e", "joe"), "sub/20.conf:1");
	assert_string_equal(place_for(t, "z", "joe"), "hba:5");
	assert_string_equal(place_for(t, "x", "joe"), "");
	put_file(t, "hba", "include_if_exists sub/two\n");
	load(t, "");
	assert_string_equal(place_for(t, "c", "joe"), "sub/two:1");
}

static void test_bad_includes(void **state)
{
	struct tree *t = *state;

	make_dir(t, "sub");
	put_file(t, "hba",
	    "include none\n"
	    "include_dir none\n"
	    "include_if_exists sub\n"
	    "include\n"
	    "include a b\n"
	    "\"include\" a\n"
	    "include a,b\n"
	    "include_dir sub\n"
	    "include loop\n"
	    "local all all trust\n");
	put_file(t, "loop", "include loop\n");
	put_file(t, "sub/a.conf", "local a all trust\n");
	char *path = path_in(t, "sub/b.conf");
	assert_int_equal(symlink("gone", path), 0);
	mem_free(path);
	load(t,
	    "hba:1|hba line 1: could not open file \"none\": No such file or "
	    "directory\n"
	    "hba:1|could not parse hba config line 1\n"
	    "hba:2|hba line 2: could not open directory \"none\": No such file or "
	    "directory\n"
	    "hba:2|could not parse hba config line 2\n"
	    "hba:3|hba line 3: could not open file \"sub\": Is a directory\n"
	    "hba:3|could not parse hba config line 3\n"
	    "hba:4|hba line 4: unknown type\n"
	    "hba:4|could not parse hba config line 4\n"
	    "hba:5|hba line 5: unknown type\n"
	    "hba:5|could not parse hba config line 5\n"
	    "hba:6|hba line 6: unknown type\n"
	    "hba:6|could not parse hba config line 6\n"
	    "hba:7|hba line 7: unknown type\n"
	    "hba:7|could not parse hba config line 7\n"
	    "hba:8|hba line 8: could not open file \"sub/b.conf\": No such file or "
	    "directory\n"
	    "hba:8|could not parse hba config line 8\n"
	    "loop:1|hba line 1: could not open file \"loop\": maximum nesting depth "
	    "exceeded\n"
	    "loop:1|could not parse hba config line 1\n");
}

static void ignore(void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	(void)ctx, (void)kind, (void)where, (void)text;
}

/* Whatever there is no memory for, the file is refused or all of it is in force: a
 * `reject` that is lost would let somebody in by a later rule. */
static void test_memory_runs_out(void **state)
{
	struct tree *t = *state;
	char *path = path_in(t, "hba");
	unsigned refused = 0;
	struct err err;

	put_file(t, "hba",
	    "local db joe reject\n"
	    "local @names \\\n ann reject\n"
	    "include_if_exists more\n"
	    "local all all trust\n");
	put_file(t, "names", "a\n\"b\"\n");
	put_file(t, "more", "local c /^x reject\n");
	for_each_failure(n)
	{
		hba_free(&t->hba);
		no_memory.is_on = true;
		t->hba = hba_load(path, NULL, ignore, NULL, &err);
		no_memory.is_on = false;
		refused += !t->hba;
		if (!t->hba)
			continue;
		assert_string_equal(place_for(t, "db", "joe"), "hba:1");
		assert_string_equal(place_for(t, "a", "ann"), "hba:2");
		assert_string_equal(place_for(t, "b", "ann"), "hba:2");
		assert_string_equal(place_for(t, "c", "xy"), "more:1");
		assert_string_equal(place_for(t, "c", "y"), "hba:5");
	}
	assert_non_null(t->hba);
	assert_true(refused > 10);
	mem_free(path);
}

/* "fi", of which another spelling is one letter, is never let in by the later rule. */
static void test_other_spelling_without_memory(void **state)
{
	static const char *const users[] = {"fi", "\xef\xac\x81"};
	struct hba_peer peer = peer_at(NULL);
	const struct hba_rule *rule;

	(void)state;
	for (int i = 0; i < 2; i++)
		for_each_failure(n)
		{
			struct buf text;
			struct err err;
			buf_init(&text, 0);
			buf_printf(&text, "local all %s reject\nlocal all all pam\n",
			    users[i]);
			no_memory.is_on = true;
			struct hba *hba = hba_parse(
			    "hba", buf_text(&text), text.len, NULL, ignore, NULL, &err);
			peer.user = users[1 - i];
			if (hba)
				assert_int_not_equal(
				    hba_match(hba, &peer, &rule), HBA_MATCH);
			no_memory.is_on = false;
			assert_true(hba || no_memory_has_failed());
			hba_free(&hba);
			buf_done(&text);
		}
}

#define TREE_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TREE_TEST(test_no_file),
	    TREE_TEST(test_name_files),
	    TREE_TEST(test_bad_name_files),
	    TREE_TEST(test_includes),
	    TREE_TEST(test_bad_includes),
	    TREE_TEST(test_memory_runs_out),
	    cmocka_unit_test(test_other_spelling_without_memory),
	};

	return cmocka_run_group_tests_name("hba_files", tests, NULL, NULL);
}
