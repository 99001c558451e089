/*
 * Messages from bytes: cut anywhere, held, parked, with a wrong length; and the only
 * way a connection ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../stage/stage.h"
#include "session/conn_move.h"
#include "wire/message.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

/* A connection whose owner notes the messages it is shown. */
struct line {
	struct stage *stage;
	struct client *client; /* must not be used after it closed */
	int fd;
	enum step say;
	struct buf heard; /* "Q:text ", "part:3 ", "bad ", "ended ", "closed:why " */
	unsigned shown;   /* how often it was shown a message */
	bool pauses;
	bool goes;        /* leaves for another site at the first message */
	bool takes_alike; /* takes all whole messages of type d at once */
	uint8_t takes_to; /* takes what comes next up to this type; 0: it does not */
};

static struct line *conn_line(const struct conn *conn)
{
	return conn->site->waits ? (struct line *)conn->site->waits : NULL;
}

static void line_take_behind(struct conn *conn)
{
	struct line *line = conn_line(conn);
	const uint8_t *p;
	size_t left, size;

	while ((left = conn_behind(conn, &p)) &&
	       (size = frame_whole(p, left, conn_most(conn), conn->kind->rows)) &&
	       *p != line->takes_to) {
		buf_printf(&line->heard, ">%c%zu:%zu ", *p, size, left - size);
		conn_take_behind(conn, size);
	}
}

static enum step line_message(struct conn *conn, const struct message *m)
{
	struct line *line = conn_line(conn);
	line->shown++;
	if (line->say == STEP_MORE && message_is_whole(m)) {
		buf_printf(&line->heard, "%c%zu ", m->type, (size_t)m->size);
		return STEP_NEXT;
	}
	if (line->say == STEP_NEXT)
		buf_printf(
		    &line->heard, "%c%zu/%zu ", m->type, m->have, (size_t)m->size);
	if (line->takes_alike && m->type == 'd' && message_is_whole(m))
		buf_printf(&line->heard, "&%zu ", conn_take_alike(conn, m));
	if (line->takes_to)
		line_take_behind(conn);
	if (line->pauses)
		conn_pause(conn);
	if (line->goes)
		conn_leave(conn);
	if (line->say == STEP_CLOSE)
		conn_doom(conn, "enough");
	return line->say;
}

static enum step line_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	(void)block;
	(void)p;
	buf_printf(&conn_line(conn)->heard, "+%zu ", len);
	return STEP_NEXT;
}

static void line_malformed(struct conn *conn, const uint8_t *bytes, size_t have)
{
	(void)bytes;
	buf_printf(&conn_line(conn)->heard, "bad%zu ", have);
	conn_doom(conn, "bad");
}

static void line_ended(struct conn *conn, const struct err *err)
{
	(void)err;
	buf_put_text(&conn_line(conn)->heard, "ended ");
	conn_doom(conn, "ended");
}

static void line_expired(struct conn *conn)
{
	buf_put_text(&conn_line(conn)->heard, "expired ");
}

static void line_leaves(struct conn *conn)
{
	struct buf unread;

	buf_init(&unread, 0);
	conn_put_unread(conn, &unread);
	buf_printf(&conn_line(conn)->heard, "leaves:%.*s ", (int)unread.len,
	    (const char *)unread.bytes);
	buf_done(&unread);
	conn_doom(conn, "gone");
}

static void line_closed(struct conn *conn, const char *reason)
{
	buf_printf(&conn_line(conn)->heard, "closed:%s ", reason);
	client_leave(conn_client(conn));
}

static const struct conn_ops line_ops = {
    .name = "line",
    .message = line_message,
    .part = line_part,
    .malformed = line_malformed,
    .ended = line_ended,
    .expired = line_expired,
    .leaves = line_leaves,
    .closed = line_closed,
};

static void line_open(struct line *line, enum step say)
{
	int fds[2];
	memset(line, 0, sizeof(*line));
	line->stage = stage_new("", "");
	line->say = say;
	buf_init(&line->heard, 0);
	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	line->fd = fds[1];
	line->client = client_new(&line->stage->site, &line_ops);
	line->stage->site.waits = (struct waits *)line;
	line->client->conn.remote.family = AF_UNIX;
	conn_open(&line->client->conn, fds[0]);
}

static void line_say(struct line *line, const void *bytes, size_t len)
{
	assert_int_equal(send(line->fd, bytes, len, 0), (ssize_t)len);
	stage_settle(line->stage);
}

static const char *line_heard(struct line *line)
{
	stage_settle(line->stage);
	return buf_text(&line->heard);
}

static void line_close(struct line *line)
{
	close(line->fd);
	stage_free(&line->stage);
	buf_done(&line->heard);
}

static void bytes_become_messages(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_MORE);
	static const char two[] = "Q\0\0\0\x06x\0S\0\0\0\x04";
	for (size_t i = 0; i < sizeof(two) - 1; i++)
		line_say(&line, two + i, 1);
	assert_string_equal(line_heard(&line), "Q7 S5 ");
	assert_null(line.client->conn.held);
	line_say(&line, two, sizeof(two) - 1);
	assert_string_equal(line_heard(&line), "Q7 S5 Q7 S5 ");
	line_close(&line);
}

