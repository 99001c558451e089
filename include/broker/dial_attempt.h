/*
 * One attempt to open a server connection: its state until the login is complete, and
 * how it fails.  Private to the files broker/dial*.c.
 */
#ifndef BROKER_DIAL_ATTEMPT_H
#define BROKER_DIAL_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/kerberos.h"
#include "auth/scram.h"
#include "base/buf.h"
#include "conf/scope.h"
#include "net/dns.h"
#include "net/tls.h"
#include "pool/pool.h"
#include "pool/scopes.h"
#include "session/passwords.h"
#include "session/server.h"
#include "wire/codec.h"

struct dial_turns;

/* As whom and where an attempt logs in.  Borrowed, and valid for the moment, because a
 * reload may change it. */
struct dial_identity {
	const struct database_config *db;
	struct scope scope;
	const char *user;
	const struct secret *secret; /* unless there is a source */
	struct password_source source;
	const struct scram_keys *pass_through; /* for a SCRAM secret; NULL: none */
	struct scram_cache *cache;             /* of the secret's keys; NULL: none */
	const char *lane; /* the database in whose lane keys are derived */
	/* the next attempt begins with protocol 3.0 instead of 3.2 */
	bool *speaks_3_0;
};

/* For whom an attempt is made. */
struct dial_owner {
	bool is_quiet; /* its new connections are lines of level DEBUG */
	struct dial_identity (*identity)(const struct server *server);
	/* Appends parameters to the startup packet.  May be NULL. */
	void (*put_params)(const struct server *server, struct buf *buf);
	/* The level at which a failure for this reason is logged. */
	enum log_level (*log_level)(struct server *server, const char *why);
	/* It has failed, and the connection is doomed. */
	void (*failed)(struct server *server, enum dial_failure kind, const char *text,
	    const char *sqlstate);
	/* The server has answered with this error: calls dial_fail. */
	void (*refused)(struct server *server, const struct error_fields *f);
	/* It is over, and another attempt may follow at once, with protocol 3.0. */
	void (*retried)(struct server *server);
	/* A ReadyForQuery has come: the first one ends the exchange.  The owner frees
	 * the attempt (dial_free), or asks further and gets the answers. */
	enum step (*ready)(struct server *server, uint8_t status);
	enum step (*message)(struct server *server, const struct message *m);
	/* The connection closes before the attempt was freed. */
	void (*closed)(struct server *server, const char *reason);
};

/* The longest message that is accepted during a login. */
enum { LOGIN_MESSAGE_MAX = 1024 * 1024 };

struct dial {
	struct server *server;
	const struct dial_owner *owner;
	struct node turn_node; /* in turns->waiting */
	/* while server_connect_rate makes it wait: see dial_turn.h */
	struct dial_turns *turns;
	uint64_t turn_us; /* since when */
	/* The password of a program or file, SECRET_PLAIN; what continues when it has
	 * come.  Without a source, text is NULL. */
	struct password_wait password_wait;
	struct secret fetched;
	void (*next)(struct server *server);
	struct dns_query *query; /* while the host's name is being looked up */
	bool is_looked_up;       /* the address is one of those of the host's name */
	struct buf untracked;    /* ParameterStatus messages for the login parameters */
	struct scram_client scram;
	/* owned copies of the secret, because a reload may change that */
	char *password;
	struct scram_keys keys;
	struct scram_binding binding;
	uint8_t end_point[TLS_HASH_MAX]; /* the bytes that binding points to */
	/* GSSAPI: a reference, and the exchange, except while a job has it; or NULL */
	struct kerberos_ticket *ticket;
	struct kerberos_exchange *kerberos;
	/* owned by the helper threads: derives the keys, or does a step of GSSAPI */
	struct helpers_job *job;
	uint8_t salted[SCRAM_KEY_LEN]; /* the derived keys, until the login succeeds */
	bool has_salted;
	/* the protocol version in the startup packet; 0: not sent yet */
	uint32_t version;
	unsigned answers;  /* how many messages the server has sent */
	bool has_answered; /* a password was sent */
	bool has_scram;
	bool has_sent_token;
	bool is_authenticated;
	bool is_let_in; /* AuthenticationOk has arrived */
	bool is_over;   /* the exchange: ReadyForQuery has arrived */
	bool ran_connect_query;
	bool has_failed; /* the owner was told */
	/* the connection has ended, but something that came before is not read yet */
	bool has_ended;
	struct later at_end; /* fails when that is read */
	bool is_judged;      /* level is set: see dial_log_level */
	enum log_level level;
};

static inline struct dial_identity dial_identity(const struct server *server)
{
	struct dial_identity who = server->dial->owner->identity(server);

	if (server->dial->fetched.text) {
		who.secret = &server->dial->fetched;
		who.pass_through = NULL;
		who.cache = NULL;
	}
	return who;
}

/* The host's name, or the folder of its socket; "": an abstract socket. */
const char *dial_place(const struct server *server);
/* Frees the attempt.  Call it whenever an attempt is over. */
void dial_free(struct server *server);
/* The level at which a failure for this reason is logged. */
enum log_level dial_log_level(struct server *server, const char *why);
/* The attempt has failed: tells the owner why, and logs `reason`. */
void dial_fail(struct server *server, enum dial_failure kind, const char *text,
    const char *sqlstate, const char *reason);
/* The attempt has failed before the server has answered the login. */
void dial_fail_network(struct server *server, const char *reason);
/* The same with what the system or the TLS library says, while `reason` is what log
 * watchers know. */
void dial_fail_because(struct server *server, const char *text, const char *reason);

#endif
