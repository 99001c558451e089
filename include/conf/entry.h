/*
 * Parses entries of [databases], [users] and [peers], `name = key=value ...`, into
 * structs.  The keys are those of database_keys.def and peer_keys.def, and all settings
 * whose level in settings.def is a database or a user.
 */
#ifndef CONF_ENTRY_H
#define CONF_ENTRY_H

#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"
#include "conf/config.h"

enum {
	DATABASE_NAME_MAX = 63, /* in bytes */
	USER_NAME_MAX = 127,
	PEER_ID_MAX = 65535,
};

enum entry_type {
	ENTRY_TEXT,
	ENTRY_PORT, /* a number from 1 to 65535 */
	ENTRY_SIZE, /* an integer; a negative one means "inherited" */
	ENTRY_LOAD_BALANCE,
	ENTRY_TLS_START,
};

enum entry_flags {
	/* a change makes existing server connections obsolete */
	KEY_OBSOLETES = 1 << 0,
	KEY_OURS = 1 << 1, /* PgBouncer 1.25 has no such key */
};

struct entry_key {
	const char *key;
	enum entry_type type;
	size_t offset;
	unsigned flags;
};

/* Returns a key of the table by its index; NULL behind the last one. */
const struct entry_key *entry_database_key(size_t i);
const struct entry_key *entry_peer_key(size_t i);
typedef const struct entry_key *entry_key_fn(size_t i);
/* Finds a key by its name, in the table of one of these two; NULL: there is none. */
const struct entry_key *entry_find_key(entry_key_fn *key_at, const char *name);
/* Return the key that entries use for this setting, and an additional key or NULL. */
const char *entry_key_of(const struct setting *row);
const char *entry_other_key_of(const struct setting *row);

/* Where reports about one entry go; warn may be NULL. */
struct entry_notes {
	config_warn_fn *warn;
	void *ctx;
	const char *where;
};

/* Parse text into *out, whose strings go into arena; out->line stays 0.  -1 and err,
 * with the text of configuration.md 5 to 7. */
int entry_parse_database(struct database_config *out, const char *name,
    const char *text, struct arena *arena, const struct entry_notes *notes,
    struct err *err);
/* Joins two lines for one database that both have weight=: the hosts of `before` come
 * first in *db.  -1 and err when the lines differ in anything else that concerns the
 * servers. */
int entry_join(struct database_config *db, const struct database_config *before,
    struct arena *arena, struct err *err);
/* Parses a connection string as the database entry `name`.  -1 and err, with the text
 * of configuration.md 5.1. */
int entry_parse_connstr(struct database_config *db, const char *name,
    const char *connstr, struct arena *arena, struct err *err);

/* Whether two entries differ in something that makes existing server connections
 * obsolete: a key with KEY_OBSOLETES in database_keys.def, a setting with
 * OBSOLETES_ITS_DB in settings.def, or param.NAME. */
bool entry_is_obsoleting(
    const struct database_config *a, const struct database_config *b);
int entry_parse_user(struct user_config *out, const char *name, const char *text,
    struct arena *arena, const struct entry_notes *notes, struct err *err);
int entry_parse_peer(struct peer_config *out, const char *name, const char *text,
    struct arena *arena, const struct entry_notes *notes, struct err *err);

#endif
