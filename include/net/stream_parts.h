/*
 * Private to net/stream.
 */
#ifndef NET_STREAM_PARTS_H
#define NET_STREAM_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/stream.h"

/* ---- engines ---- */

/* An engine moves bytes between streams and sockets: epoll or io_uring. */
struct stream_engine {
	const char *name;
	/* The socket is connected: begins to receive. */
	void (*start)(struct stream *s);
	/* Stops receiving. */
	void (*stop)(struct stream *s);
	/* Receives again after a pause, when nothing received before is waiting. */
	void (*resume)(struct stream *s);
	/* The stream has rested: receives what has arrived meanwhile. */
	void (*go_on)(struct stream *s);
	/* After stop: whether no pending request can take bytes from the socket. */
	bool (*is_still)(const struct stream *s);
	/* Sends what is in s->out.  is_now: before this returns, as far as the kernel
	 * takes it; otherwise before the loop waits. */
	void (*send)(struct stream *s, bool is_now);
	/* Waits until no send is pending. */
	void (*settle)(struct stream *s);
	/* Sending has failed, and the peer may have sent the reason.  Returns true if
	 * that may still arrive in the next turn, false if everything was delivered. */
	bool (*hear_more)(struct stream *s);
	/* Ends all work with the socket, which stays open.  What the kernel had already
	 * received is in s->in afterwards. */
	void (*detach)(struct stream *s);
	/* Sends s->out as far as possible without waiting, and closes the socket. */
	void (*leave)(struct stream *s);
};

extern const struct stream_engine stream_ready, stream_ring;

/* See net_start_ring. */
int stream_ring_begin(
    struct net *net, void (*lost)(void *ctx, int errnum), void *ctx, struct err *err);
void stream_ring_stop(struct net *net);
void stream_ring_usage(
    const struct net *net, size_t *used, size_t *free_count, size_t *bytes);

/* ---- connecting ---- */

/* The socket is connected: begins to receive, and tells the owner later. */
void stream_tell_connected(struct stream *s);
/* Waits until the socket is connected, or that has failed. */
void stream_await_connected(struct stream *s);

/* ---- for the engines ---- */

/* Bytes arrived: delivers them now, or stores them if they have to wait. */
void stream_arrived(struct stream *s, struct block *b, const uint8_t *p, size_t len);
/* Delivers bytes now.  s->delivering becomes false when the owner closes the stream. */
void stream_take(struct stream *s, struct block *b, const uint8_t *p, size_t len);
/* Nothing more will arrive: errnum, or 0 when the peer closed. */
void stream_over(struct stream *s, int errnum);
/* Calls `ended` at once, unless it was called before. */
void stream_end(struct stream *s, int errnum);
/* Sending or connecting failed: `ended` is called later in this turn. */
void stream_fail(struct stream *s, int errnum);
/* n bytes of the output were sent. */
void stream_sent(struct stream *s, size_t n);
/* The kernel takes no more at the moment: copies small pieces, so that they do not keep
 * large blocks in memory. */
void stream_settle_output(struct stream *s);
/* Looks into the TLS records received while the stream is paused: nothing, bytes for
 * the owner, or the peer's close_notify. */
enum stream_look { LOOK_NOTHING, LOOK_BYTES, LOOK_ENDED };
enum stream_look stream_look(struct stream *s);
/* Whether the handshake has to wait for the next turn, because there were enough
 * handshake steps in this one. */
bool stream_is_put_off(const struct stream *s);
/* Whether received bytes wait to be delivered. */
bool stream_has_input(const struct stream *s);
/* Delivers waiting bytes until the owner pauses. */
void stream_deliver_waiting(struct stream *s);
/* Tries to send all output by system calls.  0: all was sent; 1: the kernel takes no
 * more at the moment; -1: errno. */
int stream_send_queue(struct stream *s);
void stream_tell_later(struct stream *s);
void stream_flush_at_turn_end(struct stream *s);

/* ---- streams between two threads ---- */

/* What a detached stream has instead of queues; each is NULL if there is nothing.  The
 * blocks are single ones with one reference. */
struct stream_baggage {
	struct block *in, *out;
	struct tls *tls;
	struct block *held, *plain; /* as in struct stream_tls */
};

/* Closes a detached stream. */
void stream_close_detached(struct stream *s);

/* ---- receiving by system calls ---- */

/* What the engine has to do after a receive. */
enum stream_left {
	LEFT_NOTHING,      /* wait until the socket is readable */
	LEFT_SOMETHING,    /* there may be more already, so receive in the next turn */
	LEFT_UNTIL_RESTED, /* the stream rests: receive nothing before `go_on` */
};
/* Receives and delivers what is in the socket, with at most net.rounds calls.  len gets
 * the number of bytes.  The owner may have closed the stream when this returns, or
 * `ended` was called. */
