/*
 * One server connection as an object: its slot in the pool, the answers that it owes
 * and the parameters that it has reported.  The functions here handle it while it is
 * idle, while a reset or check query runs, and at its end.  broker/dial.c connects and
 * logs in; the relay handles it while a client is linked to it.
 */
#ifndef SESSION_SERVER_H
#define SESSION_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "pool/pool.h"
#include "session/conn.h"
#include "wire/effects.h"
#include "wire/leak.h"
#include "wire/pipeline.h"
#include "wire/vars.h"

struct error_fields;
struct dial;
struct transfer;
struct kept_settings;

enum { BACKEND_KEY_MAX = 260 };

/* What the client's next messages wait for before they are forwarded. */
enum link_hold {
	LINK_OPEN,           /* nothing: they are forwarded as they come */
	LINK_UNTIL_ANSWERED, /* every message that was sent is answered */
	LINK_UNTIL_READY,    /* no ReadyForQuery is owed */
	LINK_UNTIL_COPY_END, /* it is known how a COPY ended */
};

/* How often the pooler tries what it does behind a client's command.  Cancel requests
 * for the command may come late, and reach that instead.  There is an end because
 * statement_timeout may be too short for it. */
enum { OWN_ATTEMPTS_MOST = 5 };

/* How the parameters of client and server are brought together.  relay/params and
 * relay/resets change it, and relay/back when answers come. */
struct link_params {
	bool is_applying : 1; /* the pooler's SETs for the client's parameters are
				 running */
	/* these SETs have something of relay/kept.h; and they take back settings of
	 * another client */
	bool puts_kept : 1, puts_back : 1;
	/* they have failed, and not because of this client */
	bool wants_other : 1;
	/* more than a BEGIN of the client was forwarded, see relay/sequences.h */
	bool has_run : 1;
	bool apply_failed : 1; /* PostgreSQL has refused one of these SETs */
	/* the client's block, which no server knew, had failed when the link began */
	bool is_for_failed : 1;
	/* some connection listens, so that tags are read: see relay/listen_fence.h */
	bool has_hubs : 1;
	/* with is_applying: the client's ReadyForQuery waits for server->fence */
	bool is_fenced : 1;
	bool has_converted : 1;  /* one of these SETs converts a value from its
				    encoding, in a Query of its own */
	bool has_lost_value : 1; /* PostgreSQL could not convert it */
	bool may_have_set : 1; /* a command of the client may have changed parameters */
	bool may_undo_set : 1; /* the end of the transaction may undo a change of how
				  SQL texts are read */
	bool owes_ready : 1;   /* with is_applying: the client's ReadyForQuery waits for
				  the answer */
	bool wants_apply : 1;  /* a RESET brought back values of the client that the
				  server does not have */
	bool was_reset : 1; /* a RESET, DISCARD ALL or SET TO DEFAULT has completed */
	bool is_reset_kept : 1; /* with was_reset: it is committed, so that no error can
				   undo it */
	/* since the last ReadyForQuery, as bits of tracked parameters: those that the
	 * server has reported; and those that the client's commands set to their
	 * defaults, some of them until the end of the transaction */
	uint64_t reported;
	struct reset_effects reset;
	struct {
		/* something is reset by one of these, which are not among `reset` */
		bool is_there;
		/* the client's unnamed statement, if statements are not tracked; known
		 * until its next Sync */
		struct reset_effects parsed;
		struct reset_effects
		    bound; /* the unnamed portal, until it is executed */
	} put_back;        /* see resets_put_back */
	/* bits of parameters that commands of the client may have reset; settled by
	 * asking the server when no transaction is open.  sources: bits of those for
	 * which it is being asked, with is_applying; restored: those that it says are
	 * not set in this session */
	struct {
		uint64_t unsettled, sources, restored;
		bool is_canceled; /* the question was, as the client's command was to
				     be */
		bool has_failed;  /* an error was the answer */
		uint8_t attempts; /* how often that was so, and with the SETs that
				     follow from the answer */
	} settling;
	uint64_t brought_back; /* with is_applying: bits of parameters that the pooler's
				  RESET names */
	uint64_t apply_local;  /* with wants_apply: bits of those to be applied by SET
				  LOCAL */
	uint64_t apply_us;     /* with is_applying: since when */
	/* with is_applying: the client ends with this message of PostgreSQL, which has
	 * refused what it asked for, and has left everything as it was */
	struct buf refusal;
};

