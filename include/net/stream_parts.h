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

/* ---- shared blocks ---- */

/* The block with this much free room that receives and small writes share. */
struct block *net_room(struct net *net, size_t room);

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
void stream_queue_drop(struct net *net, struct stream_queue **q);
/* What is there, size bytes, begins to wait: copy what is small. */
void stream_queue_settle(struct net *net, struct stream_queue **q, size_t size);
int stream_queue_gather(const struct stream_queue *q, struct iovec *iov, size_t *total);
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
