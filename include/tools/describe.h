/*
 * `--describe`: the program prints its own tables (settings, commands, views and so
 * on), from which documents are made.
 */
#ifndef TOOLS_DESCRIBE_H
#define TOOLS_DESCRIBE_H

#include <stdio.h>

/* Prints the table of a topic (settings, databases, users, peers, commands, views,
 * errors, states, options) to out in a form: md, ini, or man (with a .TH line, so that
 * man can show it as a page).  -1: there is no such topic, or it cannot be printed in
 * this form; a line on `complaints` says which. */
int describe_topic(FILE *out, const char *topic, const char *form, FILE *complaints);

#endif
