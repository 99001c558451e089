/*
 * A byte stream over one socket.  Received bytes are delivered to the owner; output is
 * handed over as spans, and is sent once per turn with one system call.  Owners never
 * call recv or send.
 *
 * Two engines can carry a stream, and owners see no difference: epoll (stream_ready.c)
 * and io_uring (stream_ring.c).  With TLS the owner still reads and writes plain text,
 * and the socket carries records.
 *
 * An idle stream has no buffer.  Only a few TLS handshake steps are done per turn; the
 * others wait for the next turn.  Pausing costs a system call only if the peer sends
 * more meanwhile.  With epoll there is one receive each time the socket becomes
 * readable, because a short one means that nothing is left, and at most net.rounds
 * receives per stream and turn (0: no limit).
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
	/* The bytes [p, p + len) have arrived; they are in block, which is borrowed
	 * (use block_ref to keep it).  The owner may pause, write to any stream, or
	 * close this one. */
	void (*received)(
	    struct stream *s, struct block *block, const uint8_t *p, size_t len);
	/* stream_connect has succeeded.  May be NULL. */
	void (*connected)(struct stream *s);
	/* The peer closed (err NULL) or the socket failed (reading, writing or
	 * connecting).  Is called once, from the loop; the owner then calls
	 * stream_close.  It comes even while paused if writing has failed, or if the
	 * peer closed and left nothing unread. */
	void (*ended)(struct stream *s, const struct err *err);
	/* Pending output was above STREAM_HIGH and has fallen to STREAM_LOW.  May be
	 * NULL. */
	void (*drained)(struct stream *s);
	/* The TLS handshake is complete.  Is called from the loop, before any byte
	 * received inside TLS is delivered.  The owner may do the same as in
	 * `received`.  May be NULL. */
	void (*secured)(struct stream *s);
};

enum { STREAM_HIGH = 256 * 1024, STREAM_LOW = 64 * 1024 };

struct stream {
	struct net *net; /* NULL: the stream is not open */
	const struct stream_ops *ops;
	union {
		/* only with io_uring; NULL: epoll, or connecting */
		struct ring_port *port;
		/* only while detached; NULL: nothing was queued, and there is no TLS */
		struct stream_baggage *baggage;
	};
	struct watch *reader; /* only with epoll */
	/* only while connecting, or while output waits until the socket is writable */
	struct watch *writer;
	struct stream_queue *out; /* NULL: there is no output */
	struct stream_queue *in;  /* received but not yet delivered; usually NULL */
	struct stream_tls *tls;   /* NULL: no TLS */
	/* bytes of output that the kernel has not taken yet */
	size_t pending;
	struct later flush; /* work at the end of the turn */
	int fd;
	uint16_t failure; /* errno to report with `ended`; 0: none */
	/* errno that ended the receiving; reported after what is in `in` */
	uint16_t over_errnum;
	bool paused : 1;     /* the owner wants no deliveries */
	bool reader_off : 1; /* the watch is switched off, not only ignored */
	/* the kernel took only a part; waiting until the socket is writable */
	bool blocked : 1;
	/* pending was above STREAM_HIGH; `drained` must be called later */
	bool above : 1;
	bool connecting : 1;
	bool ended : 1; /* `ended` was called */
	/* `received` is being called and has not closed the stream */
	bool delivering : 1;
	bool connected_due : 1;
	bool drained_due : 1;
	bool input_due : 1; /* received bytes wait to be delivered */
	bool over : 1;      /* nothing more will be received */
	/* see net/stream_rest.c; rested: the next receive is the first after a rest */
	bool resting : 1, rested : 1;
	/* a failure is reported only after the bytes received before it */
	bool last_words : 1;
	bool detached : 1; /* see stream_detach */
	/* received one after the other without any output in between, in KB, and when
	 * the last of it came, in milliseconds */
	uint16_t run_kb, run_ms;
};

/* Takes over a connected, non-blocking socket, which stream_close closes.  ops is
 * borrowed. */
void stream_open(
    struct stream *s, struct net *net, int fd, const struct stream_ops *ops);
/* Like stream_open, for a peer that has already sent something, which saves a turn: the
 * bytes are delivered from inside the call.  The owner must not close the stream during
 * the call. */
void stream_open_recv_now(
    struct stream *s, struct net *net, int fd, const struct stream_ops *ops);