/* With session_state=keep: what the client has left on the server, see
 * relay/pin_question.h.  Kinds are bits of enum leak_kind. */
struct link_pin {
	/* kinds that the texts since the last question may have made; with LEAK_UNSEEN
	 * any, and with LEAK_PLACEHOLDER those in `names` */
	uint16_t made;
	uint16_t kinds;        /* what keeps the server with the client */
	uint16_t lasting;      /* of these, what no question finds */
	uint16_t found, asked; /* while it is asked: what it told, and what about */
	uint8_t attempts;      /* how often in a row it was cancelled */
	bool is_asking : 1;    /* the question is running, with params.is_applying */
	/* the question is about the server's own settings, before the client uses it */
	bool is_of_own : 1;
	bool is_canceled : 1; /* it was cancelled, as the client's query was to be */
	bool is_wrong : 1;    /* the question got no answer that can be understood */
	/* a RESET ALL was sent since the last question */
	bool resets_all : 1;
	/* it becomes the connection that listens for the pool: see listen_hub.h */
	bool becomes_listener : 1;
	bool may_have_ended : 1; /* a statement that may end some of it has completed */
	/* with LEAK_PLACEHOLDER: a parameter may have been set whose name is not known
	 */
	bool has_unknown_name : 1;
	uint64_t since_us;     /* since when it is pinned */
	uint32_t transactions; /* that have ended since */
	/* parameters with a dot that texts since the last question have named; and
	 * while it is asked, the settings that it told: see kept_settings.h */
	struct buf names, session;
	/* while a text comes in parts: the end of what has come */
	struct buf part;
};

/*
 * A link: the state that exists exactly as long as one client is linked to one server.
 * It begins with link_begin and ends with link_end (relay/link.h), and nothing of it is
 * left for the next client.  What outlives a link is in struct server.
 */
struct link {
	/* members that every message uses come first, close together in memory */
	struct sql_query *sql; /* owned: see sql_statements.h; NULL: none runs */
	struct replay *replay; /* owned: messages kept for a repetition, see
				    replay.h; NULL: none */
	struct prepared_journal *journal; /* owned: changes to prepared statements that
					     are not yet answered; NULL: none */
	/* one reference: the text of a long Parse that is still arriving; NULL: none */
	struct prepared_text *parsing;
	uint64_t since_us; /* when it began */
	/* since when it is idle in a transaction; 0: it is not */
	uint64_t idle_xact_us;
	struct {
		struct leak_watch watch;
		uint16_t called; /* kinds of state that FunctionCalls leave which are
				    not answered yet */
	} leaks;                 /* see session_state.h */
	uint8_t hold;            /* enum link_hold */
	uint8_t held_type; /* LINK_UNTIL_COPY_END: the type of the message that waits */
	/* a BEGIN was sent for the client and is not answered: the type of the client's
	 * message behind it; 0: none.  See begin.h */
	uint8_t begin_type;
	bool is_fresh : 1;     /* nothing of the client was forwarded yet */
	bool holds_client : 1; /* nothing is read from the client, because the server's
				  output queue is full */
	bool holds_server : 1; /* nothing is read from the server, because the client's
				  output queue is full */
	bool is_flushed : 1;   /* the client's last message was a Flush */
	bool ready_came_early : 1; /* ReadyForQuery has come before the rest of the
				      client's message */
	struct link_params params;
	struct link_pin pin;
	struct {                   /* the server's unnamed statement */
		bool is_owned : 1; /* it is not another client's: an answer to this one
				      has shown it */
		bool is_sent : 1;  /* a Parse or Close of it was sent after the client's
				      last Sync, so that what follows is skipped if that
				      is skipped or fails */
	} unnamed;
	struct {
		/* a change of the settings ends it with the link: what the server has
		 * under the client's names is found until then */
		bool are_tracked : 1;
		/* an Execute of an open portal may discard all of them */
		bool has_forgetting_portal : 1;
	} statements;
	bool is_replay_spoilt : 1; /* no replay can begin before the next Sync */
	bool is_trying_again : 1;  /* the replay is being sent, because the pooler
				      caused its error */
	struct {
		bool sent : 1;       /* see schema.h: a text in flight explains tags */
		bool sent_cut : 1;   /* a text in flight was not examined to its end */
		bool made_temp : 1;  /* the client has made temporary tables */
		bool is_unusual : 1; /* a text of the client may have changed how
					others are understood, see effects.h */
		/* it may have changed a parameter of vars_is_silently_read */
		bool is_read_apart : 1;
		bool vacates : 1; /* see vacate.h: the statement runs */
	} schema;
	/* struct sql_portal by .node: portals of PREPARE, EXECUTE, DEALLOCATE */
	struct list portals;
	struct map *portal_names; /* owned: struct sql_portal by name; NULL: none */
	struct list name_maps;    /* struct name_map by .node: see name_map.h */
};

