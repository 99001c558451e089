#include "conf/settings.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/command_line.h"
#include "base/endpoints.h"
#include "base/log_levels.h"
#include "base/networks.h"
#include "base/text.h"
#include "conf/setting_row.h"
#include "config.h"

static const char *const pool_mode_words[] = {
    [POOL_MODE_SESSION] = "session",
    [POOL_MODE_TRANSACTION] = "transaction",
    [POOL_MODE_STATEMENT] = "statement",
};

static const char *const auth_type_words[] = {
    [AUTH_ANY] = "any",
    [AUTH_TRUST] = "trust",
    [AUTH_PLAIN] = "plain",
    [AUTH_MD5] = "md5",
    [AUTH_CERT] = "cert",
    [AUTH_HBA] = "hba",
    [AUTH_SCRAM] = "scram-sha-256",
    [AUTH_PAM] = "pam",
    [AUTH_LDAP] = "ldap",
    [AUTH_OAUTH] = "oauth",
    [AUTH_PEER] = "peer",
    [AUTH_REJECT] = "reject",
    [AUTH_GSS] = "gss",
};

static const char *const tls_mode_words[] = {
    [TLS_DISABLE] = "disable",
    [TLS_ALLOW] = "allow",
    [TLS_PREFER] = "prefer",
    [TLS_REQUIRE] = "require",
    [TLS_VERIFY_CA] = "verify-ca",
    [TLS_VERIFY_FULL] = "verify-full",
};

static const char *const tls_start_words[] = {
    [TLS_START_POSTGRES] = "postgres",
    [TLS_START_DIRECT] = "direct",
};

static const char *const channel_binding_words[] = {
    [CHANNEL_BINDING_DISABLE] = "disable",
    [CHANNEL_BINDING_PREFER] = "prefer",
    [CHANNEL_BINDING_REQUIRE] = "require",
};

static const char *const load_balance_words[] = {
    [LOAD_BALANCE_ROUND_ROBIN] = "round-robin",
    [LOAD_BALANCE_DISABLE] = "disable",
    [LOAD_BALANCE_RANDOM] = "random",
    [LOAD_BALANCE_LEAST_CONNECTIONS] = "least-connections",
};

static const char *const io_engine_words[] = {
    [IO_ENGINE_AUTO] = "auto",
    [IO_ENGINE_EPOLL] = "epoll",
    [IO_ENGINE_URING] = "io_uring",
};

/* Index 0 is auto; any other index is the number itself. */
static const char *const workers_words[] = {"auto", "1", "2", "3", "4", "5", "6", "7",
    "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21",
    "22", "23", "24", "25", "26", "27", "28", "29", "30", "31", "32", "33", "34", "35",
    "36", "37", "38", "39", "40", "41", "42", "43", "44", "45", "46", "47", "48", "49",
    "50", "51", "52", "53", "54", "55", "56", "57", "58", "59", "60", "61", "62", "63",
    "64"};

static const char *const log_format_words[] = {
    [LOG_FORMAT_PLAIN] = "plain",
    [LOG_FORMAT_JSON] = "json",
};

static const char *const client_disconnect_words[] = {
    [CLIENT_DISCONNECT_CLOSE] = "close",
    [CLIENT_DISCONNECT_CANCEL] = "cancel",
};

static const char *const target_words[] = {
    [TARGET_ANY] = "any",
    [TARGET_READ_WRITE] = "read-write",
    [TARGET_READ_ONLY] = "read-only",
    [TARGET_PRIMARY] = "primary",
    [TARGET_STANDBY] = "standby",
    [TARGET_PREFER_STANDBY] = "prefer-standby",
};

static const char *const session_state_words[] = {
    [SESSION_STATE_FORWARD] = "forward",
    [SESSION_STATE_CLEAN] = "clean",
    [SESSION_STATE_REFUSE] = "refuse",
    [SESSION_STATE_KEEP] = "keep",
};

