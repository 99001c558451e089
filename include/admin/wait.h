/*
 * Replies that come later: each waiting command ends on its own condition with its own
 * tag.  A console that waits goes on reading commands.
 */
#ifndef ADMIN_WAIT_H
#define ADMIN_WAIT_H

#include "session/client.h"
#include "session/switchover.h"

enum wait_kind {
	WAIT_PAUSE,   /* until no server is in use */
	WAIT_CLOSE,   /* until no server is to be closed at its release */
	WAIT_SUSPEND, /* until everything stands still; for all databases only */
};

/* Everybody who waits.  Made before the first client, hangs from site->waits, freed
 * before the loop and after the last client. */
struct waits;
struct waits *waits_new(struct site *site);
void waits_free(struct waits **waits);

/* Waits for one database, or for all with database NULL.  Answers at once when there is
 * nothing to wait for. */
void wait_begin(struct client *client, enum wait_kind kind, const char *database);
/* Until the SWITCHOVER has ended; it goes on without its console if that closes. */
void wait_begin_switchover(struct client *client, struct switchover *s);
/* Look at what everybody waits for now.  The process verb resume calls it: whoever
 * waits for the PAUSE that ended gets an error at once. */
void wait_review(struct site *site);
/* A cancel request for the console: a SWITCHOVER that it waits for is interrupted. */
void wait_cancel(struct client *client);
/* The console is closing. */
void wait_drop(struct client *client);

#endif
