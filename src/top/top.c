#include "top/top.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/libpq_entry.h"
#include "tools/pg_client.h"
#include "tools/terminal.h"
#include "top/board.h"
#include "top/display.h"

/* TEXT_WIDTH and TEXT_LINES: the size of the output if it is no terminal.  AGAIN_MS:
 * the pause before the next attempt to connect.  SECOND_US: how long an answer may take
 * until the view says that there is none, and how often it says so again. */
enum { TEXT_WIDTH = 200, TEXT_LINES = 1000000, AGAIN_MS = 1000, SECOND_US = 1000000 };

static const struct libpq_defaults of_console = {
    .dbname = "pgbouncer", .port = "6432", .is_console = true};

struct top {
	const struct options *options;
	struct libpq_entry entry;
	struct pg_client *pg_client;
	struct display *display; /* NULL: the output is no terminal */
	struct board board;
	struct keys keys;
	struct table answer;   /* the part of the answer that has arrived */
	enum board_view asked; /* the running query; BOARD_VIEWS: none */
	bool is_pressed;       /* ask again as soon as all answers have arrived */
	bool has_seen;         /* all answers have arrived at least once */
	bool is_over;
	struct deadline due;
	struct deadline overdue; /* set while an answer, or the login, is awaited */
	uint64_t silent_since_us;
	struct watch *keyboard;
	struct err err;
	char message[256];
};

/* ---- showing ---- */

static void draw(struct top *t)
{
	struct screen s = {.board = &t->board,
	    .keys = &t->keys,
	    .message = t->message,
	    .width = TEXT_WIDTH,
	    .lines = TEXT_LINES};
	time_t now = time(NULL);
	struct buf text, foot;
	struct tm tm;
	char clock[16];

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &tm));
	s.clock = clock;
	buf_init(&text, 0);
	buf_init(&foot, 0);
	if (t->display)
		display_size(t->display, &s.width, &s.lines);
	screen_put(&text, &s);
	keys_put_foot(&foot, &t->keys);
	if (t->display)
		display_draw(t->display, buf_text(&text),
		    t->keys.is_helping ? -1 : SCREEN_TITLES, buf_text(&foot));
	else if (printf("%s\n", buf_text(&text)) < 0 || fflush(stdout) != 0)
		t->is_over = true;
	buf_done(&text);
	buf_done(&foot);
}

/* ---- asking ---- */

static void leave(struct top *t)
{
	t->is_over = true;
	if (t->pg_client)
		pg_client_end(t->pg_client);
}

static void wait_for_answer(struct top *t)
{
	struct loop *loop = pg_client_loop(t->pg_client);

	deadline_set(loop, &t->overdue, loop_now(loop) + SECOND_US);
}

/* The figures are old ones: the pooler does not answer. */
static void tell_silence(struct deadline *overdue)
{
	struct top *t = container_of(overdue, struct top, overdue);
	uint64_t silent_us =
	    loop_now(pg_client_loop(t->pg_client)) - t->silent_since_us;

	snprintf(t->message, sizeof(t->message), "no answer for %llu s",
	    (unsigned long long)(silent_us / SECOND_US));
	if (t->display || t->has_seen)
		draw(t);
	wait_for_answer(t);
	if (t->is_over)
		leave(t);
}

/* Asks for the next view that is needed, beginning with this one; after the last one it
 * draws. */
static void ask_from(struct top *t, unsigned view)
{
	while (view < BOARD_VIEWS &&
	       !board_needs(&t->board, (enum board_view)view, t->keys.choice.id))
		view++;
	t->asked = (enum board_view)view;
	struct loop *loop = pg_client_loop(t->pg_client);
	t->silent_since_us = loop_now(loop);
	if (view < BOARD_VIEWS) {
		wait_for_answer(t);
		pg_client_ask(t->pg_client, board_query(t->asked));
		return;
	}
	deadline_clear(loop, &t->overdue);
	double wait_s = t->is_pressed ? 0 : t->keys.delay_s;
	t->is_pressed = false;
	t->has_seen = true;
	t->message[0] = '\0';
	draw(t);
	if (t->is_over)
		leave(t);
	deadline_set(loop, &t->due, loop_now(loop) + (uint64_t)(wait_s * 1e6));
}

static void look(struct deadline *due)
{
	ask_from(container_of(due, struct top, due), 0);
}

static int take_columns(void *ctx, const struct pg_client_row *names)
{
	struct top *t = ctx;

	for (size_t i = 0; i < names->count; i++)
		table_put_name(&t->answer, names->values[i], names->lens[i]);
	return 0;
}

static int take_row(void *ctx, const struct pg_client_row *row)
{
	struct top *t = ctx;

	if (table_begin_row(&t->answer, row->count) < 0)
		return -1;
	for (size_t i = 0; i < row->count; i++)
		table_put_cell(&t->answer, i, row->values[i], row->lens[i]);
	return 0;
}

/* An error: the pooler does not know the view, or the user may not see it.  The first
 * one is known to every pooler. */
static int take_error(
    void *ctx, const char *user, const struct error_fields *fields, struct err *err)
{
	struct top *t = ctx;

	(void)user;
	if (t->asked == BOARD_VERSION)
		return err_set(err,
		    "this is no console of a pooler (%s): name its host and port, and "
		    "the database pgbouncer",
		    fields->message);
	t->answer.is_refused = true;
	return 0;
}

static void ready(void *ctx)
{
	struct top *t = ctx;
	unsigned next = 0;

	if (t->asked < BOARD_VIEWS) {
		t->answer.taken_us = loop_now(pg_client_loop(t->pg_client));
		board_take(&t->board, t->asked, &t->answer);
		next = t->asked + 1;
	}
	ask_from(t, next);
}