#define NO_RANGE       0, 0
#define ANY_INT        INT_MIN, INT_MAX
#define RANGE(a, b)    (a), (b)
#define COUNT_OF(a)    (sizeof(a) / sizeof((a)[0]))
#define WORD(words, i) ((i) < 0 || (size_t)(i) >= COUNT_OF(words) ? NULL : (words)[i])

static const struct setting rows[] = {
#define OFFSET_GLOBAL(name)   offsetof(struct settings, name)
#define OFFSET_DATABASE(name) offsetof(struct level, name)
#define OFFSET_USER(name)     offsetof(struct level, name)
#define OFFSET_BOTH(name)     offsetof(struct level, name)
#define SETTING(name, type, level, group, flags, default_text, range, words, help) \
	{#name, SETTING_##type, LEVEL_##level, flags, default_text,                \
	    OFFSET_##level(name), range, words},
#include "conf/settings.def"
#undef SETTING
};

_Static_assert(COUNT_OF(rows) == SETTING_COUNT, "one index for each row");

const char *setting_pool_mode_name(int mode)
{
	return WORD(pool_mode_words, mode);
}

const char *setting_auth_type_name(int type)
{
	return WORD(auth_type_words, type);
}

const char *setting_tls_start_name(int start)
{
	return WORD(tls_start_words, start);
}

const char *setting_load_balance_name(int mode)
{
	return WORD(load_balance_words, mode);
}

const char *setting_target_name(int target)
{
	return WORD(target_words, target);
}

const struct setting *setting_find(const char *name)
{
	/* the first byte is compared first, because names mostly differ there and
	 * entries have thousands of keys */
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		if (rows[i].name[0] == name[0] && strcmp(rows[i].name, name) == 0)
			return &rows[i];
	return NULL;
}

/* The least number of letters to insert, remove or replace, up to `most` + 1. */
static unsigned letters_apart(const char *a, const char *b, unsigned most)
{
	if (*a && *a == *b)
		return letters_apart(a + 1, b + 1, most);
	if (!*a && !*b)
		return 0;
	if (most == 0)
		return 1;
	unsigned best = most;
	if (*a)
		best = letters_apart(a + 1, b, best - 1);
	if (*b && best > 0) {
		unsigned inserted = letters_apart(a, b + 1, best - 1);
		best = inserted < best ? inserted : best;
	}
	if (*a && *b && best > 0) {
		unsigned replaced = letters_apart(a + 1, b + 1, best - 1);
		best = replaced < best ? replaced : best;
	}
	return best + 1;
}

const struct setting *setting_like(const char *name)
{
	for (unsigned apart = 1; apart <= 2; apart++)
		for (size_t i = 0; i < COUNT_OF(rows); i++)
			if (letters_apart(name, rows[i].name, apart) <= apart)
				return &rows[i];
	return NULL;
}

const struct setting *setting_at(size_t i)
{
	return i < COUNT_OF(rows) ? &rows[i] : NULL;
}

const char *setting_name(const struct setting *row)
{
	return row->name;
}

const char *setting_default(const struct setting *row)
{
	return row->default_text;
}

bool setting_is_live(const struct setting *row)
{
	return !(row->flags & RESTART);
}

bool setting_is_flagged(const struct setting *row, unsigned flags)
{
	return row->flags & flags;
}

enum setting_index setting_index(const struct setting *row)
{
	return (enum setting_index)(row - rows);
}

static const void *member_of(const struct setting *row, const struct settings *s)
{
	const void *base = row->level == LEVEL_GLOBAL ? (const void *)s : &s->global;

	return (const char *)base + row->offset;
}

static void *member_in(const struct setting *row, struct settings *s)
{
	void *base = row->level == LEVEL_GLOBAL ? (void *)s : &s->global;

	return (char *)base + row->offset;
}

static size_t member_size(const struct setting *row)
{
	switch (row->type) {
	case SETTING_STR:
		return sizeof(const char *);
	case SETTING_TIME:
	case SETTING_SIZE:
		return sizeof(uint64_t);
	case SETTING_UINT:
		return sizeof(unsigned);
	case SETTING_INT:
	case SETTING_BOOL:
	case SETTING_ENUM:
		break;
	}
	return sizeof(int);
}

static bool is_given(const struct setting *row, const struct settings *s)
{
	return level_has(&s->global, setting_index(row));
}

void level_set_given(struct level *level, enum setting_index i, bool is_given_now)
{
	uint64_t bit = (uint64_t)1 << (i % 64);

	level->given[i / 64] = (level->given[i / 64] & ~bit) | (is_given_now ? bit : 0);
}

static int parse_str(const struct setting *row, const char **out, const char *text,
    struct arena *arena, struct err *err)
{
	if ((row->flags & NOT_CONSOLE) && strcmp(text, "pgbouncer") == 0)
		return err_set(err,
		    "cannot use the reserved \"pgbouncer\" database as "
		    "an %s",
		    row->name);
	if ((row->flags & IS_LOG_LEVELS) && log_levels_parse(NULL, text, err) < 0)
		return -1;
	if ((row->flags & IS_COMMAND) && *text && command_line_check(text, err) < 0)
		return -1;
	/* without an arena the text is a default, which is a literal of the table */
	*out = arena ? arena_strdup(arena, text) : text;
	return 0;
}

static int parse_int(
    const struct setting *row, int *out, const char *text, struct err *err)
{
	int v;

	bool is_number = text_int(text, &v) == 0;

	if (is_number && v >= row->min && v <= row->max) {
		*out = v;
		return 0;
	}
	err_set(err, "must be an integer from %lld to %lld", row->min, row->max);
	if (!is_number || !(row->flags & CLAMPED))
		return -1;
	*out = (int)(v < row->min ? row->min : row->max);
	err_set(err, "%d means nothing here, %d is used", v, *out);
	return 1;
}

static int parse_uint(
    const struct setting *row, unsigned *out, const char *text, struct err *err)
{
	unsigned v;

	if (text_uint(text, &v) < 0 || v < row->min || v > row->max)
		return err_set(
		    err, "must be an integer from %lld to %lld", row->min, row->max);
	*out = v;
	return 0;
}

static int parse_bool(int *out, const char *text, struct err *err)
{
	int v;

	if (text_int(text, &v) < 0)
		return err_set(err, "must be 0 (off) or 1 (on)");
	*out = v != 0;
	return 0;
}

/* Of very many words only the first ones and the last one are told. */
enum { WORDS_MOST = 16, WORDS_FIRST = 4 };

static int parse_enum(
    const struct setting *row, int *out, const char *text, struct err *err)
{
	struct buf list;

	for (int i = 0; i <= row->max; i++)
		if (text_equal_nocase(row->words[i], text)) {
			*out = i;
			return 0;
		}
	buf_init(&list, 0);
	for (long long i = 0; i <= row->max; i++) {
		if (row->max >= WORDS_MOST && i == WORDS_FIRST) {
			buf_put_text(&list, ", ...");
			i = row->max;
		}
		buf_printf(&list, "%s%s", i ? ", " : "", row->words[i]);
	}
	err_set(err, "must be one of: %s", buf_text(&list));
	buf_done(&list);
	return -1;
}

int setting_parse_member(const struct setting *row, void *member, const char *text,
    struct arena *arena, struct err *err)
{
	switch (row->type) {
	case SETTING_STR:
		return parse_str(row, member, text, arena, err);
	case SETTING_INT:
		return parse_int(row, member, text, err);
	case SETTING_UINT:
		return parse_uint(row, member, text, err);
	case SETTING_BOOL:
		return parse_bool(member, text, err);
	case SETTING_TIME:
		if (text_seconds(text, member) < 0)
			return err_set(err,
			    "must be a number of seconds such as 30 or 0.5, "
			    "without unit or sign");
		return 0;
	case SETTING_SIZE:
		if (text_bytes(text, member) < 0)
			return err_set(err,
			    "must be a number of bytes such as 2147483648, 2048MB or "
			    "2GB");
		return 0;
	case SETTING_ENUM:
		return parse_enum(row, member, text, err);
	}
	return -1;
}

/* 1 and err: the value is taken as PgBouncer does, but is hardly what was meant. */
static int doubt(const struct setting *row, const struct settings *s, const char *text,
    struct err *err)
{
	static const char facilities[] =
	    "auth,authpriv,daemon,user,local0,local1,local2,local3,local4,local5,"
	    "local6,local7";

	text += strspn(text, " \t");
	if (row == &rows[SETTING_INDEX_unix_socket_mode] && *text >= '1' &&
	    *text <= '9') {
		err_set(err,
		    "%s is a decimal number here, mode %#o: write 0%s if that "
		    "is meant",
		    text, (unsigned)s->unix_socket_mode, text);
		return 1;
	}
	if (row == &rows[SETTING_INDEX_syslog_facility] && *text &&
	    !text_list_has(facilities, text)) {
		err_set(err,
		    "there is no facility \"%.100s\", daemon is used: write one "
		    "of %s",
		    text, facilities);
		return 1;
	}
	return 0;
}

int setting_parse(const struct setting *row, struct settings *s, const char *text,
    struct arena *arena, struct err *err)
{
	int rc;

	assert(arena);
	rc = setting_parse_member(row, member_in(row, s), text, arena, err);
	if (rc < 0)
		return rc;
	level_set_given(&s->global, setting_index(row), true);
	return rc > 0 ? rc : doubt(row, s, text, err);
}

void settings_defaults(struct settings *s)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct setting *row = &rows[i];
		int rc = 0;

		if (row->default_text)
			rc = setting_parse_member(
			    row, member_in(row, s), row->default_text, NULL, NULL);
		assert(rc == 0);
		(void)rc;
	}
}

