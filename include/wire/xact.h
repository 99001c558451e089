/*
 * Commands that begin or end a transaction block and do nothing else: BEGIN and START
 * TRANSACTION with the modes of the transaction, COMMIT, END, ROLLBACK and ABORT.
 */
#ifndef WIRE_XACT_H
#define WIRE_XACT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum xact_verb {
	XACT_NONE, /* another text */
	XACT_BEGIN,
	XACT_START, /* START TRANSACTION, which only has another tag */
	XACT_COMMIT,
	XACT_ROLLBACK,
};

/* What such a text says of the transaction, as bits: one number for its isolation
 * level, one for READ ONLY and READ WRITE, one for [NOT] DEFERRABLE.  0: nothing. */
enum { XACT_MODES_ALL = 0x7f };

/* Reads a text of len bytes, which end with its NUL.  A text that says something twice,
 * or that is longer than such a text needs to be, is another one; so is AND CHAIN.
 * *modes: of XACT_BEGIN and XACT_START. */
enum xact_verb xact_read(const char *text, size_t len, uint8_t *modes);
/* The tag of its CommandComplete. */
const char *xact_tag(enum xact_verb verb);
/* Appends the BEGIN with these modes. */
void xact_put_begin(uint8_t modes, struct buf *sql);

#endif
