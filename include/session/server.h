/*
 * One server connection as an object: its seat in the pool, what it owes, what it
 * reported; at rest, under test, and its end.  Dialing and login are dial.h's, the
 * linked life is the relay's.
 */
#ifndef SESSION_SERVER_H
#define SESSION_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"
#include "session/conn.h"
#include "wire/effects.h"
#include "wire/leak.h"
#include "wire/pipeline.h"
#include "wire/vars.h"

struct dial;

enum { BACKEND_KEY_MAX = 260 };

/* What the client's next messages wait for. */
enum link_hold {
	LINK_OPEN,           /* nothing: they are forwarded as they come */
	LINK_UNTIL_ANSWERED, /* every message that was sent is answered */
	LINK_UNTIL_READY,    /* no ReadyForQuery is owed */
	LINK_UNTIL_COPY_END, /* it is known how a COPY ended */
};

/*
 * All that lives exactly as long as one client is linked to one server.  It begins with
 * link_begin and ends with link_end (relay/link.h), and nothing of it is left for the
 * next client.  What outlives a link stands in struct server.
 */
struct link {
	/* what each message looks at, close together */
	struct sql_query *sql;   /* owned: see sql_statements.h; NULL: none runs */
	struct segment *segment; /* owned: see segment.h; NULL: nothing is kept */
	struct prepared_journal *journal; /* owned: changes in flight; NULL: none */
	/* one reference: the long text of a Parse of which more comes; NULL: none */
	struct prepared_text *parsing;
	uint64_t since_us; /* when it began; of a link that was taken over, when that
			      was */
	uint64_t idle_xact_us; /* since when it is idle in transaction; 0 = it is not */
	struct {
		struct leak_watch watch;
		uint16_t called; /* kinds that FunctionCalls in flight leave */
	} leaks;                 /* see leaks.h */
	uint8_t hold;            /* enum link_hold */
	uint8_t held_type;       /* LINK_UNTIL_COPY_END: of the message that waits */
	bool is_fresh : 1;       /* nothing of the client's was forwarded yet */
	bool is_dropping : 1;    /* the rest of the server's message is swallowed */
	bool holds_client : 1; /* the client is not read: the server's queue is full */
	bool holds_server : 1; /* the server is not read: the client's queue is full */
	bool is_flushed : 1;   /* the client's last message was a Flush */
	bool is_applying : 1;  /* our SETs for the client are running */
	bool apply_failed : 1; /* PostgreSQL refused one of them */
	bool may_have_set : 1; /* the client's commands may have changed parameters */
	bool may_undo_set : 1; /* the transaction's end may change how texts are read */
	bool wants_apply : 1;  /* a RESET brought back values the server lacks */
	bool was_reset : 1;    /* a RESET, DISCARD ALL, SET TO DEFAULT was completed */
	bool is_reset_kept : 1; /* ... and committed: no error undoes it */
	bool has_unnamed : 1; /* the unnamed statement is what the client last parsed */
	bool has_forgetting_portal : 1; /* an Execute may discard all statements */
	bool is_segment_spoilt : 1;     /* none can begin before the next Sync */
	bool is_trying_again : 1;       /* the segment failed for a reason of ours */
	uint32_t unnamed_tag;           /* of the last Parse or Close for has_unnamed */
	/* struct sql_portal by .node: portals of PREPARE, EXECUTE, DEALLOCATE */
	struct list portals;
	struct map *portal_names; /* owned: name -> struct sql_portal; NULL: none */
	struct list aliases;      /* struct alias by .node: see alias.h */
	/* bits of tracked parameters, since the last ReadyForQuery: reported; brought
	 * to their defaults by what the client sent, some until the transaction's end
	 */
	uint64_t reported;
	struct reset_effects reset;
	uint64_t brought_back; /* with is_applying: bits that a RESET of ours names */
	uint64_t apply_local;  /* with wants_apply: by SET LOCAL */
	uint64_t apply_us;     /* with is_applying: since when */
};

/* A cancel request, as far as the server that it is aimed at and its pool know it.
 * Whoever changes something for the request puts `work` off to the end of the turn;
 * then the request looks whether it is still due and whether there is room for it. */
