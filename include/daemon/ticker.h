/*
 * What the process does periodically: statistics, freeing what has been idle for long,
 * and the service manager's watchdog.
 */
#ifndef DAEMON_TICKER_H
#define DAEMON_TICKER_H

#include <stddef.h>

#include "daemon/daemon.h"
#include "pool/stats.h"

/* Call it once, before the other functions. */
void ticker_init(struct daemon *d);
/* Sets the deadlines; the first period of the statistics begins now. */
void ticker_start(struct daemon *d);
void ticker_stop(struct daemon *d);

enum { TICKER_LINE = 512 };
/* Writes the line "stats: ..." for these averages.  micro: the sign for microsecond. */
void ticker_stats_line(
    const struct stats *average, const char *micro, char out[TICKER_LINE]);

#endif
