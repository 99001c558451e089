/*
 * Entries of [databases], [users] and [peers]: from `name = key=value ...` to a struct.
 * The keys are those of database_keys.def and peer_keys.def, and every setting that the
 * table gives the level of a database or a user.
 */
#ifndef CONF_ENTRY_H
#define CONF_ENTRY_H

#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"
#include "conf/config.h"

enum {
	DATABASE_NAME_MAX = 63, /* bytes */
	USER_NAME_MAX = 127,
	PEER_ID_MAX = 65535,
};

enum entry_type {
	ENTRY_TEXT,
	ENTRY_PORT, /* 1..65535 */
	ENTRY_SIZE, /* int >= 0; a negative one inherits */
	ENTRY_LOAD_BALANCE,
	ENTRY_TLS_START,
};

enum entry_flags {
	KEY_OBSOLETES = 1 << 0, /* a change outdates existing server connections */
};

struct entry_key {
	const char *key;
	enum entry_type type;
	size_t offset;
	unsigned flags;
	const char *help;
};

/* The i-th key of a table, NULL past the end. */
const struct entry_key *entry_database_key(size_t i);
const struct entry_key *entry_peer_key(size_t i);
/* The key under which entries have this setting, and another one or NULL. */
const char *entry_key_of(const struct setting *row);
const char *entry_other_key_of(const struct setting *row);

/* Where remarks about one entry go; warn may be NULL. */
struct entry_notes {
	config_warn_fn *warn;
	void *ctx;
	const char *where;
};

/* Parse text into *out, whose strings go into arena; out->line stays 0.  -1 and err
 * with the text of configuration.md 5 to 7. */
int entry_parse_database(struct database_config *out, const char *name,
    const char *text, struct arena *arena, const struct entry_notes *notes,
    struct err *err);
/* Joins two lines for one database, both with weight=: the hosts of `before` come first
 * in *db. -1 and err when the lines differ in anything else that concerns the servers.
 */
int entry_join(struct database_config *db, const struct database_config *before,
    struct arena *arena, struct err *err);
/* Parse a connection string as database entry `name` into arena memory.  -1 and err
 * with the text of configuration.md 5.1. */
int entry_parse_connstr(struct database_config *db, const char *name,
    const char *connstr, struct arena *arena, struct err *err);

/* Do two entries differ in a key or a setting that makes existing server connections
 * obsolete (OBSOLETES in database_keys.def, OBSOLETES_ITS_DB in settings.def,
 * param.NAME)?
 */
bool entry_is_obsoleting(
    const struct database_config *a, const struct database_config *b);
int entry_parse_user(struct user_config *out, const char *name, const char *text,
    struct arena *arena, const struct entry_notes *notes, struct err *err);
int entry_parse_peer(struct peer_config *out, const char *name, const char *text,
    struct arena *arena, const struct entry_notes *notes, struct err *err);

#endif
