#include "admin/show_stream.h"

#include "base/mem.h"
#include "session/workers.h"
#include "views/views.h"
#include "wire/codec.h"

/* Slices come at intervals: a loop that is busy without a break would keep other
 * processes off its processor for milliseconds. */
enum { ROWS_AT_ONCE = 50, INTERVAL_US = 300 };

/* The clients of one site, which are used on its thread only. */
struct part {
	struct thread_message message;
	struct called called;
};

struct show_stream {
	struct deadline due;
	struct show_stream **place; /* the console's pointer to this */
	struct client *console;
	const struct view *view;
	unsigned missed; /* workers that have not answered in time */
	unsigned at;     /* the site whose rows are next */
	/* by site, owned; NULL: it has written all, or has not answered */
	struct part *parts[WORKERS_MOST + 1];
};

bool show_stream_are_due(const struct view *view, const struct site *site)
{
	return view->walk == view_clients && workers_client_count(site) > ROWS_AT_ONCE;
}

/* ---- on the thread of a site ---- */

static struct part **place_of(struct show_stream *s, const struct site *site)
{
	return &s->parts[site->worker ? site->worker->index : 0];
}

static void part_free(struct part **part)
{
	view_clients_end(&(*part)->called);
	mem_free(*part);
	*part = NULL;
}

static void call_clients(struct site *site, void *ctx)
{
	struct show_stream *s = ctx;
	struct part *part = mem_zero(sizeof(*part));

	view_clients_call(&part->called, site, s->view->column_count);
	*place_of(s, site) = part;
}

struct slice {
	struct show_stream *slices;
	struct buf *out;
};

static void put_slice(struct site *site, void *ctx)
{
	const struct slice *slice = ctx;
	struct part **part = place_of(slice->slices, site);
	struct rows rows;

	rows_init(&rows, site, slice->out, slice->slices->view->column_count);
	if (!view_clients_part(&rows, &(*part)->called, ROWS_AT_ONCE))
		part_free(part);
}

static void part_dropped(struct thread_message *message)
{
	struct part *part = container_of(message, struct part, message);

	part_free(&part);
}

/* ---- on the thread of the console ---- */

/* The member is the site of the next rows; NULL: there is only one site. */
static struct worker *member_at(const struct show_stream *s, unsigned at)
{
	const struct worker *own = s->console->conn.site->worker;

	return own ? &own->workers->members[at] : NULL;
}

/* Frees a part whose site will write no more rows.  At the end of the process its
 * worker may have ended before. */
static void drop_part(const struct show_stream *s, struct part **part, unsigned at)
{
	struct worker *member = member_at(s, at);

	if (!member || !member->mailbox || workers_is_control(member->site)) {
		part_free(part);
		return;
	}
	(*part)->message.handle = part_dropped;
	workers_post(member, &(*part)->message);
	*part = NULL;
}

/* Goes to the next worker with rows left.  False: there is none. */
static bool find_next(struct show_stream *s)
{
	unsigned count = workers_site_count(s->console->conn.site);

	while (s->at < count && !s->parts[s->at])
		s->at++;
	return s->at < count;
}

static void next_slice(struct deadline *due)
{
	struct show_stream *s = container_of(due, struct show_stream, due);
	struct conn *conn = &s->console->conn;
	struct buf out;

	if (conn->is_doomed || stream_is_above_high(&conn->stream))
		return;
	buf_init(&out, 0);
	if (find_next(s)) {
		struct worker *member = member_at(s, s->at);
		struct slice slice = {s, &out};
		if (!member) {
			put_slice(s->console->conn.site, &slice);
		} else if (!workers_call(member, put_slice, &slice)) {
			s->missed++;
			drop_part(s, &s->parts[s->at], s->at);
		}
	}
	conn_send(conn, &out);
	buf_done(&out);
	if (find_next(s)) {
		deadline_set(
		    conn->site->loop, due, loop_now(conn->site->loop) + INTERVAL_US);
	} else {
		struct client *console = s->console;

		buf_init(&out, 0);
		show_put_missed(&out, s->missed);
		codec_put_command_complete(&out, "SHOW");
		codec_put_ready(&out, 'I');
		conn_send(&console->conn, &out);
		buf_done(&out);
		show_stream_drop(s->place);
		conn_unpark(&console->conn);
	}
}

void show_stream_start(
    struct show_stream **place, const struct view *view, struct client *console)
{
	struct show_stream *s = mem_zero(sizeof(*s));
	struct buf out;

	deadline_init(&s->due, next_slice);
	s->place = place;
	s->console = console;
	s->view = view;
	*place = s;
	/* no client changes sites between these calls, so that each is called once */
	s->missed = workers_each(console->conn.site, call_clients, s);
	buf_init(&out, 0);
	show_put_columns(view->columns, view->column_count, &out);
	conn_send(&console->conn, &out);
	buf_done(&out);
	show_stream_go_on(s);
}

void show_stream_go_on(struct show_stream *s)
{
	struct loop *loop = s->console->conn.site->loop;

	if (s->due.at_us == UINT64_MAX)
		deadline_set(loop, &s->due, loop_now(loop));
}

void show_stream_drop(struct show_stream **place)
{
	struct show_stream *s = *place;
	unsigned count;

	if (!s)
		return;
	count = workers_site_count(s->console->conn.site);
	deadline_clear(s->console->conn.site->loop, &s->due);
	for (unsigned i = 0; i < count; i++)
		if (s->parts[i])
			drop_part(s, &s->parts[i], i);
	mem_free(s);
	*place = NULL;
}
