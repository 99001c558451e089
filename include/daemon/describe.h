/*
 * The program prints itself: one entry for all its tables.
 */
#ifndef DAEMON_DESCRIBE_H
#define DAEMON_DESCRIBE_H

#include <stdio.h>

/* Print the table of a topic (settings, databases, users, peers, commands, views,
 * errors, states, options) in a form: md, ini, or man (with a .TH line, so that it can
 * be read as a page).  -1 when there is no such topic or it does not come in this form;
 * that is explained on complaints. */
int describe_topic(FILE *out, const char *topic, const char *form, FILE *complaints);

#endif