const char *setting_print(
    const struct setting *row, const struct settings *s, char *out, size_t size)
{
	const void *member = member_of(row, s);

	if (size > 0)
		out[0] = '\0';
	if (row->type == SETTING_STR)
		return *(const char *const *)member;
	if (!row->default_text && !is_given(row, s))
		return NULL;
	switch (row->type) {
	case SETTING_STR:
		break;
	case SETTING_INT:
	case SETTING_BOOL:
		snprintf(out, size, "%d", *(const int *)member);
		break;
	case SETTING_UINT:
		snprintf(out, size, "%u", *(const unsigned *)member);
		break;
	case SETTING_TIME:
		text_print_seconds(*(const uint64_t *)member, out, size);
		break;
	case SETTING_SIZE:
		text_print_bytes(*(const uint64_t *)member, out, size);
		break;
	case SETTING_ENUM:
		return row->words[*(const int *)member];
	}
	return out;
}

static bool is_equal(const struct setting *row, const void *a, const void *b)
{
	if (row->type == SETTING_STR) {
		const char *x = *(const char *const *)a;
		const char *y = *(const char *const *)b;

		return x == y || (x && y && strcmp(x, y) == 0);
	}
	return memcmp(a, b, member_size(row)) == 0;
}

bool setting_is_equal(
    const struct setting *row, const struct settings *a, const struct settings *b)
{
	if (!row->default_text && row->type != SETTING_STR &&
	    is_given(row, a) != is_given(row, b))
		return false;
	return is_equal(row, member_of(row, a), member_of(row, b));
}

