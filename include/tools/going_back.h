/*
 * --for-pgbouncer: what of a configuration does PgBouncer 1.25 not know?
 */
#ifndef TOOLS_GOING_BACK_H
#define TOOLS_GOING_BACK_H

#include <stdio.h>

/* Reads the file and those that it includes, and prints what has to be taken out of
 * them as "file:line: what, and why".  Returns the number of such places. */
unsigned going_back_look(FILE *out, const char *file);

#endif
