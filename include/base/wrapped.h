/*
 * Prints prose on a terminal of 80 columns.
 */
#ifndef BASE_WRAPPED_H
#define BASE_WRAPPED_H

#include <stdio.h>

/* Prints a printf text, wrapped between words.  lead is put before the first line, and
 * as many blanks before the others. */
void wrapped_put(FILE *out, const char *lead, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
