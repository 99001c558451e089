/*
 * Sends the slices of SHOW CLIENTS: some rows in each turn, as fast as the console
 * reads them.
 */
#include "admin/slices.h"

#include "base/mem.h"
#include "views/views.h"
#include "wire/codec.h"

/* takes some hundred microseconds */
enum { ROWS_PER_TURN = 100 };

struct slices {
	struct later turn;
	struct slices **place; /* the console's pointer to this */
	struct client *console;
	const struct view *view;
	struct roll roll;
};

static void slice_turn(struct later *l);

bool slices_are_due(const struct view *view, const struct site *site)
{
	/* with several workers each writes its rows on its own thread */
	return !site->crew && view->walk == view_clients &&
	       site->clients.count > ROWS_PER_TURN;
}

/* Runs after everything else in this turn; the next rows follow in the next one. */
static void turn_over(struct later *l)
{
	struct slices *s = container_of(l, struct slices, turn);

	l->run = slice_turn;
	loop_later(s->console->conn.site->loop, l);
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

static void slice_turn(struct later *l)
{
	struct slices *s = container_of(l, struct slices, turn);
	struct conn *conn = &s->console->conn;
	struct buf out;
	struct rows rows;

	if (conn->is_doomed || stream_is_above_high(&conn->stream))
		return;
	buf_init(&out, 0);
	rows_init(&rows, conn->site, &out, s->view->column_count);
	if (view_clients_part(&rows, &s->roll, ROWS_PER_TURN)) {
		conn_send(conn, &out);
		l->run = turn_over;
		loop_at_turn_end(conn->site->loop, l);
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

	s->turn.run = slice_turn;
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
	loop_later(console->conn.site->loop, &s->turn);
}

void slices_go_on(struct slices *s)
{
	if (!node_is_linked(&s->turn.node))
		loop_later(s->console->conn.site->loop, &s->turn);
}

void slices_drop(struct slices **place)
{
	struct slices *s = *place;

	if (!s)
		return;
	later_cancel(s->console->conn.site->loop, &s->turn);
	roll_end(&s->roll, s->console->conn.site);
	mem_free(s);
	*place = NULL;
}
