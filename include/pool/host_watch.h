/*
 * One host (a name and a port) as the whole process knows it, and what the monitor does
 * next about it.  There is one such record for all databases and workers; the control
 * thread owns it.  There is no I/O and no clock here: the monitor connects and asks,
 * tells what came of it, and asks for the next step.
 *
 * What servers of pools report is a hint only: the host is asked at once.
 */
#ifndef POOL_HOST_WATCH_H
#define POOL_HOST_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/host_state.h"

/* How a host is watched: the strictest of what its databases say. */
struct host_policy {
	/* between two questions while all is well (role_check_period); 0: only hints
	 * lead to questions */
	uint64_t period_us;
	/* a question or login that is not answered for so long: the host hangs
	 * (host_hung_timeout); 0: never */
	uint64_t hung_us;
	/* some database is in use, or has clients and no host that serves: the host is
	 * asked five times a second, or tried at least every second */
	bool is_urgent;
	/* some database with clients, or a SWITCHOVER, needs the host */
	bool is_wanted;
	/* All its databases have no other host, and ask for no role: what their servers
	 * send shows that it answers.  It is asked only when they have sent nothing for
	 * a period, or for a second while queries run, over a connection that is closed
	 * then. */
	bool is_lone;
};

enum watch_step {
	WATCH_NOTHING,
	WATCH_CONNECT, /* open the monitor's connection and log in */
	WATCH_ASK,     /* send the question */
	WATCH_CLOSE,   /* close the connection, or give the attempt up */
};

/* Why an attempt or the connection has failed. */
enum watch_failure {
	WATCH_LOST,    /* network: refused, timeout, DNS, TLS, end of the connection */
	WATCH_REFUSED, /* the server has answered with an error */
	/* the server is there, but does not let the monitor's own user in
	 * (role_check_user), which says nothing about the users of pools */
	WATCH_UNASKABLE,
	WATCH_NO_LOGIN, /* there is no secret to log in with: nothing was tried */
};

enum watch_phase {
	WATCH_APART,      /* there is no connection */
	WATCH_CONNECTING, /* an attempt is under way */
	WATCH_RESTING,    /* connected, nothing was asked */
	WATCH_ASKING,     /* connected, and the answer is awaited */
};

struct host_watch {
	struct host_value value; /* what everybody reads */
	char *name;              /* owned; NULL: the Unix socket in unix_socket_dir */
	int port;
	enum watch_phase phase;
	uint64_t begun_us; /* of the last attempt or question; 0: there was none */
	uint64_t done_us;  /* when its outcome was known; 0: it may follow at once */
	bool is_hinted;    /* to be asked at once */
	bool is_heard;     /* a pool has logged in since it was down */
	bool has_changed;  /* see host_watch_take_change */
};

void host_watch_init(struct host_watch *w, const char *name, int port);
void host_watch_done(struct host_watch *w);

/* What to do now; the watch takes it as done.  *wake_us is lowered to the time of the
 * next call if nothing happens before.  Call it until it says WATCH_NOTHING, after each
 * event, and at that time.  A host whose answer is overdue becomes HOST_HANGS here. */
enum watch_step host_watch_next(struct host_watch *w, const struct host_policy *policy,
    uint64_t now_us, uint64_t *wake_us);

/* ---- events ---- */

/* The login is complete. */
void host_watch_connected(struct host_watch *w, uint64_t now_us);
void host_watch_answered(struct host_watch *w, const struct host_report *report,
    const char *unasked, uint64_t now_us);
/* The attempt has failed, or the connection was lost.  text: the system's or the
 * server's words; copied. */
void host_watch_failed(
    struct host_watch *w, enum watch_failure kind, const char *text, uint64_t now_us);
/* A server of a pool tells something new (its role, an error of a standby, a lost or
 * refused connection): ask at once. */
void host_watch_hint(struct host_watch *w);
/* A pool has logged in.  report: what that server reports by itself. */
void host_watch_heard(
    struct host_watch *w, const struct host_report *report, uint64_t now_us);
/* Servers of pools have sent something: a host without which its databases have none
 * (is_lone) answers.  The caller has given an attempt up. */
void host_watch_alive(struct host_watch *w, uint64_t now_us);
/* How the monitor logs in has changed: the caller has closed the connection, and a new
 * one follows at once. */
void host_watch_renew(struct host_watch *w);

/* Whether the value has changed since the last call; a new position alone is no
 * change. */
bool host_watch_take_change(struct host_watch *w);

#endif