/* Begins to connect; later the loop calls `connected` or `ended`.  -1: it failed at
 * once (err), and the stream is not open. */
int stream_connect(struct stream *s, struct net *net, const struct sock_target *target,
    const struct sock_options *options, const struct stream_ops *ops, struct err *err);
/* Whether the stream has a socket and a thread: it is open or connecting, and neither
 * closed nor detached. */
bool stream_is_open(const struct stream *s);

/*
 * Begins TLS, as client or server, whichever the context is for; a stream can do this
 * once.  Output handed over before is sent unencrypted first; output handed over until
 * the handshake is complete waits for it.
 *
 * initial: bytes already received that belong to TLS (direct TLS: the first packet);
 * they are copied.  After an SSLRequest or its answer there must be none, and the
 * caller refuses them.
 *
 * May be called from inside `received`; no callback comes from inside the call.
 * Reading must not be paused before `secured`, or the handshake does not go on.  A
 * failed handshake is reported by `ended` with err (stream_close then sends the alert);
 * a peer that closes during it, or later without close_notify, by `ended` without err.
 * -1: err, and the stream continues without TLS.
 */
int stream_start_tls(struct stream *s, struct tls_context *context,
    const struct tls_peer_config *peer, const uint8_t *initial, size_t len,
    struct err *err);
/* For the questions of net/tls.h; NULL: in clear, or the handshake is not complete. */
const struct tls *stream_tls(const struct stream *s);
/* Whether TLS failed, as opposed to the socket. */
bool stream_has_tls_failure(const struct stream *s);

/* Hands over bytes of a block as output (takes a reference); adjoining spans of one
 * block are joined.  block NULL: constant bytes. */
void stream_put(struct stream *s, struct block *block, const uint8_t *p, size_t len);
/* Hands over a copy of bytes, for messages that the pooler builds itself.  -1: no
 * memory; the stream has failed, and `ended` will be called. */
int stream_write(struct stream *s, const void *p, size_t len);
/* The same for what was built.  Nothing may go out behind a message that is missing, so
 * a buf that has failed is like no memory. */
int stream_write_buf(struct stream *s, const struct buf *buf);
/* Bytes of output that the kernel has not taken yet. */
size_t stream_pending(const struct stream *s);
/* Whether more than STREAM_HIGH bytes are pending.  Then `drained` will be called. */
bool stream_is_above_high(const struct stream *s);
/* Tries to send now instead of at the end of the turn, because much is pending. */
void stream_flush(struct stream *s);

/* Stops deliveries until stream_resume.  Bytes that wait in the kernel are then
 * delivered by the loop, never from inside stream_resume. */
void stream_pause(struct stream *s);
void stream_resume(struct stream *s);

/* Pauses, and also stops the engine from taking bytes from the socket, because the
 * socket is about to be handed to another process.  stream_resume ends that. */
void stream_quiesce(struct stream *s);
/* Whether a quiesced stream can be handed over: no request is pending that could take
 * bytes from the socket, and all output was sent. */
bool stream_is_silent(const struct stream *s);
/* Appends what was received and not yet delivered, without removing it; nothing with
 * TLS. */
void stream_put_unread(const struct stream *s, struct buf *out);

/*
 * Take an open stream, also one that is connecting, from the loop of one thread to that
 * of another as the same object; the engines may differ.  What has arrived and is not
 * delivered, pending output, TLS (also during the handshake), a pause, an end or
 * failure that was not yet reported, and the owner's callbacks go with it.
 *
 * stream_detach ends the engine's work with the socket before it returns, and does not
 * wait for the peer.  It must not be called inside callbacks of the stream itself (use
 * loop_later); no callback comes from inside it.  Afterwards the stream belongs to no
 * thread, and may only be given to stream_attach or stream_close, by any thread that
 * the memory was handed to in order (mailbox_post, a lock).  -1: no memory; the stream
 * stays where it is and has failed, and `ended` will be called.
 *
 * stream_attach begins on the thread of `net`; callbacks come later from its loop.
 */
int stream_detach(struct stream *s);
void stream_attach(struct stream *s, struct net *net);

/* Tries once more to send pending output, without waiting, and closes.  No callback
 * comes afterwards.  May be called on a stream that is not open, and inside the
 * stream's own callbacks; in that case its memory must live until the end of the turn
 * (loop_reap). */
void stream_close(struct stream *s);

#endif
