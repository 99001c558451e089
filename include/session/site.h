/*
 * Everything one pooler process has.  main builds it, all else hangs from it; there is
 * no other shared state.
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
#include "session/rules.h"
#include "wire/vars.h"

struct client;
struct crew_member;
struct key_cache;
struct workers;
struct peers;
struct server;
struct site;
struct tls_setup;
struct metrics;
struct moving;

struct parcel_client;
struct parcel_server;

/* How clients of a service are moved to another process: see moving/moving.h.  What is
 * told of one that is linked to a server is about that as well. */
struct service_moves {
	/* Can what it has in flight be described just now? */
	bool (*is_movable)(const struct client *client);
	/* What the service knows of it beyond client and server. */
	void (*describe)(const struct client *client, struct parcel_client *out,
	    struct parcel_server *server);
	/* It is another process's now; it and its server are released. */
	void (*let_go)(struct client *client);
	/* One that came from there, linked to a server if there is one: own the
	 * connection.  -1: no memory. */
	int (*take)(struct client *client, const struct parcel_client *from,
	    const struct parcel_server *server);
};

/* Who serves the clients of a database from the end of their login on. */
struct service {
	const char *name;
	/* Says before the password exchange whether this user may log in at all and
	 * sets what the service needs to know of him.  NULL: everybody may. */
	bool (*may_login)(struct client *client);
	/* The login is complete: greet (AuthenticationOk is sent, ReadyForQuery is
	 * not), set conn ops, own the connection. */
	void (*adopt)(struct client *client);
	/* A CancelRequest with this client's key arrived. */
	void (*cancel)(struct client *client);
	const struct service_moves *moves; /* NULL: they stay */
};

enum shutdown_mode {
	SHUTDOWN_NONE,
	SHUTDOWN_WAIT_FOR_CLIENTS,
	SHUTDOWN_WAIT_FOR_SERVERS,
	SHUTDOWN_NOW,
};

/* What the console asks of the process; set by daemon.c. */
struct process_verbs {
	/* -1 and err when refused.  1: it takes longer.  A console leaves a ticket (0
	 * before), is woken at the end and asks again with it; NULL: nobody waits. */
	int (*reload)(struct site *site, uint64_t *ticket, struct err *err);
	/* The console's SET; -1 and err when refused; 1 when done with a remark, which
	 * is in err. */
	int (*set)(
	    struct site *site, const char *name, const char *value, struct err *err);
	/* A reload that was asked for has yet to read the settings, and would bring
	 * back what SET changes now: as with reload, the console is woken. */
	bool (*is_set_put_off)(const struct site *site);
	void (*shutdown)(struct site *site, enum shutdown_mode mode);
	/* PAUSE, SUSPEND and RESUME of everything.  site->is_still says when a SUSPEND
	 * is complete. */
	void (*pause)(struct site *site);
	void (*suspend)(struct site *site);
	void (*resume)(struct site *site);
	/* TAKEOVER: hand everything over to the process behind this console, which
	 * speaks this format.  *fd is for it, to be passed and closed by the caller.
	 * -1: err. */
	int (*takeover)(struct site *site, struct client *console, int format, int *fd,
	    struct err *err);
	/* A cancel request for nobody here goes to a process that this one has taken
	 * over, or was taken over by.  False: there is none, or it does not listen. */
	bool (*may_pass_cancel)(
	    struct client *carrier, const uint8_t *packet, size_t len);
};

/* Told about the life of servers; set by the broker. */
struct server_events {
	void (*logged_in)(struct server *server);
	/* The reset or check query is done well. */
	void (*tested)(struct server *server);
	/* It reports something while nobody is linked to it. */
	void (*reported)(struct server *server);
	/* The deadline of a resting server came. */
	void (*review)(struct server *server);
	/* It is closed and leaves its pool now. */
	void (*gone)(struct server *server, const char *reason);
};

/* Servers that changed sites; see moving/lend.h. */
struct lend_counts {
	uint64_t out, in;
	uint64_t waits_served; /* a client was waiting for the one that came */
};

/* How many connections can be in the middle of their login at the descriptor limit. */
enum { SITE_SPARES = 8 };

struct site {
	struct crew_member *crew; /* what it is to other workers; NULL: it is alone */
	struct log *log;
	struct mem mem;
	struct loop *loop;
	struct net net;
	struct dns *dns;
	struct catalog *catalog;
	struct workers *workers; /* helper threads */
	struct watch *external_watch;
	struct key_cache *key_cache; /* salted passwords that proved right */
	struct map *verifier_waits;  /* see login/verifiers.h */
	struct rules *rules;         /* one reference; NULL: nobody asks for any */
	struct vars_schema *vars;
	struct prepared_registry *prepared;     /* texts of all prepared statements */
	struct prepared_registry *sql_prepared; /* ... of PREPARE as a command */
	struct long_texts *long_texts;          /* see relay/long_text.h */
	struct tls_setup *tls;                  /* what is in force; never NULL */
	struct peers *peers;                    /* see cancel/peers.h */
	struct leak_table *leaks;               /* who left session state behind */
	struct slab *unnamed_slab;              /* see relay/unnamed.h */
	const struct process_verbs *verbs;
	const struct server_events *server_events;

	struct map *dial_turns; /* by "host:port": see broker/dial_turn.h */
	struct slab *client_slab, *server_slab, *login_slab, *dial_slab, *desk_slab;
	/* Every client socket is in one of the two, by .site_node of its struct client.
	 */
	struct list login_clients;    /* those that have not finished their login */
	struct list clients;          /* the others */
	struct list_walk client_walk; /* a way through clients that is gone in parts */
	struct list rolls; /* struct roll by .node: those that something goes through */
	struct map *cancel_keys; /* key bytes -> struct client */
	struct map *lookups;     /* auth_query at work: see login/authquery.h */
	struct list switchovers; /* see switchover.h */
	struct list listeners;   /* struct listener by .node */
	struct moving
	    *lent; /* see moving/lend.h; NULL: nothing came from another site */
	struct lend_counts lend_counts;
	struct metrics *metrics; /* the metrics floor's; NULL: on no control thread */
	struct waits *waits; /* the admin floor's: consoles that wait for something */
	size_t server_count; /* server connections of all kinds */
	size_t login_server_count; /* of them still logging in */
	uint64_t next_id;          /* the id of the next client or server */
	uint64_t id_step; /* between two of them: other workers use those between */
	uint64_t protocol_errors; /* server connections closed for what they sent:
				   SHOW LISTS */
	/* How often clients were told each error of errors.def, and others: SHOW
	 * ERRORS.
	 */
	uint64_t errors_told[ERROR_COUNT + 1];
	uint8_t mock_secret[32]; /* makes salts for users that do not exist */
	enum shutdown_mode shutdown;
	bool is_still; /* SUSPEND is complete: see moving/handover.h */
	/* Given up at the descriptor limit, so that the console gets in; see spares.h.
	 */
	int spare_fds[SITE_SPARES];
	unsigned spare_count;
	int passed_fds; /* sockets from the service manager; see listen_note_passed */
	char hostname[64];
	const char *version; /* "2.0.0" */
};

static inline size_t site_client_count(const struct site *site)
{
	return site->clients.count + site->login_clients.count;
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
