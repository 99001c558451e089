/*
 * Makes manual pages from the Markdown that the program's tables print.
 */
#ifndef TOOLS_TROFF_H
#define TOOLS_TROFF_H

#include <stdio.h>

/* Headings become sections, each row of a table becomes an entry with the first cell as
 * its name, and everything else paragraphs.  The caller prints the .TH line.  text is
 * modified. */
void troff_from_markdown(FILE *out, char *text);

#endif
