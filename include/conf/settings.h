/*
 * The settings table.  Every [pgbouncer] setting is one row of settings.def;
 * the struct member, the parser, the printer, SHOW CONFIG, --describe, the sample ini,
 * the reference and the man page all come from that row.
 *
 * Types are those of the ini file: str, int, uint, bool, time (seconds in the file,
 * microseconds here), enum.
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
/* What becomes of a server whose client has vanished. */
enum client_disconnect { CLIENT_DISCONNECT_CLOSE, CLIENT_DISCONNECT_CANCEL };
/* Who receives and sends. */
enum io_engine {
	IO_ENGINE_AUTO,
	IO_ENGINE_EPOLL,
	IO_ENGINE_URING,
};

enum log_format_setting { LOG_FORMAT_PLAIN, LOG_FORMAT_JSON };

/* What becomes of session state that outlives its transaction. */
enum session_state {
	SESSION_STATE_FORWARD,
	SESSION_STATE_CLEAN,
	SESSION_STATE_REFUSE,
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
	AUTH_PEER,   /* HBA only */
	AUTH_REJECT, /* HBA only */
	AUTH_NONE,   /* no HBA rule fits */
};
enum tls_mode {
	TLS_DISABLE,
	TLS_ALLOW,
	TLS_PREFER,
	TLS_REQUIRE,
	TLS_VERIFY_CA,
	TLS_VERIFY_FULL,
};
/* How TLS towards a server begins: after asking for it, or with the first byte. */
enum tls_start { TLS_START_POSTGRES, TLS_START_DIRECT };
enum channel_binding {
	CHANNEL_BINDING_DISABLE,
	CHANNEL_BINDING_PREFER,
	CHANNEL_BINDING_REQUIRE,
};
/* libpq's words: which of its hosts a database uses. */
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

/* The words of an enum setting as the file and SHOW write them; NULL when out of range.
 */
const char *setting_pool_mode_name(int mode);
const char *setting_auth_type_name(int type);
const char *setting_tls_start_name(int start);
const char *setting_load_balance_name(int mode);
const char *setting_target_name(int target);

/* The C type of a row's member; times are microseconds, enums one of the above. */
#define SETTING_C_STR  const char *
#define SETTING_C_INT  int
#define SETTING_C_UINT unsigned
#define SETTING_C_BOOL int
#define SETTING_C_TIME uint64_t
#define SETTING_C_ENUM int

/* The place of each row in the table. */
enum setting_index {
#define SETTING(name, ...) SETTING_INDEX_##name,
#include "conf/settings.def"
#undef SETTING
	SETTING_COUNT
};

/* A row's LEVEL sorts its member into `struct level` or `struct settings`. */
#define SETTING_IN_LEVEL_GLOBAL(member)
#define SETTING_IN_LEVEL_DATABASE(member) member
#define SETTING_IN_LEVEL_USER(member)     member
#define SETTING_IN_LEVEL_BOTH(member)     member
#define SETTING_GLOBAL_GLOBAL(member)     member
#define SETTING_GLOBAL_DATABASE(member)
#define SETTING_GLOBAL_USER(member)
#define SETTING_GLOBAL_BOTH(member)

/*
 * The settings that a database or a user may have for itself, at one level: the
 * process's own values, or what one entry of [databases] or [users] says.  Which value
 * is in force is asked through conf/scope.h only.
 */
struct level {
#define SETTING(name, type, level, ...) SETTING_IN_LEVEL_##level(SETTING_C_##type name;)
#include "conf/settings.def"
#undef SETTING
	/* One bit per row: somebody has given a value.  An entry says nothing of a row
	 * without its bit.  In struct settings, where members of rows with a default
	 * are always set, the bit tells for the others whether 0 means "unset". */
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

struct setting; /* one row, opaque; see settings.c */

/* NULL when there is no such setting.  Case-sensitive. */
const struct setting *setting_find(const char *name);
/* The i-th row in SHOW CONFIG order, NULL past the end. */
const struct setting *setting_at(size_t i);
const char *setting_name(const struct setting *row);
/* The literal default text, NULL when the setting has none. */
const char *setting_default(const struct setting *row);
/* False for restart-only settings. */
bool setting_is_live(const struct setting *row);

/* Appends the words of an enum row, for a message or a reference; of very many the
 * first ones and the last. */
struct buf;
void setting_put_words(struct buf *out, const struct setting *row);

/* All defaults; settings without one are NULL/0.  Strings are literals. */
void settings_defaults(struct settings *s);
/* Parse text into the member of row; strings are copied into arena.  -1 and err (what
 * is wrong and what is allowed; no file name) leave *s untouched.  1 and err: the value
 * was taken, but means nothing as it is; err says what counts instead. */
int setting_parse(const struct setting *row, struct settings *s, const char *text,
    struct arena *arena, struct err *err);
/* Value as SHOW CONFIG prints it, into out (always terminated); NULL when unset,
 * otherwise out or the string itself. */
const char *setting_print(
    const struct setting *row, const struct settings *s, char *out, size_t size);
bool setting_is_equal(
    const struct setting *row, const struct settings *a, const struct settings *b);
/* Copy one member; strings are shared, not duplicated. */
void setting_copy(
    const struct setting *row, struct settings *to, const struct settings *from);

/* Has the row one of these flags (conf/setting_row.h)? */
bool setting_is_flagged(const struct setting *row, unsigned flags);
/* Do the two differ in a row with one of these flags? */
bool settings_are_different(
    const struct settings *a, const struct settings *b, unsigned flags);
/* Copy all members, strings into arena. */
void settings_dup(
    struct settings *to, const struct settings *from, struct arena *arena);

/* Checks that need more than one setting, or a range that depends on the build
 * (auth_type=cert needs ...).  -1 and err with the reference's text. */
int settings_check(const struct settings *s, struct err *err);
/* The part of it that SET owes as well: lists of networks and addresses can be read. */
int settings_check_lists(const struct settings *s, struct err *err);

/* Print the settings as "md" or "man", for the reference and the manual page, or as
 * "ini": a [pgbouncer] section with the defaults in comments.  -1 for another format.
 */
int describe_settings(FILE *out, const char *as);
/* Print the keys of entries in [databases], [users] and [peers] as "md" or "man".  -1
 * for another format. */
int describe_database_keys(FILE *out, const char *as);
int describe_user_keys(FILE *out, const char *as);
int describe_peer_keys(FILE *out, const char *as);

#endif
