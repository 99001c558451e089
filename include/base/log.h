/*
 * The log: levels, sinks (stderr, file, syslog), the exact line shape that log parsers
 * know, a tag per line, a rate limit.  A struct log hangs from the site; there is no
 * global one.
 *
 * Line: `YYYY-MM-DD HH:MM:SS.mmm TZ [PID] LEVEL TAG MESSAGE\n`; a newline inside a
 * message becomes newline + tab; trailing white space is removed; about 2 KiB at most.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>

#include "base/err.h"

enum log_level {
	LEVEL_FATAL,
	LEVEL_ERROR,
	LEVEL_WARNING,
	LEVEL_LOG,
	LEVEL_DEBUG, /* verbose >= 1 */
	LEVEL_NOISE, /* verbose >= 2 */
};

struct log;

/* What the configuration says; strings are copied. */
struct log_config {
	const char
	    *file; /* NULL or "": no file.  Opened at the first line, appended to */
	bool syslog;
	const char *syslog_ident;
	const char *syslog_facility; /* unknown names mean daemon */
	int verbose;
};

/* A log that writes to stderr only. */
struct log *log_new(void);
void log_free(struct log **log);
/* Take over new configuration and reopen the file at the next line. */
void log_configure(struct log *log, const struct log_config *config);
/* Could a line be written there?  -1: *err says why not.  Makes the file. */
int log_check_file(const char *path, struct err *err);
/* -q and -d: no more stderr. */
void log_quiet(struct log *log);

bool log_is_on(const struct log *log, enum log_level level);

/* tag may be NULL or ""; otherwise it stands before the message with one space. */
void log_put(struct log *log, enum log_level level, const char *tag, const char *fmt,
    ...) __attribute__((format(printf, 4, 5)));
void log_putv(struct log *log, enum log_level level, const char *tag, const char *fmt,
    va_list ap) __attribute__((format(printf, 4, 0)));

#define log_fatal(log, ...)   log_put(log, LEVEL_FATAL, NULL, __VA_ARGS__)
#define log_error(log, ...)   log_put(log, LEVEL_ERROR, NULL, __VA_ARGS__)
#define log_warning(log, ...) log_put(log, LEVEL_WARNING, NULL, __VA_ARGS__)
#define log_info(log, ...)    log_put(log, LEVEL_LOG, NULL, __VA_ARGS__)
#define log_debug(log, ...)                                           \
	do {                                                          \
		if (log_is_on(log, LEVEL_DEBUG))                      \
			log_put(log, LEVEL_DEBUG, NULL, __VA_ARGS__); \
	} while (0)

#endif
