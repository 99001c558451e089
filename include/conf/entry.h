/*
 * Entries of [databases], [users] and [peers]: from `name = key=value ...` to a struct,
 * by the tables database_keys.def, user_keys.def and peer_keys.def.
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
	ENTRY_PORT,     /* 1..65535 */
	ENTRY_SIZE,     /* int >= 0; a negative one inherits */
	ENTRY_LIMIT,    /* int > 0; others inherit */
	ENTRY_DURATION, /* whole seconds > 0; others inherit */
	ENTRY_WAIT,     /* whole seconds; 0 and less mean none */
	ENTRY_POOL_MODE,
	ENTRY_SESSION_STATE,
	ENTRY_LOAD_BALANCE,
	ENTRY_TLS_MODE,
	ENTRY_TLS_START,
	ENTRY_CHANNEL_BINDING,
};

enum entry_flags {
	OBSOLETES = 1 << 0, /* a change outdates existing server connections */
};

struct entry_key {
	const char *key;
	enum entry_type type;
	size_t offset;
	unsigned flags;
	const char *help;
};

/* The i-th key of a table, NULL past the end. */
const struct entry_key *database_key_at(size_t i);
const struct entry_key *user_key_at(size_t i);
const struct entry_key *peer_key_at(size_t i);

/* Where remarks about one entry go; warn may be NULL. */
struct entry_notes {
	config_warn_fn *warn;
	void *ctx;
	const char *where;
};

/* Parse text into *out, whose strings go into arena; out->line stays 0.  -1 and err
 * with the text of settings.md 5 to 7. */
int database_entry_parse(struct database_config *out, const char *name,
    const char *text, struct arena *arena, const struct entry_notes *notes,
    struct err *err);
int user_entry_parse(struct user_config *out, const char *name, const char *text,
    struct arena *arena, const struct entry_notes *notes, struct err *err);
int peer_entry_parse(struct peer_config *out, const char *name, const char *text,
    struct arena *arena, const struct entry_notes *notes, struct err *err);

#endif
