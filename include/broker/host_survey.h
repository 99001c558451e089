/*
 * Which hosts the monitor looks after: it asks all sites which databases are in use,
 * and as whom to log in.  Private to the files broker/host_*.c.
 */
#ifndef BROKER_HOST_SURVEY_H
#define BROKER_HOST_SURVEY_H

#include "base/map.h"
#include "broker/host_connection.h"
#include "pool/host_group.h"

/* A database that the monitor looks after. */
struct watched_database {
	struct node node; /* in monitor->databases */
	char *name;       /* owned */
	struct host_group group;
	/* owned: those of the group, and behind them those that the entry has no more,
	 * but some server is still there, and may hang */
	struct watched_host **hosts;
	size_t host_count;
	uint64_t wake_us;
	/* what the last survey has found */
	bool is_wanted, is_busy;
	bool was_wanted;     /* by the survey before */
	bool wants_verdicts; /* some site has none yet */
	/* some site has not been told the addresses, because it had no such database */
	bool wants_addresses;
	bool is_hinted; /* a site waits for what its hosts answer now */
};

struct host_monitor {
	struct site *site;
	struct list hosts, databases;
	struct map *by_key; /* the hosts by "PORT NAME" */
	struct list names;  /* see host_names.h */
	struct deadline survey_due, wake;
	struct later decision;
	bool is_over;      /* it has ended: hints come too late */
	unsigned renewals; /* of the catalog, when the connections were opened */
	/* what every watch calls after an event; see host_connection.h */
	void (*go_on)(struct watched_host *w);
};

/* Returns the host with this name (NULL: the Unix socket) and port, or NULL. */
struct watched_host *host_survey_find(
    const struct host_monitor *m, const char *name, int port);
/* Whether the database has this host. */
bool host_survey_has(const struct watched_database *d, const struct watched_host *host);
/* Whether the host is needed by databases that have no other one. */
bool host_survey_is_lone(const struct watched_host *w);
/* Asks all sites, and notes what each database and host needs. */
void host_survey_run(struct host_monitor *m);
/* Forgets as whom to log in at hosts that nobody needs, opens connections anew that
 * were made before the last RECONNECT or RELOAD, and frees what no entry has any more.
 */
void host_survey_tidy(struct host_monitor *m);
/* Frees all hosts and databases, and closes the connections. */
void host_survey_free(struct host_monitor *m);

#endif
