/*
 * One peer: a stream, framing, an owner, one deadline; the only place that closes.
 *
 * The owner is a table of functions, and handing a connection on is a change of table.
 * Handlers return, they do not destroy: whoever wants a connection gone dooms it with a
 * reason, and its own turn calls ops->closed and closes.  Memory goes at the end of the
 * loop turn.
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

/* What a handler says about the message it was shown. */
enum step {
	STEP_NEXT,  /* taken (as far as it is here; the rest comes through ops->part) */
	STEP_MORE,  /* show it again when it is whole (never said of a whole one) */
	STEP_PARK,  /* not taken: keep it and all behind it, read nothing, until
		       conn_unpark */
	STEP_CLOSE, /* the connection was doomed */
};

struct message {
	uint8_t type;         /* 0 in the startup phase */
	uint32_t code;        /* startup phase: version or request code */
	uint64_t size;        /* whole size on the wire */
	const uint8_t *bytes; /* the first byte on the wire */
	size_t have;          /* how many of size bytes are here */
	size_t behind;        /* how many bytes came with it, behind it */
	struct block *block;  /* they lie in it; borrowed until the handler returns */
};

static inline bool message_is_whole(const struct message *m)
{
	return m->have == m->size;
}
/* Body of a whole ordinary message. */
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
	/* The beginning of a message came, and not all of it: doom the connection, for
	 * nobody is to wait for the rest.  NULL: it is kept until more comes. */
	void (*partial)(struct conn *conn);
	/* More of a message that was taken while incomplete.  NULL: never happens (the
	 * owner says STEP_MORE to incomplete ones). */
	enum step (*part)(
	    struct conn *conn, struct block *block, const uint8_t *p, size_t len);
	/* Output fell below the low water mark.  May be NULL. */
	void (*writable)(struct conn *conn);
	/* The deadline came.  May be NULL if the owner sets none. */
	void (*expired)(struct conn *conn);
	/* Client: settings have changed: set the deadline anew.  Server: a cancel
	 * request aimed at it has ended.  May be NULL. */
	void (*review)(struct conn *conn);
	/* A frame that is no frame: doom the connection.  bytes: up to 8 of them. */
	void (*malformed)(struct conn *conn, const uint8_t *bytes, size_t have);
	/* The peer is gone (err NULL: closed, else why): doom the connection with the
	 * reason that fits. */
	void (*ended)(struct conn *conn, const struct err *err);
	/* The connection closes now: let go of everything.  The stream is still open, a
	 * last message may be written. */
	void (*closed)(struct conn *conn, const char *reason);
	void (*connected)(struct conn *conn); /* dial only */
	/* All is said of one that goes elsewhere (conn_hush_to_go). */
	void (*silent)(struct conn *conn);
	/* Bytes of what comes before messages (a PROXY header, TLS, or the answer to
	 * whether there is any).  Takes *taken of them, which is len unless it says
	 * less, and the table of functions then in force gets the rest; or has set a
	 * table without raw and returns STEP_MORE: they are messages.  NULL: all bytes
	 * are messages. */
	enum step (*raw)(
	    struct conn *conn, const uint8_t *p, size_t len, size_t *taken);
	/* conn_secure is complete.  May be NULL. */
	void (*secured)(struct conn *conn);
	/* What comes may be a password: received bytes do not outlive their message. */
	bool has_secrets;
	/* What log lines call it in this phase.  NULL: the kind's. */
	void (*name_it)(const struct conn *conn, struct conn_name *out);
};

/* What a client and a server connection differ in for log and memory. */
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
	struct later wake; /* unparking, closing, and then the memory's end */
	/* while a message is shown: what came behind it in the same bytes, without
	 * what is taken along with it */
	const uint8_t *behind;
	size_t behind_len;
	size_t along_len;             /* bytes that are taken along */
	struct block *held;           /* owned: bytes not yet taken */
	uint32_t held_from, held_len; /* where in it, and how many */
	uint32_t
	    held_until;   /* the owner said STEP_MORE: not shown again before so many */
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
	bool is_woken : 1;   /* ... and it was unparked meanwhile */
	bool is_going : 1;   /* conn_hush_to_go: it is not started again */
	bool is_offered : 1; /* described to another process, which may take it */
	bool is_doomed : 1;
	bool is_walking : 1; /* inside conn's own delivery */
	bool is_quiet : 1;   /* close without a log line */
};

