/*
 * A byte stream over one socket.  Bytes are delivered; output is handed over as spans
 * and leaves once per turn in one gathered send; no owner ever calls recv or send.
 * Below it stands one of two engines, which no owner can tell apart: readiness
 * (stream_ready.c) or the completions of io_uring (stream_ring.c).  TLS may stand
 * between: the owner goes on in clear, the socket carries records.
 *
 * An idle stream owns no buffer.  Of all handshakes of TLS only a few steps are made in
 * a turn: the others wait for the next one.  Pausing costs something only if the peer
 * really sends more meanwhile.  With readiness there is one receive each time the
 * socket becomes readable, because a short one means that the socket is drained, and
 * there are at most net.rounds receives per stream and turn (0 = no limit).
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/net.h"
#include "net/sock.h"
#include "net/tls.h"

struct stream;

struct stream_ops {
	/* Bytes [p, p + len) arrived; they lie in block, which is borrowed (block_ref
	 * to keep).  The owner may pause, write to any stream, or close this one. */
	void (*received)(
	    struct stream *s, struct block *block, const uint8_t *p, size_t len);
	/* stream_connect succeeded.  May be NULL. */
	void (*connected)(struct stream *s);
	/* The peer closed (err NULL) or the socket failed (reading, writing or
	 * connecting). Called once, from the loop; the owner calls stream_close.  Comes
	 * even while paused if the failure was seen on writing, or if the peer closed
	 * and left nothing unread. */
	void (*ended)(struct stream *s, const struct err *err);
	/* Pending output, once above STREAM_HIGH, fell to STREAM_LOW.  May be NULL. */
	void (*drained)(struct stream *s);
	/* The TLS handshake is complete.  Comes from the loop, before any byte that was
	 * received inside.  The owner may do what it may in `received`.  May be NULL.
	 */
	void (*secured)(struct stream *s);
};

enum { STREAM_HIGH = 256 * 1024, STREAM_LOW = 64 * 1024 };

struct stream {
	struct net *net; /* NULL: not open */
	const struct stream_ops *ops;
	struct ring_port *port; /* with io_uring; NULL: with readiness, or connecting */
	struct watch *reader;   /* with readiness */
	struct watch *writer;   /* while it connects, or output waits for readiness */
	struct stream_queue *out; /* NULL while there is no output */
	struct stream_queue *in;  /* received and not delivered; mostly NULL */
	struct stream_tls *tls;   /* NULL: bytes go in clear */
	size_t pending;           /* bytes of output not yet taken by the kernel */
	struct later flush;       /* end-of-turn work */
	int fd;
	uint16_t failure;     /* errno that `ended` will report; 0: none so far */
	uint16_t over_errnum; /* ... that ended the receiving, behind what is in `in` */
	bool paused : 1;      /* the owner wants nothing delivered */
	bool reader_off : 1;  /* the watch is really switched off */
	bool readable : 1;    /* readiness came while paused: more may be waiting */
	bool blocked : 1; /* the kernel took less than all; waiting for writability */
	bool above : 1;   /* pending passed STREAM_HIGH; drained is due */
	bool connecting : 1;
	bool ended : 1;      /* the owner was told */
	bool delivering : 1; /* `received` is being called and has not closed us */
	bool connected_due : 1;
	bool drained_due : 1;
	bool input_due : 1;  /* what was received before waits to be delivered */
	bool over : 1;       /* nothing more will be received */
	bool last_words : 1; /* a failure waits for what the peer said before */
};

/* Take over a connected, non-blocking socket: the stream closes it.  ops is borrowed.
 */
void stream_open(
    struct stream *s, struct net *net, int fd, const struct stream_ops *ops);
/* The same for a peer that has sent something already, which saves a turn: it is
 * delivered from inside the call, in which the owner must not close the stream. */
void stream_open_hearing(
    struct stream *s, struct net *net, int fd, const struct stream_ops *ops);
/* Connect; connected or ended follows from the loop.  -1: failed at once (err); the
 * stream is not open then. */
int stream_connect(struct stream *s, struct net *net, const struct sock_target *target,
    const struct sock_options *options, const struct stream_ops *ops, struct err *err);
/* Has it a socket: opened or connecting, and not closed? */
bool stream_is_open(const struct stream *s);

/* From now on all is TLS, as client or server as the context says; a stream has it
 * once. Output that was handed over before leaves in clear in front; what is handed
 * over until the handshake is complete waits for it.  initial: bytes that were received
 * already and belong to TLS (direct TLS: the first packet), copied; after an SSLRequest
 * or its answer there must be none, which is the caller's to refuse.  May be called
 * from inside `received`; nothing is told from inside the call.  Reading must not be
 * paused until `secured`, or the handshake stands still.  A handshake that fails is
 * told by `ended` with err (an alert leaves at stream_close); a peer that closes in the
 * middle of it, or later without close_notify, by `ended` without. -1: err; the stream
 * goes on in clear. */
int stream_start_tls(struct stream *s, struct tls_context *context,
    const struct tls_peer_config *peer, const uint8_t *initial, size_t len,
    struct err *err);
/* For the questions of net/tls.h; NULL: in clear, or the handshake is not complete. */
const struct tls *stream_tls(const struct stream *s);
/* Takes TLS off a stream that was hushed and is silent, so that another one over the
 * same socket goes on with it; the caller's.  Records that came and were not read are
 * appended to `sealed`.  NULL: the stream is in clear. */
struct tls *stream_take_tls(struct stream *s, struct buf *sealed);
/* The other end of that: an open stream from which nothing was received yet.  *tls is
 * the stream's from now on, also in failure.  -1: no memory. */
int stream_give_tls(
    struct stream *s, struct tls **tls, const uint8_t *sealed, size_t len);
/* Is it TLS that failed, and not the socket below? */
bool stream_has_tls_failure(const struct stream *s);

/* Hand over bytes that lie in block (a reference is taken); adjoining spans of one
 * block are joined.  block NULL: constant bytes. */
void stream_put(struct stream *s, struct block *block, const uint8_t *p, size_t len);
/* Hand over a copy of bytes: for what we build ourselves.  -1: no memory; the stream
 * has failed then and ended will be called. */
int stream_write(struct stream *s, const void *p, size_t len);
/* Bytes of output that the kernel has not taken yet. */
size_t stream_pending(const struct stream *s);
/* Is there more pending output than STREAM_HIGH?  Then ops->drained will be called. */
bool stream_is_above_high(const struct stream *s);
/* Try to send now (used when pending grows past STREAM_HIGH within one turn). */
void stream_flush(struct stream *s);

/* No delivery until stream_resume.  After resume, bytes that wait in the kernel are
 * delivered by the loop, never from inside the call. */
void stream_pause(struct stream *s);
void stream_resume(struct stream *s);

/* Pause, and have the engine take nothing more from the socket either: it is about to
 * be handed to another process.  stream_resume ends that. */
void stream_hush(struct stream *s);
/* Is all said of a stream that was hushed?  No request of ours is on its way that could
 * take bytes from the socket, and all output has left. */
bool stream_is_silent(const struct stream *s);
/* Append what was received and not yet delivered; it stays.  Nothing of a stream in
 * TLS, whose records are appended by stream_take_tls. */
void stream_put_unread(const struct stream *s, struct buf *out);

/* One last non-blocking attempt to send what is pending, then close.  No callback comes
 * any more.  Safe on a stream that is not open, and inside its own callbacks: its
 * memory must last to the end of the turn then (loop_reap). */
void stream_close(struct stream *s);

#endif
