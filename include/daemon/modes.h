/*
 * Modes of the whole process: paused, suspended, shutting down.
 */
#ifndef DAEMON_MODES_H
#define DAEMON_MODES_H

#include "session/site.h"

/* The process verbs of these names (site.h). */
void modes_pause(struct site *site);
void modes_suspend(struct site *site);
void modes_resume(struct site *site);
void modes_shutdown(struct site *site, enum shutdown_mode mode);

/* If the shutdown that was asked for is complete: the line for the log; else NULL. */
const char *modes_exit_reason(struct site *site);

/* Checks whether a SUSPEND is complete; runs at the daemon's suspend_due. */
void modes_suspend_check(struct deadline *due);

/* Checks whether a shutdown is complete; runs at the daemon's exit_due. */
void modes_exit_check(struct deadline *due);

#endif