/* The part of a cancel request that its target server and their pool know.  Code that
 * changes something for the request schedules `work`, which runs later in the turn and
 * checks whether the request is still needed and whether there is room for its
 * connection. */
struct cancel_aim {
	struct node pool_node;   /* in the pool's cancels_waiting or cancels_active */
	struct node target_node; /* in target->cancels, while there is a target */
	struct server *target; /* whose query is to be cancelled; NULL: it has closed */
	struct later work;
};

#define SEQUENCES_OF_OTHERS UINT64_MAX

struct server {
	struct conn conn; /* first member */
	struct slot slot;
	struct pipeline pipeline; /* the ledger: answers that it owes */
	uint64_t last_us;         /* when its last message arrived */
	uint8_t status;      /* of its last ReadyForQuery: I, T or E; 0: none yet */
	bool is_ready : 1;   /* its status is I and nothing was sent to it since */
	bool is_unheard : 1; /* a message that it sent while idle has been logged */
	bool is_left : 1;    /* its client has vanished: see cancel/drain.h */
	bool is_drained : 1; /* with is_left: everything that the client had sent is
				answered */
	bool is_cut : 1; /* it got a part of a message, and the rest will not come */
	/* notifications of the client that is linked to it, or was last, may be on
	 * their way: see relay/listen_fence.h */
	bool may_notify : 1;
	/* its transaction may have changed the schema; see server_settle_schema */
	bool changes_schema : 1;
	uint16_t leaks_left; /* kinds of session state (session_state.h) left behind
				since it was last clean */
	uint32_t last_tag;   /* the last tag used in the ledger and the journal */
	/* id of the client that was linked last, if its statements are not tracked and
	 * it owned the unnamed statement when that link ended; otherwise 0 */
	uint64_t unnamed_client;
	struct link link; /* while a client is linked to it; otherwise empty */

