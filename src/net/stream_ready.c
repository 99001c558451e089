/*
 * The engine epoll: the loop tells which sockets can be read or written, and system
 * calls do it.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream_parts.h"

/* Bytes of records that are read at most while the owner has paused. */
enum { PEEK_MOST = 16384 };

/* ---- receiving ---- */

/* The watch reports only once that there are bytes to read.  A function that leaves
 * some of them in the kernel calls this to have them reported again (unless it has
 * called stop_reading). */
static void read_again(const struct stream *s)
{
	if (s->reader && !s->reader_off)
		watch_again(s->reader);
}

/* Receives once.  Fewer bytes than there was room for are all that had come.  Returns 0
 * when nothing came, or when it was the end, which is then reported. */
static size_t receive_into(struct stream *s, uint8_t *at, size_t room)
{
	ssize_t got;

	do {
		got = recv(s->fd, at, room, 0);
		loop_counts(s->net->loop)->recv_calls++;
	} while (got < 0 && errno == EINTR);
	if (got > 0) {
		stream_rest_count(s, (size_t)got);
		return (size_t)got;
	}
	if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
		stream_end(s, got < 0 ? errno : 0);
	return 0;
}

/* Receives TLS records once.  True: the room was filled, so there may be more. */
static bool may_receive_more_records(struct stream *s)
{
	struct block *b = block_get(s->net->blocks);

	b->used = (uint32_t)receive_into(s, b->bytes, b->cap);
	if (b->used > 0)
		stream_take(s, b, b->bytes, b->used);
	bool is_full = b->used == b->cap;
	block_unref(b);
	return is_full;
}

/* Receives once.  True: the room was filled, so there may be more. */
static bool may_receive_more(struct stream *s)
{
	if (s->tls)
		return may_receive_more_records(s);
	struct block *b = stream_room(s->net, BLOCK_MIN_ROOM);
	size_t room = b->cap - b->used;
	uint8_t *at = b->bytes + b->used;
	size_t got = receive_into(s, at, room);
	if (got == 0)
		return false;
	b->used += (uint32_t)got;
	stream_take(s, b, at, got);
	return got == room;
}

static void stop_reading(struct stream *s)
{
	s->reader_off = true;
	watch_off(s->reader);
}

/* s->delivering becomes false when the owner closes the stream, even if the owner opens
 * it again. */
static void receive(struct stream *s)
{
	int left = s->net->rounds;
	unsigned before_kb = s->run_kb;
	bool has_more;

	while ((has_more = may_receive_more(s)) && s->delivering && !s->paused &&
	       !s->ended && !stream_has_input(s) && --left != 0)
		;
	bool is_left = !s->delivering;
	s->delivering = false;
	if (has_more)
		read_again(s);
	else if (!is_left && stream_rest_begin(s, s->run_kb - before_kb))
		stop_reading(s);
}

void stream_receive_now(struct stream *s)
{
	receive(s);
}

/* The socket became readable while paused.  If the peer has closed and left nothing
 * unread, that is reported, so that its client does not keep a place in a queue;
 * otherwise the bytes stay in the kernel. */
static void readable_while_paused(struct stream *s)
{
	char next;
	ssize_t got = recv(s->fd, &next, 1, MSG_PEEK);

	loop_counts(s->net->loop)->recv_calls++;
	bool is_gone = got == 0 || (got < 0 && errno != EAGAIN &&
				       errno != EWOULDBLOCK && errno != EINTR);
	/* a failure that is about to be reported says more */
	if (is_gone && !s->failure) {
		stream_end(s, got < 0 ? errno : 0);
		return;
	}
	stop_reading(s);
}

/* With TLS the peer closes by a record, so records are read until one has bytes for the
 * owner. */
