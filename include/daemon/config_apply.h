/*
 * How all sites of the process take over a new snapshot of the configuration.  The
 * snapshot is loaded once; each worker adopts it between two turns of its loop.  A
 * worker that does not answer at that moment adopts it as soon as it runs again.
 */
#ifndef DAEMON_CONFIG_APPLY_H
#define DAEMON_CONFIG_APPLY_H

#include "daemon/loaded_config.h"
#include "session/site.h"

struct config_apply;

/* What changes from running to next.  Returns one reference. */
struct config_apply *config_apply_new(
    const struct loaded_config *running, const struct loaded_config *next);
/* Only certificates have changed, so only they are adopted. */
void config_apply_limit_to_tls(struct config_apply *a);
void config_apply_unref(struct config_apply **a);

/* One site adopts it; call it on the site's thread. */
void config_apply_take(struct site *site, const struct config_apply *a);
/* All sites adopt it, the control site as the last one. */
void config_apply_spread(struct site *control, struct config_apply *a);

#endif
