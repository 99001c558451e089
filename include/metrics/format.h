/*
 * Chooses the format of a scrape's answer.
 */
#ifndef METRICS_FORMAT_H
#define METRICS_FORMAT_H

enum format { FORMAT_TEXT, FORMAT_OPENMETRICS };

/* The format that an Accept header prefers (RFC 9110, section 12.5.1), the first of
 * equal ones.  FORMAT_TEXT if accept is NULL or names none of the formats. */
enum format format_choose(const char *accept);
const char *format_type(enum format format); /* its Content-Type */

#endif