static void records_while_paused(struct stream *s)
{
	bool may_look = tls_is_complete(s->tls->tls) && !s->failure;
	enum stream_look look = may_look ? stream_look(s) : LOOK_BYTES;

	if (look == LOOK_BYTES)
		stop_reading(s);
	if (look != LOOK_NOTHING)
		return;
	struct block *b = block_get(s->net->blocks);
	b->used = (uint32_t)receive_into(s, b->bytes, PEEK_MOST);
	if (b->used > 0)
		stream_arrived(s, b, b->bytes, b->used);
	if (b->used == PEEK_MOST)
		read_again(s);
	block_unref(b);
}

/* Delivers bytes received before first; new bytes, or a handshake that has to wait, are
 * reported again in the next turn. */
static void read_behind_input(struct stream *s)
{
	if (stream_has_input(s))
		stream_deliver_waiting(s);
	read_again(s);
}

static void readable(void *ctx, int fd)
{
	struct stream *s = ctx;

	(void)fd;
	if (s->paused && s->tls)
		records_while_paused(s);
	else if (s->paused)
		readable_while_paused(s);
	else if (!stream_has_input(s) && !stream_is_put_off(s))
		receive(s);
	else
		read_behind_input(s);
}

static void ready_start(struct stream *s)
{
	s->reader =
	    watch_new(s->net->loop, s->fd, WATCH_READ | WATCH_EDGE, readable, s);
}

static void ready_stop(struct stream *s)
{
	stream_rest_end(s);
	if (s->reader)
		watch_off(s->reader);
	s->reader_off = true;
}

static bool ready_is_still(const struct stream *s)
{
	(void)s;
	return true;
}

static void ready_resume(struct stream *s)
{
	stream_rest_end(s);
	if (!s->reader_off || s->ended || !s->reader)
		return;
	s->reader_off = false;
	watch_on(s->reader);
}

/* While the stream goes on resting, epoll does not watch it. */
static void ready_go_on(struct stream *s)
{
	if (!s->paused && !stream_has_input(s) && s->reader)
		receive(s);
	if (!s->resting)
		ready_resume(s);
}

static bool ready_may_hear_more(struct stream *s)
{
	if (s->reader)
		receive(s);
	return false;
}

/* ---- sending ---- */

static void ready_send(struct stream *s, bool is_now);

static void writable(void *ctx, int fd)
{
	(void)fd;
	ready_send(ctx, true);
}

static void wait_until_writable(struct stream *s)
{
	s->blocked = true;
	if (s->writer)
		watch_on(s->writer);
	else
		s->writer = watch_new(
		    s->net->loop, s->fd, WATCH_WRITE | WATCH_EDGE, writable, s);
}

static void ready_send(struct stream *s, bool is_now)
{
	int result = stream_send_queue(s);

	(void)is_now;
	if (result < 0) {
		stream_fail(s, errno);
		return;
	}
	if (result > 0) {
		bool settle = !s->blocked || s->pending <= STREAM_COPY_MOST;
		if (!s->blocked)
			wait_until_writable(s);
		if (settle)
			stream_settle_output(s);
	} else if (s->blocked) {
		s->blocked = false;
		watch_off(s->writer);
	}
	stream_sent(s, 0);
}

static void ready_settle(struct stream *s)
{
	(void)s;
}

static void ready_give_fd(struct stream *s)
{
	watch_free(&s->reader);
	watch_free(&s->writer);
}

static void ready_leave(struct stream *s)
{
	if (s->out && !s->connecting)
		stream_send_queue(s);
	watch_free_closing(&s->reader);
	watch_free_closing(&s->writer);
	close(s->fd);
}

const struct stream_engine stream_ready = {
    .name = "epoll",
    .start = ready_start,
    .stop = ready_stop,
    .go_on = ready_go_on,
    .is_still = ready_is_still,
    .resume = ready_resume,
    .send = ready_send,
    .settle = ready_settle,
    .may_hear_more = ready_may_hear_more,
    .give_fd = ready_give_fd,
    .leave = ready_leave,
};
