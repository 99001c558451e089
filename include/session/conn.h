/*
 * A connection to one peer: a stream that is cut into messages, an owner that handles
 * them, and one deadline.  Connections are closed only here.
 *
 * The owner is a table of functions (conn_ops); a connection changes its phase by
 * getting another table.  A handler never closes a connection directly: it dooms it
 * with a reason (conn_doom), and a later step of the loop calls ops->closed and closes
 * it.  Its memory is freed at the end of that turn of the loop.
 */
#ifndef SESSION_CONN_H
#define SESSION_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "net/stream.h"
#include "session/conn_log.h"
#include "session/site.h"

/* What a handler returns for the message that it was shown. */
enum step {
	STEP_NEXT, /* the message is taken; if it is incomplete, the rest comes through
		      ops->part */
	STEP_MORE, /* show the message again when it is whole; not for one that is whole
		    */
	STEP_PARK, /* not taken: keep it and what follows, and read nothing, until
		      conn_unpark */
	STEP_CLOSE, /* the connection was doomed */
};

struct message {
	uint8_t type;         /* 0 in the startup phase */
	uint32_t code;        /* in the startup phase: version or request code */
	uint64_t size;        /* whole size on the wire */
	const uint8_t *bytes; /* the first byte on the wire */
	size_t have;          /* how many of the size bytes have arrived */
	size_t behind;        /* how many bytes have arrived behind it */
	struct block *block;  /* holds the bytes; borrowed until the handler returns */
};

static inline bool message_is_whole(const struct message *m)
{
	return m->have == m->size;
}
/* The body of a whole message with a type byte. */
static inline const uint8_t *message_body(const struct message *m)
{
	return m->bytes + 5;
}
static inline size_t message_body_len(const struct message *m)
{
	return (size_t)m->size - 5;
}

struct conn;

struct conn_ops {
	const char *name;
	enum step (*message)(struct conn *conn, const struct message *m);
	/* Only a part of a message of this type has arrived: the function dooms the
	 * connection, because in this phase nobody waits for the rest.  NULL: the part
	 * is kept until more comes. */
	void (*partial)(struct conn *conn, uint8_t type);
	/* More of a message that was taken while incomplete.  NULL if the owner never
	 * takes incomplete messages (STEP_MORE). */
	enum step (*part)(
	    struct conn *conn, struct block *block, const uint8_t *p, size_t len);
	/* The output queue has fallen below its low water mark.  May be NULL. */
	void (*writable)(struct conn *conn);
	/* The deadline has passed.  May be NULL if the owner sets none. */
	void (*expired)(struct conn *conn);
	/* Of a client: settings have changed, so it sets its deadline anew.  Of a
	 * server: a cancel request aimed at it has ended.  May be NULL. */
	void (*review)(struct conn *conn);
	/* What arrives is not a valid message: the function dooms the connection.
	 * bytes: the first bytes, at most 8. */
	void (*malformed)(struct conn *conn, const uint8_t *bytes, size_t have);
	/* The peer has closed the connection (err NULL), or it has failed (err): the
	 * function dooms it with a suitable reason. */
	void (*ended)(struct conn *conn, const struct err *err);
	/* The connection closes now: the function frees what the owner has.  The stream
	 * is still open, so a last message may be sent. */
	void (*closed)(struct conn *conn, const char *reason);
	void (*connected)(struct conn *conn); /* dial only */
	/* After conn_leave: the function detaches the connection. */
	void (*leaves)(struct conn *conn);
	/* Bytes that come before messages: a PROXY header, TLS, or the answer to an
	 * SSLRequest.  *taken is len; the function lowers it if it takes less.  The
	 * rest goes to the table that is then in force.  If the bytes are messages
	 * after all, the function sets a table without raw and returns STEP_MORE. NULL:
	 * all bytes are messages. */
	enum step (*raw)(
	    struct conn *conn, const uint8_t *p, size_t len, size_t *taken);
	/* conn_secure is complete.  May be NULL. */
	void (*secured)(struct conn *conn);
	/* Of a login: does it wait for a server?  Then SUSPEND stops it like a client
	 * that waits for one.  NULL: it does not. */
	bool (*waits)(const struct conn *conn);
	/* Messages may contain passwords: their bytes are wiped after each message. */
	bool has_secrets;
	/* How log lines name the connection in this phase.  NULL: kind->name_it. */
	void (*name_it)(const struct conn *conn, struct conn_name *out);
};

/* The differences between client and server connections for log and memory. */
struct conn_kind {
	char letter; /* C or S in the log tag */
	/* *out is zeroed. */
	void (*name_it)(const struct conn *conn, struct conn_name *out);
	const struct message_row *rows;     /* by type byte */
	void (*destroy)(struct conn *conn); /* frees the memory that holds conn */
};

