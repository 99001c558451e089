/*
 * One attempt to open a server connection: its state until the login is complete, and
 * how it fails.  Private to the files broker/dial*.c.
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

/* The longest message that is accepted during a login. */
enum { LOGIN_MESSAGE_MAX = 1024 * 1024 };

struct dial {
	struct server *server;
	struct node turn_node; /* in turns->waiting */
	/* while server_connect_rate makes it wait: see dial_turn.h */
	struct dial_turns *turns;
	uint64_t turn_us;        /* since when */
	struct dns_query *query; /* while the host's name is being looked up */
	struct buf untracked;    /* ParameterStatus messages for the welcome */
	struct scram_client scram;
	/* owned copies of the pool's secret, because a reload may change that */
	char *password;
	struct scram_keys keys;
	struct scram_binding binding;
	uint8_t end_point[TLS_HASH_MAX]; /* the bytes that binding points to */
	struct workers_job *job; /* owned by the helper threads: derives the keys */
	uint8_t salted[SCRAM_KEY_LEN]; /* the derived keys, until the login succeeds */
	bool has_salted;
	struct host_report report; /* what the server reports of its role */
	/* the protocol version in the startup packet; 0: not sent yet */
	uint32_t version;
	unsigned answers;  /* how many messages the server has sent */
	bool has_answered; /* a password was sent */
	bool has_scram;
	bool is_authenticated;
	bool is_let_in;      /* AuthenticationOk has arrived */
	bool has_asked_role; /* see dial_role.h */
	bool is_asking_role; /* the query for the role is running */
	bool ran_connect_query;
	bool has_failed; /* the failure was reported to the pool */
	bool is_judged;  /* is_old_news is set: see dial_log_level */
	bool is_old_news;
};

/* Frees the attempt.  Call it whenever an attempt is over. */
void dial_free(struct server *server);
/* The level at which a failure for this reason is logged.  A SWITCHOVER repeats
 * attempts so often that only a new reason is a warning. */
enum log_level dial_log_level(struct server *server, const char *why);
/* The attempt has failed: tells the pool why, and logs `reason`. */
void dial_fail(struct server *server, enum dial_failure kind, const char *text,
    const char *sqlstate, const char *reason);
/* The same for a failure before the server has answered the login. */
void dial_fail_network(struct server *server, const char *reason);

#endif
