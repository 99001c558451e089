/*
 * The log writes lines with a level and a tag to stderr, a file and syslog, in the
 * format that log parsers know, or as JSON.  Each thread has a struct log; those of a
 * process share what they write to, and each line is whole whatever threads write.
 * There is no global one.
 *
 * Plain: `YYYY-MM-DD HH:MM:SS.mmm TZ [PID] LEVEL TAG MESSAGE NAME=VALUE\n`; a newline
 * inside a message becomes newline + tab; trailing white space is removed; a message
 * has about 2 KiB at most.  JSON: one object in one line.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log_levels.h"

struct log;

enum log_format { LOG_PLAIN, LOG_JSON };

/* What the configuration says; strings are copied. */
struct log_config {
	const char
	    *file; /* NULL or "": no file.  Opened at the first line, appended to */
	bool syslog;
	const char *syslog_ident;
	const char *syslog_facility; /* unknown names mean daemon */
	enum log_format format;
	struct log_levels levels;
};

/* A log that writes to stderr only, without debugging lines. */
struct log *log_new(void);
/* Another one for the thread of this worker, which JSON names.  It writes to the same
 * places, and the one who makes it may be freed before. */
struct log *log_for_worker(struct log *log, unsigned worker);
void log_free(struct log **log);
/* Takes over new configuration for all threads and opens the file again at the next
 * line. */
void log_configure(struct log *log, const struct log_config *config);
/* Checks that lines can be written to the file, and makes it if needed.  -1 and err
 * when they cannot. */
int log_check_file(const char *path, struct err *err);
/* Notes that this process is a child of the one that made the log. */
void log_forked(struct log *log);
/* Stops writing to stderr, as -q and -d ask for. */
void log_quiet(struct log *log);
/* Is stderr the stream that the journal gave this process? */
bool log_has_journal(const struct log *log);

/* From now on lines of this thread, which calls it, may wait for log_flush, to leave
 * together: between two turns of its loop.  A fault of the process still writes them.
 */
void log_hold(struct log *log);
/* Writes what waits, of all threads. */
void log_flush(struct log *log);
/* The end of log_hold; also part of log_free. */
void log_release(struct log *log);

/* What every line is compared with; a struct log begins with a pointer to it. */
struct log_threshold {
	atomic_schar most[LOG_KINDS];
	atomic_bool is_json;
};
/* what: a level, or-ed with a kind. */
static inline bool log_is_on(const struct log *log, unsigned what)
{
	const struct log_threshold *t = *(const struct log_threshold *const *)log;

	return (int)log_level_of(what) <=
	       atomic_load_explicit(
		   &t->most[what >> LOG_LEVEL_BITS], memory_order_relaxed);
}
/* Do lines become JSON?  Then a tag is not worth making. */
static inline bool log_is_json(const struct log *log)
{
	const struct log_threshold *t = *(const struct log_threshold *const *)log;

	return atomic_load_explicit(&t->is_json, memory_order_relaxed);
}

/* Lines go there instead of stderr, each without time and process. */
typedef void log_take_fn(
    void *ctx, enum log_level level, const char *tag, const char *text);
void log_divert(struct log *log, log_take_fn *take, void *ctx);

/* tag may be NULL or ""; otherwise it stands before the message with one space. */
void log_put(struct log *log, unsigned what, const char *tag, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void log_putv(struct log *log, unsigned what, const char *tag, const char *fmt,
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

/* ---- fields ---- */

enum log_field_type {
	LOG_FIELD_TEXT,   /* NULL: the field is left out */
	LOG_FIELD_NUMBER, /* a whole number */
	LOG_FIELD_MS,     /* of microseconds: 12.345 */
	LOG_FIELD_HEX,    /* 0x1f */
};

/* One thing that a line tells beside its message.  name is a word of letters, digits
 * and underscores that no other field of the line has; texts are borrowed. */
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

/* What a line tells beside its message.  All may be zero. */
struct log_parts {
	const char *tag;          /* plain only */
	struct log_fields source; /* JSON only: what the tag says, one by one */
	struct log_fields
	    more; /* plain: NAME=VALUE behind the message; JSON: members */
};
void log_put_parts(struct log *log, unsigned what, const struct log_parts *parts,
    const char *fmt, va_list ap) __attribute__((format(printf, 4, 0)));

#endif