bool setting_is_equal_at(
    const struct setting *row, const struct level *a, const struct level *b)
{
	bool is_given_in_a = level_has(a, setting_index(row));

	assert(row->level != LEVEL_GLOBAL);
	if (is_given_in_a != level_has(b, setting_index(row)))
		return false;
	return !is_given_in_a || is_equal(row, (const char *)a + row->offset,
				     (const char *)b + row->offset);
}

bool settings_are_different(
    const struct settings *a, const struct settings *b, unsigned flags)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		if ((rows[i].flags & flags) && !setting_is_equal(&rows[i], a, b))
			return true;
	return false;
}

void setting_copy(
    const struct setting *row, struct settings *to, const struct settings *from)
{
	memcpy(member_in(row, to), member_of(row, from), member_size(row));
	level_set_given(&to->global, setting_index(row), is_given(row, from));
}

void settings_dup(struct settings *to, const struct settings *from, struct arena *arena)
{
	*to = *from;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		if (rows[i].type == SETTING_STR) {
			const char **text = member_in(&rows[i], to);

			*text = arena_strdup(arena, *text);
		}
}

static bool is_blank(const char *s)
{
	return s == NULL || *s == '\0';
}

/* Refuses settings that need something the program was built without. */
static int check_build(const struct settings *s, struct err *err)
{
#ifndef HAVE_PAM
	if (s->auth_type == AUTH_PAM)
		return err_set(err, "auth_type=pam is not supported by this build");
#endif
#ifndef HAVE_LDAP
	if (s->auth_type == AUTH_LDAP)
		return err_set(err, "auth_type=ldap is not supported by this build");
#endif
#ifndef HAVE_OAUTH
	if (s->auth_type == AUTH_OAUTH)
		return err_set(err, "auth_type=oauth is not supported by this build");
#endif
#ifndef HAVE_GSSAPI
	if (!is_blank(s->krb_server_keyfile))
		return err_set(
		    err, "krb_server_keyfile is not supported by this build");
#endif
	(void)s, (void)err;
	return 0;
}

