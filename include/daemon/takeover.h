/*
 * Online restart: a new process (-R) takes over the clients and servers of an old one.
 * The new process gives the command TAKEOVER on the old one's console and gets a socket
 * with the answer.  Over it the old process sends everything that can be moved
 * (handoff/handoff.h) in frames, and then:
 *
 *     old  END      that was all
 *     new  READY    all of it can be taken            or FAILED, why not
 *     old  GO       take it                           or GIVEN_UP, why not
 *     new  ALIVE    it is mine; not a byte was read or written before
 *     old  DONE     everything here is let go
 *
 * Before READY the new process has done everything that may fail.  Until it has ALIVE
 * the old process can go on as if nothing had happened, and does when the new one ends,
 * is too slow or says FAILED.  From ALIVE on the new one is up, and nothing that the
 * old one does or fails to do ends it.  Afterwards the old one serves what could
 * not be moved, offers in the same way what can be moved by now, and ends with the last
 * client or after takeover_drain_timeout.  Both send STRAY, a connection with a cancel
 * request that is not about their own clients.
 *
 * An old process that does not understand TAKEOVER n, such as PgBouncer, gives only its
 * listening sockets (SHOW FDS), and serves the clients it has until they leave
 * (SHUTDOWN WAIT_FOR_CLIENTS).
 */
#ifndef DAEMON_TAKEOVER_H
#define DAEMON_TAKEOVER_H

#include "base/err.h"
#include "daemon/daemon.h"

enum takeover_frame {
	/* in addition to those of enum record_kind */
	TAKEOVER_END = 'e',
	TAKEOVER_READY = 'r',
	TAKEOVER_FAILED = 'f',
	TAKEOVER_GO = 'g',
	TAKEOVER_GIVEN_UP = 'x',
	TAKEOVER_ALIVE = 'a',
	TAKEOVER_DONE = 'd',
	TAKEOVER_STRAY = 'k',
};

/* ---- the old process ---- */

/* The process verb "takeover" (site.h). */
int takeover_give(
    struct site *site, struct client *console, int format, int *fd, struct err *err);
/* Call it before anything that must not happen during a takeover, such as a reload: a
 * takeover in progress is given up, and this process continues. */
void takeover_interrupt(struct site *site, const char *why);
void takeover_stop_giving(struct daemon *d);

/* ---- the new process ---- */

enum { TAKEOVER_SOCKETS = 64 };

/* What the old process answers. */
struct takeover_terms {
	int fd; /* the socket for the frames; -1: only listening sockets come */
	int sockets[TAKEOVER_SOCKETS]; /* those, the caller's */
	size_t socket_count;
	int console;   /* the console's, which stays open until it has let go */
	int pid;       /* 0: unknown */
	bool has_gone; /* nobody answers any more: it may have been killed */
};
/* Asks the process at the unix socket of these settings to hand over. */
int takeover_ask(
    const struct settings *settings, struct takeover_terms *terms, struct err *err);
/* Tells an old process that gives listening sockets to accept nobody any more, and to
 * end when its clients have left.  Closes terms->console.  -1 and err: it refuses, and
 * goes on as before. */
int takeover_ask_to_drain(struct takeover_terms *terms, struct err *err);
/* Pools decide nothing before takeover_take has succeeded: they would open servers that
 * the old process is about to hand over. */
void takeover_hold_pools(struct daemon *d);
/* Runs the loop until this process has taken over everything that can be moved, and the
 * listening sockets.  If the old process is killed meanwhile, this one goes on with
 * what it has got.  -1 and err: it failed, and the old process continues. */
int takeover_take(struct daemon *d, struct err *err);
void takeover_stop_taking(struct daemon *d);
/* Takes the listening sockets of a process that keeps its clients.  -1 and err: that
 * process goes on as before. */
int takeover_drain(struct daemon *d, struct takeover_terms *terms, struct err *err);
void takeover_stop_draining(struct daemon *d);
/* Is a takeover in progress that has not taken over anything yet? */
bool takeover_is_beginning(const struct daemon *d);
/* Does the old process still run, to serve clients that could not be moved? */
bool takeover_has_elder(const struct daemon *d);

/* ---- both ---- */

/* The process verb "may_pass_cancel" (site.h). */
bool takeover_may_pass_cancel(struct client *client, const uint8_t *packet, size_t len);
/* Pass a cancel request to the newer process, or to the older one.  False: there is
 * none. */
bool takeover_may_pass_to_newer(
    struct daemon *d, const struct client *client, const uint8_t *packet, size_t len);
bool takeover_may_pass_to_older(
    struct daemon *d, const struct client *client, const uint8_t *packet, size_t len);

#endif
