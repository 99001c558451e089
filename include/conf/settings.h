/*
 * The settings table at work.  Every [pgbouncer] setting is one row of settings.def;
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
enum load_balance { LOAD_BALANCE_ROUND_ROBIN, LOAD_BALANCE_DISABLE };

/* The words of an enum setting as the file and SHOW write them; NULL when out of range.
 */
const char *pool_mode_name(int mode);
const char *auth_type_name(int type);
const char *tls_mode_name(int mode);
const char *tls_start_name(int start);
const char *channel_binding_name(int binding);
const char *load_balance_name(int mode);
const char *session_state_name(int state);

/* One member per row: str -> const char * (NULL = unset), int -> int, uint -> unsigned,
 * bool -> int (0/1), time -> uint64_t microseconds, enum -> int. */
struct settings {
#define SETTING(name, type, ...)  SETTING_MEMBER_##type(name)
#define SETTING_MEMBER_STR(name)  const char *name;
#define SETTING_MEMBER_INT(name)  int name;
#define SETTING_MEMBER_UINT(name) unsigned name;
#define SETTING_MEMBER_BOOL(name) int name;
#define SETTING_MEMBER_TIME(name) uint64_t name;
#define SETTING_MEMBER_ENUM(name) int name;
#include "conf/settings.def"
#undef SETTING
	/* One bit per row: the file or SET has given a value.  Only looked at for rows
	 * without default, where 0 would not tell "unset" (verbose). */
	uint64_t given[2];
};

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

/* All defaults; settings without one are NULL/0.  Strings are literals. */
void settings_defaults(struct settings *s);
/* Parse text into the member of row; strings are copied into arena.  -1 and err (what
 * is wrong and what is allowed; no file name) leave *s untouched. */
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

/* Copy all members, strings into arena. */
void settings_dup(
    struct settings *to, const struct settings *from, struct arena *arena);
/* Does the value ask for something that this version does not do? */
bool setting_is_unmet(const struct setting *row, const struct settings *s);

/* Checks that need more than one setting, or a range that depends on the build
 * (auth_type=cert needs ...).  -1 and err with the reference's text. */
int settings_check(const struct settings *s, struct err *err);

/* Print the table: as "md" the settings reference, as "man" pgbouncer.ini(5), as "ini"
 * the sample configuration.  -1 for another format. */
int settings_describe(FILE *out, const char *as);

#endif
