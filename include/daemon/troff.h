/*
 * Manual pages from the little Markdown that our tables print.
 */
#ifndef DAEMON_TROFF_H
#define DAEMON_TROFF_H

#include <stdio.h>

/* Headings become sections, each row of a table an entry with the first cell as its
 * name, everything else paragraphs.  The .TH line is the caller's; text is changed. */
void troff_from_markdown(FILE *out, char *text);

#endif
