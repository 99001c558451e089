/*
 * Errors and warnings from loading a configuration, in the order in which they were
 * found.  They go to the log, to --check-config and to the console.
 */
#ifndef DAEMON_DIAGNOSTICS_H
#define DAEMON_DIAGNOSTICS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/diagnostic.h"
#include "base/err.h"
#include "base/log.h"

struct diagnostics {
	struct buf list; /* for each: the kind as one byte, the place and the text, each
			    with its NUL */
	unsigned counts[DIAGNOSTIC_KNOWN + 1];
};

void diagnostics_init(struct diagnostics *f);
void diagnostics_done(struct diagnostics *f);
/* where is "FILE:LINE", the name of the setting that causes it, or "". */
void diagnostics_add(
    struct diagnostics *f, enum diagnostic kind, const char *where, const char *text);
/* Logs all diagnostics but warnings. */
void diagnostics_log_errors(const struct diagnostics *f, struct log *log);
void diagnostics_log_warnings(const struct diagnostics *f, struct log *log);
bool diagnostics_are_equal(const struct diagnostics *a, const struct diagnostics *b);
/* Prints each as "FILE:LINE: what is wrong".  For a diagnostic about a setting,
 * put_place prints where the setting is written.  Returns the number of diagnostics
 * that are not warnings. */
unsigned diagnostics_print(const struct diagnostics *f, FILE *out,
    void (*put_place)(void *ctx, const char *setting), void *ctx);
/* The diagnostics for which the configuration is refused, each as "FILE:LINE: text" on
 * lines of its own.  What does not fit is left out. */
void diagnostics_errors(const struct diagnostics *f, struct err *err);

#endif
