/*
 * One client as an object: how it is made, how errors are sent to it, how it ends.
 * login/listen.c, login/login.c and then the service of its database handle its
 * messages.
 */
#ifndef SESSION_CLIENT_H
#define SESSION_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "pool/pool.h"
#include "session/cancel_keys.h"
#include "session/conn.h"
#include "session/request.h"
#include "session/strangers.h"
#include "wire/effects.h"
#include "wire/vars.h"

struct cancel_request;
struct client_transfer;
struct kept_settings;
struct listening;
struct login;
struct proxy_input;
struct console;

/* The value of `replication` in the startup packet. */
enum replication { REPLICATION_NONE, REPLICATION_LOGICAL, REPLICATION_PHYSICAL };

/* Which process has passed on this connection with a cancel request, in a takeover. */
enum passed_from { PASSED_BY_NOBODY, PASSED_BY_OLDER, PASSED_BY_NEWER };

/* The parameters of a client.  login/startup sets them, relay/params and
 * relay/resets change them. */
struct client_params {
	struct vars vars; /* its parameters: reported to it, or wanted by it */
	/* bits of tracked parameters: `requested` has those that it asked for in its
	 * startup packet; `own` has these and the ones that it has changed since.  For
	 * all others the server's own value is in force. */
	uint64_t requested, own;
	uint64_t doubtful;  /* bits of `own` whose value may have come from the server's
			       configuration instead of the client */
	struct vars *asked; /* owned: the values of its startup packet, once it has
			       changed one; else NULL */
	/* owned: what it has set beside tracked parameters, with session_state=keep;
	 * NULL: nothing.  See relay/kept.h */
	struct kept_settings *kept;
	/* owned: those of its startup packet that are not tracked; NULL: none */
	struct kept_settings *startup;
	/* id of the server that it was linked to last; and whether it has sent a text
	 * with currval() or lastval(): see relay/sequences.h */
	uint64_t sequences_server;
	bool reads_sequences;
};

/* A transaction block of a client that no server knows: see relay/begin.h. */
enum client_block { BLOCK_NONE, BLOCK_BEGUN, BLOCK_FAILED };

struct client {
	struct conn conn;       /* first member */
	struct request request; /* its place in the pool; request.in_pool.pool is NULL
				   until it has one */
	struct node site_node;  /* in one of the site's lists: see client_settle */
	struct database *database; /* borrowed, held by database_hold; or NULL */
	struct user *user;         /* the login user; or NULL */
	struct client_params params;
	/* owned: the statements that it has prepared; NULL: none */
	struct prepared_names *names;
	struct unnamed_statement *unnamed; /* owned: see statements.h; NULL: none */
	/* id of the server that it was linked to last, if its statements are not
	 * tracked and it owned the unnamed statement there when that link ended;
	 * otherwise 0 */
	uint64_t unnamed_server;
	struct slow_log
	    *slow_log; /* owned: with log_min_duration; see relay/slow_log.h */
	union {
		/* owned, before the login: the part of a PROXY header that has arrived;
		 * see login/proxy.h */
		struct proxy_input *proxy;
		struct login *login;     /* owned, until the login is complete */
		struct console *console; /* owned by the admin service */
		/* owned, while it leaves for another site with its first packet */
		struct client_transfer *transfer;
		/* if is_cancel: the CancelRequest that it brought, or NULL */
		struct cancel_request *cancel_request;
	};
	/* owned: what it listens to, see relay/listen_table.h; NULL: nothing yet */
	struct listening *listening;
	char *options; /* owned: the option string of a replication client; or NULL */
	uint64_t xact_us;             /* start of the current transaction; 0 = none */
	struct cancel_key cancel_key; /* with a length: it is in site->cancel_keys */
	bool is_unix_owner : 1; /* it uses the unix socket and runs as the pooler's own
				   account */
	bool is_proxied : 1;    /* a proxy has connected for it: who is behind the unix
				   socket is the proxy */
	bool is_admin : 1;      /* console: full rights */
	bool is_settled : 1;    /* see client_settle */
	bool is_stranger : 1;   /* it is counted in site->strangers */
	bool is_counted : 1;    /* it is counted against the limits of its database and
				   user */
	bool is_cancel : 1;     /* it brought a CancelRequest and does not log in */
	bool is_spare : 1;      /* accepted on a spare descriptor: console only */
	bool is_canceled : 1; /* cancelled while it waited: its query gets an error and
				 does not run */
	bool is_skipping : 1; /* with is_canceled: what follows is skipped up to the
				 Sync */
	bool is_dropping : 1; /* the rest of the message in transit is discarded */
	bool waits_to_drain : 1; /* nothing is read from it until it has read what was
				    sent */
	bool was_notified : 1;   /* the notice of query_wait_notify was sent during this
				    wait */
	struct {
		uint8_t state; /* enum client_block */
		/* BLOCK_BEGUN: see wire/xact.h, and whether the unnamed portal is that
		 * of the BEGIN */
		uint8_t modes;
		bool has_portal;
	} block;
	uint8_t replication; /* enum replication */
	/* enum auth_type: how it has proven who it is; AUTH_NONE: it is the owner of
	 * the process, or has come from another process */
	uint8_t auth_method;
	uint8_t passed_from; /* enum passed_from */
};

