/*
 * Modes of the whole process: paused, shutting down.
 */
#ifndef MODES_H
#define MODES_H

#include "session/site.h"

/* The process verbs of these names. */
void modes_pause(struct site *site);
void modes_resume(struct site *site);
void modes_shutdown(struct site *site, enum shutdown_mode mode);

/* Is the shutdown that was asked for complete?  The line for the log, or NULL. */
const char *modes_exit_reason(const struct site *site);

/* The daemon's deadline while shutting down. */
void modes_exit_check(struct deadline *due);

#endif
