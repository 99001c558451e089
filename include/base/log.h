/*
 * The log writes lines with a level and a tag to stderr, a file and syslog, as plain
 * text in the format that log parsers know, or as JSON.  Each thread has a struct log.
 * Those of one process share their outputs, and lines of several threads are never
 * mixed.  There is no global log.
 *
 * Plain: `YYYY-MM-DD HH:MM:SS.mmm TZ [PID] LEVEL TAG MESSAGE NAME=VALUE\n`.  White
 * space at the end is removed, and a message is cut at about 2 KiB.  A newline of the
 * format becomes newline and tab.  Control characters in what is inserted are escaped,
 * because strangers choose names: see text_append_escaped.  JSON: one object per line.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "base/log_levels.h"

struct log;

enum log_format { LOG_PLAIN, LOG_JSON };

/* The part of the configuration that concerns the log; log_configure copies the
 * strings. */
struct log_config {
	/* NULL or "": no file.  It is opened for appending with the first line */
	const char *file;
	bool syslog;
	const char *syslog_ident;
	const char *syslog_facility; /* an unknown name means "daemon" */
	enum log_format format;
	struct log_levels levels;
};

/* Makes a log that writes to stderr only, without debugging lines. */
struct log *log_new(void);
/* Makes a log for the thread of this worker, whose number appears in JSON lines.  It
 * writes to the same outputs as `log`, and either of them may be freed first. */
struct log *log_for_worker(struct log *log, unsigned worker);
void log_free(struct log **log);
/* Puts a new configuration in force for all threads.  The log file is opened again with
 * the next line. */
void log_configure(struct log *log, const struct log_config *config);
/* Checks that lines can be written to the file, and creates it if it is missing.
 * Returns -1 and fills err when it cannot be written. */
int log_check_file(const char *path, struct err *err);
/* Tells the log that this process is a forked child of the one that made the log. */
void log_forked(struct log *log);
/* Stops writing to stderr, as -q and -d demand, or begins again. */
void log_quiet(struct log *log, bool is_quiet);
/* Whether stderr is the stream that systemd's journal gave this process. */
bool log_has_journal(const struct log *log);

/* How many lines the log file did not get since the start, because it could not be
 * written.  Any thread may ask. */
uint64_t log_lost_count(const struct log *log);
/* Why the file gets no lines now, in the system's words; "": it does.  Returns room. */
const char *log_file_error(const struct log *log, char *room, size_t size);

/* The last lines of level WARNING and above, the latest first.  Returns how many there
 * are.  Any thread may ask. */
enum { LOG_WARNINGS = 20 };
struct log_warning {
	time_t at_s;
	const char *level; /* "WARNING" */
	char text[400];    /* in plain lines with the tag; the end may be cut */
};
size_t log_last_warnings(const struct log *log, struct log_warning out[LOG_WARNINGS]);

/* Opens the log file, which the first line does otherwise.  Ends the process with
 * status 1 if that fails. */
void log_open(struct log *log);

/* From now on lines of the calling thread may be held back until log_flush, so that all
 * lines of one turn of its loop are written together.  They are not lost when the
 * process dies by a fault. */
void log_hold(struct log *log);
/* Writes the held lines of all threads. */
void log_flush(struct log *log);
/* Ends log_hold for this thread; log_free does this too. */
void log_release(struct log *log);

/* The levels that every line is compared with.  A struct log begins with a pointer to
 * this, so that log_is_on can be inline. */
struct log_threshold {
	atomic_schar most[LOG_KINDS];
	atomic_bool is_json;
};
/* Whether such lines are written.  what is a level, or-ed with a kind. */
static inline bool log_is_on(const struct log *log, unsigned what)
{
	const struct log_threshold *t = *(const struct log_threshold *const *)log;

	return (int)log_level_of(what) <=
	       atomic_load_explicit(
		   &t->most[what >> LOG_LEVEL_BITS], memory_order_relaxed);
}
/* Whether lines are JSON.  They have no tag then, so callers need not build one. */
static inline bool log_is_json(const struct log *log)
{
	const struct log_threshold *t = *(const struct log_threshold *const *)log;

	return atomic_load_explicit(&t->is_json, memory_order_relaxed);
}

