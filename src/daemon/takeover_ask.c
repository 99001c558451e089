/*
 * How the new process asks the old one: it opens a console on the unix socket, which
 * the owner of the process may do.  The calls block, because the new process has
 * nothing else to do yet.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "daemon/takeover.h"
#include "handoff/record.h"
#include "net/sock.h"
#include "wire/codec.h"
#include "wire/message.h"

/* The old process has answered a probe just before, so it should answer soon. */
enum { PATIENCE_S = 30, ANSWER_MOST = 1024 * 1024, FDS_ROOM = 16 };

struct call {
	int fd;
	int passed;   /* the descriptor that was received, or -1 */
	int peer_pid; /* of the process that began to listen; 0: unknown */
	bool is_lost; /* the connection has ended */
	struct buf in;
};

static int lost(struct call *call, struct err *err)
{
	call->is_lost = errno != EAGAIN && errno != EINTR;
	return err_set(err, "takeover: the running process does not answer: %s",
	    errno == EAGAIN ? "timeout" : strerror(errno));
}

static int open_call(
    const struct settings *settings, struct call *call, struct err *err)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct sock_target target;
	unsigned uid;

	if (sock_target_unix(
		&target, settings->unix_socket_dir, settings->listen_port, err) < 0)
		return -1;
	call->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (call->fd < 0)
		return err_set(err, "socket(): %s", strerror(errno));
	setsockopt(call->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(call->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(call->fd, (const struct sockaddr *)&target.un, target.un_len) < 0)
		return lost(call, err);
	/* Somebody else's process could have made the socket, in a folder where all may
	 * write. Clients that it hands over would be logged in to PostgreSQL. */
	if (sock_peer(call->fd, &call->peer_pid, &uid) < 0)
		return err_set(err, "takeover: nobody knows who listens on %s",
		    target.un.sun_path);
	if (uid == getuid() || uid == 0)
		return 0;
	return err_set(err,
	    "takeover refused: account %u listens on %s, and not this account (%u) or "
	    "root; remove the file and set unix_socket_dir to a folder where only this "
	    "account may write",
	    uid, target.un.sun_path, (unsigned)getuid());
}

static int say(struct call *call, struct buf *out, struct err *err)
{
	ssize_t sent;

	do
		sent = out->failed ? -1
				   : send(call->fd, out->bytes, out->len, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR && !out->failed);
	int result = sent != (ssize_t)out->len ? lost(call, err) : 0;
	buf_done(out);
	return result;
}

/* Reads more bytes, and the descriptor if it comes with them. */
static int receive_more(struct call *call, struct err *err)
{
	uint8_t *room = buf_room(&call->in, 4096);
	int fds[FDS_ROOM];
	size_t count;
	ssize_t got;

	if (!room)
		return err_set(err, "takeover: the running process says too much");
	/* a signal is handled when the takeover runs in the loop */
	do {
		count = FDS_ROOM;
		got = sock_receive_fds(call->fd, room, 4096, fds, &count);
	} while (got < 0 && errno == EINTR);
	if (got <= 0) {
		errno = got == 0 ? ECONNRESET : errno;
		return lost(call, err);
	}
	buf_grow(&call->in, (size_t)got);
	for (size_t i = 0; i < count; i++) {
		if (call->passed >= 0)
			close(call->passed);
		call->passed = fds[i];
	}
	return 0;
}

/* 1: the old process is ready.  -1 and err: it refuses.  0: neither. */
static int read_answer(const uint8_t *message, size_t size, struct err *err)
{
	struct error_fields f;

	if (message[0] == 'Z')
		return 1;
	if (message[0] == 'R' && size >= 9 && get_u32(message + 5) != 0)
		return err_set(err,
		    "takeover: the running process asks for a password; "
		    "it belongs to another account");
	if (message[0] != 'E')
		return 0;
	codec_read_error(message + 5, size - 5, &f);
	return err_set(err, "takeover refused by the running process: %s", f.message);
}

static int await_ready(struct call *call, struct err *err)
{
	for (;;) {
		size_t have = call->in.len;
		struct frame frame;
		enum cut cut = frame_cut(
		    call->in.bytes, have, ANSWER_MOST, message_back_rows, &frame);
		if (cut == CUT_BAD)
			return err_set(
			    err, "takeover: the running process is no pooler");
		if (cut != CUT_OK || frame.size > have) {
			if (receive_more(call, err) < 0)
				return -1;
			continue;
		}
		int result = read_answer(call->in.bytes, (size_t)frame.size, err);
		buf_shift(&call->in, (size_t)frame.size);
		if (result != 0)
			return result < 0 ? -1 : 0;
	}
}

static int command(struct call *call, struct err *err)
{
	char text[32];
	struct buf out;

	snprintf(text, sizeof(text), "TAKEOVER %d", RECORD_FORMAT);
	buf_init(&out, 0);
	codec_put_query(&out, text);
	if (say(call, &out, err) < 0 || await_ready(call, err) < 0)
		return -1;
	if (call->passed < 0)
		return err_set(err, "takeover: the running process sent no socket");
	return 0;
}

int takeover_ask(
    const struct settings *settings, struct takeover_terms *terms, struct err *err)
{
	struct call call = {.fd = -1, .passed = -1};
	int result;
	struct buf out;
	size_t at;

	buf_init(&call.in, ANSWER_MOST + 4096);
	result = open_call(settings, &call, err);
	if (result == 0) {
		buf_init(&out, 0);
		at = codec_begin_startup(&out, PROTOCOL_3_0);
		codec_put_param(&out, "user", "pgbouncer");
		codec_put_param(&out, "database", "pgbouncer");
		codec_end_startup(&out, at);
		result = say(&call, &out, err) < 0 ? -1 : await_ready(&call, err);
	}
	if (result == 0)
		result = command(&call, err);
	buf_done(&call.in);
	terms->pid = call.peer_pid;
	terms->has_gone = result < 0 && call.is_lost;
	if (result < 0) {
		if (call.fd >= 0)
			close(call.fd);
		if (call.passed >= 0)
			close(call.passed);
		return -1;
	}
	terms->fd = call.passed;
	terms->console = call.fd;
	return 0;
}