/* An owner that scans it each time looks at every byte twice at most. */
static void incomplete_message_is_shown_when_twice_as_much_is_here(void **state)
{
	(void)state;
	struct line line;
	uint8_t bytes[4096] = {'Q', 0, 0, 0x0f, 0xff};
	line_open(&line, STEP_MORE);
	for (size_t i = 0; i < sizeof(bytes); i += 8)
		line_say(&line, bytes + i, 8);
	assert_string_equal(line_heard(&line), "Q4096 ");
	assert_in_range(line.shown, 2, 10);
	line_close(&line);
}

static void long_message_passes_in_parts(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_NEXT);
	line_say(&line,
	    "Q\0\0\0\x0c"
	    "abc",
	    8);
	line_say(&line,
	    "defgh"
	    "S\0\0",
	    8);
	line_say(&line, "\0\x04", 2);
	assert_string_equal(line_heard(&line), "Q8/13 +5 S5/5 ");
	line_close(&line);
}

/* Only whole messages of the same type count, and the next is shown as usual. */
static void those_alike_are_taken_together(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_NEXT);
	line.takes_alike = true;
	static const char bytes[] = "d\0\0\0\x06xy"
				    "d\0\0\0\x04"
				    "d\0\0\0\x05z"
				    "c\0\0\0\x04"
				    "d\0\0\0\x05z"
				    "d\0\0\0\x05z"
				    "d\0\0\0\x08zz";
	line_say(&line, bytes, sizeof(bytes) - 1);
	assert_string_equal(line_heard(&line), "d7/7 &11 c5/5 d6/6 &6 d7/9 ");
	line_say(&line,
	    "zzd\0\0\0\x04"
	    "d\0\0",
	    10);
	assert_string_equal(
	    line_heard(&line), "d7/7 &11 c5/5 d6/6 &6 d7/9 +2 d5/5 &0 ");
	/* the rest of a header comes, and then an invalid length */
	line_say(&line,
	    "\0\x04"
	    "d\0\0\0\x03",
	    7);
	assert_string_equal(line_heard(&line),
	    "d7/7 &11 c5/5 d6/6 &6 d7/9 +2 d5/5 &0 d5/5 &0 bad5 closed:bad ");
	line_close(&line);
}

/* What is not whole, or no message, is shown as usual. */
static void others_are_taken_along(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_NEXT);
	line.takes_to = 'S';
	static const char bytes[] = "P\0\0\0\x08\0\0\0\0"
				    "D\0\0\0\x06S\0"
				    "d\0\0\0\x04"
				    "S\0\0\0\x04"
				    "D\0\0\0\x06S\0"
				    "D\0\0\0\x06S";
	line_say(&line, bytes, sizeof(bytes) - 1);
	assert_string_equal(line_heard(&line), "P9/9 >D7:23 >d5:18 S5/5 >D7:6 D6/7 ");
	buf_clear(&line.heard);
	line_say(&line,
	    "\0d\0\0\0\x04"
	    "d\0\0\0\x03",
	    11);
	assert_string_equal(line_heard(&line), "+1 d5/5 bad5 closed:bad ");
	line_close(&line);
}

/* Somebody reads in the log what came. */
static void nothing_is_taken_along_unseen(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_NEXT);
	line.takes_to = 'S';
	struct log_config all = {.file = NULL};
	log_levels_set_all(&all.levels, 3);
	log_configure(line.stage->site.log, &all);
	line_say(&line,
	    "d\0\0\0\x04"
	    "d\0\0\0\x04",
	    10);
	assert_string_equal(line_heard(&line), "d5/5 d5/5 ");
	line_close(&line);
}

static void lying_length_costs_little(void **state)
{
	(void)state;
	struct line line;
	uint8_t bytes[3000] = {'Q', 0x7f, 0xff, 0xff, 0xf0};
	size_t sent = 0;
	line_open(&line, STEP_MORE);
	for (int i = 0; i < 8; i++) {
		line_say(&line, i ? bytes + 5 : bytes, sizeof(bytes) - 5);
		sent += sizeof(bytes) - 5;
		assert_int_equal(line.client->conn.held_len, sent);
		assert_true(line.client->conn.held->cap <= 4 * sent + 65536);
	}
	line_close(&line);
}

static void impossible_length_is_bad(void **state)
{
	(void)state;
	static const char *const bad[] = {"Q\0\0\0\0", "Q\0\0\0\x03",
	    "Q\xff\xff\xff\xff", "\0\0\0\x07\0\0\0\0", "\xff\xff\xff\xff\xff"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct line line;
		line_open(&line, STEP_MORE);
		line_say(&line, bad[i], *bad[i] ? 5 : 8);
		assert_string_equal(line_heard(&line),
		    *bad[i] ? "bad5 closed:bad " : "bad8 closed:bad ");
		line_close(&line);
	}
}