/* Receives each line instead of stderr, without time and process id. */
typedef void log_take_fn(
    void *ctx, enum log_level level, const char *tag, const char *text);
void log_divert(struct log *log, log_take_fn *take, void *ctx);

/* Writes one line.  tag may be NULL or ""; otherwise it stands in front of the message,
 * followed by a space. */
void log_put(struct log *log, unsigned what, const char *tag, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void log_putv(struct log *log, unsigned what, const char *tag, const char *fmt,
    va_list ap) __attribute__((format(printf, 4, 0)));

/* Writes a text of the program's own with line breaks, like those about files of the
 * configuration.  Nothing in it may come from a client or server. */
void log_put_lines(struct log *log, unsigned what, const char *text);

/* A name that a stranger has sent, for the end of a message: in quotes when it has more
 * than one word, so that it cannot imitate what ends other messages.  Returns out, or
 * the name itself. */
enum { LOG_WORD = 512 };
const char *log_word(char out[LOG_WORD], const char *name);

#define log_fatal(log, ...)   log_put(log, LEVEL_FATAL, NULL, __VA_ARGS__)
#define log_error(log, ...)   log_put(log, LEVEL_ERROR, NULL, __VA_ARGS__)
#define log_warning(log, ...) log_put(log, LEVEL_WARNING, NULL, __VA_ARGS__)
#define log_info(log, ...)    log_put(log, LEVEL_LOG, NULL, __VA_ARGS__)
#define log_debug(log, ...)                                           \
	do {                                                          \
		if (log_is_on(log, LEVEL_DEBUG))                      \
			log_put(log, LEVEL_DEBUG, NULL, __VA_ARGS__); \
	} while (0)

/* ---- fields ---- */

enum log_field_type {
	LOG_FIELD_TEXT,   /* a string; NULL leaves the field out */
	LOG_FIELD_NUMBER, /* a whole number */
	LOG_FIELD_MS,     /* microseconds, printed in milliseconds: 12.345 */
	LOG_FIELD_HEX,    /* printed as 0x1f */
};

/* One fact that a line gives in addition to its message.  name consists of letters,
 * digits and underscores and is unique within the line; strings are borrowed. */
struct log_field {
	const char *name;
	enum log_field_type type;
	union {
		const char *text;
		int64_t number;
		uint64_t us;
		uint64_t hex;
	};
};

static inline struct log_field log_field_text(const char *name, const char *text)
{
	return (struct log_field){name, LOG_FIELD_TEXT, {.text = text}};
}
static inline struct log_field log_field_number(const char *name, int64_t number)
{
	return (struct log_field){name, LOG_FIELD_NUMBER, {.number = number}};
}
static inline struct log_field log_field_ms(const char *name, uint64_t us)
{
	return (struct log_field){name, LOG_FIELD_MS, {.us = us}};
}
static inline struct log_field log_field_hex(const char *name, uint64_t hex)
{
	return (struct log_field){name, LOG_FIELD_HEX, {.hex = hex}};
}

struct log_fields {
	const struct log_field *at;
	size_t count;
};

/* What a line contains in addition to its message.  All of it may be zero. */
struct log_parts {
	const char *tag; /* only in plain lines */
	/* only in JSON lines: the parts of the tag as separate fields */
	struct log_fields source;
	struct log_fields
	    more;       /* plain: NAME=VALUE behind the message; JSON: members */
	bool has_lines; /* see log_put_lines */
};
void log_put_parts(struct log *log, unsigned what, const struct log_parts *parts,
    const char *fmt, va_list ap) __attribute__((format(printf, 4, 0)));

#endif
