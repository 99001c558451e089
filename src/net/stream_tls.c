/*
 * TLS between a stream's owner and its socket: encrypts what the owner hands over into
 * the output queue, and keeps received records that must wait.  stream_turn.c receives,
 * sends and calls the owner.
 */
#include <string.h>

#include "net/stream_parts.h"

enum {
	RECORD_MOST = 16384, /* most plain bytes in one record */
	/* limit for a peer that makes TLS answer and reads nothing */
	REPLIES_MOST = 65536,
};

/* Appends a record to the output. */
static int put_record(void *ctx, const uint8_t *p, size_t len)
{
	struct stream *s = ctx;

	if (s->blocked && !s->tls->is_encrypting) {
		s->tls->replies_len += len;
		if (s->tls->replies_len > REPLIES_MOST)
			return -1;
	}
	if (stream_queue_write(s->net, &s->out, p, len, s->blocked) < 0)
		return -1;
	s->pending += len;
	return 0;
}

/* Copies input that is used later.  -1: no memory. */
static int hold_copy(struct stream_tls *t, const uint8_t *p, size_t len)
{
	struct block *copy = block_new(len);

	if (!copy)
		return -1;
	memcpy(copy->bytes, p, len);
	copy->used = (uint32_t)len;
	block_unref(t->held);
	t->held = copy;
	tls_set_input(t->tls, copy->bytes, len);
	return 0;
}

static void drop_held(struct stream_tls *t)
{
	block_unref(t->held);
	t->held = NULL;
}

int stream_tls_new(struct stream *s, struct tls_context *context,
    const struct tls_peer_config *peer, const uint8_t *initial, size_t len,
    struct err *err)
{
	struct stream_tls *t = slab_get(s->net->secured);

	s->tls = t;
	t->tls = tls_new(context, peer, put_record, s, err);
	if (!t->tls)
		goto failed;
	if (len > 0 && hold_copy(t, initial, len) < 0) {
		err_set_row(err, ERROR_OUT_OF_MEMORY);
		goto failed;
	}
	/* a server waits for the client's first record */
	if (tls_speaks_first(t->tls) && tls_handshake(t->tls, err) == TLS_FAILED)
		goto failed;
	return 0;
failed:
	stream_tls_free(s);
	return -1;
}

int stream_tls_pack(struct stream *s, struct stream_baggage *baggage)
{
	struct stream_tls *t = s->tls;
	size_t len;
	const uint8_t *p = tls_input(t->tls, &len);

	if (len > 0 && hold_copy(t, p, len) < 0)
		return -1;
	if (len == 0)
		drop_held(t);
	if (t->plain && !(baggage->plain = stream_queue_flatten(t->plain)))
		return -1;
	baggage->held = t->held;
	baggage->tls = t->tls;
	stream_queue_drop(s->net, &t->plain);
	slab_put(s->net->secured, t);
	s->tls = NULL;
	return 0;
}

void stream_tls_unpack(struct stream *s, const struct stream_baggage *baggage)
{
	struct stream_tls *t = slab_get(s->net->secured);
	struct block *plain = baggage->plain;

	s->tls = t;
	t->tls = baggage->tls;
	t->held = baggage->held;
	if (!plain)
		return;
	t->plain_len = plain->used;
	stream_queue_put(s->net, &t->plain, plain, plain->bytes, plain->used, true);
}

void stream_tls_free(struct stream *s)
{
	struct stream_tls *t = s->tls;

	s->tls = NULL;
	tls_free(&t->tls);
	drop_held(t);
	stream_queue_drop(s->net, &t->plain);
	slab_put(s->net->secured, t);
}

/* Before the handshake is complete the output may wait for long, so small spans are
 * copied. */
void stream_tls_put(struct stream *s, struct block *block, const uint8_t *p, size_t len)
{
	stream_queue_put(
	    s->net, &s->tls->plain, block, p, len, !tls_is_complete(s->tls->tls));
	s->tls->plain_len += len;
}

int stream_tls_write(struct stream *s, const void *p, size_t len)
{
	if (stream_queue_write(
		s->net, &s->tls->plain, p, len, !tls_is_complete(s->tls->tls)) < 0)
		return -1;
	s->tls->plain_len += len;
	return 0;
}

void stream_tls_drop_output(struct stream *s)
{
	stream_queue_drop(s->net, &s->tls->plain);
	s->tls->plain_len = 0;
}

/* Encrypts all waiting output into as few records as possible. */
static int encrypt(struct stream *s, struct stream_tls *t)
{
	uint8_t room[RECORD_MOST];

	while (t->plain) {
		size_t len;
		const uint8_t *p =
		    stream_queue_front(t->plain, room, sizeof(room), &len);
		enum tls_status status = tls_write(t->tls, p, len, NULL);
		/* the peer has begun a handshake message that it must finish first */
		if (status == TLS_HUNGRY)
			return 0;
		if (status != TLS_DONE)
			return -1;
		stream_queue_consume(s->net, &t->plain, len);
		t->plain_len -= len;
		s->pending -= len;
	}
	return 0;
}

int stream_tls_encrypt(struct stream *s)
{
	struct stream_tls *t = s->tls;

	if (!s->blocked)
		t->replies_len = 0;
	if (!t->plain || !tls_is_complete(t->tls))
		return 0;
	t->is_encrypting = true;
	int result = encrypt(s, t);
	t->is_encrypting = false;
	return result;
}

void stream_tls_say_goodbye(struct stream *s)
{
	if (stream_tls_encrypt(s) == 0)
		tls_close(s->tls->tls);
}

int stream_tls_keep_input(struct stream *s, struct block *b)
{
	struct stream_tls *t = s->tls;
	size_t len;
	const uint8_t *p = tls_input(t->tls, &len);

	if (len == 0) {
		drop_held(t);
		return 0;
	}
	if (t->held && p >= t->held->bytes && p < t->held->bytes + t->held->used)
		return 0;
	if (len <= RECORD_MOST)
		return hold_copy(t, p, len);
	block_unref(t->held);
	t->held = block_ref(b);
	return 0;
}
