/*
 * Receives by system calls, for a socket that can be read now.  The engine epoll
 * receives everything so, and io_uring what arrives in bulk.
 */
#include <errno.h>
#include <sys/socket.h>

#include "net/stream_parts.h"

/* Bytes of records that are read at most while the owner has paused. */
enum { PEEK_MOST = 16384 };

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

/* What one receive, or several of them, brought. */
struct receipt {
	size_t len;
	bool has_more; /* the room was filled, so there may be more */
};

/* Receives TLS records once. */
static struct receipt receive_records(struct stream *s)
{
	struct block *b = block_get(s->net->blocks);

	b->used = (uint32_t)receive_into(s, b->bytes, b->cap);
	struct receipt result = {b->used, b->used == b->cap};
	if (b->used > 0)
		stream_take(s, b, b->bytes, b->used);
	block_unref(b);
	return result;
}

static struct receipt receive_once(struct stream *s)
{
	if (s->tls)
		return receive_records(s);
	struct block *b = stream_room(s->net, BLOCK_MIN_ROOM);
	size_t room = b->cap - b->used;
	uint8_t *at = b->bytes + b->used;
	size_t got = receive_into(s, at, room);
	if (got > 0) {
		b->used += (uint32_t)got;
		stream_take(s, b, at, got);
	}
	return (struct receipt){got, got == room};
}

/* s->delivering becomes false when the owner closes the stream, even if the owner opens
 * it again. */
enum stream_left stream_receive(struct stream *s, size_t *len)
{
	int left = s->net->rounds;
	struct receipt last;

	*len = 0;
	do {
		last = receive_once(s);
		*len += last.len;
	} while (last.has_more && s->delivering && !s->paused && !s->ended &&
		 !stream_has_input(s) && --left != 0);
	bool is_left = !s->delivering;
	s->delivering = false;
	if (last.has_more)
		return LEFT_SOMETHING;
	if (!is_left && stream_rest_begin(s, *len))
		return LEFT_UNTIL_RESTED;
	return LEFT_NOTHING;
}

/* With TLS the peer closes by a record, so records are read until one has bytes for the
 * owner. */
static enum stream_left look_at_records(struct stream *s)
{
	bool may_look = tls_is_complete(s->tls->tls) && !s->failure;
	enum stream_look look = may_look ? stream_look(s) : LOOK_BYTES;

	if (look == LOOK_BYTES)
		s->net->engine->stop(s);
	if (look != LOOK_NOTHING)
		return LEFT_NOTHING;
	struct block *b = block_get(s->net->blocks);
	b->used = (uint32_t)receive_into(s, b->bytes, PEEK_MOST);
	bool is_full = b->used == PEEK_MOST;
	if (b->used > 0)
		stream_arrived(s, b, b->bytes, b->used);
	block_unref(b);
	return is_full ? LEFT_SOMETHING : LEFT_NOTHING;
}

enum stream_left stream_readable(struct stream *s, size_t *len)
{
	char next;

	*len = 0;
	if (s->paused && s->tls)
		return look_at_records(s);
	if (s->paused) {
		/* The socket became readable while paused.  If the peer has closed and
		 * left nothing unread, that is reported, so that its client does not
		 * keep a place in a queue; otherwise the bytes stay in the kernel. */
		ssize_t got = 1;
		/* another engine may have received something before, see stream_attach
		 */
		if (!s->in) {
			got = recv(s->fd, &next, 1, MSG_PEEK);
			loop_counts(s->net->loop)->recv_calls++;
		}
		bool is_gone = got == 0 || (got < 0 && errno != EAGAIN &&
					       errno != EWOULDBLOCK && errno != EINTR);
		/* a failure that is about to be reported says more */
		if (is_gone && !s->failure)
			stream_end(s, got < 0 ? errno : 0);
		else
			s->net->engine->stop(s);
		return LEFT_NOTHING;
	}
	if (!stream_has_input(s) && !stream_is_put_off(s))
		return stream_receive(s, len);
	/* bytes received before come first; new ones, or a handshake that has to wait,
	 * are reported again in the next turn */
	if (stream_has_input(s))
		stream_deliver_waiting(s);
	return LEFT_SOMETHING;
}
