/*
 * A site is everything that one thread of the pooler works with.  A process has one
 * site, or one for each worker and one for the control thread (workers.h).  There are
 * no other writable globals.
 */
#ifndef SESSION_SITE_H
#define SESSION_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "net/dns.h"
#include "net/loop.h"
#include "net/stream.h"
#include "pool/catalog.h"
#include "session/access_rules.h"
#include "wire/vars.h"

struct cancel_keys;
struct client;
struct worker;
struct digest;
struct host_monitor;
struct client_snapshot;
struct key_cache;
struct passwords;
struct issuer_waits;
struct helpers;
struct peers;
struct log_flood;
struct memory_limit;
struct strangers;
struct secret;
struct server;
struct site;
struct tls_setup;
struct metrics;

struct record_client;
struct record_server;

/* How clients of a service are moved to another process: see handoff/handoff.h.  If a
 * client is linked to a server, its functions include the server. */
struct service_moves {
	/* Can the client be moved in its present state? */
	bool (*is_movable)(const struct client *client);
	/* Gives up a server that keeps the client from being moved although it has got
	 * nothing from the client, and does not answer.  True: the client can be moved
	 * soon. */
	bool (*loosen)(struct client *client);
	/* Describes what the service knows of it, in addition to client and server. */
	void (*describe)(const struct client *client, struct record_client *out,
	    struct record_server *server);
	/* Another process has taken it over: releases the client and its server here.
	 */
	void (*let_go)(struct client *client);
	/* A client at rest goes to another site of this process as the same object:
	 * puts aside what the service has of this thread, as one block of mem_alloc, or
	 * NULL; and finds it again there, and frees the block. */
	void *(*pack)(struct client *client);
	void (*unpack)(struct client *client, void *packed);
	/* Takes over a client that has come from another process, and is linked to its
	 * server if it has one.  -1: no memory. */
	int (*take)(struct client *client, const struct record_client *from,
	    const struct record_server *server);
};

/* A service handles the clients of a database after their login: the relay or the
 * console. */
struct service {
	const char *name;
	/* Whether this user may use the service; sets what the service needs to know of
	 * the user.  Called after the password exchange.  NULL: everybody may. */
	bool (*admit)(struct client *client);
	/* The login is complete: takes over the connection and greets the client.
	 * AuthenticationOk has been sent, ReadyForQuery has not. */
	void (*adopt)(struct client *client);
	/* A CancelRequest with this client's key has arrived. */
	void (*cancel)(struct client *client);
	const struct service_moves *moves; /* NULL: they cannot be moved */
};

enum shutdown_mode {
	SHUTDOWN_NONE,
	SHUTDOWN_WAIT_FOR_CLIENTS,
	SHUTDOWN_WAIT_FOR_SERVERS,
	SHUTDOWN_NOW,
};

/* Operations on the whole process, which the console and signals call; set by daemon.c.
 */
struct process_verbs {
	/* -1 and err: refused.  1: it takes longer; *ticket, which was 0, is set, and
	 * the console is woken at the end and calls again with the ticket.  ticket
	 * NULL: nobody waits. */
	int (*reload)(struct site *site, uint64_t *ticket, struct err *err);
	/* The console's SET.  -1 and err: refused.  1 and err: done, with a warning. */
	int (*set)(
	    struct site *site, const char *name, const char *value, struct err *err);
	/* True while a reload has not read the settings yet: it would undo a SET.  The
	 * console waits and is woken as with reload. */
	bool (*is_set_put_off)(const struct site *site);
	void (*shutdown)(struct site *site, enum shutdown_mode mode);
	/* PAUSE, SUSPEND and RESUME of everything.  site->is_still is set when a
	 * SUSPEND is complete. */
	void (*pause)(struct site *site);
	void (*suspend)(struct site *site);
	void (*resume)(struct site *site);
	/* TAKEOVER: hands everything over to the process at this console, which
	 * supports this format.  The caller passes *fd to it and closes it.  -1 and
	 * err: refused. */
	int (*takeover)(struct site *site, struct client *console, int format, int *fd,
	    struct err *err);
	/* Passes a cancel request that is for no client of this process to the other
	 * process of a takeover; client has brought it to the control site.  False:
	 * there is none, or it does not read. */
	bool (*may_pass_cancel)(
	    struct client *client, const uint8_t *packet, size_t len);
};

/* Called at events of server connections; set by the broker. */
struct server_events {
	void (*logged_in)(struct server *server);
	/* The reset or check query has succeeded. */
	void (*tested)(struct server *server);
	/* It has reported a parameter while no client is linked to it. */
	void (*reported)(struct server *server);
	/* The deadline of an idle server has passed. */
	void (*review)(struct server *server);
	/* It has closed and leaves its pool. */
	void (*gone)(struct server *server, const char *reason);
};

/* How many servers, and clients at rest, have gone to other sites and come from them;
 * see broker/transfer.h and session/client_transfer.h. */
struct transfer_counts {
	uint64_t out, in;
	uint64_t waits_served; /* servers that came while a client waited for one */
	uint64_t clients_out, clients_in;
};

/* The number of spare descriptors, and so of connections that can log in at a time when
 * the descriptor limit is reached. */
enum { SITE_SPARES = 8 };

