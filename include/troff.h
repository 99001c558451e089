/*
 * Manual pages from the little Markdown that our tables print.
 */
#ifndef TROFF_H
#define TROFF_H

#include <stdio.h>

/* Headings become sections, each row of a table an entry with the first cell as its
 * name, everything else paragraphs.  title is that of the page, text is changed. */
void troff_from_markdown(FILE *out, const char *title, char *text);

#endif
