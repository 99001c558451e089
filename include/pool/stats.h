/*
 * Counters of a pool, their snapshots for averages, and sums per database.  They are
 * added up when they are read.
 */
#ifndef POOL_STATS_H
#define POOL_STATS_H

#include <stdint.h>

struct stats {
	uint64_t server_assignment_count;
	uint64_t xact_count;
	uint64_t query_count;
	uint64_t bytes_received; /* from clients */
	uint64_t bytes_sent;     /* from servers */
	uint64_t xact_time_us;
	uint64_t query_time_us;
	uint64_t wait_time_us;
	uint64_t client_parse_count;
	uint64_t server_parse_count;
	uint64_t bind_count;
	uint64_t client_login_count;
	/* Parses of the unnamed statement whose text was seen before: by
	 * prepare_unnamed; without it, the last one of the same client.  saved: no
	 * server got them. */
	uint64_t repeated_parse_count;
	uint64_t saved_parse_count;
};

/* The last two snapshots of a set of counters. */
struct stats_history {
	struct stats newer, older;
};

void stats_add(struct stats *sum, const struct stats *s);
/* Computes averages over elapsed_us, since `before` (operation.md 5.1): counts and
 * bytes per second; xact_time, query_time and wait_time per transaction, query and
 * assignment.  Rounded down. */
void stats_average(const struct stats *now, const struct stats *before,
    uint64_t elapsed_us, struct stats *average);

#endif
