#include "session/conn.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "wire/message.h"

/* STOPPED_STEP_US: by how much a stopped connection's deadline is put off. */
enum { REASON_MAX = 127, SMALL = 4096, STOPPED_STEP_US = 1000000 };
/* The longest time that a peer has for taking what it was sent before the end, and how
 * often it is looked whether it has. */
enum { LINGER_US = 10 * 1000000, LINGER_STEP_US = 20 * 1000 };

/* Does the log show messages one by one? */
static bool conn_is_traced(const struct conn *conn)
{
	return log_is_on(conn->site->log, LEVEL_TRACE | KIND_PROTOCOL);
}

static void conn_turn(struct later *l);
static void conn_reap(struct later *l);
static void conn_walk(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len);

static struct conn *stream_conn(struct stream *s)
{
	return container_of(s, struct conn, stream);
}

static void conn_deadline_expired(struct deadline *d)
{
	struct conn *conn = container_of(d, struct conn, deadline);
	if (conn->linger_until_us)
		loop_later(conn->site->loop, &conn->wake);
	else if (conn->is_stopped)
		conn_set_deadline(conn, conn_now(conn) + STOPPED_STEP_US);
	else if (!conn->is_doomed && conn->ops->expired)
		conn->ops->expired(conn);
}

void conn_init(struct conn *conn, struct site *site, const struct conn_kind *kind,
    const struct conn_ops *ops)
{
	conn->site = site;
	conn->kind = kind;
	conn->ops = ops;
	conn->wake.run = conn_turn;
	conn->id = site_next_id(site);
	conn->connect_us = loop_now(site->loop);
	conn->stream.fd = -1;
	deadline_init(&conn->deadline, conn_deadline_expired);
}

/* ---- keeping what was not taken ---- */

/* Wipes bytes that may contain a password and are not needed any more. */
static void conn_wipe(const struct conn_ops *owner, const uint8_t *p, size_t len)
{
	if (owner->has_secrets)
		mem_wipe((uint8_t *)(uintptr_t)p, len);
}

