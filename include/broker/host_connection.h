/*
 * One connection of the monitor of hosts: how it logs in, and what it asks.  Private to
 * the files broker/host_*.c.
 */
#ifndef BROKER_HOST_CONNECTION_H
#define BROKER_HOST_CONNECTION_H

#include "auth/scram.h"
#include "pool/host_watch.h"
#include "session/server.h"
#include "session/site.h"

/* What the last survey has found of the databases whose only host it is, and which ask
 * for no role. */
struct lone_use {
	bool is_seen; /* there is one with clients or servers */
	bool has_clients, has_servers, is_busy, has_login;
	bool is_heard; /* their servers have sent something since the survey before */
	bool wants_value; /* some of them shows another state */
	uint64_t period_us, hung_us;
};

struct watched_host {
	struct node node; /* in site->watched_hosts */
	char *key;        /* owned: in monitor->by_key */
	struct site *site;
	struct host_monitor *monitor;
	/* the watch may have something to do: called after each event */
	void (*go_on)(struct watched_host *w);
	struct host_watch watch;
	struct host_policy policy;
	struct server *server; /* its connection, or the attempt; NULL: none */
	/* as whom it logs in; the database is held.  NULL: nobody has asked yet */
	struct database *database;
	char *user;           /* owned */
	struct secret secret; /* owned */
	struct scram_keys keys;
	struct scram_cache cache;
	bool has_keys;
	bool is_own_user; /* role_check_user: pools log in as others */
	bool speaks_3_0;
	/* the question in its short form, and why the long one failed */
	bool is_short;
	bool is_impossible; /* the server lacks what was asked, or does not allow it */
	char unasked[HOST_REASON_MAX];
	bool has_row;
	struct host_report report;         /* of the answer under way */
	char why[HOST_REASON_MAX];         /* the system's words about the attempt */
	bool is_noted;                     /* it has answered since the last decision */
	bool has_servers;                  /* see host_survey_tidy */
	struct lone_use lone, lone_before; /* now, and by the survey before */
	char told[2 * HOST_REASON_MAX];
};

/* Opens a connection and logs in; the watch gets the outcome. */
void host_connection_open(struct watched_host *w);
/* Sends the question; the watch gets the answer. */
void host_connection_ask(struct watched_host *w);
/* Closes the connection, or gives the attempt up, without telling the watch. */
void host_connection_close(struct watched_host *w);

#endif
