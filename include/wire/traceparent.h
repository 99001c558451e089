/*
 * The trace that a query says it belongs to: a comment of its text in the form of
 * sqlcommenter has traceparent='..' among its pairs, with a value as W3C Trace Context
 * defines it: version, trace id, parent id and flags as hexadecimal digits.
 */
#ifndef WIRE_TRACEPARENT_H
#define WIRE_TRACEPARENT_H

#include <stdbool.h>
#include <stddef.h>

enum { TRACEPARENT_TEXT = 56, TRACEPARENT_LOOKED_AT = 64 * 1024 };

/* The first one in a text that ends at a NUL or after so many bytes, of which the first
 * TRACEPARENT_LOOKED_AT are looked at.  What is not exactly of this form is none.
 * has_escapes: standard_conforming_strings is off. */
bool traceparent_find(
    const char *text, size_t len, bool has_escapes, char out[TRACEPARENT_TEXT]);

#endif
