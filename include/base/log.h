/*
 * The log writes lines with a level and a tag to stderr, a file and syslog, in the
 * format that log parsers know.  All sites of a process share a struct log, and each
 * line is whole whatever threads write; there is no global one.
 *
 * Line: `YYYY-MM-DD HH:MM:SS.mmm TZ [PID] LEVEL TAG MESSAGE\n`; a newline inside a
 * message becomes newline + tab; trailing white space is removed; about 2 KiB at most.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"

enum log_level {
	LEVEL_FATAL,
	LEVEL_ERROR,
	LEVEL_WARNING,
	LEVEL_LOG,
	LEVEL_DEBUG, /* verbose >= 1 */
	LEVEL_NOISE, /* verbose >= 2 */
	LEVEL_TRACE, /* verbose >= 3; called NOISE in the log as well */
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
/* Takes over new configuration and opens the file again at the next line. */
void log_configure(struct log *log, const struct log_config *config);
/* Checks that lines can be written to the file, and makes it if needed.  -1 and err
 * when they cannot. */
int log_check_file(const char *path, struct err *err);
/* Notes that this process is a child of the one that made the log. */
void log_forked(struct log *log);
/* Stops writing to stderr, as -q and -d ask for. */
void log_quiet(struct log *log);

/* What every line is compared with, at the beginning of a struct log. */
struct log_threshold {
	atomic_int verbose;
};
static inline bool log_is_on(const struct log *log, enum log_level level)
{
	const struct log_threshold *threshold = (const struct log_threshold *)log;

	return (int)level - LEVEL_LOG <=
	       atomic_load_explicit(&threshold->verbose, memory_order_relaxed);
}

/* Lines go there instead of stderr, each without time and process. */
typedef void log_take_fn(
    void *ctx, enum log_level level, const char *tag, const char *text);
void log_divert(struct log *log, log_take_fn *take, void *ctx);

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
