/*
 * The table of settings.  Each [pgbouncer] setting is one row of settings.def.  The
 * struct member, the parser, the printer, SHOW CONFIG, the sample ini file,
 * the reference and the manual page are made from that row.  The types are those of the
 * ini file: str, int, uint, bool, time (seconds in the file, microseconds here), enum.
 */
#ifndef CONF_SETTINGS_H
#define CONF_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

enum pool_mode { POOL_MODE_SESSION, POOL_MODE_TRANSACTION, POOL_MODE_STATEMENT };
/* What happens to a server whose client has disappeared. */
enum client_disconnect { CLIENT_DISCONNECT_CLOSE, CLIENT_DISCONNECT_CANCEL };
/* The engine that receives and sends. */
enum io_engine {
	IO_ENGINE_AUTO,
	IO_ENGINE_EPOLL,
	IO_ENGINE_URING,
};

/* A line of the log has room for so many bytes of a text beside its other fields. */
enum { LOG_SLOW_TEXT_MOST = 1024 };
enum log_format_setting { LOG_FORMAT_PLAIN, LOG_FORMAT_JSON };

/* What happens when a client leaves session state behind that outlives its
 * transaction. */
enum session_state {
	SESSION_STATE_FORWARD,
	SESSION_STATE_CLEAN,
	SESSION_STATE_REFUSE,
	SESSION_STATE_KEEP,
};
enum auth_type {
	AUTH_ANY,
	AUTH_TRUST,
	AUTH_PLAIN,
	AUTH_MD5,
	AUTH_CERT,
	AUTH_HBA,
	AUTH_SCRAM,
	AUTH_PAM,
	AUTH_LDAP,
	AUTH_OAUTH,
	AUTH_PEER,   /* only in HBA rules */
	AUTH_REJECT, /* only in HBA rules */
	AUTH_GSS,    /* only in HBA rules */
	AUTH_NONE,   /* no HBA rule matches */
};
enum tls_mode {
	TLS_DISABLE,
	TLS_ALLOW,
	TLS_PREFER,
	TLS_REQUIRE,
	TLS_VERIFY_CA,
	TLS_VERIFY_FULL,
};
/* How TLS to a server begins: after a request (SSLRequest), or directly with the first
 * byte. */
enum tls_start { TLS_START_POSTGRES, TLS_START_DIRECT };
enum channel_binding {
	CHANNEL_BINDING_DISABLE,
	CHANNEL_BINDING_PREFER,
	CHANNEL_BINDING_REQUIRE,
};
/* target_session_attrs, with the words of libpq: which of its hosts a database uses. */
enum target_attrs {
	TARGET_ANY,
	TARGET_READ_WRITE,
	TARGET_READ_ONLY,
	TARGET_PRIMARY,
	TARGET_STANDBY,
	TARGET_PREFER_STANDBY,
};
enum load_balance {
	LOAD_BALANCE_ROUND_ROBIN,
	LOAD_BALANCE_DISABLE,
	LOAD_BALANCE_RANDOM,
	LOAD_BALANCE_LEAST_CONNECTIONS,
};

/* The words of an enum setting as the ini file and SHOW have them; NULL when the number
 * is out of range. */
const char *setting_pool_mode_name(int mode);
const char *setting_auth_type_name(int type);
const char *setting_tls_start_name(int start);
const char *setting_load_balance_name(int mode);
const char *setting_target_name(int target);

/* The C type of a setting's member.  Times are in microseconds, enums are those
 * above. */
#define SETTING_C_STR  const char *
#define SETTING_C_INT  int
#define SETTING_C_UINT unsigned
#define SETTING_C_BOOL int
#define SETTING_C_TIME uint64_t
#define SETTING_C_SIZE uint64_t
#define SETTING_C_ENUM int

/* The index of each row in the table. */
enum setting_index {
#define SETTING(name, ...) SETTING_INDEX_##name,
#include "conf/settings.def"
#undef SETTING
	SETTING_COUNT
};

