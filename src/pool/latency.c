/*
 * The histograms of one pool.  A duration is counted once, in `running`; a snapshot
 * adds that to what was before, and keeps it for one more period.
 */
#include "pool/latency.h"

#include "base/mem.h"

struct latency_past {
	/* owned: everything until the last snapshot */
	struct histogram *all[LATENCY_KINDS];
	struct histogram
	    *last[LATENCY_KINDS]; /* owned: the period between the last two snapshots */
};

const char *latency_kind_shown(enum latency_kind kind)
{
	static const char *const names[] = {
#define LATENCY_NAME(NAME, name) #name,
	    LATENCY_EACH(LATENCY_NAME)
#undef LATENCY_NAME
	};

	return names[kind];
}

static bool is_running(const struct latency *l)
{
	for (int kind = 0; kind < LATENCY_KINDS; kind++)
		if (l->running[kind])
			return true;
	return l->single || l->unwaited;
}

/* Adds what is counted in `single` and `unwaited`. */
static void add_apart(const struct latency *l, struct histogram *sum[LATENCY_KINDS])
{
	histogram_merge(&sum[LATENCY_QUERY], l->single);
	histogram_merge(&sum[LATENCY_TRANSACTION], l->single);
	histogram_add_zeros(&sum[LATENCY_WAIT], l->unwaited);
}

void latency_snapshot(struct latency *l)
{
	if (!l->past && !is_running(l))
		return;
	if (!l->past)
		l->past = mem_zero(sizeof(*l->past));
	add_apart(l, l->running);
	histogram_free(&l->single);
	l->unwaited = 0;
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		histogram_merge(&l->past->all[kind], l->running[kind]);
		histogram_free(&l->past->last[kind]);
		l->past->last[kind] = l->running[kind];
		l->running[kind] = NULL;
	}
}

bool latency_is_still(const struct latency *l)
{
	for (int kind = 0; l->past && kind < LATENCY_KINDS; kind++)
		if (l->past->last[kind])
			return false;
	return !is_running(l);
}

bool latency_is_empty(const struct latency *l)
{
	return !l->past && !is_running(l);
}

void latency_done(struct latency *l)
{
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		histogram_free(&l->running[kind]);
		if (l->past) {
			histogram_free(&l->past->all[kind]);
			histogram_free(&l->past->last[kind]);
		}
	}
	histogram_free(&l->single);
	l->unwaited = 0;
	mem_free(l->past);
	l->past = NULL;
}

void latency_merge(struct latency *l, struct latency *from)
{
	if (from->past && !l->past)
		l->past = mem_zero(sizeof(*l->past));
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		histogram_merge(&l->running[kind], from->running[kind]);
		if (!from->past)
			continue;
		histogram_merge(&l->past->all[kind], from->past->all[kind]);
		histogram_merge(&l->past->last[kind], from->past->last[kind]);
	}
	histogram_merge(&l->single, from->single);
	l->unwaited += from->unwaited;
	latency_done(from);
}

void latency_sum(const struct latency *l, struct histogram *total[LATENCY_KINDS],
    struct histogram *recent[LATENCY_KINDS])
{
	add_apart(l, total);
	if (recent)
		add_apart(l, recent);
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		if (l->past)
			histogram_merge(&total[kind], l->past->all[kind]);
		histogram_merge(&total[kind], l->running[kind]);
		if (!recent)
			continue;
		if (l->past)
			histogram_merge(&recent[kind], l->past->last[kind]);
		histogram_merge(&recent[kind], l->running[kind]);
	}
}
