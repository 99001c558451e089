#include "pool/kept.h"

#include "base/mem.h"

void kept_free(struct kept **kp)
{
	if (*kp)
		latency_done(&(*kp)->latency);
	mem_free(*kp);
	*kp = NULL;
}

static struct kept *kept_made(struct kept **kp)
{
	if (!*kp)
		*kp = mem_zero(sizeof(**kp));
	return *kp;
}

void kept_follow(struct kept *k, unsigned snapshots)
{
	unsigned passed = snapshots - k->snapshots;

	k->snapshots = snapshots;
	if (passed == 0)
		return;
	k->history.older = passed == 1 ? k->history.newer : k->stats;
	k->history.newer = k->stats;
}

void kept_add(struct kept **kp, const struct stats *stats,
    const struct stats_history *history, unsigned snapshots)
{
	struct kept *k = kept_made(kp);

	kept_follow(k, snapshots);
	stats_add(&k->stats, stats);
	stats_add(&k->history.newer, &history->newer);
	stats_add(&k->history.older, &history->older);
}

void kept_add_latency(struct kept **kp, struct latency *latency)
{
	if (!latency_is_empty(latency))
		latency_merge(&kept_made(kp)->latency, latency);
}

void kept_merge(struct kept **kp, struct kept **from)
{
	struct kept *more = *from;

	if (!more)
		return;
	/* all workers take their snapshots together */
	kept_add(kp, &more->stats, &more->history, more->snapshots);
	kept_add_latency(kp, &more->latency);
	kept_free(from);
}
