/*
 * Which format a scrape asks for.
 */
#ifndef METRICS_FORMAT_H
#define METRICS_FORMAT_H

enum format { FORMAT_TEXT, FORMAT_OPENMETRICS, FORMAT_PROTOBUF };

/* The format that a header Accept likes best (RFC 9110, section 12.5.1); of equal ones
 * the first.  NULL, and a header that likes none of them: text. */
enum format format_choose(const char *accept);
const char *format_type(enum format format); /* for Content-Type */

#endif