static const struct pg_client_ops top_ops = {
    .columns = take_columns,
    .row = take_row,
    .error = take_error,
    .ready = ready,
};

/* ---- keys and signals ---- */

static void press(struct top *t, int key)
{
	bool is_idle = t->pg_client && t->asked == BOARD_VIEWS;

	switch (keys_press(&t->keys, key)) {
	case KEYS_LEAVE:
		leave(t);
		break;
	case KEYS_ASK:
		draw(t);
		if (is_idle && t->due.at_us != UINT64_MAX)
			deadline_set(pg_client_loop(t->pg_client), &t->due,
			    loop_now(pg_client_loop(t->pg_client)));
		else
			t->is_pressed = true;
		break;
	case KEYS_DRAW:
		draw(t);
		break;
	case KEYS_NOTHING:
		break;
	}
}

static void press_all(struct top *t)
{
	int key;

	while (!t->is_over && (key = display_key(t->display)) >= 0)
		press(t, key);
}

static void keyboard_ready(void *ctx, int fd)
{
	struct pollfd gone = {.fd = fd, .events = POLLIN};
	struct top *t = ctx;

	press_all(t);
	/* the terminal has been closed */
	if (poll(&gone, 1, 0) > 0 && (gone.revents & (POLLHUP | POLLERR)))
		leave(t);
}

static void on_end(void *ctx, int signo)
{
	(void)signo;
	leave(ctx);
}

static void on_resize(void *ctx, int signo)
{
	struct top *t = ctx;

	(void)signo;
	display_resize(t->display);
	draw(t);
}

static void listen_to_person(struct top *t)
{
	struct loop *loop = pg_client_loop(t->pg_client);

	loop_on_signal(loop, SIGINT, on_end, t);
	loop_on_signal(loop, SIGTERM, on_end, t);
	loop_on_signal(loop, SIGHUP, on_end, t);
	if (!t->display)
		return;
	loop_on_signal(loop, SIGWINCH, on_resize, t);
	t->keyboard = watch_new(loop, STDIN_FILENO, WATCH_READ, keyboard_ready, t);
}

/* ---- connecting again and again ---- */

static enum pg_client_answer connect_and_show(struct top *t)
{
	enum pg_client_answer answer = PG_CLIENT_FAILED;

	t->asked = BOARD_VIEWS;
	deadline_init(&t->due, look);
	t->pg_client = pg_client_new(
	    buf_text(&t->entry.text), t->options->verbose, &top_ops, t, &t->err);
	if (!t->pg_client)
		return answer;
	listen_to_person(t);
	deadline_init(&t->overdue, tell_silence);
	if (!t->silent_since_us)
		t->silent_since_us = loop_now(pg_client_loop(t->pg_client));
	wait_for_answer(t);
	answer = pg_client_run(t->pg_client);
	deadline_clear(pg_client_loop(t->pg_client), &t->due);
	deadline_clear(pg_client_loop(t->pg_client), &t->overdue);
	watch_free(&t->keyboard);
	pg_client_free(&t->pg_client);
	table_clear(&t->answer);
	board_clear(&t->board);
	return answer;
}

static int ask_password(struct top *t)
{
	struct err why;
	char *secret = terminal_ask_secret("Password: ", &why);

	if (!secret)
		return err_set(&t->err,
		    "the pooler asks for a password, but %s; PGPASSWORD or a "
		    "password file can hold it",
		    why.text);
	libpq_entry_put(&t->entry, "password", secret);
	mem_free_secret(secret);
	return 0;
}

/* Waits, and handles keys meanwhile. */
static void wait_for_next_attempt(struct top *t)
{
	struct pollfd keyboard = {.fd = STDIN_FILENO, .events = POLLIN};

	snprintf(t->message, sizeof(t->message), "trying again: %.200s", t->err.text);
	for (char *at = t->message; *at; at++)
		if (*at == '\n')
			*at = ' ';
	if (!t->display) {
		fprintf(stderr, "%s: %s\n", t->options->program, t->message);
		(void)poll(NULL, 0, AGAIN_MS);
		return;
	}
	draw(t);
	if (poll(&keyboard, 1, AGAIN_MS) > 0)
		press_all(t);
}

/* The first connection, for which a password is asked before the terminal is taken
 * over. -1: it has failed. */
static int show_first(struct top *t)
{
	enum pg_client_answer answer = connect_and_show(t);

	if (answer == PG_CLIENT_PASSWORD_WANTED) {
		display_close(&t->display);
		if (ask_password(t) < 0)
			return -1;
		if (isatty(STDOUT_FILENO) && !(t->display = display_open(&t->err)))
			return -1;
		answer = connect_and_show(t);
	}
	if (answer != PG_CLIENT_FAILED || t->has_seen)
		return 0;
	libpq_entry_explain(&t->entry, &t->err);
	return -1;
}

static int show(struct top *t)
{
	if (libpq_entry_read(&t->entry,
		t->options->conninfo ? t->options->conninfo : "", &of_console,
		&t->err) < 0)
		return -1;
	if (isatty(STDOUT_FILENO) && !(t->display = display_open(&t->err)))
		return -1;
	if (show_first(t) < 0)
		return -1;
	while (!t->is_over) {
		wait_for_next_attempt(t);
		if (!t->is_over)
			(void)connect_and_show(t);
	}
	return 0;
}

int top_run(const struct options *options)
{
	struct top t = {.options = options};
	int rc;

	keys_init(&t.keys);
	libpq_entry_init(&t.entry);
	rc = show(&t);
	display_close(&t.display);
	if (rc < 0)
		fprintf(stderr, "%s: %s\n", options->program, t.err.text);
	libpq_entry_done(&t.entry);
	board_clear(&t.board);
	return rc < 0 ? 1 : 0;
}
