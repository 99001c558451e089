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
#include "base/text.h"
#include "daemon/takeover.h"
#include "handoff/record.h"
#include "net/sock.h"
#include "wire/codec.h"
#include "wire/message.h"

/* The old process has answered a probe just before, so it should answer soon. */
enum { PATIENCE_S = 30, ANSWER_MOST = 1024 * 1024, FDS_ROOM = 16 };

struct call {
	int fd;
	int passed;      /* the last descriptor that was received, or -1 */
	bool is_lost;    /* the connection has ended */
	bool is_refused; /* by an error of the old process */
	bool is_unknown; /* the command that was given, as the old process says */
	struct takeover_terms *terms;
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
	sock_want_sender(call->fd, true);
	if (connect(call->fd, (const struct sockaddr *)&target.un, target.un_len) < 0)
		return lost(call, err);
	/* Somebody else's process could have made the socket, in a folder where all may
	 * write. Clients that it hands over would be logged in to PostgreSQL. */
	if (sock_peer(call->fd, &call->terms->pid, &uid) < 0)
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

/* Keeps listening sockets, and the last one of the others. */
static void keep(struct call *call, int fd)
{
	struct takeover_terms *terms = call->terms;

	if (sock_is_listening(fd) > 0 && terms->socket_count < TAKEOVER_SOCKETS) {
		terms->sockets[terms->socket_count++] = fd;
		return;
	}
	if (call->passed >= 0)
		close(call->passed);
	call->passed = fd;
}

/* Reads more bytes, and the descriptors that come with them. */
static int receive_more(struct call *call, struct err *err)
{
	uint8_t *room = buf_room(&call->in, 4096);
	int fds[FDS_ROOM];
	size_t count;
	ssize_t got;

	if (!room)
		return err_set(err,
		    "takeover: there is no room for what the running process says");
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
	for (size_t i = 0; i < count; i++)
		keep(call, fds[i]);
	return 0;
}

/* -1 and err: the old process refuses. */
static int read_answer(
    struct call *call, const uint8_t *message, size_t size, struct err *err)
{
	struct error_fields f;

	if (message[0] == 'R' && size >= 9 && get_u32(message + 5) != 0)
		return err_set(err,
		    "takeover: the running process asks for a password; "
		    "it belongs to another account");
	if (message[0] != 'E')
		return 0;
	codec_read_error(message + 5, size - 5, &f);
	call->is_refused = true;
	call->is_unknown = text_has_prefix(f.message, "invalid command") ||
			   text_has_prefix(f.message, "takeover format");
	return err_set(err, "takeover refused by the running process: %s", f.message);
}

/* Reads until the old process is ready for a command.  -1 and err: it refuses. */
static int await_ready(struct call *call, struct err *err)
{
	struct err ignored;
	int result = 0;

	call->is_unknown = false;
	for (;;) {
		size_t have = call->in.len;
		struct frame frame;
		enum cut cut = frame_cut(
		    call->in.bytes, have, ANSWER_MOST, message_back_rows, &frame);
		if (cut == CUT_BAD)
			return err_set(
			    err, "takeover: the running process is no pooler");
		if (cut != CUT_OK || frame.size > have) {
			if (receive_more(call, result < 0 ? &ignored : err) == 0)
				continue;
			/* what was refused is not told again */
			call->is_lost = call->is_lost && result == 0;
			return -1;
		}
		bool is_ready = call->in.bytes[0] == 'Z';
		if (read_answer(call, call->in.bytes, (size_t)frame.size, err) < 0)
			result = -1;
		buf_shift(&call->in, (size_t)frame.size);
		if (is_ready)
			return result;
	}
}

static int command(struct call *call, const char *text, struct err *err)
{
	struct buf out;

	buf_init(&out, 0);
	codec_put_query(&out, text);
	return say(call, &out, err) < 0 ? -1 : await_ready(call, err);
}

/* Asks for everything; or, if the old process does not understand that, for all
 * descriptors it has, of which only the listening sockets are kept. */
static int ask_for_all(struct call *call, struct err *err)
{
	char text[32];

	snprintf(text, sizeof(text), "TAKEOVER %d", RECORD_FORMAT);
	if (command(call, text, err) == 0)
		return call->passed >= 0 ? 0
					 : err_set(err, "takeover: the running process "
							"sent no socket");
	if (!call->is_unknown || command(call, "SHOW FDS", err) < 0)
		return -1;
	if (call->passed >= 0)
		close(call->passed);
	call->passed = -1;
	return 0;
}

int takeover_ask(
    const struct settings *settings, struct takeover_terms *terms, struct err *err)
{
	struct call call = {.fd = -1, .passed = -1, .terms = terms};
	int result;
	struct buf out;
	size_t at;

	*terms = (struct takeover_terms){.fd = -1};
	buf_init(&call.in, ANSWER_MOST + 4096);
	result = open_call(settings, &call, err);
	if (result == 0) {
		buf_init(&out, 0);
		at = codec_begin_startup(&out, PROTOCOL_3_0);
		codec_put_param(&out, "user", "pgbouncer");
		codec_put_param(&out, "database", "pgbouncer");
		codec_end_startup(&out, at);
		result = say(&call, &out, err);
	}
	/* Who made the socket may have passed it on and ended, and another process may
	 * have its number by now. */
	if (result == 0 && sock_sender(call.fd, &terms->pid) < 0)
		result = lost(&call, err);
	if (result == 0) {
		sock_want_sender(call.fd, false);
		result = await_ready(&call, err);
	}
	if (result == 0)
		result = ask_for_all(&call, err);
	buf_done(&call.in);
	terms->has_gone = result < 0 && call.is_lost;
	if (result < 0) {
		while (terms->socket_count > 0)
			close(terms->sockets[--terms->socket_count]);
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

int takeover_ask_to_drain(struct takeover_terms *terms, struct err *err)
{
	struct call call = {.fd = terms->console, .passed = -1, .terms = terms};
	struct err why;
	struct buf out;

	buf_init(&out, 0);
	codec_put_query(&out, "SHUTDOWN WAIT_FOR_CLIENTS");
	int result = say(&call, &out, err);
	buf_init(&call.in, ANSWER_MOST + 4096);
	/* what was sent is done, unless it is refused: whatever else is wrong with the
	 * answer comes too late */
	if (result == 0 && await_ready(&call, &why) < 0 && call.is_refused)
		result = err_set(err,
		    "%s; PgBouncer serves its clients until they leave from 1.23 on: "
		    "stop it first",
		    why.text);
	buf_done(&call.in);
	close(terms->console);
	terms->console = -1;
	return result;
}
