/*
 * Modes of the whole process: paused, suspended, shutting down.
 */
#ifndef DAEMON_PROCESS_STATE_H
#define DAEMON_PROCESS_STATE_H

#include "session/site.h"

/* The process verbs of these names (site.h). */
void process_state_pause(struct site *site);
void process_state_suspend(struct site *site);
void process_state_resume(struct site *site);
void process_state_shutdown(struct site *site, enum shutdown_mode mode);

/* If the shutdown that was asked for is complete: the line for the log; else NULL. */
const char *process_state_exit_reason(struct site *site);

/* Checks whether a SUSPEND is complete; runs at the daemon's suspend_due. */
void process_state_suspend_check(struct deadline *due);

/* Checks whether a shutdown is complete; runs at the daemon's exit_due. */
void process_state_exit_check(struct deadline *due);

#endif
