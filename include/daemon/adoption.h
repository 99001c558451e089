/*
 * How all sites of the process take over a new snapshot of the configuration.  The
 * snapshot is loaded once; each worker adopts it between two turns of its loop.  A
 * worker that does not answer at that moment adopts it as soon as it runs again.
 */
#ifndef DAEMON_ADOPTION_H
#define DAEMON_ADOPTION_H

#include "daemon/loaded_config.h"
#include "session/site.h"

struct adoption;

/* What changes from running to next.  Returns one reference. */
struct adoption *adoption_new(
    const struct loaded_config *running, const struct loaded_config *next);
/* Only certificates have changed, so only they are adopted. */
void adoption_limit_to_tls(struct adoption *a);
void adoption_unref(struct adoption **a);

/* One site adopts it; call it on the site's thread. */
void adoption_take(struct site *site, const struct adoption *a);
/* All sites adopt it, the control site as the last one. */
void adoption_spread(struct site *control, struct adoption *a);

#endif
