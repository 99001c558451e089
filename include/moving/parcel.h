/*
 * What a client or a server connection is besides its descriptor, as a value: enough to
 * go on with it elsewhere, in another process or on another loop.  And what the two
 * need to find there: texts of prepared statements, pools, databases, users.
 *
 * A value is encoded as a flat row of fields, numbers in network byte order, texts and
 * lists with their length in front.  Nothing in it says what a field is: both sides
 * must have the same PARCEL_FORMAT, which is raised with every change of a field.
 *
 * Times are told as how long ago they were, for clocks differ between processes.  Bits
 * and values of tracked parameters are in the order of the names in the sender's
 * struct parcel_origin.
 */
#ifndef MOVING_PARCEL_H
#define MOVING_PARCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/scram.h"
#include "base/buf.h"
#include "base/mem.h"
#include "net/sock.h"
#include "pool/pool.h"
#include "session/server.h"
#include "wire/effects.h"
#include "wire/pipeline.h"

enum { PARCEL_FORMAT = 2 };

enum parcel_kind {
	PARCEL_ORIGIN = 'O', /* first of all */
	PARCEL_LISTENER = 'L',
	PARCEL_DATABASE = 'D',
	PARCEL_POOL = 'P',
	PARCEL_TEXT = 'T',   /* before the first that refers to it */
	PARCEL_CLIENT = 'C', /* its server follows at once when it is linked to one */
	PARCEL_SERVER = 'S',
};

struct parcel_bytes {
	const uint8_t *at;
	size_t len;
};

/* What clients and servers have in common. */
struct parcel_conn {
	uint64_t id, age_us;
	struct sock_addr remote;
	int peer_pid;
	uint16_t unix_port;
	uint64_t passing;           /* still to come of a message that was taken */
	struct parcel_bytes unread; /* came, and was not taken */
};

/* Its value, and the other one that counts: of a client what it asked for at its login,
 * of a server its own.  NULL: it has none. */
struct parcel_var {
	const char *value, *other;
};

struct parcel_vars {
	struct parcel_var *list;
	size_t count;
};

/* A prepared text by its id in the sender's registry. */
struct parcel_statement {
	uint64_t id;
	const char *name; /* the client's; NULL: what a server holds */
	bool is_sql;      /* of the registry for PREPARE as a command */
	bool is_marked;   /* doubtful, or spoilt */
};

struct parcel_statements {
	struct parcel_statement *list;
	size_t count;
};

struct parcel_client {
	struct parcel_conn conn;
	const char *database, *user;
	struct parcel_vars vars;
	bool has_asked; /* parcel_var.other counts */
	uint64_t requested, own, doubtful;
	struct parcel_statements statements;
	struct {
		bool is_there, is_command;
		const char *ours;
		struct sql_effects effects;
		struct parcel_bytes parse;
	} unnamed;
	struct parcel_bytes key;
	bool is_unix_owner, is_canceled, is_skipping, is_dropping, was_notified;
	bool is_linked;
	/* how long ago; UINT64_MAX: not at all */
	uint64_t query_us, xact_us, last_us;
};

struct parcel_server {
	struct parcel_conn conn;
	const char *database, *user; /* of its pool */
	struct seat seat;            /* its numbers and flags; times as how long ago */
	uint64_t last_us;
	uint8_t status;
	bool is_ready, is_unheard;
	uint16_t leaks_left;
	uint32_t last_tag, remote_pid;
	struct parcel_vars vars;
	uint64_t pinned;
	struct parcel_statements statements;
	struct parcel_bytes key;
	const char *unix_dir, *host;
	int port;
	bool is_linked; /* to the client that came before it */
	/* when it is linked */
	struct link link;       /* without what it owns; idle_xact_us: how long ago */
	struct pipeline ledger; /* without its entries */
	struct pipeline_entry *entries;
	size_t entry_count;
	/* what the client has sent since its last Sync; see relay/segment.h */
	struct {
		bool is_there, is_ended;
		uint32_t tag;
		struct parcel_bytes bytes, described;
	} segment;
};

struct parcel_text {
	uint64_t id;
	bool is_sql;
	const char *reading; /* NULL: the text is private */
	struct parcel_bytes key;
	struct sql_effects effects;
};

struct parcel_pool {
	const char *database, *user;
	const char *found; /* the secret that auth_query found; NULL: none */
	uint64_t found_us; /* how long ago */
	bool has_keys;     /* for passing through */
	struct scram_keys keys;
	const char *remembered; /* the password that LDAP or PAM found right, or NULL */
	const char *entry;      /* of the database: its connection string */
	bool has_welcome;
	struct parcel_vars welcome;
	struct parcel_bytes untracked;
};

struct parcel_database {
	const char *name;
	bool is_paused, is_disabled;
	bool has_elected; /* a SWITCHOVER has chosen the host that is used alone */
	const char *elected;
	int elected_port;
};

struct parcel_listener {
	bool is_unix;
};

struct parcel_origin {
	const char *version; /* of the program, for the log */
	int pid;
	uint64_t next_id, last_text, last_sql_text;
	bool is_paused;
	struct parcel_vars names; /* of the tracked parameters, as values */
};

/* The one of its kind. */
struct parcel {
	enum parcel_kind kind;
	union {
		struct parcel_origin origin;
		struct parcel_listener listener;
		struct parcel_database database;
		struct parcel_pool pool;
		struct parcel_text text;
		struct parcel_client client;
		struct parcel_server server;
	};
};

/* Append the fields of the parcel to out; its kind and length are not written.  If
 * there is no memory, out->failed is set. */
void parcel_encode(const struct parcel *parcel, struct buf *out);
/* Read a parcel of this kind from its fields.  Its lists are made in arena; its texts
 * and bytes are borrowed: they point into `bytes`.  -1: these are not the fields of
 * such a parcel, and *parcel must not be used. */
int parcel_decode(struct parcel *parcel, enum parcel_kind kind, const uint8_t *bytes,
    size_t len, struct arena *arena);

#endif
