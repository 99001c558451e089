/*
 * What the readers of access files (HBA, ident, user list) say while they read.
 */
#ifndef AUTH_REMARK_H
#define AUTH_REMARK_H

enum remark {
	REMARK_WARNING, /* the line is taken, but it may not mean what was intended */
	REMARK_FAULT,   /* the line cannot be read, so the file is refused as a whole */
	REMARK_KNOWN,   /* the text that log watchers know; it adds nothing to the fault
			   before it and is for the log only */
};

/* Remarks come in the order of the lines.  where is "FILE:LINE"; where and text are
 * borrowed for the call.  Readers take NULL when nobody wants the remarks. */
typedef void remark_fn(
    void *ctx, enum remark kind, const char *where, const char *text);

#endif
