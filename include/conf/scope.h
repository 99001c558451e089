/*
 * Which value of a setting is in force: that of the user, otherwise that of the
 * database, otherwise the global one.  scope_NAME(scope) returns it for the setting
 * NAME, whatever its level is; so the level of a setting can change without changes to
 * its uses.
 */
#ifndef CONF_SCOPE_H
#define CONF_SCOPE_H

#include "conf/settings.h"

/* The user and database that a setting is asked for.  Borrowed. */
struct scope {
	/* settings of the [users] entry; NULL: there is none */
	const struct level *user;
	/* settings of the [databases] entry; NULL: there is none */
	const struct level *database;
	const struct settings *settings;
};

static inline const struct level *scope_level(struct scope s, enum setting_index i)
{
	if (s.user && level_has(s.user, i))
		return s.user;
	if (s.database && level_has(s.database, i))
		return s.database;
	return &s.settings->global;
}

#define SCOPE_VALUE_GLOBAL(s, name)   (s).settings->name
#define SCOPE_VALUE_DATABASE(s, name) scope_level(s, SETTING_INDEX_##name)->name
#define SCOPE_VALUE_USER(s, name)     scope_level(s, SETTING_INDEX_##name)->name
#define SCOPE_VALUE_BOTH(s, name)     scope_level(s, SETTING_INDEX_##name)->name

#define SETTING(name, type, level, ...)                             \
	static inline SETTING_C_##type scope_##name(struct scope s) \
	{                                                           \
		return SCOPE_VALUE_##level(s, name);                \
	}
#include "conf/settings.def"
#undef SETTING

#endif