/* Small leftovers are copied so that they pin no receive block. */
static void conn_hold(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	if (block->pool && len <= SMALL) {
		struct block *copy = len <= BLOCK_SMALL
					 ? block_get(conn->site->net.smalls)
					 : block_new(len);
		if (!copy) {
			conn_doom(conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
			return;
		}
		memcpy(copy->bytes, p, len);
		conn_wipe(conn->ops, p, len);
		copy->used = (uint32_t)len;
		conn->held = copy;
		conn->held_from = 0;
	} else {
		conn->held = block_ref(block);
		conn->held_from = (uint32_t)(p - block->bytes);
	}
	conn->held_len = (uint32_t)len;
}

uint64_t conn_most(const struct conn *conn)
{
	return site_settings(conn->site)->max_packet_size;
}

/* A client's frame that begins with a zero byte is a packet of the startup phase, in
 * every phase. */
static enum cut conn_cut_frame(const struct conn *conn, uint64_t max, const uint8_t *p,
    size_t have, struct frame *frame)
{
	if (conn->kind->letter == 'C' && have > 0 && *p == 0)
		return frame_cut_startup(p, have, max, frame);
	return frame_cut(p, have, max, conn->kind->rows, frame);
}

/* How much room to allocate for the message that begins at p.  A false length must not
 * cause more than a few times the bytes that have really arrived to be allocated. */
static size_t conn_room_for(
    const struct conn *conn, const uint8_t *p, size_t have, size_t more)
{
	struct frame frame;
	enum cut cut = conn_cut_frame(conn, conn_most(conn), p, have, &frame);
	size_t need = have + more;
	size_t most = 2 * need + SMALL;
	if (cut == CUT_OK && frame.size > need)
		need = frame.size < most ? (size_t)frame.size : most;
	return need;
}

/* Moves the held bytes to a block with this room.  NULL: no memory; all is as before.
 */
static struct block *conn_held_in(struct conn *conn, size_t room)
{
	struct block *held = conn->held, *bigger;
	const uint8_t *at = held->bytes + conn->held_from;

	/* no copy of a password may be left behind */
	if (!held->pool && held->refs == 1 && !conn->held_from &&
	    !conn->ops->has_secrets)
		return block_grow(held, room);
	bigger = block_new(room);
	if (!bigger)
		return NULL;
	memcpy(bigger->bytes, at, conn->held_len);
	conn_wipe(conn->ops, at, conn->held_len);
	block_unref(held);
	return bigger;
}

/* Appends new bytes to the incomplete message that is held.  -1: no memory. */
static int conn_join(struct conn *conn, const uint8_t *p, size_t len)
{
	struct block *held = conn->held;
	const uint8_t *at = held->bytes + conn->held_from;
	size_t end = (size_t)conn->held_from + conn->held_len;
	if (held->pool || held->refs > 1 || held->cap - end < len) {
		size_t room = conn_room_for(conn, at, conn->held_len, len);
		held = conn_held_in(conn, room);
		if (!held)
			return -1;
		conn->held = held;
		conn->held_from = 0;
		end = conn->held_len;
	}
	memcpy(held->bytes + end, p, len);
	conn_wipe(conn->ops, p, len);
	held->used = (uint32_t)(end + len);
	conn->held_len += (uint32_t)len;
	return 0;
}

/* Shows everything that is held; what is not taken is held again. */
static void conn_walk_held(struct conn *conn)
{
	struct block *block = conn->held;
	uint32_t from = conn->held_from, len = conn->held_len;
	conn->held = NULL;
	conn->held_from = conn->held_len = conn->held_until = 0;
	conn_walk(conn, block, block->bytes + from, len);
	block_unref(block);
}

/* ---- showing messages ---- */

static enum cut conn_cut(const struct conn *conn, uint64_t max, const uint8_t *p,
    size_t len, struct message *m)
{
	struct frame frame;
	/* most messages begin with a letter, of clients and servers */
	enum cut cut = len > 0 && *p ? frame_cut(p, len, max, conn->kind->rows, &frame)
				     : conn_cut_frame(conn, max, p, len, &frame);
	if (cut != CUT_OK)
		return cut;
	m->type = frame.type;
	m->code = frame.code;
	m->size = frame.size;
	m->bytes = p;
	m->have = len < frame.size ? len : (size_t)frame.size;
	m->behind = len - m->have;
	return CUT_OK;
}

size_t conn_behind(const struct conn *conn, const uint8_t **p)
{
	*p = conn->behind;
	return conn->is_doomed || conn_is_traced(conn) ? 0 : conn->behind_len;
}

void conn_take_behind(struct conn *conn, size_t size)
{
	assert(size <= conn->behind_len);
	conn->behind += size;
	conn->behind_len -= (uint32_t)size;
	conn->along_len += (uint32_t)size;
}

size_t conn_take_alike(struct conn *conn, const struct message *m)
{
	const uint8_t *p;
	size_t len = conn_behind(conn, &p);

	if (len)
		len = frame_alike(p, len, conn_most(conn), conn->kind->rows, m->type);
	conn_take_behind(conn, len);
	return len;
}

/* Passes on more of a message that was taken while incomplete.  Returns its bytes. */
static size_t conn_pass_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	const struct conn_ops *owner = conn->ops;
	size_t n = len < conn->passing ? len : conn->passing;

	conn->passing -= (uint32_t)n;
	conn->behind = p + n;
	conn->behind_len = (uint32_t)(len - n);
	enum step step = owner->part(conn, block, p, n);
	conn->behind_len = 0;
	assert(step == STEP_NEXT || step == STEP_CLOSE);
	(void)step;
	conn_wipe(owner, p, n);
	return n;
}