struct conn {
	struct stream stream;
	const struct conn_ops *ops;
	const struct conn_kind *kind;
	struct site *site;
	struct deadline deadline;
	struct later wake; /* runs unparking, closing and freeing later in the turn */
	/* while a message is shown: the bytes behind it, without those that are taken
	 * along with it */
	const uint8_t *behind;
	uint32_t behind_len;
	uint32_t along_len;           /* bytes that are taken along */
	struct block *held;           /* owned: bytes not yet taken */
	uint32_t held_from, held_len; /* their place in the block, and their number */
	uint32_t held_until; /* after STEP_MORE: the message is shown again when it has
				so many bytes */
	uint32_t passing; /* bytes still to come of a message taken while incomplete */
	uint64_t id;
	uint64_t connect_us; /* loop_now at accept or dial */
	char *reason;        /* owned: why it is doomed */
	struct sock_addr remote;
	int peer_pid;       /* unix sockets; 0 = not known */
	uint16_t unix_port; /* shown for unix sockets */
	bool is_parked : 1;
	bool is_paused : 1;  /* conn_pause is in force */
	bool is_stopped : 1; /* conn_stop is in force */
	bool is_woken : 1;   /* with is_stopped: it was unparked meanwhile */
	bool is_going : 1;   /* conn_leave was called; it is not started again */
	bool is_offered : 1; /* it was described to another process, which may take it
				over */
	bool is_doomed : 1;
	bool is_walking : 1;      /* messages are being shown to the owner */
	bool is_quiet : 1;        /* close without a log line */
	bool may_linger : 1;      /* with is_doomed: see conn_linger */
	uint64_t linger_until_us; /* 0: it does not linger */
};

/* Initialises a zeroed conn.  The caller may have set remote. */
void conn_init(struct conn *conn, struct site *site, const struct conn_kind *kind,
    const struct conn_ops *ops);
/* The connection enters another phase: its messages go to these functions from now on.
 */
static inline void conn_hand_on(struct conn *conn, const struct conn_ops *ops)
{
	if (log_is_on(conn->site->log, LEVEL_DEBUG | KIND_CONNECTIONS))
		conn_log_phase(conn, ops);
	conn->ops = ops;
}
/* Takes over a connected socket. */
void conn_open(struct conn *conn, int fd);
/* Takes over a connected socket, and reads at once, within the call, what the peer has
 * sent already. */
void conn_open_recv_now(struct conn *conn, int fd);
/* conn_ops.part for owners that ignore the rest of such a message. */
enum step conn_ignore_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len);
/* Begins to connect; ops->connected or ops->ended follows.  -1 and err: it failed at
 * once. */
int conn_connect(struct conn *conn, const struct sock_target *target, struct err *err);

/* Begins TLS on the connection: see stream_start_tls.  ops->secured or ops->ended
 * follows.  -1: the connection is doomed with `reason`, and the error is logged. */
int conn_secure(struct conn *conn, struct tls_context *context,
    const struct tls_peer_config *peer, const uint8_t *initial, size_t len,
    const char *reason);
/* "TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519", or `none` without TLS. */
static inline const char *conn_tls_text(
    const struct conn *conn, char out[TLS_TEXT], const char *none)
{
	const struct tls *tls = stream_tls(&conn->stream);

	return tls ? tls_describe(tls, out) : none;
}

/* Call it while a message is shown that the owner will take: also takes the whole
 * messages of the same type that follow it directly.  Returns their number of bytes. It
 * saves time for rows and COPY data, which come by the thousand and are all treated
 * alike. */
size_t conn_take_alike(struct conn *conn, const struct message *m);
/* Call it while a message is shown that the owner will take: returns the number of
 * bytes behind it, or behind what was taken along last.  0: there are none, or what
 * follows has to be shown message by message. */
size_t conn_behind(const struct conn *conn, const uint8_t **p);
/* Takes bytes of conn_behind along, which must be whole messages: they are not shown.
 */
void conn_take_behind(struct conn *conn, size_t size);
/* The longest message that is allowed. */
uint64_t conn_most(const struct conn *conn);

/* Shows what was parked again, later in this turn, and continues to read. */
void conn_unpark(struct conn *conn);
/* Stop and start reading without parking a message: flow control of a relay. */
void conn_pause(struct conn *conn);
void conn_resume(struct conn *conn);
/* Reads again, unless another reason to stop is in force. */
void conn_read_on(struct conn *conn);
/* For SUSPEND: until conn_start nothing is read, nothing that was parked is shown
 * again, and no deadline expires.  Output is still sent. */
void conn_stop(struct conn *conn);
void conn_start(struct conn *conn);
/* conn_stop for an owner that then returns STEP_PARK for the message that it is shown;
 * conn_start shows the message again. */
void conn_put_off(struct conn *conn);

/* Dooms the connection: it closes in a later step of the loop, with this printf text as
 * the reason.  Only the first reason counts; it is cut to 127 bytes. */
void conn_doom(struct conn *conn, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Dooms the connection without a "closing because" line. */
void conn_doom_quietly(struct conn *conn, const char *reason);

/* Of a connection that was just doomed, because of another one: it closes when its peer
 * has taken what it was sent, but after 10 seconds at the latest, or when it is doomed
 * again.  Its owner's `closed` is called then. */
static inline void conn_linger(struct conn *conn)
{
	conn->may_linger = true;
}
/* Sets the deadline, in microseconds of the loop's clock; 0 or UINT64_MAX: none. */
void conn_set_deadline(struct conn *conn, uint64_t at_us);
static inline uint64_t conn_now(const struct conn *conn)
{
	return loop_now(conn->site->loop);
}

/* Sends what buf holds, and empties it.  A buf that has failed dooms the connection. */
void conn_send(struct conn *conn, struct buf *buf);
/* Sends what buf holds; buf stays as it is. */
void conn_send_copy(struct conn *conn, const struct buf *buf);

#endif
