/*
 * Remarks of the functions that read access files (HBA, ident, user list).
 */
#ifndef AUTH_REMARK_H
#define AUTH_REMARK_H

enum remark {
	/* the line is used, but may not mean what its author intended */
	REMARK_WARNING,
	REMARK_FAULT, /* the line cannot be read, so the whole file is refused */
	/* for the log only: the text that log watchers know, following a fault and
	 * saying the same */
	REMARK_KNOWN,
};

/* Is called in the order of the lines.  where is "FILE:LINE"; where and text are
 * borrowed for the call.  A reader may be given NULL instead. */
typedef void remark_fn(
    void *ctx, enum remark kind, const char *where, const char *text);

#endif
