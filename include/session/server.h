/*
 * One server connection as an object: its seat in the pool, what it owes, what it
 * reported; at rest, under test, and its end.  Dialing and login are dial.h's, the
 * linked life is relay.h's.
 */
#ifndef SESSION_SERVER_H
#define SESSION_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"
#include "session/conn.h"
#include "wire/leak.h"
#include "wire/pipeline.h"
#include "wire/reset.h"
#include "wire/vars.h"

struct dial;

enum { BACKEND_KEY_MAX = 260 };

struct server {
	struct conn conn; /* first member */
	struct seat seat;

	/* what each message looks at, close together */
	struct pipeline pipeline; /* what it owes */
	struct dial *dial;        /* owned, until the login is complete */
	struct sql_query *sql;    /* owned: see sql_statements.h; NULL: none runs */
	struct segment *segment;  /* owned: see segment.h; NULL: nothing is kept */
	struct prepared_journal *journal; /* owned: changes in flight; NULL: none */
	uint64_t last_us;                 /* last message from it */
	uint64_t idle_xact_us; /* since when it is idle in transaction; 0 = it is not */
	struct {
		struct leak_watch watch;
		uint16_t looked; /* struct leak_look.all of the last Query or Parse */
		uint16_t called; /* kinds that FunctionCalls in flight leave */
		uint16_t left;   /* kinds left behind since it was last clean */
	} leaks;                 /* see leaks.h */
	uint8_t held_type;       /* of the message that waits (holds_for_copy) */
	uint8_t status;          /* of its last ReadyForQuery: I T E; 0 = none yet */
	bool is_ready : 1;       /* status I, and nothing was sent since */
	bool is_applying : 1;    /* our SETs for the client are running */
	bool apply_failed : 1;
	bool was_reset : 1;     /* a RESET, DISCARD ALL, SET to DEFAULT was completed */
	bool is_reset_kept : 1; /* and committed: no error undoes it */
	bool wants_apply : 1;   /* a RESET brought back values it does not have */
	bool has_unnamed : 1;   /* its unnamed statement is the client's, or is not */
	bool has_forgetting_portal : 1; /* an Execute may discard all statements */
	bool holds_back : 1; /* the client's next messages wait until all is answered */
	bool holds_to_sync : 1;     /* ... or until no ReadyForQuery is owed */
	bool holds_for_copy : 1;    /* ... or until it is known how a COPY ended */
	bool is_segment_spoilt : 1; /* none can begin before the next Sync */
	bool is_trying_again : 1;   /* what came of its segment was an error of ours */
	bool is_dropping : 1;  /* the rest of the message in transit is swallowed */
	bool holds_client : 1; /* the client was paused because we are full */
	bool is_held : 1;      /* we were paused because the client is full */
	bool is_unheard : 1;   /* it spoke at rest, and the log has it */
	bool is_cut : 1;       /* got half a message, and the rest will not come */
	struct list portals;   /* struct sql_portal by .node: of such commands */
	/* bits of tracked parameters, since the last ReadyForQuery: reported; brought
	 * to their defaults by what the client sent, some until the transaction's end
	 */
	struct reset_look reset;
	uint64_t reported;

	struct vars vars;                /* what it has */
	struct reset_look looked_reset;  /* of the last Query or Parse */
	uint64_t apply_local;            /* with wants_apply: by SET LOCAL */
	struct prepared_set *statements; /* owned: what it holds; NULL: nothing */
	struct list aliases;             /* struct alias by .node: see holdings.h */
	uint32_t unnamed_tag;            /* of what was last sent for has_unnamed */
	uint32_t last_tag;               /* of the ledger and the journal */
	const char *test_failure; /* literal: reason when the running test fails */
	uint8_t *key;             /* owned: process id and secret; NULL = none */
	size_t key_len;
	struct list cancels;       /* struct cancel_job by .target_node: aimed at it */
	struct cancel_job *errand; /* the CancelRequest it carries, or NULL */
	char *unix_dir;            /* owned: socket folder, for unix servers */
	char *host; /* owned: the host entry it was dialed from; NULL = unix */
	int port;
	uint32_t remote_pid;
};

static inline struct server *conn_server(const struct conn *conn)
{
	return container_of(conn, struct server, conn);
}
static inline struct server *seat_server(const struct seat *seat)
{
	return container_of(seat, struct server, seat);
}

extern const struct conn_kind server_kind;

struct server *server_new(struct site *site, const struct conn_ops *ops);

/* At rest until something comes or wake_us (then server_events->review). */
void server_rest(struct server *server, uint64_t wake_us);
/* Run a simple query of our own on a resting or just released server; done well:
 * server_events->tested.  reason_failed closes it otherwise. */
void server_test(struct server *server, const char *sql, const char *reason_failed);
/* Its login is complete. */
bool server_is_logged_in(const struct server *server);
/* Does this CommandComplete say that it forgot its prepared statements? */
bool server_has_forgotten(const struct message *m);
/* Close it: reason for the log and, when linked, for the client. */
void server_retire(struct server *server, const char *reason);
/* It changes hands or goes: cancel requests aimed at it are looked at again. */
void server_review_cancels(struct server *server);
/* The shared end: last Terminate, events->gone, memory.  For ops->closed. */
void server_leave(struct server *server, const char *reason);
/* A ParameterStatus: note it, for `also` too when not NULL; an untracked one is
 * appended to untracked when that is not NULL.  -1: malformed or no memory; the server
 * is doomed. */
int server_note_parameter(struct server *server, const struct message *m,
    struct vars *also, struct buf *untracked);
void server_malformed(struct conn *conn, const uint8_t *bytes, size_t have);
void server_ended(struct conn *conn, const struct err *err);
/* Send sql as a simple Query of our own: entered in the ledger as swallowed. */
void server_query(struct server *server, const char *sql);
/* The same for one command, as extended messages under a name of ours and without Sync:
 * what the client has under no name stays.  The tag is its Execute's in the ledger. -1:
 * no memory. */
int server_command(struct server *server, const char *sql, uint32_t tag);
/* A Sync of our own. */
int server_sync(struct server *server);
/* Ask what is uncertain about what the client is owed (pipeline_ask). */
void server_ask(struct server *server);
/* Closed for what it sent: counted, logged, doomed. */
void server_protocol_error(struct server *server, const char *reason);

/* The client it is linked to, or NULL (also while it runs an auth_query). */
struct client *server_client(const struct server *server);

#endif