struct cancel_aim {
	struct node pool_node;   /* in the pool's cancels_waiting or cancels_active */
	struct node target_node; /* in target->cancels, while there is a target */
	struct server *target;   /* whose query is to be cancelled; NULL = gone */
	struct later work;
};

struct server {
	struct conn conn; /* first member */
	struct seat seat;
	struct pipeline pipeline; /* what it owes */
	uint64_t last_us;         /* last message from it */
	uint8_t status;           /* of its last ReadyForQuery: I T E; 0 = none yet */
	bool is_ready : 1;        /* status I, and nothing was sent since */
	bool is_unheard : 1;      /* it spoke at rest, and the log has it */
	bool is_left : 1;         /* its client vanished: see cancel/drain.h */
	bool is_drained : 1;      /* ... and what it left is answered */
	bool is_cut : 1;          /* got half a message, and the rest will not come */
	uint16_t leaks_left; /* kinds of leaks.h left behind since it was last clean */
	uint32_t last_tag;   /* of the ledger and the journal */
	struct link link;    /* while a client is linked to it; else empty */

	struct dial *dial; /* owned, until the login is complete */
	struct vars vars;  /* what it has */
	/* what it has by itself: it reported that at its login, or after a RESET */
	struct vars own;
	uint64_t left_us; /* with is_left: since when */
	uint64_t pinned;  /* bits: own values that connect_query has set */
	struct prepared_set *statements; /* owned: what it holds; NULL: nothing */
	const char *test_failure; /* literal: reason when the running test fails */
	uint8_t *key;             /* owned: process id and secret; NULL = none */
	size_t key_len;
	struct list cancels;       /* struct cancel_aim by .target_node: aimed at it */
	struct cancel_job *errand; /* the CancelRequest it carries, or NULL */
	char *unix_dir;            /* owned: socket folder, for unix servers */
	char *host; /* owned: the host entry it was dialed from; NULL = unix */
	int port;
	uint32_t remote_pid;
	uint8_t lent_to;     /* the site it goes to: see moving/lend.h */
	unsigned lent_after; /* the order that was the last one then: see crew.h */
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
/* All that came from it, up to the last byte, are whole messages, and behind the one
 * that is just shown there are only such as may come at any time.  Nobody else can be
 * lent it otherwise: its rest would be taken for an answer. */
bool server_is_between_messages(const struct server *server);
/* Its login is complete. */
bool server_is_logged_in(const struct server *server);
/* Is this the beginning of a CommandComplete whose tag is still to come?  It is shown
 * again when it is whole, so that whoever asks for a tag finds it there. */
bool server_wants_tag(const struct message *m);
/* Is it a CommandComplete with this tag? */
bool server_has_tag(const struct message *m, const char *tag);
/* Does this CommandComplete say that it forgot its prepared statements? */
bool server_has_forgotten(const struct message *m);
/* Close it: reason for the log and, when linked, for the client. */
void server_retire(struct server *server, const char *reason);
/* It changes hands or goes: cancel requests aimed at it are looked at again. */
void server_review_cancels(struct server *server);
/* The same when its client goes and leaves it in a state that nobody can use. */
void server_abandon(struct server *server, const char *reason);
/* The shared end: last Terminate, events->gone, memory.  For ops->closed. */
void server_leave(struct server *server, const char *reason);
/* A ParameterStatus: note it, for `also` too when not NULL; an untracked one is
 * appended to untracked when that is not NULL.  -1: malformed or no memory; the server
 * is doomed. */
int server_note_parameter(struct server *server, const struct message *m,
    struct vars *also, struct buf *untracked);
void server_malformed(struct conn *conn, const uint8_t *bytes, size_t have);
void server_ended(struct conn *conn, const struct err *err);
/* The next tag for a message in the ledger and for its changes in the journal. */
uint32_t server_next_tag(struct server *server);
/* Enter in the ledger that a message of this type was sent.  -1: no memory. */
int server_owe(struct server *server, uint8_t type, enum owed_to to, uint32_t tag);
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
