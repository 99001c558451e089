#include "pool/stats.h"

/* Lists every counter, so that sums and differences cannot forget one. */
#define FOR_EACH_COUNTER(DO)        \
	DO(server_assignment_count) \
	DO(xact_count)              \
	DO(query_count)             \
	DO(bytes_received)          \
	DO(bytes_sent)              \
	DO(xact_time_us)            \
	DO(query_time_us)           \
	DO(wait_time_us)            \
	DO(client_parse_count)      \
	DO(server_parse_count)      \
	DO(bind_count)              \
	DO(client_login_count)      \
	DO(repeated_parse_count)    \
	DO(saved_parse_count)

enum { COUNTERS = sizeof(struct stats) / sizeof(uint64_t) };
#define ONE(name) +1
_Static_assert(0 FOR_EACH_COUNTER(ONE) == COUNTERS, "a counter is missing in the list");
#undef ONE

void stats_add(struct stats *sum, const struct stats *s)
{
#define ADD(name) sum->name += s->name;
	FOR_EACH_COUNTER(ADD)
#undef ADD
}

static uint64_t per_second(uint64_t count, uint64_t elapsed_us)
{
	__extension__ unsigned __int128 scaled = count;

	return elapsed_us ? (uint64_t)(scaled * 1000000 / elapsed_us) : 0;
}

static uint64_t per_event(uint64_t time_us, uint64_t count)
{
	return count ? time_us / count : 0;
}

void stats_average(const struct stats *now, const struct stats *before,
    uint64_t elapsed_us, struct stats *average)
{
	struct stats grown;

	/* sums become smaller when a database is removed: no negative rates */
#define GROW(name) grown.name = now->name > before->name ? now->name - before->name : 0;
	FOR_EACH_COUNTER(GROW)
#undef GROW
#define RATE(name) average->name = per_second(grown.name, elapsed_us);
	FOR_EACH_COUNTER(RATE)
#undef RATE
	average->xact_time_us = per_event(grown.xact_time_us, grown.xact_count);
	average->query_time_us = per_event(grown.query_time_us, grown.query_count);
	average->wait_time_us =
	    per_event(grown.wait_time_us, grown.server_assignment_count);
}