/* The bytes are no whole message: reports them, or holds them until more arrives. */
static void conn_stop_at(
    struct conn *conn, enum cut cut, struct block *block, const uint8_t *p, size_t len)
{
	if (cut == CUT_BAD)
		conn->ops->malformed(conn, p, len < 8 ? len : 8);
	else if (conn->ops->partial)
		conn->ops->partial(conn, *p);
	else
		conn_hold(conn, block, p, len);
}

/* The owner has not taken the message: holds it. */
static void conn_keep_back(struct conn *conn, enum step step, const struct message *m,
    const uint8_t *p, size_t len)
{
	assert(step == STEP_PARK || !message_is_whole(m));
	if (step == STEP_PARK) {
		conn->is_parked = true;
		stream_pause(&conn->stream);
	}
	conn_hold(conn, m->block, p, len);
	if (step == STEP_MORE) {
		/* When to show an incomplete message again: when it is whole, or twice
		 * as long.  So an owner that reads all of it each time reads each byte
		 * about twice at most. */
		uint64_t twice = 2 * (uint64_t)m->have;
		uint64_t until = m->size < twice ? m->size : twice;
		conn->held_until = until < UINT32_MAX ? (uint32_t)until : UINT32_MAX;
	}
}

/* Shows a message.  Returns the bytes that the owner has taken, also along with it. */
static size_t conn_show(struct conn *conn, const struct message *m, enum step *step)
{
	const struct conn_ops *owner = conn->ops;

	conn->behind = m->bytes + m->have;
	conn->behind_len = (uint32_t)m->behind; /* of one block */
	*step = owner->message(conn, m);
	size_t taken = m->have + conn->along_len;
	conn->behind_len = conn->along_len = 0;
	if (owner->has_secrets && (*step == STEP_NEXT || *step == STEP_CLOSE))
		conn_wipe(owner, m->bytes, m->have);
	if (*step != STEP_NEXT)
		return 0;
	if (conn_is_traced(conn))
		conn_log_received(conn, m->type, m->size);
	conn->passing = (uint32_t)(m->size - m->have);
	return taken;
}

/* Shows messages to the owner until one is not taken or the bytes end.  When the
 * connection begins to leave for another site, that one shows the rest. */
static void conn_walk(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	struct message m = {.block = block};
	uint64_t max = conn_most(conn);
	enum step step = STEP_NEXT;

	conn->is_walking = true;
	while (len > 0 && step == STEP_NEXT && !conn->is_doomed && !conn->is_going) {
		size_t taken;
		if (conn->passing > 0) {
			taken = conn_pass_part(conn, block, p, len);
		} else {
			enum cut cut = conn_cut(conn, max, p, len, &m);
			if (cut != CUT_OK ||
			    (conn->ops->partial && !message_is_whole(&m))) {
				conn_stop_at(conn, cut, block, p, len);
				break;
			}
			taken = conn_show(conn, &m, &step);
			if (step == STEP_MORE || step == STEP_PARK)
				conn_keep_back(conn, step, &m, p, len);
		}
		p += taken;
		len -= taken;
	}
	if (len > 0 && step == STEP_NEXT && conn->is_going && !conn->is_doomed)
		conn_hold(conn, block, p, len);
	conn->is_walking = false;
}

