/*
 * Passwords that are fetched for servers: who waits, what is kept and for how long, and
 * what a refusal changes, at one site and over two of one process, whose loops run on
 * this thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../stage/stage.h"
#include "base/mem.h"
#include "session/passwords.h"
#include "session/workers.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

enum { PATIENCE_S = 60, LONG_US = 600 * 1000000 };

/* A login. */
struct
try {
	struct password_wait wait;
	char *password;
	struct err err;
	bool is_done;
};

struct scene {
	struct workers *workers; /* NULL: one site */
	struct stage *here, *there;
	/* what the program prints, and a line for each run */
	char folder[64], says[80], runs[80], command[256];
};

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void say(struct scene *s, const char *text)
{
	write_text(s->says, text);
}

static void scene_open(struct scene *s, bool has_two)
{
	*s = (struct scene){.folder = "/tmp/test-passwords-XXXXXX"};
	assert_non_null(mkdtemp(s->folder));
	snprintf(s->says, sizeof(s->says), "%s/says", s->folder);
	snprintf(s->runs, sizeof(s->runs), "%s/runs", s->folder);
	snprintf(s->command, sizeof(s->command),
	    "/bin/sh -c 'echo >>%s; sleep 0.1; cat %s'", s->runs, s->says);
	say(s, "first");
	write_text(s->runs, "");
	if (has_two)
		s->workers = workers_new(1);
	s->here = stage_new_in(s->workers, 0, "", "");
	s->there = has_two ? stage_new_in(s->workers, 1, "", "") : NULL;
}

static void scene_close(struct scene *s)
{
	stage_free(&s->here);
	if (s->there)
		stage_free(&s->there);
	workers_free(&s->workers);
	unlink(s->says);
	unlink(s->runs);
	assert_int_equal(rmdir(s->folder), 0);
}

static off_t run_count(const struct scene *s)
{
	struct stat st;

	assert_int_equal(stat(s->runs, &st), 0);
	return st.st_size;
}

static void done(struct password_wait *wait, char *password, const struct err *err)
{
	struct try *t = container_of(wait, struct try, wait);

	assert_false(t->is_done);
	t->is_done = true;
	t->password = password;
	if (!password)
		t->err = *err;
}

static void begin_for(struct scene *s, struct stage *stage, struct try *t,
    const char *host, uint64_t lifetime_us)
{
	const struct password_request request = {
	    .command = s->command,
	    .host = host,
	    .port = 1,
	    .user = "u",
	    .database = "d",
	    .limit_us = 30000000,
	};

	*t = (struct try){.wait.done = done};
	t->password = passwords_get(&stage->site, &request, lifetime_us, &t->wait);
	t->is_done = t->password != NULL;
}

static void begin(struct scene *s, struct try *t)
{
	begin_for(s, s->here, t, "h", LONG_US);
}

static void await(struct scene *s, const struct try *t)
{
	time_t end = time(NULL) + PATIENCE_S;

	while (!t->is_done) {
		stage_turn(s->here);
		if (s->there)
			stage_turn(s->there);
		assert_true(time(NULL) <= end);
	}
}

static void leave(struct try *t)
{
	passwords_leave(&t->wait);
	mem_free_secret(t->password);
	t->password = NULL;
}

/* A whole login: how it gets the password, and that the server accepts it. */
static void log_in(struct scene *s, const char *password, bool is_kept)
{
	struct try t;

	begin(s, &t);
	assert_int_equal(t.is_done, is_kept);
	await(s, &t);
	assert_string_equal(t.err.text, "");
	assert_string_equal(t.password, password);
	passwords_accepted(&t.wait);
	leave(&t);
}

static void it_is_kept(void **state)
{
	struct scene s;
	struct try t[3];

	(void)state;
	scene_open(&s, false);
	for (size_t i = 0; i < 3; i++)
		begin(&s, &t[i]);
	leave(&t[1]); /* given up */
	await(&s, &t[0]);
	await(&s, &t[2]);
	assert_string_equal(t[2].password, "first");
	leave(&t[0]);
	leave(&t[2]);
	log_in(&s, "first", true);
	assert_int_equal(run_count(&s), 1);
	passwords_forget_all(&s.here->site);
	say(&s, "second\n");
	log_in(&s, "second", false);
	assert_int_equal(run_count(&s), 2);
	scene_close(&s);
}