/* The LEVEL of a row decides whether its member is in `struct level` or `struct
 * settings`. */
#define SETTING_IN_LEVEL_GLOBAL(member)
#define SETTING_IN_LEVEL_DATABASE(member) member
#define SETTING_IN_LEVEL_USER(member)     member
#define SETTING_IN_LEVEL_BOTH(member)     member
#define SETTING_GLOBAL_GLOBAL(member)     member
#define SETTING_GLOBAL_DATABASE(member)
#define SETTING_GLOBAL_USER(member)
#define SETTING_GLOBAL_BOTH(member)

/*
 * The settings that a database or a user can have.  A struct has the values of one
 * level: the global ones, or those of one entry of [databases] or [users].  Use
 * conf/scope.h to ask which value is in force.
 */
struct level {
#define SETTING(name, type, level, ...) SETTING_IN_LEVEL_##level(SETTING_C_##type name;)
#include "conf/settings.def"
#undef SETTING
	/* One bit per row: a value was given.  In an entry, a row without its bit has
	 * no value.  In struct settings, rows with a default always have a value; for
	 * the others the bit distinguishes 0 from "unset". */
	uint64_t given[(SETTING_COUNT + 63) / 64];
};

struct settings {
	struct level global;
#define SETTING(name, type, level, ...) SETTING_GLOBAL_##level(SETTING_C_##type name;)
#include "conf/settings.def"
#undef SETTING
};

static inline bool level_has(const struct level *level, enum setting_index i)
{
	return level->given[i / 64] >> (i % 64) & 1;
}

struct setting; /* one row of the table; see conf/setting_row.h */

/* Returns the row with this name, or NULL.  Case-sensitive. */
const struct setting *setting_find(const char *name);
/* Returns the row whose name is this one but for one or two letters, or NULL. */
const struct setting *setting_like(const char *name);
/* Returns a row by its index, in the order of SHOW CONFIG; NULL behind the last one. */
const struct setting *setting_at(size_t i);
const char *setting_name(const struct setting *row);
/* The default as it is written in the table; NULL: the setting has none. */
const char *setting_default(const struct setting *row);
/* False: only a restart can change the setting. */
bool setting_is_live(const struct setting *row);

/* Sets all defaults; settings without one become NULL or 0.  Strings are literals. */
void settings_defaults(struct settings *s);
/* Parses text into the member of row; strings are copied into arena.  -1: *s is
 * unchanged, and err says what is wrong and what is allowed, without a file name.  1: a
 * meaningless value was accepted, and err says which value is used in its place. */
int setting_parse(const struct setting *row, struct settings *s, const char *text,
    struct arena *arena, struct err *err);
/* Prints a value for SHOW CONFIG.  Returns out (always terminated), or the string
 * itself; NULL: the setting has no value. */
const char *setting_print(
    const struct setting *row, const struct settings *s, char *out, size_t size);
bool setting_is_equal(
    const struct setting *row, const struct settings *a, const struct settings *b);
/* Copies one member; strings are shared, not duplicated. */
void setting_copy(
    const struct setting *row, struct settings *to, const struct settings *from);

/* Whether the row has one of these flags (conf/setting_row.h). */
bool setting_is_flagged(const struct setting *row, unsigned flags);
/* Whether the two differ in a row with one of these flags. */
bool settings_are_different(
    const struct settings *a, const struct settings *b, unsigned flags);
/* Copies all members, with strings in arena. */
void settings_dup(
    struct settings *to, const struct settings *from, struct arena *arena);

/* Rules for all settings: what the build has, lists of networks and addresses can be
 * parsed, and level_check.  SET runs it as well.  -1 and err. */
int settings_check(const struct settings *s, struct err *err);
/* Rules for the settings of one level.  -1 and err. */
int level_check(const struct level *level, struct err *err);
/* Rules about TLS that concern several settings (auth_type=cert needs ...).  -1 and
 * err, with the text that PgBouncer has for it. */
int settings_check_tls(const struct settings *s, struct err *err);

#endif
