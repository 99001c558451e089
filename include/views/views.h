/*
 * The walkers of views.def: each writes the rows of one view.
 */
#ifndef VIEWS_VIEWS_H
#define VIEWS_VIEWS_H

#include "session/roll.h"
#include "views/row.h"

struct pool;

typedef void view_walk_fn(struct rows *rows);

/* views_process.c */
view_walk_fn view_version, view_state, view_config, view_lists, view_mem;
view_walk_fn view_dns_hosts, view_dns_zones, view_prepared_statements;
view_walk_fn view_hosts;
view_walk_fn view_state_leaks, view_workers, view_errors;
/* views_pools.c */
view_walk_fn view_databases, view_pools, view_users, view_peers, view_peer_pools;
/* views_sockets.c */
view_walk_fn view_clients, view_servers, view_sockets, view_active_sockets;
/* SHOW CLIENTS in parts: the clients it is about, in its order; so many rows of theirs
 * at most (false: those were the last); what comes behind them. */
void view_clients_call(struct roll *roll, struct site *site);
bool view_clients_part(struct rows *rows, struct roll *roll, size_t most);
void view_clients_rest(struct site *site, struct buf *out, size_t column_count);
/* Rows of one site in parts, in any order.  _begin goes back to the start of the site's
 * way through its databases, pools or clients; the others go on by at most so many of
 * them. False: there are no more. */
typedef void view_begin_fn(struct site *site);
typedef bool view_part_fn(struct rows *rows, size_t most);
view_begin_fn view_databases_begin, view_pools_begin, view_clients_begin;
view_part_fn view_databases_part, view_hosts_part; /* the databases' way */
view_part_fn view_pools_part, view_stats_totals_part;
/* Those who have logged in; those who carry cancel requests, on the pools' way. */
view_part_fn view_clients_walk, view_cancels_walk;
/* The next pool on the site's way; NULL: that was the last one. */
const struct pool *view_pools_next(struct site *site);
/* views_fds.c */
view_walk_fn view_fds;
/* views_stats.c */
view_walk_fn view_stats, view_stats_totals, view_stats_averages, view_totals;
/* views_latency.c */
view_walk_fn view_latency;
/* views_blockers.c */
view_walk_fn view_blockers;

#endif