static void parked_message_comes_again(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_PARK);
	line_say(&line, "Q\0\0\0\x06x\0S\0\0\0\x04", 12);
	line_say(&line, "H\0\0\0\x04", 5);
	assert_string_equal(line_heard(&line), "");
	assert_true(line.client->conn.is_parked);
	assert_int_equal(
	    line.client->conn.held_len, 12); /* the rest is not read from the socket */
	conn_unpark(&line.client->conn);
	stage_settle(line.stage);
	assert_true(line.client->conn.is_parked);
	line.say = STEP_NEXT;
	conn_unpark(&line.client->conn);
	assert_string_equal(line_heard(&line), "Q7/7 S5/5 H5/5 ");
	line_close(&line);
}

/* The owner pauses reading while parked messages are shown again. */
static void pause_outlasts_the_unparking(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_PARK);
	line_say(&line, "S\0\0\0\x04", 5);
	line.say = STEP_NEXT;
	line.pauses = true;
	conn_unpark(&line.client->conn);
	assert_string_equal(line_heard(&line), "S5/5 ");
	line_say(&line, "H\0\0\0\x04", 5);
	assert_string_equal(line_heard(&line), "S5/5 ");
	conn_resume(&line.client->conn);
	assert_string_equal(line_heard(&line), "S5/5 H5/5 ");
	line_close(&line);
}

static void end_of_a_parked_one_is_seen(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_PARK);
	line_say(&line, "S\0\0\0\x04", 5);
	shutdown(line.fd, SHUT_RDWR);
	assert_string_equal(line_heard(&line), "ended closed:ended ");
	line_close(&line);
}

static void nothing_is_shown_after_the_doom(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_CLOSE);
	line_say(&line, "S\0\0\0\x04S\0\0\0\x04", 10);
	assert_string_equal(line_heard(&line), "closed:enough ");
	line_close(&line);
}

static void first_reason_counts(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_MORE);
	conn_doom(&line.client->conn, "first %d", 1);
	conn_doom(&line.client->conn, "second");
	conn_set_deadline(&line.client->conn, loop_now(line.stage->site.loop) - 1);
	conn_unpark(&line.client->conn);
	assert_string_equal(line_heard(&line), "closed:first 1 ");
	line_close(&line);
}

static bool has_heard(void *arg)
{
	return ((struct line *)arg)->heard.len > 0;
}

static void deadline_comes_once(void **state)
{
	(void)state;
	struct line line;
	line_open(&line, STEP_MORE);
	conn_set_deadline(&line.client->conn, loop_now(line.stage->site.loop) + 10000);
	stage_until(line.stage, has_heard, &line);
	assert_string_equal(line_heard(&line), "expired ");
	line_close(&line);
}

/* What the engine had taken when the connection was to go is shown to nobody here, and
 * goes with it. */
static void bytes_that_come_while_it_goes(void **state)
{
	struct line line;
	struct block *block = block_new(8);
	struct conn *conn;

	(void)state;
	line_open(&line, STEP_NEXT);
	conn = &line.client->conn;
	memcpy(block->bytes, "QXYZ", 4);
	conn_leave(conn);
	conn_start(conn);
	conn->stream.ops->received(&conn->stream, block, block->bytes, 2);
	conn->stream.ops->received(&conn->stream, block, block->bytes + 2, 2);
	block_unref(block);
	assert_string_equal(line_heard(&line), "leaves:QXYZ closed:gone ");
	assert_int_equal(line.shown, 0);
	line_close(&line);
}

/* What is behind the message at which it leaves goes with it as well. */
static void bytes_behind_the_message_at_which_it_goes(void **state)
{
	struct line line;

	(void)state;
	line_open(&line, STEP_NEXT);
	line.goes = true;
	line_say(&line, "S\0\0\0\4H\0\0\0\4", 10);
	assert_string_equal(line_heard(&line), "S5/5 leaves:H closed:gone ");
	assert_int_equal(line.shown, 1);
	line_close(&line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bytes_become_messages),
	    cmocka_unit_test(incomplete_message_is_shown_when_twice_as_much_is_here),
	    cmocka_unit_test(long_message_passes_in_parts),
	    cmocka_unit_test(those_alike_are_taken_together),
	    cmocka_unit_test(others_are_taken_along),
	    cmocka_unit_test(nothing_is_taken_along_unseen),
	    cmocka_unit_test(lying_length_costs_little),
	    cmocka_unit_test(impossible_length_is_bad),
	    cmocka_unit_test(parked_message_comes_again),
	    cmocka_unit_test(pause_outlasts_the_unparking),
	    cmocka_unit_test(end_of_a_parked_one_is_seen),
	    cmocka_unit_test(nothing_is_shown_after_the_doom),
	    cmocka_unit_test(first_reason_counts),
	    cmocka_unit_test(deadline_comes_once),
	    cmocka_unit_test(bytes_that_come_while_it_goes),
	    cmocka_unit_test(bytes_behind_the_message_at_which_it_goes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
