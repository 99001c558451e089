/*
 * Lines of the log as bytes: plain, for the journal, for syslog, and JSON.
 */
#ifndef BASE_LOG_LINE_H
#define BASE_LOG_LINE_H

#include <time.h>

#include "base/buf.h"
#include "base/log.h"

/* A message is cut at so many bytes, each of which may become six.  What a line tells
 * beside it is cut so that all fits. */
enum { LOG_MESSAGE_MOST = 2048, LOG_LINE_MOST = 32 * 1024 };

struct log_line {
	unsigned what;
	int worker;       /* -1: there is one thread, or it is the control thread */
	const char *text; /* the message; in plain with the tag before it */
	const struct log_parts *parts;
};

/* What the lines of one second have in common. */
struct log_clock {
	long pid;
	time_t second; /* -1: not known */
	char plain_time[32], plain_zone[64];
	char json_time[32], json_zone[16];
};

/* For a process, and again when its time zone may have changed. */
void log_clock_set(struct log_clock *clock, long pid);

/* For syslog and the journal. */
int log_line_priority(const struct log_line *line);

/* Each puts one line, with its newline, into an empty buffer of LOG_LINE_MOST. */
void log_line_put_plain(
    struct buf *b, struct log_clock *clock, const struct log_line *line);
void log_line_put_json(
    struct buf *b, struct log_clock *clock, const struct log_line *line);
/* Without time, process and level. */
void log_line_put_bare(struct buf *b, const struct log_line *line);
/* For the journal: each line of the stream is an entry of its own and begins with its
 * priority. */
void log_line_put_journal(
    struct buf *b, struct log_clock *clock, const struct log_line *line, bool is_json);

#endif
