/*
 * Errors and warnings from loading a configuration, in the order in which they were
 * found.  They go to the log, to --check-config and to the console.
 */
#ifndef DAEMON_FINDINGS_H
#define DAEMON_FINDINGS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"

enum finding {
	FINDING_WARNING, /* accepted, but perhaps not what was intended */
	FINDING_ERROR,   /* the configuration is refused */
	FINDING_LOSS,    /* a start continues without it; a reload is refused */
	FINDING_ABSENT,  /* start and reload continue without it; a reload keeps the old
			    value */
	FINDING_KNOWN,   /* repeats the finding before it in the words that tools expect
			    in the log; for the log only */
};

struct findings {
	struct buf list; /* for each: the kind as one byte, the place and the text, each
			    with its NUL */
	unsigned counts[FINDING_KNOWN + 1];
};

void findings_init(struct findings *f);
void findings_done(struct findings *f);
/* where is "FILE:LINE", the name of the setting that causes it, or "". */
void findings_add(
    struct findings *f, enum finding kind, const char *where, const char *text);
/* Appends all findings of more. */
void findings_append(struct findings *f, const struct findings *more);
/* Logs all findings but warnings. */
void findings_log_errors(const struct findings *f, struct log *log);
void findings_log_warnings(const struct findings *f, struct log *log);
bool findings_are_equal(const struct findings *a, const struct findings *b);
/* Prints each as "FILE:LINE: what is wrong".  For a finding about a setting, put_place
 * prints where the setting is written.  Returns the number of findings that are not
 * warnings. */
unsigned findings_print(const struct findings *f, FILE *out,
    void (*put_place)(void *ctx, const char *setting), void *ctx);
/* The first finding for which the configuration is refused, as "FILE:LINE: text". */
void findings_first_error(const struct findings *f, struct err *err);

#endif
