/*
 * Finds the trace that a query belongs to: a comment in the form of sqlcommenter with a
 * pair traceparent='..', whose value is as in W3C Trace Context: version, trace id,
 * parent id and flags as hexadecimal digits.
 */
#ifndef WIRE_TRACEPARENT_H
#define WIRE_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>

enum { TRACEPARENT_TEXT = 56, TRACEPARENT_LOOKED_AT = 64 * 1024 };

/* Copies the first valid traceparent of a text to out.  The text ends at a NUL or after
 * len bytes, and only its first TRACEPARENT_LOOKED_AT bytes are looked at.  Returns
 * false when there is none.  has_escapes: standard_conforming_strings is off. */
bool traceparent_find(
    const char *text, size_t len, bool has_escapes, char out[TRACEPARENT_TEXT]);

#endif
