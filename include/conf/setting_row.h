/*
 * One row of settings.def as data, for the two files that read the table: settings.c
 * (parse, print, compare) and describe.c (manuals).  Nobody else needs it.
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

enum setting_flags {
	LIVE = 0,             /* RELOAD and SET change it */
	RESTART = 1 << 0,     /* only a restart changes it */
	LATER = 1 << 1,       /* read and checked, but without effect in this version */
	PER_DB = 1 << 3,      /* has a [databases] key of the same purpose */
	PER_USER = 1 << 4,    /* has a [users] key of the same purpose */
	NOT_CONSOLE = 1 << 5, /* names a database that must not be the console */
};

struct setting {
	const char *name;
	enum setting_type type;
	enum setting_group group;
	unsigned flags;
	const char *default_text; /* NULL: unset until the file or SET gives one */
	size_t offset;            /* of the member in struct settings */
	long long min, max;       /* INT and UINT: values; ENUM: max is the last word */
	const char *const *words; /* ENUM only */
	const char *help;         /* one line, no full stop */
	const char *details;      /* sentences for the manuals */
};

#endif
