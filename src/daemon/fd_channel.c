/*
 * Frames on a stream socket: kind, whether there is a descriptor, length, bytes.  The
 * kernel passes a descriptor with the first byte of what was sent with it, and so in
 * the order of the frames.  The owner knows what the frames mean.
 */
#include "daemon/fd_channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/list.h"
#include "net/sock.h"

enum {
	HEADER_LEN = 6,
	READ_MOST = 65536,
	READS_MOST = 64,
	FDS_MOST = 64,
	FDS_ROOM = 16,
	FAILURES_MOST = 20
};

struct fd_channel {
	struct loop *loop;
	struct watch *watch;
	const struct fd_channel_ops *ops;
	void *ctx;
	struct buf in;
	int fds[FDS_MOST]; /* received; they belong to frames that are not complete */
	size_t fd_count;
	int fd;
	bool is_over;
	bool is_cut;  /* fd_channel_cut was called: ended() is not */
	int failures; /* calls to read that did not succeed */
	/* one of them for another reason than that the other end was gone */
	bool is_deaf;
};

static void readable(void *ctx, int fd);

struct fd_channel *fd_channel_new(
    struct loop *loop, int fd, const struct fd_channel_ops *ops, void *ctx)
{
	struct fd_channel *c = mem_zero(sizeof(*c));

	c->loop = loop;
	c->ops = ops;
	c->ctx = ctx;
	c->fd = fd;
	buf_init(&c->in, FD_CHANNEL_FRAME_MAX + HEADER_LEN + READ_MOST);
	c->watch = watch_new(loop, fd, WATCH_READ, readable, c);
	loop_note_shared(loop, true);
	return c;
}

void fd_channel_free(struct fd_channel **channel)
{
	struct fd_channel *c = *channel;

	if (!c)
		return;
	watch_free(&c->watch);
	while (c->fd_count > 0)
		close(c->fds[--c->fd_count]);
	close(c->fd);
	buf_wipe_done(&c->in);
	mem_free(c);
	*channel = NULL;
}

int fd_channel_send(struct fd_channel *c, uint8_t kind, const void *bytes, size_t len,
    int fd, int patience_ms, struct err *err)
{
	struct buf frame;
	int result;

	if (len > FD_CHANNEL_FRAME_MAX)
		return err_set(err, "%zu bytes are too many for one frame", len);
	buf_init(&frame, 0);
	buf_put_u8(&frame, kind);
	buf_put_u8(&frame, fd >= 0);
	buf_put_u32(&frame, (uint32_t)len);
	buf_put(&frame, bytes, len);
	result = frame.failed ? err_set(err, "%s", error_text(ERROR_OUT_OF_MEMORY))
			      : sock_send_fd(c->fd, frame.bytes, frame.len, fd,
				    patience_ms, err);
	buf_wipe_done(&frame);
	return result;
}

/* ---- receiving ---- */

static void end(struct fd_channel *c, const struct err *err)
{
	if (c->is_over)
		return;
	c->is_over = true;
	watch_off(c->watch);
	if (!c->is_cut || err)
		c->ops->ended(c->ctx, err);
}

static void end_badly(struct fd_channel *c, const char *why)
{
	struct err err;

	err_set(&err, "%s", why);
	end(c, &err);
}

/* Delivers the frame at this position.  Returns its size, 0 if it is not complete yet.
 */
static size_t deliver_one(struct fd_channel *c, const uint8_t *at, size_t have)
{
	size_t len;
	int fd = -1;

	if (have < HEADER_LEN)
		return 0;
	len = get_u32(at + 2);
	if (at[1] > 1 || len > FD_CHANNEL_FRAME_MAX) {
		end_badly(c, "what came is no frame");
		return 0;
	}
	if (have - HEADER_LEN < len)
		return 0;
	if (at[1] && !c->fd_count) {
		end_badly(c, "a descriptor is missing");
		return 0;
	}
	if (at[1]) {
		fd = c->fds[0];
		c->fd_count--;
		memmove(c->fds, c->fds + 1, c->fd_count * sizeof(*c->fds));
	}
	c->ops->arrived(c->ctx, at[0], at + HEADER_LEN, len, fd);
	return HEADER_LEN + len;
}

/* Reads once from the socket.  True: more may be there. */
static bool read_some(struct fd_channel *c)
{
	uint8_t *room = buf_room(&c->in, READ_MOST);
	size_t count = FDS_MOST - c->fd_count;
	ssize_t got;

	if (!room || count < FDS_ROOM) {
		end_badly(c, "too much at once");
		return false;
	}
	got = sock_receive_fds(c->fd, room, READ_MOST, c->fds + c->fd_count, &count);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return errno == EINTR;
	/* What was sent before is read, because it may be the decision, on which both
	 * ends must agree; what is sent from now on fails at the sender.  (A descriptor
	 * that was lost would leave the frames without theirs.) */
	bool is_last = errno == EMFILE || c->failures == FAILURES_MOST;
	if (got < 0 && !is_last) {
		c->is_deaf = c->is_deaf || errno != ECONNRESET;
		if (c->failures++ == 0)
			shutdown(c->fd, SHUT_RD);
		return true;
	}
	if (got == 0 || (got < 0 && errno == ECONNRESET)) {
		end(c, NULL);
		return false;
	}
	if (got < 0) {
		end_badly(
		    c, errno == EMFILE ? "no descriptors are left" : strerror(errno));
		return false;
	}
	c->fd_count += count;
	buf_grow(&c->in, (size_t)got);
	size_t done = 0, size;
	while (!c->is_over &&
	       (size = deliver_one(c, c->in.bytes + done, c->in.len - done)) > 0)
		done += size;
	if (done > 0)
		buf_shift(&c->in, done);
	return !c->is_over;
}

static void readable(void *ctx, int fd)
{
	struct fd_channel *c = ctx;

	(void)fd;
	for (int i = 0; i < READS_MOST && read_some(c); i++)
		;
}

void fd_channel_cut(struct fd_channel *c)
{
	c->is_cut = true;
	shutdown(c->fd, SHUT_RDWR);
	while (!c->is_over && read_some(c))
		;
	c->is_over = true;
	watch_off(c->watch);
}

bool fd_channel_is_deaf(const struct fd_channel *c)
{
	return c->is_deaf;
}
