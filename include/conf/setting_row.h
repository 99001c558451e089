/*
 * One row of settings.def as data, for those that read the table: settings.c (parse,
 * print, compare), entry.c (entries), describe.c (manuals) and the reload, which asks
 * what a change sets off.
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
	SETTING_ENUM,
};

/* The chapters of the manual, in their order. */
enum setting_group {
	GROUP_PROCESS,
	GROUP_POOLING,
	GROUP_AUTH,
	GROUP_HEALTH,
	GROUP_DNS,
	GROUP_TLS,
	GROUP_NETWORK,
	GROUP_COUNT,
};

/* Where a setting may stand besides [pgbouncer]. */
enum setting_level {
	LEVEL_GLOBAL = 0,
	LEVEL_DATABASE = 1 << 0,
	LEVEL_USER = 1 << 1,
	LEVEL_BOTH = LEVEL_DATABASE | LEVEL_USER,
};

/* How values are read, and what a change of one causes. */
enum setting_flags {
	LIVE = 0,               /* RELOAD and SET change it */
	RESTART = 1 << 0,       /* only a restart changes it */
	NOT_CONSOLE = 1 << 2,   /* names a database that must not be the console */
	CLAMPED = 1 << 3,       /* a number outside the range is replaced by the nearest
				 * in it, with a remark; without the flag it is an error */
	IS_LOG_LEVELS = 1 << 7, /* a text that log_levels_parse can read */
	/* In entries of [databases] and [users]: */
	ABOVE_ZERO = 1 << 4,    /* 0 inherits as well as negative numbers do */
	BELOW_IS_ZERO = 1 << 5, /* a negative number is taken as 0 */
	MAY_BE_EMPTY = 1 << 6,  /* '' overrides the setting with an empty text */
	FRACTIONS = 1 << 13,    /* a time may have a fraction: most times have none */
	/* When the value changes: */
	READS_USERS = 1 << 8, /* auth_file is read again */
	READS_RULES = 1 << 9, /* the HBA and ident files are read again */
	READS_TLS = 1 << 10,  /* certificates are loaded again */
	OBSOLETES = 1 << 11, /* the global value: all server connections are replaced */
	OBSOLETES_ITS_DB = 1 << 12, /* an entry's: those of its database are */
};

struct setting {
	const char *name;
	enum setting_type type;
	enum setting_level level;
	enum setting_group group;
	unsigned flags;
	const char *default_text; /* NULL: unset until the file or SET gives one */
	size_t offset;            /* of the member: in struct settings at LEVEL_GLOBAL,
				     in struct level otherwise */
	long long min, max;       /* INT and UINT: values; ENUM: max is the last word */
	const char *const *words; /* ENUM only */
	const char *help;         /* one line, no full stop */
	const char *details;      /* sentences for the manuals */
};

/* Parse text into a member that is not within struct settings; as setting_parse. */
int setting_parse_member(const struct setting *row, void *member, const char *text,
    struct arena *arena, struct err *err);
/* Is the row equal in two levels?  The row must not be LEVEL_GLOBAL. */
bool setting_is_equal_at(
    const struct setting *row, const struct level *a, const struct level *b);
void level_set_given(struct level *level, enum setting_index i, bool is_given);
enum setting_index setting_index(const struct setting *row);

#endif
