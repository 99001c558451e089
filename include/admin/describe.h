/*
 * Prints the console's commands and views as text for the manuals.
 */
#ifndef ADMIN_DESCRIBE_H
#define ADMIN_DESCRIBE_H

#include <stdio.h>

/* Prints the table of commands as "md", or as "man": a list for a section of
 * pgbouncer(1).  Returns -1 for another format. */
int describe_commands(FILE *out, const char *as);
/* Prints the views with their columns as "md".  Returns -1 for another format. */
int describe_views(FILE *out, const char *as);

#endif
