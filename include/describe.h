/*
 * The program prints itself: one entry for all its tables.
 */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include <stdio.h>

/* Print a topic (settings, commands, views, errors, states, options) in a form.  -1
 * when there is no such topic or it does not come in this form; that is explained on
 * complaints. */
int describe_topic(FILE *out, const char *topic, const char *form, FILE *complaints);

#endif