/* Appends to what is held.  False: no memory; the connection is doomed. */
static bool conn_may_join(struct conn *conn, const uint8_t *p, size_t len)
{
	if (conn_join(conn, p, len) == 0)
		return true;
	conn_doom(conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
	return false;
}

static void conn_received(
    struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	struct conn *conn = stream_conn(s);
	if (conn->is_doomed)
		return;
	/* the engine had read them before: the other site shows them */
	if (conn->is_going) {
		if (conn->held)
			(void)conn_may_join(conn, p, len);
		else
			conn_hold(conn, block, p, len);
		return;
	}
	while (conn->ops->raw) {
		size_t taken = len;
		if (conn->ops->raw(conn, p, len, &taken) == STEP_MORE)
			break;
		p += taken;
		len -= taken;
		if (len == 0 || conn->is_doomed)
			return;
	}
	if (!conn->held) {
		conn_walk(conn, block, p, len);
		return;
	}
	if (conn_may_join(conn, p, len) && !conn->is_parked &&
	    conn->held_len >= conn->held_until)
		conn_walk_held(conn);
}

/* It lingers no longer: its peer has gone, or there is another reason to close it. */
static void conn_hurry(struct conn *conn)
{
	if (!conn->linger_until_us)
		return;
	conn->may_linger = false;
	loop_later(conn->site->loop, &conn->wake);
}

static void conn_connected(struct stream *s)
{
	struct conn *conn = stream_conn(s);
	if (!conn->is_doomed)
		conn->ops->connected(conn);
}

static void conn_ended(struct stream *s, const struct err *err)
{
	struct conn *conn = stream_conn(s);
	if (!conn->is_doomed)
		conn->ops->ended(conn, err);
	else
		conn_hurry(conn);
}

static void conn_drained(struct stream *s)
{
	struct conn *conn = stream_conn(s);
	if (!conn->is_doomed && conn->ops->writable)
		conn->ops->writable(conn);
}

static void conn_secured(struct stream *s)
{
	struct conn *conn = stream_conn(s);
	if (!conn->is_doomed && conn->ops->secured)
		conn->ops->secured(conn);
}

static const struct stream_ops conn_stream_ops = {
    .received = conn_received,
    .connected = conn_connected,
    .secured = conn_secured,
    .ended = conn_ended,
    .drained = conn_drained,
};

void conn_open(struct conn *conn, int fd)
{
	stream_open(&conn->stream, &conn->site->net, fd, &conn_stream_ops);
}

void conn_open_recv_now(struct conn *conn, int fd)
{
	stream_open_recv_now(&conn->stream, &conn->site->net, fd, &conn_stream_ops);
}

int conn_connect(struct conn *conn, const struct sock_target *target, struct err *err)
{
	struct sock_options options;
	const struct settings *s = site_settings(conn->site);
	options = (struct sock_options){
	    .keepalive = s->tcp_keepalive,
	    .buffer = s->tcp_socket_buffer,
	    .keepcnt = s->tcp_keepcnt,
	    .keepidle = s->tcp_keepidle,
	    .keepintvl = s->tcp_keepintvl,
	    .user_timeout_ms = s->tcp_user_timeout,
	    .unix_mode = -1,
	};
	conn->remote = target->addr;
	return stream_connect(
	    &conn->stream, &conn->site->net, target, &options, &conn_stream_ops, err);
}

enum step conn_ignore_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len)
{
	(void)conn;
	(void)block;
	(void)p;
	(void)len;
	return STEP_NEXT;
}

/* ---- TLS ---- */

int conn_secure(struct conn *conn, struct tls_context *context,
    const struct tls_peer_config *peer, const uint8_t *initial, size_t len,
    const char *reason)
{
	struct err err;

	if (stream_start_tls(&conn->stream, context, peer, initial, len, &err) == 0)
		return 0;
	conn_log(conn, LEVEL_WARNING | KIND_TLS, "TLS handshake error: %s", err.text);
	conn_doom(conn, "%s", reason);
	return -1;
}

/* ---- parking ---- */

void conn_unpark(struct conn *conn)
{
	if (conn->is_parked && !conn->is_doomed)
		loop_later(conn->site->loop, &conn->wake);
}

void conn_read_on(struct conn *conn)
{
	if (!conn->is_parked && !conn->is_paused && !conn->is_stopped &&
	    !conn->is_doomed)
		stream_resume(&conn->stream);
}

void conn_pause(struct conn *conn)
{
	conn->is_paused = true;
	stream_pause(&conn->stream);
}

void conn_resume(struct conn *conn)
{
	conn->is_paused = false;
	conn_read_on(conn);
}

void conn_stop(struct conn *conn)
{
	conn->is_stopped = true;
	stream_pause(&conn->stream);
}

void conn_put_off(struct conn *conn)
{
	conn_stop(conn);
	conn->is_woken = true;
}

