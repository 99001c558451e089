/*
 * The tables from which the program is made (settings, commands, views and so on), as
 * text for the references, the manual pages and the sample file.  A program of the
 * build prints them; the pooler does not contain it.
 *
 * Each function prints one table to out as "md", "man" or "ini", and returns -1 for a
 * format that the table does not have.
 */
#ifndef DOCS_DOCS_H
#define DOCS_DOCS_H

#include <stdio.h>

/* "md" for the reference, "man" for the manual page, or "ini": a [pgbouncer] section
 * with the defaults in comments. */
int docs_settings(FILE *out, const char *as);
/* The keys of entries in [databases], [users] and [peers] as "md" or "man". */
int docs_databases(FILE *out, const char *as);
int docs_users(FILE *out, const char *as);
int docs_peers(FILE *out, const char *as);

/* The console's commands as "md", or as "man": a list for a section of pgbouncer(1). */
int docs_commands(FILE *out, const char *as);
/* The views with their columns as "md". */
int docs_views(FILE *out, const char *as);

/* The command line as "md", or as "man": a list for a section of pgbouncer(1). */
int docs_options(FILE *out, const char *as);

/* What clients are told, the states of server connections, and the metrics, as "md". */
int docs_errors(FILE *out, const char *as);
int docs_states(FILE *out, const char *as);
int docs_metrics(FILE *out, const char *as);

#endif
