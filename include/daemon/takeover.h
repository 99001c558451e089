/*
 * Online restart: a new process (-R) takes over what an old one has.  The new one gives
 * the command TAKEOVER on the old one's console and gets a socket with the answer.  On
 * it the old one sends, frame by frame, all that can be moved (moving/moving.h), and
 * then:
 *
 *     old  END      that was all
 *     new  READY    all of it can be taken            or FAILED, why not
 *     old  GO       take it                           or GIVEN_UP, why not
 *     new  ALIVE    it is mine; not a byte was read or written before
 *     old  DONE     everything here is let go
 *
 * Until it has ALIVE the old process can go on as if nothing had happened, and does
 * when the new one ends, is too slow or says FAILED.  Afterwards it serves what could
 * not be moved, offers in the same way what can be moved by now, and ends with the last
 * client or after takeover_drain_timeout.  Both send STRAY, a connection with a cancel
 * request that is not about their own clients.
 */
#ifndef DAEMON_TAKEOVER_H
#define DAEMON_TAKEOVER_H

#include "base/err.h"
#include "daemon/daemon.h"

enum takeover_frame {
	/* besides those of enum parcel_kind */
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

/* The process verb. */
int takeover_give(
    struct site *site, struct client *console, int format, int *fd, struct err *err);
/* Something else is to be done that a takeover must not see: what is under way is given
 * up, and everything goes on. */
void takeover_interrupt(struct site *site, const char *why);
void takeover_stop_giving(struct daemon *d);

/* ---- the new process ---- */

/* Ask the process at the unix socket of these settings: gives the socket for all else,
 * and the console, which stays open until we are up. */
int takeover_ask(
    const struct settings *settings, int *fd, int *console, struct err *err);
/* Runs the loop until everything is ours; the listening sockets are, too.  -1 and err:
 * the old process goes on, if it can. */
int takeover_take(struct daemon *d, struct err *err);
void takeover_stop_taking(struct daemon *d);
/* Is nothing ours yet? */
bool takeover_is_beginning(const struct daemon *d);
/* Is there a process that still serves some of its clients for us? */
bool takeover_has_elder(const struct daemon *d);

/* ---- both ---- */

/* The process verb. */
bool takeover_may_pass_cancel(
    struct client *carrier, const uint8_t *packet, size_t len);
/* To the one or to the other. */
bool takeover_may_pass_to_heir(
    struct daemon *d, const struct client *carrier, const uint8_t *packet, size_t len);
bool takeover_may_pass_to_elder(
    struct daemon *d, const struct client *carrier, const uint8_t *packet, size_t len);

#endif
