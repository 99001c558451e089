/*
 * Settings of a session that no report tells, as the server has told them when it was
 * asked: the pooler keeps them for a client, and puts them in force on its next server.
 * Values are in hexadecimal, byte for byte as the database has them, so that no
 * client_encoding changes them.
 */
#ifndef WIRE_KEPT_SETTINGS_H
#define WIRE_KEPT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	/* So many bytes of names and values are kept for a client at most. */
	KEPT_SETTINGS_MOST = 64 * 1024,
	/* PostgreSQL has no longer names. */
	KEPT_NAME_MOST = 63 * 2 + 1,
};

/* Behind each name with its NUL stands its value with a NUL: hexadecimal digits, or "-"
 * for a parameter that is reset although connect_query sets it.  Names are in lower
 * case, role and session_authorization are among them.  It never changes. */
struct kept_settings {
	size_t len;
	char bytes[];
};

/* The bytes are names and values that kept_settings_add has made, or come from another
 * process.  NULL: there are none, there is no memory, or they are none. */
struct kept_settings *kept_settings_new(const void *bytes, size_t len);
bool kept_settings_is_same(
    const struct kept_settings *a, const struct kept_settings *b);
bool kept_settings_has(const struct kept_settings *settings, const char *name);
/* Whether a Parse could succeed or fail because of them; and whether others must not
 * use what PostgreSQL makes of a text under them (vars_is_silently_read). */
bool kept_settings_are_read(const struct kept_settings *settings);
bool kept_settings_are_read_apart(const struct kept_settings *settings);
/* Appends a setting.  False: it cannot be kept, because of its name or its size. */
bool kept_settings_add(struct buf *out, const uint8_t *name, size_t name_len,
    const uint8_t *hex, size_t len);
/* Sets one of them, whose name and value are as a startup packet has them.  -1: it
 * cannot be kept, or there is no memory. */
int kept_settings_set(
    struct kept_settings **settings, const char *name, const char *value);
/* Takes one of them out and appends its value as it was given, unless `value` is NULL.
 * 0: it is not among them.  -1: no memory. */
int kept_settings_take(
    struct kept_settings **settings, const char *name, struct buf *value);
/* Adds those of `from` that are not among them.  -1: no memory. */
int kept_settings_add_missing(
    struct kept_settings **settings, const struct kept_settings *from);
/* Is this the value of a parameter that no view lists, or of the role, where nobody has
 * set it?  defaults: what kept_settings_add has appended, with a rank in front of each
 * name, a character of which the lowest counts; without a value there it is empty. */
bool kept_settings_is_default(const struct buf *defaults, const uint8_t *name,
    size_t name_len, const uint8_t *hex, size_t len);
/* *result: the settings in which a session differs from the server's own ones; NULL:
 * none.  The caller owns it.  -1: no memory. */
int kept_settings_difference(const struct buf *session, const struct kept_settings *own,
    struct kept_settings **result);
/* Appends the names that have a dot, each with its NUL. */
void kept_settings_put_names(const struct kept_settings *settings, struct buf *names);

/* Appends a SELECT and a semicolon that bring back the server's own value of what is in
 * force and not wanted, first of all the role.  False: nothing was appended. */
bool kept_settings_put_back(const struct kept_settings *in_force,
    const struct kept_settings *wanted, const struct kept_settings *own,
    struct buf *sql);
/* Appends a SELECT and a semicolon that put in force what is wanted, last of all the
 * role.  in_force: what certainly is.  False: nothing was appended. */
bool kept_settings_put(const struct kept_settings *wanted,
    const struct kept_settings *in_force, struct buf *sql);

/* ---- names that a text sets ---- */

/* Parameters with a dot (app.user_id).  No view of PostgreSQL lists those that
 * nobody has defined, so the server can only be asked for their values by name. */

/* What else a text has. */
struct setting_names {
	size_t count;    /* how many names were found */
	bool has_params; /* a name is a parameter of the statement */
	bool is_unknown; /* a name is an expression, or cannot be asked for */
};

/* Looks for SET and set_config() everywhere, in strings and comments, too, because a
 * string may be the body of a DO.  Appends the names in lower case, each with its
 * NUL. */
struct setting_names setting_names_of_text(
    const char *text, size_t len, struct buf *names);
/* Appends the values of a whole Bind that may be such names.  False: one of them cannot
 * be asked for. */
bool setting_names_of_bind(const uint8_t *bind, size_t size, struct buf *names);

#endif