static void without_a_lifetime_it_serves_those_who_wait(void **state)
{
	struct scene s;
	struct try t[2];

	(void)state;
	scene_open(&s, false);
	for (int round = 1; round <= 2; round++) {
		for (size_t i = 0; i < 2; i++)
			begin_for(&s, s.here, &t[i], "h", 0);
		await(&s, &t[0]);
		await(&s, &t[1]);
		assert_int_equal(run_count(&s), round);
		leave(&t[0]);
		leave(&t[1]);
	}
	scene_close(&s);
}

static void a_refused_one_is_fetched_again_once(void **state)
{
	struct scene s;
	struct try t, late;

	(void)state;
	scene_open(&s, false);
	log_in(&s, "first", false);
	begin(&s, &t);
	begin(&s, &late);
	assert_true(passwords_refused(&t.wait));
	leave(&t);
	say(&s, "second");
	begin(&s, &t);
	assert_false(t.is_done);
	await(&s, &t);
	assert_string_equal(t.password, "second");
	/* one that still had the first, when there is a newer one */
	assert_true(passwords_refused(&late.wait));
	leave(&late);
	/* the same again: it is not worth it, but the next login has a new one */
	assert_false(passwords_refused(&t.wait));
	leave(&t);
	assert_int_equal(run_count(&s), 2);
	log_in(&s, "second", false);
	assert_int_equal(run_count(&s), 3);
	/* it has worked: the next refusal is news */
	begin(&s, &t);
	assert_true(t.is_done);
	assert_true(passwords_refused(&t.wait));
	leave(&t);
	scene_close(&s);
}

static void a_failure_is_for_all_who_wait(void **state)
{
	struct scene s;
	struct try t[2];

	(void)state;
	scene_open(&s, false);
	unlink(s.says);
	begin(&s, &t[0]);
	begin(&s, &t[1]);
	await(&s, &t[0]);
	await(&s, &t[1]);
	assert_non_null(strstr(t[0].err.text, "/bin/sh: exit 1: cat: "));
	assert_string_equal(t[1].err.text, t[0].err.text);
	leave(&t[0]);
	leave(&t[1]);
	assert_int_equal(run_count(&s), 1);
	say(&s, "first");
	log_in(&s, "first", false);
	scene_close(&s);
}

static void turn_until_runs(struct scene *s, off_t count)
{
	time_t end = time(NULL) + PATIENCE_S;

	while (run_count(s) < count) {
		stage_turn(s->here);
		assert_true(time(NULL) <= end);
	}
}

static void one_that_is_used_is_fetched_again_before_its_end(void **state)
{
	enum { LIFE_US = 3000000 };
	struct scene s;
	struct try t;

	(void)state;
	scene_open(&s, false);
	begin_for(&s, s.here, &t, "h", LIFE_US);
	await(&s, &t);
	leave(&t);
	/* a failure leaves what there is, and it is tried again */
	unlink(s.says);
	turn_until_runs(&s, 2);
	begin_for(&s, s.here, &t, "h", LIFE_US);
	assert_true(t.is_done);
	assert_string_equal(t.password, "first");
	leave(&t);
	say(&s, "second");
	turn_until_runs(&s, 3);
	scene_close(&s);
}

static void one_run_for_all_sites(void **state)
{
	struct scene s;
	struct try here, there, other;

	(void)state;
	scene_open(&s, true);
	begin(&s, &here);
	stage_settle(s.here);
	begin_for(&s, s.there, &there, "h", LONG_US);
	await(&s, &here);
	await(&s, &there);
	assert_string_equal(there.password, "first");
	leave(&here);
	leave(&there);
	begin_for(&s, s.there, &other, "h", LONG_US);
	assert_true(other.is_done);
	leave(&other);
	assert_int_equal(run_count(&s), 1);
	/* another host */
	begin_for(&s, s.there, &other, "h2", LONG_US);
	assert_false(other.is_done);
	await(&s, &other);
	leave(&other);
	assert_int_equal(run_count(&s), 2);
	/* a refusal counts everywhere */
	begin(&s, &here);
	assert_true(passwords_refused(&here.wait));
	leave(&here);
	begin_for(&s, s.there, &there, "h", LONG_US);
	assert_false(there.is_done);
	await(&s, &there);
	leave(&there);
	assert_int_equal(run_count(&s), 3);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_kept),
	    cmocka_unit_test(without_a_lifetime_it_serves_those_who_wait),
	    cmocka_unit_test(a_refused_one_is_fetched_again_once),
	    cmocka_unit_test(a_failure_is_for_all_who_wait),
	    cmocka_unit_test(one_that_is_used_is_fetched_again_before_its_end),
	    cmocka_unit_test(one_run_for_all_sites),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
