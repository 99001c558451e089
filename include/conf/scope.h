/*
 * Which value of a setting is in force: the user's, else the database's, else the
 * process's.  scope_NAME(scope) answers for the setting NAME, whatever its level; a
 * setting that gets another level needs no change where it is asked for.
 */
#ifndef CONF_SCOPE_H
#define CONF_SCOPE_H

#include "conf/settings.h"

/* For whom a setting is asked.  Borrowed. */
struct scope {
	const struct level *user;     /* its [users] entry; NULL: none */
	const struct level *database; /* its [databases] entry; NULL: none */
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
