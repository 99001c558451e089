/*
 * The walkers of views.def.  Each one writes the rows of one view.
 */
#ifndef VIEWS_VIEWS_H
#define VIEWS_VIEWS_H

#include "session/client_snapshot.h"
#include "views/row.h"

struct pool;

typedef void view_walk_fn(struct rows *rows);

/* in views_process.c */
view_walk_fn view_version, view_state, view_config, view_lists, view_mem;
view_walk_fn view_dns_hosts, view_dns_zones;
view_walk_fn view_hosts;
view_walk_fn view_workers, view_errors, view_certificates, view_issuers, view_warnings;
/* in views_pools.c */
view_walk_fn view_databases, view_pools, view_users, view_peers, view_peer_pools;
/* in views_pins.c */
view_walk_fn view_pins, view_state_leaks, view_prepared_statements;
/* in views_sockets.c */
view_walk_fn view_clients, view_servers, view_sockets, view_active_sockets,
    view_listeners;
/* SHOW CLIENTS of one site in parts, on its thread: view_clients_call chooses the
 * clients, in the order of the view; the next function writes at most so many rows, and
 * after the last one the rows behind them (false: there are no more).  A client that
 * goes to another site meanwhile is shown as it was then.  view_clients_end frees the
 * memory, at any time. */
struct called {
	struct client_snapshot snapshot;
	struct site *site;
	size_t column_count;
};
void view_clients_call(struct called *called, struct site *site, size_t column_count);
bool view_clients_part(struct rows *rows, struct called *called, size_t most);
void view_clients_end(struct called *called);
/* Rows of one site in parts, in any order.  _begin goes back to the first database,
 * pool or client of the site; the others continue with at most so many of them.  False:
 * there are no more. */
typedef void view_begin_fn(struct site *site);
typedef bool view_part_fn(struct rows *rows, size_t most);
view_begin_fn view_databases_begin, view_pools_begin, view_clients_begin,
    view_cancels_begin;
view_part_fn view_databases_part, view_hosts_part; /* these two walk the databases */
view_part_fn view_pools_part, view_stats_totals_part;
/* The clients that have logged in; and those that carry cancel requests, in the walk
 * over pools. */
view_part_fn view_clients_walk, view_cancels_walk;
/* Returns the next pool of the walk; NULL: there are no more. */
struct pool *view_pools_next(struct site *site);
struct database *view_databases_next(struct site *site);
/* in views_fds.c */
view_walk_fn view_fds;
/* in views_stats.c */
view_walk_fn view_stats, view_stats_totals, view_stats_averages, view_totals,
    view_latency;
/* in views_blockers.c */
view_walk_fn view_blockers;
struct pool;
unsigned view_listener_count(const struct pool *pool);
/* The process id of a server; 0: not known. */
struct server;
unsigned view_server_pid(const struct server *server);

#endif