int level_check(const struct level *level, struct err *err)
{
#ifndef HAVE_GSSAPI
	if (!is_blank(level->server_krb_keyfile))
		return err_set(
		    err, "server_krb_keyfile is not supported by this build");
#endif
	if (text_or_null(level->server_password_command) &&
	    text_or_null(level->server_password_file))
		return err_set(err, "server_password_command and server_password_file "
				    "do not go together");
	return 0;
}

int settings_check(const struct settings *s, struct err *err)
{
	struct err bad;

	if (check_build(s, err) < 0)
		return -1;
	if (networks_check(s->proxy_protocol_from, &bad) < 0)
		return err_set(err, "proxy_protocol_from: %s", bad.text);
	if (endpoints_check(s->metrics_listen, &bad) < 0)
		return err_set(err, "metrics_listen: %s", bad.text);
	return level_check(&s->global, err);
}

int settings_check_tls(const struct settings *s, struct err *err)
{
	if (s->metrics_tls && s->client_tls_sslmode == TLS_DISABLE)
		return err_set(err, "metrics_tls needs a certificate: set "
				    "client_tls_sslmode, client_tls_key_file and "
				    "client_tls_cert_file");
	if (s->auth_type == AUTH_CERT) {
		if (s->client_tls_sslmode != TLS_VERIFY_FULL)
			return err_set(err, "auth_type=cert requires "
					    "client_tls_sslmode=SSLMODE_VERIFY_FULL");
		if (is_blank(s->client_tls_ca_file))
			return err_set(
			    err, "auth_type=cert requires client_tls_ca_file");
	}
	if (s->client_tls_sslmode == TLS_DISABLE)
		return 0;
	if (is_blank(s->client_tls_key_file) || is_blank(s->client_tls_cert_file))
		return err_set(err,
		    "To allow TLS connections from clients, client_tls_key_file and "
		    "client_tls_cert_file must be set.");
	/* without this file every certificate of a public authority would be
	 * accepted */
	if (s->client_tls_sslmode >= TLS_VERIFY_CA && is_blank(s->client_tls_ca_file))
		return err_set(err, "client_tls_sslmode requires client_tls_ca_file");
	return 0;
}
