/*
 * What the sites of the process take over from a snapshot of the configuration.  The
 * snapshot is loaded once; every worker adopts it between two turns of its loop, also
 * one that stands still when it is put in force: that one does so as soon as it can.
 */
#ifndef DAEMON_ADOPTION_H
#define DAEMON_ADOPTION_H

#include "daemon/configuration.h"
#include "session/site.h"

struct adoption;

/* From running to next, whose user list changes hands.  One reference. */
struct adoption *adoption_new(
    const struct configuration *running, struct configuration *next);
/* Nothing but certificates has changed. */
void adoption_limit_to_tls(struct adoption *a);
void adoption_unref(struct adoption **a);

/* By one site, on its thread. */
void adoption_take(struct site *site, const struct adoption *a);
/* By all sites, and by the caller's own last. */
void adoption_spread(struct site *control, struct adoption *a);

#endif
