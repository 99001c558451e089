/*
 * What the readers of files report: the configuration, HBA and ident rules, the user
 * list.
 */
#ifndef BASE_DIAGNOSTIC_H
#define BASE_DIAGNOSTIC_H

enum diagnostic {
	/* accepted, but perhaps not what its author intended */
	DIAGNOSTIC_WARNING,
	DIAGNOSTIC_ERROR, /* the file, and so the configuration, is refused */
	DIAGNOSTIC_LOSS,  /* a start continues without it; a reload is refused */
	/* start and reload continue without it; a reload keeps the old value */
	DIAGNOSTIC_ABSENT,
	/* start and reload continue with it, but whoever needs it is refused */
	DIAGNOSTIC_EXPIRED,
	/* repeats the one before it in the words that tools expect in the log; for the
	 * log only */
	DIAGNOSTIC_KNOWN,
};

/* Is called in the order of the lines.  where is "FILE:LINE"; where and text are
 * borrowed for the call.  A reader may be given NULL instead.  Readers of single files
 * report only WARNING, ERROR and KNOWN. */
typedef void diagnostic_fn(
    void *ctx, enum diagnostic kind, const char *where, const char *text);

#endif
