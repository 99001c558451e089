/*
 * SHOW CLIENTS of many: the rows are written a few per turn, so that nobody waits for
 * them.  Each row is true at the moment in which it is written; the clients are those
 * of the moment of the command, as far as they are still there.
 */
#ifndef ADMIN_SLICES_H
#define ADMIN_SLICES_H

#include <stdbool.h>

#include "session/client.h"
#include "views/show.h"

struct slices;

/* Are there so many rows that they are sent in slices? */
bool slices_are_due(const struct view *view, const struct site *site);
/* Sends the head of the answer, and the rest in the turns to come.  Then *place is NULL
 * again, and the next command is shown to the console. */
void slices_start(
    struct slices **place, const struct view *view, struct client *console);
/* The console has read: go on if that was what they waited for. */
void slices_go_on(struct slices *slices);
/* The console leaves.  NULL is allowed. */
void slices_drop(struct slices **place);

#endif