/* After the caller filled site, kind, ops, remote.  A zeroed conn otherwise. */
void conn_init(struct conn *conn, struct site *site, const struct conn_kind *kind,
    const struct conn_ops *ops);
/* Hand the connection on: it is in another phase from now on. */
static inline void conn_hand_on(struct conn *conn, const struct conn_ops *ops)
{
	if (log_is_on(conn->site->log, LEVEL_DEBUG | KIND_CONNECTIONS))
		conn_log_phase(conn, ops);
	conn->ops = ops;
}
/* Take over a connected socket. */
void conn_open(struct conn *conn, int fd);
/* The same, and what the peer has sent already is shown from inside the call. */
void conn_open_hearing(struct conn *conn, int fd);
/* For conn_ops.part of an owner who has no use for the rest of such a message. */
enum step conn_ignore_part(
    struct conn *conn, struct block *block, const uint8_t *p, size_t len);
/* Begin to connect; ops->connected or ops->ended follows.  -1: failed at once. */
int conn_connect(struct conn *conn, const struct sock_target *target, struct err *err);

/* TLS from now on: see stream_start_tls.  ops->secured or ops->ended follows.  -1:
 * doomed with `reason`, and err logged. */
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

/* While an ordinary message is shown that the owner will take: takes the whole messages
 * of its type that came right behind it, too.  Gives their bytes: rows and COPY data
 * come by the thousand, and each is treated as the one before. */
size_t conn_take_alike(struct conn *conn, const struct message *m);
/* While an ordinary message is shown that the owner will take: makes *m, a copy of that
 * message at first, the whole message that comes next behind it and what was taken
 * along.  False: there is none, or it is to be shown by itself; *m is as it was. */
bool conn_look_next(const struct conn *conn, struct message *m);
/* Takes that message along: it is not shown. */
void conn_take_next(struct conn *conn, const struct message *m);

/* Redeliver what was parked, later in this turn; reading goes on. */
void conn_unpark(struct conn *conn);
/* Stop and start reading without parking a message: flow control of a relay. */
void conn_pause(struct conn *conn);
void conn_resume(struct conn *conn);
/* SUSPEND: nothing is read, nothing that was parked is shown again, and no deadline
 * expires until conn_start.  Output still leaves. */
void conn_stop(struct conn *conn);
void conn_start(struct conn *conn);
/* For an owner who then says STEP_PARK to the message it is shown: conn_stop, and
 * conn_start shows it again. */
void conn_put_off(struct conn *conn);

/* For a takeover: the same as conn_stop, and nothing more is taken from the socket
 * either. */
void conn_hush(struct conn *conn);
/* Is all said of one that was hushed?  Its output has left then, and what came in is
 * here or still in the socket. */
bool conn_is_silent(const struct conn *conn);
/* For a move within the process: conn_hush until the end of the struct, and
 * ops->silent, in a later turn, when all is said. */
void conn_hush_to_go(struct conn *conn);
/* Append the bytes that came and were not taken; they stay. */
void conn_put_unread(const struct conn *conn, struct buf *out);
/* Take over a connected socket that another process has served so far, in the middle of
 * whatever it was: so many bytes are still to come of a message that was taken, and
 * these have come and were not taken (copied; shown later in this turn).  -1: no
 * memory. */
int conn_restore(
    struct conn *conn, int fd, uint64_t passing, const uint8_t *bytes, size_t len);

/* The connection is to close in its own turn, with this reason (printf; the first one
 * counts; at most 127 bytes are kept). */
void conn_doom(struct conn *conn, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same without a "closing because" line. */
void conn_doom_quietly(struct conn *conn, const char *reason);

/* at_us in loop_now() time; 0 or UINT64_MAX: none. */
void conn_set_deadline(struct conn *conn, uint64_t at_us);
uint64_t conn_now(const struct conn *conn);

/* Send what buf holds and empty it; a failed buf dooms the connection. */
void conn_send(struct conn *conn, struct buf *buf);

#endif
