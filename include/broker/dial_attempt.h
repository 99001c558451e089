/*
 * One attempt to open a server connection: what is known until the login is complete,
 * and how it fails.  Private to the rooms that have a part in it: dial, dial_auth.
 */
#ifndef BROKER_DIAL_ATTEMPT_H
#define BROKER_DIAL_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/scram.h"
#include "base/buf.h"
#include "net/dns.h"
#include "net/tls.h"
#include "pool/pool.h"
#include "session/server.h"

struct dial_turns;

/* No login message of a real server is near this. */
enum { LOGIN_MESSAGE_MAX = 1024 * 1024 };

struct dial {
	struct server *server;
	struct node turn_node;    /* in turns->waiting */
	struct dial_turns *turns; /* while it waits for its turn: see dial_turn.h */
	struct dns_query *query;  /* while the name is being looked up */
	struct buf untracked;     /* ParameterStatus messages for the welcome */
	struct scram_client scram;
	/* its own, to prove ourselves with: a reload may change the pool's */
	char *password;
	struct scram_keys keys;
	struct scram_binding binding;
	uint8_t end_point[TLS_HASH_MAX]; /* what binding points to */
	struct workers_job *job; /* the workers own it: the keys are being derived */
	uint8_t salted[SCRAM_KEY_LEN]; /* what was derived, until it has proved right */
	bool has_salted;
	struct host_report report; /* what it says of its role */
	uint32_t version;  /* of the protocol we asked for; 0 = we have not yet */
	unsigned answers;  /* messages it has sent */
	bool has_answered; /* with a password */
	bool has_scram;
	bool is_authenticated;
	bool is_let_in;      /* AuthenticationOk came */
	bool has_asked_role; /* see dial_role.h */
	bool is_asking_role; /* the query for it runs */
	bool ran_connect_query;
	bool has_failed; /* the pool was told */
	bool is_judged;  /* whether its failure is news: see dial_log_level */
	bool is_old_news;
};

/* Of an attempt that is over, in whatever way. */
void dial_free(struct server *server);
/* The level at which the log is told that the attempt failed for this reason: a
 * SWITCHOVER repeats attempts so often that only what is new is a warning. */
enum log_level dial_log_level(struct server *server, const char *why);
/* The attempt failed: the pool learns why, the log gets `reason`. */
void dial_fail(struct server *server, enum dial_failure kind, const char *text,
    const char *sqlstate, const char *reason);
/* It failed before the server said anything about the login. */
void dial_fail_network(struct server *server, const char *reason);

#endif
