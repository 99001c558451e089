#include "session/conn_move.h"

#include <string.h>

#include "base/buf.h"
#include "base/errors.h"
#include "base/mem.h"

void conn_quiesce(struct conn *conn)
{
	conn->is_stopped = true;
	stream_quiesce(&conn->stream);
}

void conn_leave(struct conn *conn)
{
	conn->is_going = true;
	stream_pause(&conn->stream);
	loop_later(conn->site->loop, &conn->wake);
}

int conn_detach(struct conn *conn)
{
	const struct block *held = conn->held;
	/* held bytes may be in a block of this thread */
	bool is_copied = held && (held->pool || held->refs > 1);
	struct block *own = is_copied ? block_new(conn->held_len) : NULL;

	if ((is_copied && !own) || stream_detach(&conn->stream) < 0) {
		block_unref(own);
		conn_doom(conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
		return -1;
	}
	if (own) {
		memcpy(own->bytes, held->bytes + conn->held_from, conn->held_len);
		own->used = conn->held_len;
		block_unref(conn->held);
		conn->held = own;
		conn->held_from = 0;
	}
	deadline_clear(conn->site->loop, &conn->deadline);
	later_cancel(conn->site->loop, &conn->wake);
	return 0;
}

void conn_attach(struct conn *conn, struct site *site)
{
	conn->site = site;
	conn->is_going = false;
	stream_attach(&conn->stream, &site->net);
	if (conn->held) {
		conn->is_parked = true;
		stream_pause(&conn->stream);
		conn_unpark(conn);
	} else {
		conn_read_on(conn);
	}
}

void conn_close_detached(struct conn *conn)
{
	stream_close(&conn->stream);
	if (conn->held)
		mem_wipe(conn->held->bytes + conn->held_from, conn->held_len);
	block_unref(conn->held);
}

bool conn_is_silent(const struct conn *conn)
{
	return conn->is_stopped && !conn->is_doomed && stream_is_silent(&conn->stream);
}

void conn_put_unread(const struct conn *conn, struct buf *out)
{
	if (conn->held)
		buf_put(out, conn->held->bytes + conn->held_from, conn->held_len);
	stream_put_unread(&conn->stream, out);
}

int conn_restore(
    struct conn *conn, int fd, uint64_t passing, const uint8_t *bytes, size_t len)
{
	struct block *held = len ? block_new(len) : NULL;

	conn_open(conn, fd);
	conn->passing = passing;
	if (!len)
		return 0;
	if (!held)
		return -1;
	memcpy(held->bytes, bytes, len);
	held->used = (uint32_t)len;
	conn->held = held;
	conn->held_from = 0;
	conn->held_len = (uint32_t)len;
	conn->is_parked = true;
	stream_pause(&conn->stream);
	conn_unpark(conn);
	return 0;
}
