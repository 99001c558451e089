/*
 * Connections that go from one site of the process to another: new ones, and those
 * whose first packet concerns another site (a console, a cancel request).  What they
 * have sent so far goes along, and so does their TLS state.
 */
#ifndef SESSION_PASSING_H
#define SESSION_PASSING_H

#include "base/buf.h"
#include "session/client.h"
#include "session/crew.h"

struct tls;

/* A connection on its way. */
struct passage {
	struct letter letter;
	struct node node; /* in the sender's crew_member.given */
	/* one reference of the letter; of one that may be taken back, one of that list,
	 * too */
	atomic_uint refs;
	/* the receiver has taken it, or the sender has taken it back.  The rest belongs
	 * to whoever has done so. */
	atomic_bool is_claimed;
	struct crew_member *to;
	int fd; /* owned until it is admitted */
	struct sock_addr remote;
	struct tls *tls;   /* owned until it is admitted; NULL: without TLS */
	struct buf sealed; /* TLS records that have arrived and were not decrypted */
	struct buf unread; /* bytes that have arrived and were not taken */
	uint64_t connect_us;
	int peer_pid;
	bool is_new; /* it was just accepted; nothing was read yet */
	bool is_unix, is_unix_owner, is_proxied;
};

/* To be called on each site's thread when it has joined the crew, and before it leaves
 * it.  Nothing happens to a site without a crew. */
void passing_init(struct site *site);
void passing_done(struct site *site);

/* Sends a new connection to this worker (crew_pick), which owns the descriptor from now
 * on; or to another one, if this one does not take it.  Only the control thread may
 * call it. */
void passing_send_new(
    struct crew_member *to, int fd, const struct sock_addr *remote, bool is_unix);
/* Sends a client to another site together with its first packet, which its handler then
 * parks (STEP_PARK).  The client must not have a pool or a server yet. */
void passing_begin(struct client *client, struct crew_member *to);
/* Opens the connection at the receiving site.  -1: no memory; it is doomed. */
int passing_open(struct client *client, struct passage *passage);

#endif
