/*
 * Decides which lines are written: the levels and kinds of lines, and the setting
 * (log_levels) that gives each kind a level.
 */
#ifndef BASE_LOG_LEVELS_H
#define BASE_LOG_LEVELS_H

#include "base/err.h"

enum log_level {
	LEVEL_FATAL,
	LEVEL_ERROR,
	LEVEL_WARNING,
	LEVEL_LOG,
	LEVEL_DEBUG, /* verbose >= 1 */
	LEVEL_NOISE, /* verbose >= 2 */
	LEVEL_TRACE, /* verbose >= 3; printed as NOISE */
};

/* The kind of a line, which says what the line is about, is or-ed to its level, as
 * facilities are in syslog(3): LEVEL_LOG | KIND_DNS.  A level alone means the kind
 * "general". */
enum { LOG_LEVEL_BITS = 3, LOG_LEVEL_MASK = 7 };

enum log_kind_index {
#define KIND(NAME, name, help) LOG_INDEX_##NAME,
#include "base/log_kinds.def"
#undef KIND
	LOG_KINDS
};

enum log_kind {
#define KIND(NAME, name, help) KIND_##NAME = LOG_INDEX_##NAME << LOG_LEVEL_BITS,
#include "base/log_kinds.def"
#undef KIND
};

static inline enum log_level log_level_of(unsigned what)
{
	return (enum log_level)(what & LOG_LEVEL_MASK);
}

/* Returns the name of the kind, such as "dns". */
const char *log_kind_name(unsigned what);

/* For each kind, the most detailed level that is written. */
struct log_levels {
	signed char most[LOG_KINDS];
};

/* Sets the same level for all kinds: 0 is LEVEL_LOG, 1 is LEVEL_DEBUG and so on.
 * Negative numbers would hide errors, so they count as 0. */
void log_levels_set_all(struct log_levels *levels, int verbose);
/* Sets the level of one kind. */
void log_levels_set(struct log_levels *levels, enum log_kind kind, enum log_level most);
/* Parses a list such as "dns:debug, stats:off" and changes the kinds that it names.
 * levels may be NULL to check the text only.  Returns -1 and fills err when the text is
 * wrong; some kinds may have been changed by then. */
int log_levels_parse(struct log_levels *levels, const char *text, struct err *err);

#endif
