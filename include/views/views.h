/*
 * The walkers of views.def: each writes the rows of one view.
 */
#ifndef VIEWS_VIEWS_H
#define VIEWS_VIEWS_H

#include "session/roll.h"
#include "views/row.h"

typedef void view_walk_fn(struct rows *rows);

/* views_process.c */
view_walk_fn view_version, view_state, view_config, view_lists, view_mem;
view_walk_fn view_dns_hosts, view_dns_zones, view_prepared_statements;
view_walk_fn view_hosts;
view_walk_fn view_state_leaks, view_workers;
/* views_pools.c */
view_walk_fn view_databases, view_pools, view_users, view_peers, view_peer_pools;
/* views_sockets.c */
view_walk_fn view_clients, view_servers, view_sockets, view_active_sockets;
/* SHOW CLIENTS in parts: the clients it is about, in its order; so many rows of theirs
 * at most (false: those were the last); what comes behind them. */
void view_clients_call(struct roll *roll, struct site *site);
bool view_clients_part(struct rows *rows, struct roll *roll, size_t most);
void view_clients_rest(struct site *site, struct buf *out, size_t column_count);
/* views_fds.c */
view_walk_fn view_fds;
/* views_stats.c */
view_walk_fn view_stats, view_stats_totals, view_stats_averages, view_totals;
/* views_latency.c */
view_walk_fn view_latency;
/* views_blockers.c */
view_walk_fn view_blockers;

#endif
