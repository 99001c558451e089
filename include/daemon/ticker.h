/*
 * What the process does by the clock: statistics, and freeing what is idle for long.
 */
#ifndef DAEMON_TICKER_H
#define DAEMON_TICKER_H

#include <stddef.h>

#include "daemon/daemon.h"
#include "pool/stats.h"

/* Once, before anything else. */
void ticker_init(struct daemon *d);
/* Arm the deadlines; the first period of the statistics begins now. */
void ticker_start(struct daemon *d);
void ticker_stop(struct daemon *d);

enum { TICKER_LINE = 512 };
/* "stats: ..." of these averages; micro is how a microsecond is abbreviated. */
void ticker_stats_line(
    const struct stats *average, const char *micro, char out[TICKER_LINE]);

#endif
