/*
 * Commands whose reply comes later, when their condition is fulfilled.  Meanwhile their
 * console accepts further commands.
 */
#ifndef ADMIN_WAIT_H
#define ADMIN_WAIT_H

#include "session/client.h"
#include "session/switchover.h"

enum wait_kind {
	WAIT_PAUSE,   /* until no server is in use */
	WAIT_CLOSE,   /* until no server is to be closed at its release */
	WAIT_SUSPEND, /* until everything has stopped; for all databases only */
};

/* The commands that wait, in site->waits.  Made before the first client; freed after
 * the last client and before the loop. */
struct waits;
struct waits *waits_new(struct site *site);
void waits_free(struct waits **waits);

/* Waits for one database, or for all if database is NULL.  Answers at once if the
 * condition is fulfilled. */
void wait_begin(struct client *client, enum wait_kind kind, const char *database);
/* Waits for the end of a SWITCHOVER, which continues if its console closes. */
void wait_begin_switchover(struct client *client, struct switchover *s);
/* Checks all conditions now.  RESUME calls it, so that commands which wait for the
 * PAUSE that it ends get an error at once. */
void wait_review(struct site *site);
/* A cancel request for the console: a SWITCHOVER that it waits for is interrupted.
 * resumes: RESUME of the whole pooler follows, so commands that wait for its PAUSE or
 * SUSPEND get an error. */
void wait_cancel(struct client *client, bool resumes);
/* The console closes: its commands wait no longer. */
void wait_drop(struct client *client);

#endif