	struct dial *dial; /* owned, until the login is complete */
	struct vars vars;  /* its parameters as they are now */
	/* its own values: those that it reported at its login or after a RESET */
	struct vars own;
	/* the last client for which nothing had to be set or reported: what that
	 * depends on, see params.c */
	struct {
		uint64_t client_id, server_id, own_id, client_own;
	} fitted;
	/* bits of parameters whose values outside ASCII it has reported since its last
	 * ReadyForQuery */
	uint64_t noted;
	uint64_t left_us; /* with is_left: since when */
	uint64_t pinned; /* bits of parameters whose own values connect_query has set */
	/* owned: the settings that connect_query has made, with has_own_kept; NULL:
	 * none */
	struct kept_settings *own_kept;
	/* owned: what the client that is linked to it, or was last, has set beside
	 * that, see relay/kept.h; NULL: nothing */
	struct kept_settings *kept;
	bool has_own_kept;
	/* with has_defaults: what ALTER ROLE and ALTER DATABASE had set where the
	 * session began, as far as only pin_question.c needs it: see kept_settings.h */
	bool has_defaults;
	struct buf defaults;
	bool is_kept_doubtful; /* a reset query has run since: `kept` may be in force */
	uint64_t sender_id;    /* of the client that was linked last; 0: not known */
	/* until which such notifications have arrived */
	struct {
		struct node node;
		uint64_t number;  /* of this question at its site */
		unsigned missing; /* answers; 0: nothing was asked, or all have come */
		uint8_t kind;     /* enum fence_kind */
		bool is_doubtful; /* one of them was none */
		bool is_waited_for; /* with is_applying: the client goes on with them */
	} fence;
	/* id of the client that alone has used sequences in this session, see
	 * relay/sequences.h; 0: nobody has */
	uint64_t sequences_client;
	/* bits of parameters whose own values the pooler has set for a client, and
	 * nothing has reset since: see params_apply */
	uint64_t confirmed;
	/* owned: the prepared statements that it has; NULL: none */
	struct prepared_set *statements;
	/* borrowed: the generation of its database; NULL before its first link */
	atomic_uint *schema;
	const char *test_failure; /* string literal: the reason for closing it if the
				     running test fails */
	uint8_t *key;             /* owned: its cancel key; NULL: none */
	size_t key_len;
	/* struct cancel_aim by .target_node: requests aimed at it */
	struct list cancels;
	/* the cancel request that this connection sends, or NULL */
	struct cancel_job *cancel_job;
	char *unix_dir; /* owned: socket folder, for unix servers */
	char *host;     /* owned: the host in the configuration; NULL: a unix socket */
	int port;
	uint32_t remote_pid;
	struct transfer *transfer; /* owned: it goes to another worker, see
				      broker/transfer.h; NULL: it does not */
};

static inline struct server *conn_server(const struct conn *conn)
{
	return container_of(conn, struct server, conn);
}
static inline struct server *slot_server(const struct slot *slot)
{
	return container_of(slot, struct server, slot);
}

extern const struct conn_kind server_kind;

struct server *server_new(struct site *site, const struct conn_ops *ops);

/* The server is idle from now on.  At wake_us server_events->review is called. */
void server_rest(struct server *server, uint64_t wake_us);
/* Until the answers to what is sent now have come, the server is under test: if it is
 * ready then, server_events->tested is called; otherwise it closes with reason_failed.
 */
void server_begin_test(struct server *server, const char *reason_failed);
/* Runs a reset or check query on an idle or just released server.  A reset query may
 * change any setting.  If it succeeds,
 * server_events->tested is called; otherwise the server closes with reason_failed. */
void server_test(struct server *server, const char *sql, const char *reason_failed);
/* True if everything that has arrived from it are whole messages, and behind the one
 * that is being shown there are only asynchronous ones.  Otherwise it must not be lent
 * to another client, which would take the rest for its own answer. */
bool server_is_between_messages(const struct server *server);
/* Are these bytes whole asynchronous messages, or none at all? */
bool server_may_send_any_time(const uint8_t *bytes, size_t len);
/* Otherwise: logs the type of the message that nobody asked for, and counts it unless
 * it may come unasked: PostgreSQL says in one why it ends. */
void server_note_unasked(const struct server *server);
/* Is its login complete? */
bool server_is_logged_in(const struct server *server);
/* Is this an incomplete CommandComplete?  Its handler then returns STEP_MORE, so that
 * the tag is there when it is shown again. */
bool server_wants_tag(const struct message *m);
/* Is it a CommandComplete with this tag? */
bool server_has_tag(const struct message *m, const char *tag);
/* Does this CommandComplete say that the server has dropped its prepared statements? */
bool server_has_forgotten(const struct message *m);
/* Logs that the server has answered the pooler's SET with an error.  False: it did so
 * because it ends, and says nothing about the values. */
