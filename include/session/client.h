/*
 * One client as an object: birth, errors to it, death.  What it does with its
 * connection is the business of listen (startup), login, and then of its service.
 */
#ifndef SESSION_CLIENT_H
#define SESSION_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "pool/pool.h"
#include "session/conn.h"
#include "session/request.h"
#include "wire/effects.h"
#include "wire/vars.h"

struct carried;
struct crew_member;
struct login;
struct proxy_input;
struct console;

/* What it asked for in its startup packet. */
enum replication { REPLICATION_NONE, REPLICATION_LOGICAL, REPLICATION_PHYSICAL };

/* A connection with a cancel request that another process has passed on. */
enum passed_from { PASSED_BY_NOBODY, PASSED_BY_OLDER, PASSED_BY_NEWER };

/* Process id and secret: for protocol 3.0, and for 3.2. */
enum { CANCEL_KEY_LEN = 8, CANCEL_KEY_LONG = 4 + 32 };

struct client {
	struct conn conn; /* first member */
	struct request
	    request; /* its place in the pool; request.ask.pool is NULL before */
	struct node site_node;     /* in site->login_clients, then in site->clients */
	struct database *database; /* borrowed, held by database_hold; or NULL */
	struct user *user;         /* the login user; or NULL */
	struct vars vars;          /* what it has been told, or wants */
	/* bits of tracked parameters: values that it asked for at its start; the same
	 * and those it has changed itself.  For all others each server's own value
	 * counts. */
	uint64_t requested, own;
	uint64_t doubtful;  /* of its own: the administrator may have changed it */
	struct vars *asked; /* owned: what it wanted at its login, once that changed */
	struct prepared_names *names; /* owned: statements it prepared; NULL: none */
	struct unnamed_statement *unnamed; /* owned: see statements.h; NULL: none */
	struct slow *slow; /* owned: with log_min_duration; see relay/slow.h */
	union {
		/* owned, before the login: part of a PROXY header; see login/proxy.h */
		struct proxy_input *proxy;
		struct login *login;           /* owned, until the login is complete */
		struct console *console;       /* owned by the admin service */
		struct crew_member *passes_to; /* see passing.h */
		/* if is_carrier: the CancelRequest it brought, or NULL; see
		 * cancel/carrier.h */
		struct carried *carried;
	};
	char *options;    /* owned: of a replication client, or NULL */
	uint64_t xact_us; /* start of the current transaction; 0 = none */
	union {
		uint8_t cancel_key[CANCEL_KEY_LEN];
		uint8_t *long_key; /* owned; with has_long_key */
	};
	bool has_key : 1;        /* its cancel key is in site->cancel_keys */
	bool has_long_key : 1;   /* ... and has CANCEL_KEY_LONG bytes */
	bool is_unix_owner : 1;  /* unix socket, peer uid is our own */
	bool is_admin : 1;       /* console: full rights */
	bool is_settled : 1;     /* see client_settle */
	bool is_counted : 1;     /* against the limits of its database and user */
	bool is_carrier : 1;     /* it brought a CancelRequest, and is no login */
	bool is_passing : 1;     /* it goes to another site: passes_to */
	bool is_spare : 1;       /* accepted on a spare descriptor: console only */
	bool is_canceled : 1;    /* cancelled while it queued: answer, do not run */
	bool is_skipping : 1;    /* ... and skip what follows up to Sync */
	bool is_dropping : 1;    /* the rest of the message in transit is discarded */
	bool waits_to_drain : 1; /* it has to read before we read on */
	bool was_notified : 1;   /* query_wait_notify was sent in this wait */
	bool was_passed : 1;     /* it comes from another site: see passing.h */
	bool has_gone : 1;       /* ... to another site, and counts there */
	uint8_t hops_left;   /* ... of a CancelRequest: sites that have not seen it */
	uint8_t replication; /* enum replication */
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

/* Is the value of parameter i its own?  Those that have no bit are taken for it. */
static inline bool client_is_own(const struct client *client, size_t i)
{
	return i >= EFFECTS_PARAMETERS || (client->own >> i & 1);
}

/* For request_ops. */
const struct conn *client_of_request(const struct request *request);

/* A client for an accepted socket, in the site's lists, without ops: the caller sets
 * them before conn_open. */
struct client *client_new(struct site *site, const struct conn_ops *ops);

/* It is no longer logging in: in site->clients from now on. */
void client_settle(struct client *client);

/* ErrorResponse FATAL from the table of errors, logged as "pooler error", then doom
 * with the text as the reason; the arguments are those of the text. */
void client_fatal(struct client *client, enum error_id id, ...);
/* The same with a text and SQLSTATE that come from the table by way of a verdict or a
 * struct err, or from a server. */
void client_fatal_text(struct client *client, const char *sqlstate, const char *text);
/* ErrorResponse ERROR from the table (the connection goes on), logged as "pooler
 * error". A text that is too long is cut. */
enum { CLIENT_ERROR_MAX = 1024 };
void client_error(struct client *client, enum error_id id, ...);
void client_verror(struct client *client, enum error_id id, va_list ap);
/* The same for a text without arguments, with a DETAIL that says more. */
void client_error_detail(struct client *client, enum error_id id, const char *detail);
void client_notice(struct client *client, const char *text);

/* The server it is linked to, or NULL. */
struct server *client_server(const struct client *client);
/* It has sent the beginning of a message that its server gets, and not yet the rest. */
bool client_is_sending_message(const struct client *client);
/* It was sent the beginning of a message of its server, and not yet the rest. */
bool client_is_receiving_message(const struct client *client);

/* What a CancelRequest for it carries; once has_key. */
const uint8_t *client_cancel_key(const struct client *client, size_t *len);

/* "no", "database", "yes": as log lines and servers have it. */
static inline const char *client_replication_word(const struct client *client)
{
	return client->replication == REPLICATION_NONE      ? "no"
	       : client->replication == REPLICATION_LOGICAL ? "database"
							    : "yes";
}

/* Let go of pool, database, user, keys; for ops->closed of every phase.  The client
 * must not be linked any more. */
void client_leave(struct client *client);

/* As log lines name a client: its database only once its user is known. */
void client_name_it(const struct conn *conn, struct conn_name *out);

/* The shared handlers for conn_ops of all phases after login. */
void client_malformed(struct conn *conn, const uint8_t *bytes, size_t have);

#endif
