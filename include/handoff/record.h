/*
 * A record: everything about a client or server connection except its descriptor, as a
 * value with which another process can continue it; also the objects that these
 * refer to: texts of prepared statements, pools, databases, users.
 *
 * A record is encoded as a flat sequence of fields: numbers in network byte order,
 * strings and lists with their length in front.  The encoding does not describe its
 * fields, so both sides must use the same format: a process that asks for another one
 * than RECORD_FORMAT is refused.  The number is increased with each change of a field.
 *
 * Times are sent as how long ago they were, because clocks differ between processes.
 * Bits and values of tracked parameters are in the order of the names in the sender's
 * struct record_origin.
 */
#ifndef HANDOFF_RECORD_H
#define HANDOFF_RECORD_H

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

enum {
	RECORD_FORMAT = 13,
};

enum record_kind {
	RECORD_ORIGIN = 'O', /* comes first of all */
	RECORD_LISTENER = 'L',
	RECORD_DATABASE = 'D',
	RECORD_POOL = 'P',
	RECORD_TEXT = 'T',   /* comes before the first record that refers to it */
	RECORD_CLIENT = 'C', /* followed by its server if it is linked to one */
	RECORD_SERVER = 'S',
};

struct record_bytes {
	const uint8_t *at;
	size_t len;
};

/* What clients and servers have in common. */
struct record_conn {
	uint64_t id, age_us;
	struct sock_addr remote;
	int peer_pid;
	uint16_t unix_port;
	/* bytes still to come of a message that is being forwarded */
	uint64_t passing;
	struct record_bytes unread; /* bytes received but not processed */
};

/* The value of a parameter, and a second value: of a client, the one it asked for at
 * its login; of a server, the server's own.  NULL: no value.  And the encodings of the
 * two (see vars_encoding). */
struct record_var {
	const char *value, *other, *encoding, *other_encoding;
};

struct record_vars {
	struct record_var *list;
	size_t count;
};

/* A prepared text, by its id in the sender's registry. */
struct record_statement {
	uint64_t id;
	const char *name; /* the client's name; NULL in the list of a server */
	bool is_sql;      /* it is in the registry of the SQL command PREPARE */
	bool is_marked;   /* doubtful (client) or spoilt (server) */
};

struct record_statements {
	struct record_statement *list;
	size_t count;
};

/* See struct slow_log_span in relay/slow_log.h. */
struct record_span {
	uint64_t received, sent;
	const char *traceparent; /* "": none */
};

struct record_client {
	struct record_conn conn;
	const char *database, *user;
	struct record_vars vars;
	bool has_asked; /* record_var.other is valid */
	uint64_t requested, own, doubtful;
	struct record_bytes kept, startup; /* see kept_settings.h */
	bool reads_sequences;
	struct record_statements statements;
	struct {
		bool is_there, is_command;
		const char *ours;
		struct sql_effects effects;
		struct record_bytes parse;
	} unnamed;
	struct record_bytes key;
	bool is_unix_owner, is_canceled, is_skipping, is_dropping, was_notified;
	bool is_linked;
	uint8_t block_state, block_modes; /* see struct client */
	bool block_has_portal;
	/* how long ago; UINT64_MAX: never */
	uint64_t query_us, xact_us, last_us;
	/* notes about its running transaction; see relay/slow_log.h */
	struct {
		bool is_there;
		uint64_t received, sent, worked_us;
		uint32_t query_count;
		struct record_span xact, query;
	} slow;
};

struct record_server {
	struct record_conn conn;
	const char *database, *user; /* of its pool */
	/* numbers and flags of the slot; times as how long ago */
	struct slot slot;
	uint64_t last_us;
	uint8_t status;
	bool is_ready, is_unheard;
	uint16_t leaks_left;
	uint32_t last_tag, remote_pid;
	struct record_vars vars;
	uint64_t pinned;
	bool has_own_kept, is_kept_doubtful;
	struct record_bytes own_kept, kept;
	struct record_statements statements;
	struct record_bytes key;
	const char *unix_dir, *host;
	int port;
	bool is_linked; /* linked to the client of the record before */
	/* if it is linked: */
	bool is_dropping; /* the client does not get the message under way */
	/* without pointers; idle_xact_us and since_us as how long ago */
	struct link link;
	struct record_bytes pin_names; /* link.pin.names */
	struct pipeline ledger;        /* without its entries */
	struct pipeline_entry *entries;
	size_t entry_count;
	/* what the client has sent since its last Sync; see relay/replay.h */
	struct {
		bool is_there, is_ended;
		uint32_t tag;
		struct record_bytes bytes, described;
	} replay;
};

struct record_text {
	uint64_t id;
	bool is_sql;
	const char *reading; /* NULL: the text is private */
	struct record_bytes key;
	struct sql_effects effects;
};

struct record_pool {
	const char *database, *user;
	const char *found; /* the secret that auth_query found; NULL: none */
	uint64_t found_us; /* how long ago */
	/* there are keys for logging in to servers with the client's proof */
	bool has_keys;
	struct scram_keys keys;
	const char *remembered; /* the password that LDAP or PAM accepted, or NULL */
	const char *entry;      /* connection string of the database */
	bool has_known;
	struct record_vars login_params;
	struct record_bytes untracked;
};

struct record_database {
	const char *name;
	bool is_paused, is_disabled;
	/* a SWITCHOVER has elected the host that is used exclusively */
	bool has_elected;
	const char *elected;
	int elected_port;
	/* the primary as the monitor of hosts knows it, and its timeline */
	bool has_primary;
	const char *primary;
	int primary_port;
	uint32_t timeline;
	const char *addresses; /* of names that have several; NULL: none has */
};

struct record_listener {
	bool is_unix;
};

struct record_origin {
	const char *version; /* version of the program, for the log */
	int pid;
	uint64_t next_id, last_text, last_sql_text;
	bool is_paused;
	struct record_vars names; /* names of the tracked parameters, as values */
	struct record_bytes mock_secret; /* see struct site */
};

/* Depending on the kind, one member is valid. */
struct record {
	enum record_kind kind;
	union {
		struct record_origin origin;
		struct record_listener listener;
		struct record_database database;
		struct record_pool pool;
		struct record_text text;
		struct record_client client;
		struct record_server server;
	};
};

/* Appends the fields of the record to out, without kind and length.  If there is no
 * memory, out->failed is set. */
void record_encode(const struct record *record, struct buf *out);
/* Decodes the fields of a record of this kind.  Lists are allocated in arena; strings
 * and bytes are borrowed and point into `bytes`.  -1: malformed, and *record must not
 * be used. */
int record_decode(struct record *record, enum record_kind kind, const uint8_t *bytes,
    size_t len, struct arena *arena);

#endif