struct site {
	/* its place among several workers; NULL: it is the only site */
	struct worker *worker;
	struct log *log;
	struct mem mem;
	struct loop *loop;
	struct net net;
	struct dns *dns;
	struct catalog *catalog;
	struct helpers *helpers; /* helper threads */
	struct watch *external_watch;
	struct key_cache *key_cache;       /* see salted.h */
	struct passwords *passwords;       /* see passwords.h */
	struct issuer_waits *issuer_waits; /* see oauth_issuers.h */
	struct tickets *tickets;           /* see tickets.h */
	struct map *verifier_waits;        /* see login/verifiers.h */
	/* for the proofs of clients; NULL: libcrypto does not have it */
	struct digest *sha256, *md5;
	struct secret *no_secret;   /* SECRET_NONE, of users that do not exist */
	struct access_rules *rules; /* one reference; NULL: auth_type needs none */
	struct vars_schema *vars;
	struct prepared_registry *prepared;     /* texts of all prepared statements */
	struct prepared_registry *sql_prepared; /* texts of PREPARE commands */
	struct long_texts *long_texts;          /* see relay/long_text.h */
	struct tls_setup *tls;                  /* the contexts in force; never NULL */
	struct peers *peers;                    /* see cancel/peers.h */
	/* session state that clients left behind (SHOW LEAKS) */
	struct leak_table *leak_table;
	struct listens *listens;             /* see relay/listen_table.h */
	struct slab *text_counts_slab;       /* see relay/common_texts.h */
	struct text_counts *text_counts;     /* of it; NULL: nothing was counted yet */
	struct slab *unnamed_slab;           /* see relay/unnamed.h */
	struct slab *replay_slab;            /* see relay/replay.h */
	struct slab *name_map_slab;          /* see relay/name_map.h */
	struct login_answers *login_answers; /* see relay/login_answer.h */
	struct list vacating;                /* see relay/vacate.h */
	const struct process_verbs *verbs;
	const struct server_events *server_events;
	/* Gives a server that has just logged in the shared statements that another one
	 * has; server_events->tested is called at the end.  Set by the relay floor. */
	void (*prepare_like)(struct server *server, const struct server *model);

	/* owned by the broker; NULL: another site has it */
	struct host_monitor *host_monitor;
	struct list *watched_hosts; /* of the monitor; see broker/host_connection.h */
	struct map *dial_turns;     /* by "host:port": see broker/dial_turn.h */
	struct slab *client_slab, *server_slab, *login_slab, *dial_slab, *runner_slab;
	/* Every client is in one of these lists, by .site_node of its struct client. */
	struct list login_clients;  /* those that have not finished their login */
	struct list clients;        /* those that have */
	struct list cancel_clients; /* those that brought a CancelRequest */
	/* struct login by .console_node: the logins of the console among them */
	struct list console_logins;
	/* the positions of walks through these lists in parts: of a scrape, and for
	 * clients that could go to another site */
	struct list_walk client_walk, idle_walk;
	struct list snapshots; /* struct client_snapshot by .node */
	struct cancel_keys
	    *cancel_keys;            /* that of the workers, or owned with one worker */
	struct strangers *strangers; /* likewise */
	struct memory_limit *memory_limit; /* likewise */
	struct log_flood *log_flood;       /* owned */
	struct map *lookups;     /* running auth_queries: see login/authquery.h */
	struct list switchovers; /* see switchover.h */
	struct list listeners;   /* struct listener by .node */
	struct transfer_counts transfer_counts;
	/* owned: the clients that were chosen to go to another site, or NULL; see
	 * migrate.h */
	struct client_snapshot *migrants;
	struct metrics *metrics; /* of the control site; NULL at others */
	struct waits *waits; /* consoles that wait for something: see admin/wait.h */
	size_t server_count; /* server connections of all kinds */
	size_t login_server_count; /* those of them that are still logging in */
	uint64_t next_id;          /* the id of the next client or server */
	uint64_t id_step; /* distance between two ids of this site; other workers use
			     those between */
	uint64_t protocol_errors; /* server connections closed for protocol errors (SHOW
				     STATE) */
	/* how often clients got each error of errors.def; the last one counts all
	 * others (SHOW ERRORS) */
	uint64_t errors_told[ERROR_COUNT + 1];
	uint8_t mock_secret[32]; /* salts of users that do not exist are made from it */
	/* of the control site: when the configuration in force was loaded, in seconds
	 * since 1970, and whether a later RELOAD was refused */
	int64_t loaded_s;
	bool has_refused_reload;
	enum shutdown_mode shutdown;
	bool is_still; /* SUSPEND is complete: see handoff/movable.h */
	/* closed at the descriptor limit, so that a console can connect; see
	 * reserved_fds.h
	 */
	int spare_fds[SITE_SPARES];
	unsigned spare_count;
	int passed_fds; /* sockets from the service manager; see listen_note_passed */
	char hostname[64];
	const char *version; /* "2.0.0" */
};

static inline size_t site_client_count(const struct site *site)
{
	return site->clients.count + site->login_clients.count +
	       site->cancel_clients.count;
}

static inline uint64_t site_next_id(struct site *site)
{
	uint64_t id = site->next_id;
	site->next_id += site->id_step;
	return id;
}

/* The settings in force. */
static inline const struct settings *site_settings(const struct site *site)
{
	return &site->catalog->config->settings;
}

#endif
