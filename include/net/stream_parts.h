/*
 * What the files of net/stream share; nobody else includes it.
 */
#ifndef NET_STREAM_PARTS_H
#define NET_STREAM_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/stream.h"

/* ---- engines ---- */

/* What moves bytes between streams and sockets. */
struct stream_engine {
	const char *name;
	/* The socket is connected: begin to receive. */
	void (*start)(struct stream *s);
	/* Receive nothing more. */
	void (*stop)(struct stream *s);
	/* Receive again, after a pause; nothing that was received waits. */
	void (*resume)(struct stream *s);
	/* After stop: can no request that is under way take bytes from the socket? */
	bool (*is_still)(const struct stream *s);
	/* Send what is in s->out.  is_now: what the kernel takes has left afterwards;
	 * else it leaves before the loop waits. */
	void (*send)(struct stream *s, bool is_now);
	/* No send may be under way any more. */
	void (*settle)(struct stream *s);
	/* Sending failed, and the peer may have said why: true if that may still be
	 * delivered in the next turn, false if it is. */
	bool (*may_hear_more)(struct stream *s);
	/* Send s->out as far as possible at once, and close the socket. */
	void (*leave)(struct stream *s);
};

extern const struct stream_engine stream_ready, stream_ring;

/* See net_start_ring. */
int stream_ring_begin(
    struct net *net, void (*lost)(void *ctx, int errnum), void *ctx, struct err *err);
void stream_ring_stop(struct net *net);
void stream_ring_usage(
    const struct net *net, size_t *used, size_t *free_count, size_t *bytes);

/* ---- for the engines ---- */

/* Bytes arrived that are to be taken now, or set aside if they have to wait. */
void stream_arrived(struct stream *s, struct block *b, const uint8_t *p, size_t len);
/* The same where nothing can wait.  s->delivering falls when the owner closes it. */
void stream_take(struct stream *s, struct block *b, const uint8_t *p, size_t len);
/* Nothing more will arrive: errnum, or 0 when the peer closed. */
void stream_over(struct stream *s, int errnum);
/* Tell `ended` at once, and once. */
void stream_end(struct stream *s, int errnum);
void stream_end_saying(struct stream *s, const struct err *err);
/* Sending or connecting failed: `ended` comes later in this turn. */
void stream_fail(struct stream *s, int errnum);
/* n bytes of the output were sent. */
void stream_sent(struct stream *s, size_t n);
/* The kernel takes no more now: what is small no longer holds on to large blocks. */
void stream_settle_output(struct stream *s);
/* The records received so far, while it is paused: does the peer leave in them? */
enum stream_look { LOOK_NOTHING, LOOK_BYTES, LOOK_ENDED };
enum stream_look stream_look(struct stream *s);
/* TLS: others had their handshake in this turn, and this one has to wait. */
bool stream_is_put_off(const struct stream *s);
/* Receive and deliver by system calls, before an engine has begun. */
void stream_receive_now(struct stream *s);
/* Something that was received waits to be delivered. */
bool stream_has_input(const struct stream *s);
/* Deliver it, as far as the owner wants. */
void stream_deliver_waiting(struct stream *s);
/* Try to send all of the output by system calls: 0 all is gone, 1 the kernel has
 * enough, -1 errno. */
int stream_send_queue(struct stream *s);
void stream_tell_later(struct stream *s);
void stream_flush_at_turn_end(struct stream *s);

/* ---- shared blocks ---- */

/* The block with this much free room that receives and small writes share. */
struct block *stream_room(struct net *net, size_t room);

/* ---- queues of spans: NULL while empty ---- */

enum {
	STREAM_GATHER_MOST = 64, /* spans in one send */
	STREAM_COPY_MOST = 4096, /* spans up to this are copied while they wait */
};

struct stream_queue;

struct slab *stream_queue_slab(struct mem *mem);
/* is_waiting: it may stay for long, so that what is small is copied. */
void stream_queue_put(struct net *net, struct stream_queue **q, struct block *block,
    const uint8_t *p, size_t len, bool is_waiting);
/* The last span, which may grow as long as the queue is not touched otherwise. */
struct span *stream_queue_last(struct stream_queue *q);
/* A copy.  -1: no memory. */
int stream_queue_write(struct net *net, struct stream_queue **q, const void *p,
    size_t len, bool is_waiting);
/* Take n bytes away at the front. */
void stream_queue_consume(struct net *net, struct stream_queue **q, size_t n);
/* Take the first span out, with its reference to the block. */
struct span stream_queue_pop(struct net *net, struct stream_queue **q);
void stream_queue_drop(struct net *net, struct stream_queue **q);
/* What is there, size bytes, begins to wait: copy what is small. */
void stream_queue_settle(struct net *net, struct stream_queue **q, size_t size);
int stream_queue_gather(const struct stream_queue *q, struct iovec *iov, size_t *total);
/* Append a copy of all. */
void stream_queue_copy(const struct stream_queue *q, struct buf *out);
/* Up to `most` bytes of the front in one piece; it is in `room` if it had to be put
 * together. */
const uint8_t *stream_queue_front(
    const struct stream_queue *q, uint8_t *room, size_t most, size_t *len);

/* ---- TLS between the owner and the output queue ---- */

struct stream_tls {
	struct tls *tls;
	struct stream_queue
	    *plain;         /* what the owner handed over and is no record yet */
	size_t plain_len;   /* counted in the stream's pending */
	struct block *held; /* records that were received and wait; or NULL */
	size_t replies_len; /* what was put unasked while the peer took nothing */
	bool is_encrypting;
};

/* Makes s->tls; a client's first record is put.  -1: err, and there is none. */
int stream_tls_new(struct stream *s, struct tls_context *context,
    const struct tls_peer_config *peer, const uint8_t *initial, size_t len,
    struct err *err);
/* The same with a connection that another stream has begun; see stream_give_tls. */
int stream_tls_adopt(
    struct stream *s, struct tls **tls, const uint8_t *sealed, size_t len);
void stream_tls_free(struct stream *s);
/* These two count nothing in pending. */
void stream_tls_put(
    struct stream *s, struct block *block, const uint8_t *p, size_t len);
int stream_tls_write(struct stream *s, const void *p, size_t len);
void stream_tls_drop_output(struct stream *s);
/* Make records of all that can leave.  -1: tls_failure says why. */
int stream_tls_encrypt(struct stream *s);
/* The last words, and that they are. */
void stream_tls_say_goodbye(struct stream *s);
/* What was not used of the records received into b, or kept before, is kept.  -1: no
 * memory. */
int stream_tls_keep_input(struct stream *s, struct block *b);

#endif
