/*
 * Builds lines of the log as bytes: plain text, JSON, for the journal and for syslog.
 */
#ifndef BASE_LOG_LINE_H
#define BASE_LOG_LINE_H

#include <time.h>

#include "base/buf.h"
#include "base/log.h"

/* A message is cut after this many bytes, each of which can take six bytes in JSON.
 * Fields are cut so that a whole line fits into LOG_LINE_MOST. */
enum { LOG_MESSAGE_MOST = 2048, LOG_LINE_MOST = 32 * 1024 };

struct log_line {
	unsigned what;
	int worker;       /* -1: the control thread, or the only thread */
	const char *text; /* the message; in a plain line it includes the tag */
	const struct log_parts *parts;
};

/* What lines of the same second have in common, so that it is formatted once. */
struct log_clock {
	long pid;
	time_t second; /* -1: not known */
	char plain_time[32], plain_zone[64];
	char json_time[32], json_zone[16];
};

/* Is called when a process begins, and again when its time zone may have changed. */
void log_clock_set(struct log_clock *clock, long pid);

/* "WARNING" */
const char *log_line_level(const struct log_line *line);
/* The priority number of syslog and the journal. */
int log_line_priority(const struct log_line *line);

/* Each of these functions puts one line with its newline into b, an empty buffer with
 * room for LOG_LINE_MOST bytes. */
void log_line_put_plain(
    struct buf *b, struct log_clock *clock, const struct log_line *line);
void log_line_put_json(
    struct buf *b, struct log_clock *clock, const struct log_line *line);
/* A line without time, process id and level. */
void log_line_put_bare(struct buf *b, const struct log_line *line);
/* A line for the journal, which takes every line of the stream as an entry and reads
 * the priority at its beginning. */
void log_line_put_journal(
    struct buf *b, struct log_clock *clock, const struct log_line *line, bool is_json);

#endif