void conn_start(struct conn *conn)
{
	if (!conn->is_stopped || conn->is_going)
		return;
	conn->is_stopped = conn->is_offered = false;
	if (conn->is_woken)
		conn_unpark(conn);
	conn->is_woken = false;
	conn_read_on(conn);
}

/* ---- the end ---- */

static void conn_close(struct conn *conn)
{
	deadline_clear(conn->site->loop, &conn->deadline);
	conn->ops->closed(conn, conn->reason);
	/* a peer that sees the end finds the line in the log */
	log_flush(conn->site->log);
	stream_close(&conn->stream);
	if (conn->held)
		conn_wipe(
		    conn->ops, conn->held->bytes + conn->held_from, conn->held_len);
	block_unref(conn->held);
	conn->held = NULL;
	conn->held_from = conn->held_len = 0;
	later_cancel(conn->site->loop, &conn->wake);
	conn->wake.run = conn_reap;
	loop_reap(conn->site->loop, &conn->wake);
}

/* Returns whether a doomed connection waits until its peer has taken its output.  What
 * the peer sends is read and dropped meanwhile, because a socket that is closed with
 * unread input loses its output. */
static bool conn_lingers(struct conn *conn)
{
	uint64_t now = conn_now(conn);

	if (!conn->may_linger || conn->stream.ended)
		return false;
	stream_flush(&conn->stream);
	if (!stream_pending(&conn->stream))
		return false;
	if (!conn->linger_until_us) {
		conn->linger_until_us = now + LINGER_US;
		stream_resume(&conn->stream);
	}
	conn_set_deadline(conn, now + LINGER_STEP_US);
	return now < conn->linger_until_us;
}

static void conn_turn(struct later *l)
{
	struct conn *conn = container_of(l, struct conn, wake);
	if (conn->is_going && !conn->is_doomed && conn->ops->leaves) {
		conn->ops->leaves(conn);
		return;
	}
	if (conn->is_stopped) {
		conn->is_woken = true;
	} else if (!conn->is_doomed && conn->is_parked) {
		conn->is_parked = false;
		conn_walk_held(conn);
		conn_read_on(conn);
	}
	if (conn->is_doomed && !conn_lingers(conn))
		conn_close(conn);
}

static void conn_reap(struct later *l)
{
	struct conn *conn = container_of(l, struct conn, wake);
	mem_free(conn->reason);
	assert(!conn->deadline.index);
	conn->kind->destroy(conn);
}

static void conn_doom_with(struct conn *conn, const char *reason)
{
	if (conn->is_doomed) {
		conn_hurry(conn);
		return;
	}
	conn->is_doomed = true;
	conn->reason = mem_strdup(reason);
	if (!conn->is_quiet)
		conn_log_end(conn);
	stream_pause(&conn->stream);
	loop_later(conn->site->loop, &conn->wake);
}

void conn_doom(struct conn *conn, const char *fmt, ...)
{
	char text[REASON_MAX + 1];
	va_list ap;
	va_start(ap, fmt);
	text_vprint(text, text + sizeof(text), fmt, ap);
	va_end(ap);
	conn_doom_with(conn, text);
}

void conn_doom_quietly(struct conn *conn, const char *reason)
{
	conn->is_quiet = conn->is_quiet || !conn->is_doomed;
	conn_doom_with(conn, reason);
}

/* ---- small things ---- */

void conn_set_deadline(struct conn *conn, uint64_t at_us)
{
	/* without one it keeps its place in the heap, because the next one comes soon;
	 * conn_close clears it */
	deadline_set(conn->site->loop, &conn->deadline, at_us ? at_us : UINT64_MAX);
}

void conn_send_copy(struct conn *conn, const struct buf *buf)
{
	if (conn_is_traced(conn))
		conn_log_sending(conn, buf->len);
	if (stream_write_buf(&conn->stream, buf) < 0)
		conn_doom(conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
}

void conn_send(struct conn *conn, struct buf *buf)
{
	conn_send_copy(conn, buf);
	buf_clear(buf);
}