static inline struct client *conn_client(const struct conn *conn)
{
	return container_of(conn, struct client, conn);
}
static inline struct client *request_client(const struct request *r)
{
	return container_of(r, struct client, request);
}

/* Is the value of parameter i the client's own?  True for parameters beyond the bits.
 */
static inline bool client_is_own(const struct client *client, size_t i)
{
	return i >= EFFECTS_PARAMETERS || (client->params.own >> i & 1);
}

/* request_ops.conn of a client's request. */
const struct conn *client_of_request(const struct request *request);

/* Makes a client for an accepted socket and enters it in the site's lists.  The caller
 * then calls conn_open. */
struct client *client_new(struct site *site, const struct conn_ops *ops);

/* The login is over: moves the client from site->login_clients to site->clients; one
 * that brought a CancelRequest (is_cancel) to site->cancel_clients. */
void client_settle(struct client *client);
/* Its address is known: counts it as a stranger, unless it is the process's own account
 * on the unix socket. */
enum strangers_verdict client_appears(struct client *client);
/* It has proven who it is: it counts as a stranger no longer. */
void client_prove(struct client *client);
/* Enters the client in the list of its site that it belongs to, and takes it out. */
void client_enlist(struct client *client);
void client_delist(struct client *client);

/* Sends what buf holds, which the pooler has made in the place of an answer of the
 * server, and empties it.  A client that is about to be closed, or has got its server's
 * last message, gets nothing more. */
void client_say(struct client *client, struct buf *buf);
/* Tells it so the value of parameter i of the schema. */
void client_put_status(struct client *client, size_t i, const char *value);
/* Sends an ErrorResponse FATAL from the table of errors, if the client may be told one
 * (client_may_be_told), logs it as "pooler error", and dooms the connection with the
 * text as the reason.  The arguments are those of the text. */
void client_fatal(struct client *client, enum error_id id, ...);
/* As client_fatal, with a text and SQLSTATE that the caller has from a verdict, a
 * struct err or a server. */
void client_fatal_text(struct client *client, const char *sqlstate, const char *text);
/* The same for a text of the table, with a DETAIL that tells the client more. */
void client_fatal_detail(
    struct client *client, const char *sqlstate, enum error_id id, const char *detail);
/* Sends an ErrorResponse ERROR from the table, after which the connection continues,
 * and logs it as "pooler error".  A text that is too long is cut. */
enum { CLIENT_ERROR_MAX = 1024 };
void client_error(struct client *client, enum error_id id, ...);
void client_verror(struct client *client, enum error_id id, va_list ap);
/* As client_error for a text without arguments, with a DETAIL that the caller has
 * logged. */
void client_error_detail(struct client *client, enum error_id id, const char *detail);
void client_notice(struct client *client, const char *text);

/* The server it is linked to, or NULL. */
struct server *client_server(const struct client *client);
/* Has the client sent only the first part of a message, which is being forwarded to its
 * server? */
bool client_is_sending_message(const struct client *client);
/* May the client be told something that its server has not sent?  See
 * pipeline_may_speak. */
bool client_may_be_told(const struct client *client);

/* The value of `replication` for log lines and servers: "no", "database" or "yes". */
static inline const char *client_replication_word(const struct client *client)
{
	return client->replication == REPLICATION_NONE      ? "no"
	       : client->replication == REPLICATION_LOGICAL ? "database"
							    : "yes";
}

/* Gives up the client's pool, database, user and keys; every phase's ops->closed calls
 * it.  The client must not be linked any more. */
void client_leave(struct client *client);

/* How log lines name a client.  They have its database only once its user is known. */
void client_name_it(const struct conn *conn, struct conn_name *out);

/* Are these the first bytes of a request of HTTP? */
bool client_is_http(const uint8_t *bytes, size_t have);
/* conn_ops.malformed of all phases after the login. */
void client_malformed(struct conn *conn, const uint8_t *bytes, size_t have);

#endif
