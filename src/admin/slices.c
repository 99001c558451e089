/*
 * Sends the slices of SHOW CLIENTS: some rows at a time, as fast as the console reads
 * them.
 */
#include "admin/slices.h"

#include "base/mem.h"
#include "views/views.h"
#include "wire/codec.h"

/* Slices come at intervals: a loop that is busy without a break would keep other
 * processes off its processor for milliseconds. */
enum { ROWS_AT_ONCE = 50, INTERVAL_US = 300 };

struct slices {
	struct deadline due;
	struct slices **place; /* the console's pointer to this */
	struct client *console;
	const struct view *view;
	struct roll roll;
};

bool slices_are_due(const struct view *view, const struct site *site)
{
	/* with several workers each writes its rows on its own thread */
	return !site->crew && view->walk == view_clients &&
	       site->clients.count > ROWS_AT_ONCE;
}

static void finish(struct slices *s, struct buf *out)
{
	struct client *console = s->console;

	view_clients_rest(console->conn.site, out, s->view->column_count);
	codec_put_command_complete(out, "SHOW");
	codec_put_ready(out, 'I');
	conn_send(&console->conn, out);
	slices_drop(s->place);
	conn_unpark(&console->conn);
}

static void next_slice(struct deadline *due)
{
	struct slices *s = container_of(due, struct slices, due);
	struct conn *conn = &s->console->conn;
	struct buf out;
	struct rows rows;

	if (conn->is_doomed || stream_is_above_high(&conn->stream))
		return;
	buf_init(&out, 0);
	rows_init(&rows, conn->site, &out, s->view->column_count);
	if (view_clients_part(&rows, &s->roll, ROWS_AT_ONCE)) {
		conn_send(conn, &out);
		deadline_set(
		    conn->site->loop, due, loop_now(conn->site->loop) + INTERVAL_US);
	} else {
		finish(s, &out);
	}
	buf_done(&out);
}

void slices_start(
    struct slices **place, const struct view *view, struct client *console)
{
	struct slices *s = mem_zero(sizeof(*s));
	struct buf out;

	deadline_init(&s->due, next_slice);
	s->place = place;
	s->console = console;
	s->view = view;
	*place = s;
	roll_begin(&s->roll, console->conn.site);
	view_clients_call(&s->roll, console->conn.site);
	buf_init(&out, 0);
	show_put_columns(view->columns, view->column_count, &out);
	conn_send(&console->conn, &out);
	buf_done(&out);
	slices_go_on(s);
}

void slices_go_on(struct slices *s)
{
	struct loop *loop = s->console->conn.site->loop;

	if (s->due.at_us == UINT64_MAX)
		deadline_set(loop, &s->due, loop_now(loop));
}

void slices_drop(struct slices **place)
{
	struct slices *s = *place;

	if (!s)
		return;
	deadline_clear(s->console->conn.site->loop, &s->due);
	roll_end(&s->roll, s->console->conn.site);
	mem_free(s);
	*place = NULL;
}