enum stream_left stream_receive(struct stream *s, size_t *len);
/* As stream_receive, for a socket that has become readable: the stream may be paused,
 * or have bytes that were received before. */
enum stream_left stream_readable(struct stream *s, size_t *len);

/* ---- streams in which much arrives ---- */

/* n bytes were received. */
void stream_rest_count(struct stream *s, size_t n);
/* Everything that had arrived was received, `got` bytes of it just now.  True: the
 * stream rests, so the engine receives nothing before `go_on`. */
bool stream_rest_begin(struct stream *s, size_t got);
/* The stream does not rest any longer, if it does. */
void stream_rest_end(struct stream *s);
void stream_rest_init(struct net *net);
void stream_rest_done(struct net *net);

/* ---- shared blocks ---- */

/* Returns the shared block for receives and small writes; it has this much free
 * room. */
struct block *stream_room(struct net *net, size_t room);

/* ---- queues of spans: NULL while empty ---- */

enum {
	STREAM_GATHER_MOST = 64, /* most spans in one send */
	STREAM_COPY_MOST = 4096, /* spans up to this size are copied while they wait */
};

struct stream_queue;

struct slab *stream_queue_slab(struct mem *mem);
/* is_waiting: it may stay in the queue for long, so that small spans are copied. */
void stream_queue_put(struct net *net, struct stream_queue **q, struct block *block,
    const uint8_t *p, size_t len, bool is_waiting);
/* The last span; it may be extended until the queue is used otherwise. */
struct span *stream_queue_last(struct stream_queue *q);
/* Appends a copy.  -1: no memory. */
int stream_queue_write(struct net *net, struct stream_queue **q, const void *p,
    size_t len, bool is_waiting);
/* Removes n bytes from the front. */
void stream_queue_consume(struct net *net, struct stream_queue **q, size_t n);
/* Removes the first span and returns it with its reference to the block. */
struct span stream_queue_pop(struct net *net, struct stream_queue **q);
void stream_queue_drop(struct net *net, struct stream_queue **q);
/* The content of the queue (size bytes) begins to wait: copies small spans. */
void stream_queue_settle(struct net *net, struct stream_queue **q, size_t size);
int stream_queue_gather(const struct stream_queue *q, struct iovec *iov, size_t *total);
/* Returns a copy of all bytes in a single block outside of pools.  NULL: no memory. */
struct block *stream_queue_flatten(const struct stream_queue *q);
/* Appends a copy of all bytes to out. */
void stream_queue_copy(const struct stream_queue *q, struct buf *out);
/* Returns up to `most` bytes from the front in one piece.  They are copied to `room` if
 * they are in several spans. */
const uint8_t *stream_queue_front(
    const struct stream_queue *q, uint8_t *room, size_t most, size_t *len);

/* ---- TLS between the owner and the output queue ---- */

struct stream_tls {
	struct tls *tls;
	struct stream_queue *plain; /* output of the owner that is not yet encrypted */
	size_t plain_len;   /* its bytes, which are a part of the stream's pending */
	struct block *held; /* received records that wait, or NULL */
	/* bytes that TLS produced by itself while the peer read nothing */
	size_t replies_len;
	bool is_encrypting;
};

/* Makes s->tls; a client also queues its first record.  -1: err, and s->tls is NULL. */
int stream_tls_new(struct stream *s, struct tls_context *context,
    const struct tls_peer_config *peer, const uint8_t *initial, size_t len,
    struct err *err);
void stream_tls_free(struct stream *s);
/* Moves s->tls to baggage, where nothing belongs to a thread, and back.  -1: no memory,
 * and s->tls stays. */
int stream_tls_pack(struct stream *s, struct stream_baggage *baggage);
void stream_tls_unpack(struct stream *s, const struct stream_baggage *baggage);
/* These two do not change pending. */
void stream_tls_put(
    struct stream *s, struct block *block, const uint8_t *p, size_t len);
int stream_tls_write(struct stream *s, const void *p, size_t len);
void stream_tls_drop_output(struct stream *s);
/* Encrypts all that can be sent.  -1: tls_failure says why. */
int stream_tls_encrypt(struct stream *s);
/* Sends close_notify, and remembers that. */
void stream_tls_say_goodbye(struct stream *s);
/* Keeps the part of the records in b, and of those kept before, that was not used.  -1:
 * no memory. */
int stream_tls_keep_input(struct stream *s, struct block *b);

#endif
