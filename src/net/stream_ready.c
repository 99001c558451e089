/*
 * The engine epoll: the loop tells which sockets can be read or written, and system
 * calls do it.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream_parts.h"

/* ---- receiving ---- */

/* The watch reports only once that there are bytes to read, so what is left has to be
 * reported again, unless the watch was switched off. */
static void provide_for(struct stream *s, enum stream_left left)
{
	if (left == LEFT_SOMETHING && s->reader && !s->reader_off)
		watch_again(s->reader);
	if (left != LEFT_UNTIL_RESTED)
		return;
	s->reader_off = true;
	watch_off(s->reader);
}

static void receive(struct stream *s)
{
	size_t len;

	provide_for(s, stream_receive(s, &len));
}

static void readable(void *ctx, int fd)
{
	struct stream *s = ctx;
	size_t len;

	(void)fd;
	provide_for(s, stream_readable(s, &len));
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

static bool ready_hear_more(struct stream *s)
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
		if (!s->blocked) {
			s->blocked = true;
			if (s->writer)
				watch_on(s->writer);
			else
				s->writer = watch_new(s->net->loop, s->fd,
				    WATCH_WRITE | WATCH_EDGE, writable, s);
		}
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

static void ready_detach(struct stream *s)
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
    .hear_more = ready_hear_more,
    .detach = ready_detach,
    .leave = ready_leave,
};
