/*
 * Clients that rest go from one worker to another that has less to do.  A site finds
 * out which of its clients can go, stops them, and describes them; the control thread
 * decides when, how many and where to, and posts them (daemon/spread).  It posts them
 * in the same handler in which they leave their site.  So what it asks the receiver for
 * afterwards finds them there, and it never sees one at two sites or at none.
 */
#ifndef MOVING_RELOCATE_H
#define MOVING_RELOCATE_H

#include <stddef.h>

#include "base/list.h"
#include "session/crew.h"

/* Begins to count which clients of the site get servers, to choose among them. */
void relocate_watch(struct site *site);
/* Chooses clients that have, since relocate_watch, had about `percent` of the servers
 * that were given, and ends the counting.  Returns how many. */
size_t relocate_choose_active(struct site *site, unsigned percent);
/* Chooses at most so many clients that rest now, others than at the last call. */
size_t relocate_choose_idle(struct site *site, size_t most);

/* Stops those that were chosen and rest, and appends some that stand still to `gone`, a
 * list that relocate_post takes over: these have left this site, and count for the
 * receiver.  Returns how many of the chosen ones are still here; to be called
 * again a moment later. */
size_t relocate_step(struct site *site, struct crew_member *to, struct list *gone);
/* Lets the others go on, and forgets them.  Also ends a counting. */
void relocate_end(struct site *site);

/* On the control thread: sends clients to where they were described for. */
void relocate_post(struct list *gone);

#endif
