/*
 * Modes of the whole process: paused, suspended, shutting down.
 */
#ifndef DAEMON_MODES_H
#define DAEMON_MODES_H

#include "session/site.h"

/* The process verbs of these names. */
void modes_pause(struct site *site);
void modes_suspend(struct site *site);
void modes_resume(struct site *site);
void modes_shutdown(struct site *site, enum shutdown_mode mode);

/* Is the shutdown that was asked for complete?  The line for the log, or NULL. */
const char *modes_exit_reason(struct site *site);

/* The daemon's deadline while a SUSPEND is not complete. */
void modes_suspend_check(struct deadline *due);

/* The daemon's deadline while shutting down. */
void modes_exit_check(struct deadline *due);

#endif
