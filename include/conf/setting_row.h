/*
 * One row of settings.def as data, for the code that reads the table: settings.c
 * (parse, print, compare), entry.c (entries), the documents, and the reload, which
 * looks up what a change requires.
 */
#ifndef CONF_SETTING_ROW_H
#define CONF_SETTING_ROW_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "conf/settings.h"

enum setting_type {
	SETTING_STR,
	SETTING_INT,
	SETTING_UINT,
	SETTING_BOOL,
	SETTING_TIME,
	SETTING_SIZE,
	SETTING_ENUM,
};

/* Where a setting may stand in addition to [pgbouncer]. */
enum setting_level {
	LEVEL_GLOBAL = 0,
	LEVEL_DATABASE = 1 << 0,
	LEVEL_USER = 1 << 1,
	LEVEL_BOTH = LEVEL_DATABASE | LEVEL_USER,
};

/* How values are parsed, and what a change of the value requires. */
enum setting_flags {
	LIVE = 0,         /* RELOAD and SET can change it */
	RESTART = 1 << 0, /* only a restart can change it */
	/* the value is a database name and must not be the console's */
	NOT_CONSOLE = 1 << 2,
	/* a number outside the range is replaced by the nearest one within it, with a
	 * report; without this flag it is an error */
	CLAMPED = 1 << 3,
	IS_LOG_LEVELS = 1 << 7, /* log_levels_parse must be able to parse it */
	/* command_line_words must be able to cut it, if it is not empty */
	IS_COMMAND = 1 << 17,
	/* In entries of [databases] and [users]: */
	ABOVE_ZERO = 1 << 4,    /* 0 means "inherited", as negative numbers do */
	BELOW_IS_ZERO = 1 << 5, /* a negative number means 0 */
	/* '' overrides the inherited value with an empty text */
	MAY_BE_EMPTY = 1 << 6,
	/* a time may have a fraction; other times are whole seconds */
	FRACTIONS = 1 << 13,
	/* When the value changes: */
	READS_USERS = 1 << 8, /* auth_file is read again */
	READS_RULES = 1 << 9, /* the HBA and ident files are read again */
	READS_TLS = 1 << 10,  /* certificates are loaded again */
	/* if the global value changes: all server connections are replaced */
	OBSOLETES = 1 << 11,
	/* if an entry's value changes: the connections of its database are replaced */
	OBSOLETES_ITS_DB = 1 << 12,
	/* For those who go back to PgBouncer 1.25: */
	OURS = 1 << 14,               /* it has no such setting */
	THEIR_DATABASE_KEY = 1 << 15, /* it has it as a key of [databases], too */
	THEIR_USER_KEY = 1 << 16,     /* and of [users] */
};

struct setting {
	const char *name;
	enum setting_type type;
	enum setting_level level;
	unsigned flags;
	/* NULL: no default; unset until the file or SET gives a value */
	const char *default_text;
	/* offset of the member, in struct settings for LEVEL_GLOBAL, otherwise in
	 * struct level */
	size_t offset;
	/* INT and UINT: the range; ENUM: max is the index of the last word */
	long long min, max;
	const char *const *words; /* only for ENUM */
};

/* Parses text into a member outside of struct settings; otherwise like
 * setting_parse. */
int setting_parse_member(const struct setting *row, void *member, const char *text,
    struct arena *arena, struct err *err);
/* Whether two levels have the same value.  The row must not be LEVEL_GLOBAL. */
bool setting_is_equal_at(
    const struct setting *row, const struct level *a, const struct level *b);
void level_set_given(struct level *level, enum setting_index i, bool is_given);
enum setting_index setting_index(const struct setting *row);

#endif
