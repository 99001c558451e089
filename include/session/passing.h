/*
 * Connections that another site of the process accepted: new ones, and those of which
 * the first packet says that they concern another site (a console, a cancel request).
 * They take along what they have said so far, and their TLS.
 */
#ifndef SESSION_PASSING_H
#define SESSION_PASSING_H

#include "base/buf.h"
#include "session/client.h"
#include "session/crew.h"

struct tls;

/* One on its way. */
struct passage {
	struct letter letter;
	struct crew_member *to;
	int fd; /* owned until it is admitted */
	struct sock_addr remote;
	struct tls *tls;   /* owned until it is admitted; NULL: in clear */
	struct buf sealed; /* records of it that came and were not read */
	struct buf unread; /* what came and was not taken */
	uint64_t connect_us;
	int peer_pid;
	bool is_new; /* nothing was read yet */
	bool is_unix, is_unix_owner;
	uint8_t passed_from; /* enum passed_from */
	uint8_t hops_left;   /* of a cancel request: how many sites have not seen it */
};

/* A new connection goes to this worker; the descriptor is its own from now on. */
void passing_send_new(
    struct crew_member *to, int fd, const struct sock_addr *remote, bool is_unix);
/* The client's handler has not taken its first packet (STEP_PARK), and the client goes
 * on with it over there.  It must not be linked to anything yet. */
void passing_begin(struct client *client, struct crew_member *to);
/* A connection with a CancelRequest, which is shown to the next site; packet is the
 * whole of it.  False: all have seen it. */
bool passing_may_ask_next(struct client *carrier, const uint8_t *packet, size_t len);
/* The same for one that concerns another process: the control site deals with those.
 * False: it is this one. */
bool passing_may_ask_control(struct client *carrier, const uint8_t *packet, size_t len);

/* On arrival: opens the connection with what came.  -1: no memory; it is doomed. */
int passing_open(struct client *client, struct passage *passage);

#endif
