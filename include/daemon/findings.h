/*
 * What was found wrong or odd while a configuration was loaded, in the order in which
 * it was found: for the log, for --check-config and for the console.
 */
#ifndef DAEMON_FINDINGS_H
#define DAEMON_FINDINGS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"

enum finding {
	FINDING_WARNING, /* it is taken, but may not mean what was intended */
	FINDING_ERROR,   /* the configuration is refused */
	FINDING_LOSS,    /* a start goes on without it; a reload is refused */
	FINDING_ABSENT,  /* both go on without it, and what was there before stays */
	FINDING_KNOWN, /* a line that log watchers know; it adds nothing to the finding
			  before it and is for the log only */
};

struct findings {
	struct buf
	    list; /* of each: the kind as a byte, place and text with their NULs */
	unsigned counts[FINDING_KNOWN + 1];
};

void findings_init(struct findings *f);
void findings_done(struct findings *f);
/* where is "FILE:LINE", the name of the setting that is to blame, or "". */
void findings_add(
    struct findings *f, enum finding kind, const char *where, const char *text);
/* All of more, behind those that are there. */
void findings_append(struct findings *f, const struct findings *more);
/* Logs all but warnings. */
void findings_log_errors(const struct findings *f, struct log *log);
void findings_log_warnings(const struct findings *f, struct log *log);
bool findings_are_equal(const struct findings *a, const struct findings *b);
/* Prints each as "FILE:LINE: what is wrong".  Where a setting is to blame, put_place
 * prints where it is written.  Returns the number of those that are not warnings. */
unsigned findings_print(const struct findings *f, FILE *out,
    void (*put_place)(void *ctx, const char *setting), void *ctx);
/* The first one because of which the configuration is refused, as "FILE:LINE: text". */
void findings_first_error(const struct findings *f, struct err *err);

#endif
