/*
 * Which lines are written: levels, kinds of lines, and the setting that gives each kind
 * a level.
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
	LEVEL_TRACE, /* verbose >= 3; called NOISE in the log as well */
};

/* What a line is about is or-ed to its level, as facilities are for syslog(3):
 * LEVEL_LOG | KIND_DNS.  A level alone is of the kind general. */
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

/* "dns" */
const char *log_kind_name(unsigned what);

/* The last level that is written of each kind. */
struct log_levels {
	signed char most[LOG_KINDS];
};

/* The same for all kinds: 0 is LEVEL_LOG, 1 LEVEL_DEBUG and so on; less than nothing
 * would hide errors, and is 0. */
void log_levels_set_all(struct log_levels *levels, int verbose);
/* This kind up to this level. */
void log_levels_set(struct log_levels *levels, enum log_kind kind, enum log_level most);
/* "dns:debug, stats:off" changes what it names.  levels may be NULL: only a check.  -1
 * and err, which says what is wrong and what is allowed; then a part may be changed. */
int log_levels_parse(struct log_levels *levels, const char *text, struct err *err);

#endif