bool server_log_refused_set(struct server *server, const struct error_fields *f);
/* Closes the server connection, with a reason for the log and for the client if one is
 * linked. */
void server_retire(struct server *server, const char *reason);
/* The server is given to another client or closes: the cancel requests aimed at it are
 * checked again. */
void server_review_cancels(struct server *server);
/* The server is no longer there for them: they lose their target. */
void server_lose_cancels(struct server *server);
/* server_retire for a server that its client has left in an unusable state. */
void server_abandon(struct server *server, const char *reason);
/* The end of every server connection: sends Terminate, calls server_events->gone,
 * frees.  For ops->closed. */
void server_leave(struct server *server, const char *reason);
void server_closed(struct conn *conn, const char *reason); /* the same */
/* Notes a ParameterStatus in server->vars, and in `also` if not NULL.  One that is not
 * tracked is appended to untracked, if not NULL.  -1: malformed or no memory; the
 * server is doomed. */
int server_note_parameter(struct server *server, const struct message *m,
    struct vars *also, struct buf *untracked);
void server_malformed(struct conn *conn, const uint8_t *bytes, size_t have);
void server_ended(struct conn *conn, const struct err *err);
/* A tag with this bit is that of a Parse or Close of the unnamed statement.  It has no
 * changes in the journal. */
#define SERVER_TAG_UNNAMED UINT32_C(0x80000000)
/* Appends the SQL that brings back the server's own value of parameter i, if it has
 * another one.  RESET restores the value that the configuration has now; a SET would
 * hide later changes of the configuration.  *reset: gets the bit of a parameter that is
 * RESET.  False: nothing was appended. */
bool server_puts_back(
    const struct server *server, size_t i, struct buf *sql, uint64_t *reset);
/* The next tag, which identifies a message in the ledger and its changes in the
 * journal.  It does not have that bit. */
uint32_t server_next_tag(struct server *server);
/* Enters in the ledger that a message of this type was sent, whose answer is owed. -1:
 * no memory. */
int server_owe(struct server *server, uint8_t type, enum owed_to to, uint32_t tag);
/* Send the message; the ledger is the caller's.  Without a Flush the server keeps its
 * answers until the client's Sync. */
void server_put_sync(struct server *server);
void server_put_flush(struct server *server);
/* Sends sql as a simple Query of the pooler, whose answer no client gets. */
void server_query(struct server *server, const char *sql);
/* The same with what is in sql.  If that has failed, the server is retired. */
void server_query_text(struct server *server, struct buf *sql);
/* Sends one command, in extended messages without Sync.  They use a name of the
 * pooler's, so that the client's unnamed statement and portal stay.  tag: that of its
 * Execute in the ledger.  -1: no memory. */
int server_command(struct server *server, const char *sql, uint32_t tag);
/* Sends a Sync of the pooler. */
int server_sync(struct server *server);
/* Asks the server what is not certain about the answers that the client is owed
 * (pipeline_ask). */
void server_ask(struct server *server);
/* The server has violated the protocol: counts it, and dooms the connection. */
void server_protocol_error(struct server *server, const char *reason);
/* server_protocol_error for a message that does not belong there.  The log tells its
 * type. */
void server_unexpected(
    struct server *server, const struct message *m, const char *reason);
/* server_protocol_error for a message whose body cannot be read. */
void server_unreadable(struct server *server, const struct message *m);
/* Logs a header of which `have` bytes are there and that no message can have. */
void server_log_header(const struct server *server, const uint8_t *bytes, size_t have);
/* Logs why the connection was lost, unless the server has just closed it (err NULL). */
void server_log_loss(const struct server *server, const struct err *err);

/* The generation of its database's schema (see prepared_store_generation), as a
 * statement has it that is prepared now. */
uint32_t server_generation(const struct server *server);
/* Sets server->schema. */
void server_find_schema(struct server *server);
/* With changes_schema, when its transaction is over: a new generation begins. */
void server_settle_schema(struct server *server);

/* The client it is linked to, or NULL (also while it runs an auth_query). */
struct client *server_client(const struct server *server);

#endif
