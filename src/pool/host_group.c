#include "pool/host_group.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/time_us.h"

/* How long the first decision waits for hosts that have not been tried: an older
 * primary must not be used because it was the first to answer. */
enum { SETTLE_US = 1000000 };

/* A second primary that was gone for less is no news, nor that no host serves clients
 * who try again and again. */
enum { NEWS_US = 10000000 };

/* How often to see whether both of two primaries have answered anew. */
enum { SPLIT_AGAIN_US = 200000 };

static const char older_timeline[] = "older timeline than that of the primary in force";
static const char standby_is_up[] = "a standby is up";

void host_group_init(struct host_group *g)
{
	memset(g, 0, sizeof(*g));
}

void host_group_done(struct host_group *g)
{
	mem_free(g->members);
	host_group_init(g);
}

static struct host_member *member_of(
    const struct host_group *g, const struct host_watch *w)
{
	for (size_t i = 0; w && i < g->count; i++)
		if (g->members[i].watch == w)
			return &g->members[i];
	return NULL;
}

void host_group_adopt(struct host_group *g, const struct host_group_rules *rules,
    struct host_watch **hosts, size_t count)
{
	struct host_member *members = mem_zero(count * sizeof(*members));

	for (size_t i = 0; i < count; i++) {
		const struct host_member *known = member_of(g, hosts[i]);
		if (known)
			members[i] = *known;
		members[i].watch = hosts[i];
	}
	mem_free(g->members);
	g->members = members;
	g->count = count;
	g->rules = *rules;
	if (!member_of(g, g->primary)) {
		g->primary = NULL;
		g->sample_count = 0;
	}
	if (!member_of(g, g->chosen))
		g->chosen = NULL;
}

void host_group_begin(struct host_group *g, uint64_t now_us)
{
	if (g->begun_us)
		return;
	g->begun_us = now_us;
	if (now_us >= g->lacking_us + NEWS_US)
		g->lacking_us = 0;
}

void host_group_rest(struct host_group *g)
{
	g->begun_us = 0;
	g->is_settled = g->serves = false;
}

/* ---- primaries ---- */

static bool is_for_writers(const struct host_group *g)
{
	return g->rules.target == TARGET_READ_WRITE ||
	       g->rules.target == TARGET_PRIMARY;
}

/* A host whose role nobody can ask for may be a primary. */
static bool may_be_primary(const struct host_group *g, const struct host_watch *w)
{
	const struct host_value *v = &w->value;
	bool is_up = v->state == HOST_UP || (v->state == HOST_NOT_TRIED && *v->unasked);

	if (!is_up || v->report.role == HOST_STANDBY)
		return false;
	return !v->report.is_read_only || g->rules.target != TARGET_READ_WRITE;
}

static bool is_old(const struct host_group *g, const struct host_watch *w)
{
	uint32_t timeline = w->value.report.timeline;

	return timeline && timeline < g->timeline && w != g->chosen;
}

/* Is a better than b, both being possible primaries? */
static bool is_better(const struct host_watch *a, const struct host_watch *b)
{
	bool a_is_known = a->value.report.role == HOST_PRIMARY;
	bool b_is_known = b->value.report.role == HOST_PRIMARY;

	if (a_is_known != b_is_known)
		return a_is_known;
	return a->value.report.timeline > b->value.report.timeline;
}

static struct host_watch *find_primary(const struct host_group *g)
{
	struct host_watch *best = NULL, *w;

	if (g->chosen && may_be_primary(g, g->chosen))
		return g->chosen;
	/* at equal timelines the one in force stays */
	if (g->primary && may_be_primary(g, g->primary) && !is_old(g, g->primary))
		best = g->primary;
	for (size_t i = 0; i < g->count; i++) {
		w = g->members[i].watch;
		if (may_be_primary(g, w) && !is_old(g, w) &&
		    (!best || is_better(w, best)))
			best = w;
	}
	return best;
}

static bool is_untried(const struct host_watch *w)
{
	return w->value.state == HOST_NOT_TRIED && !*w->value.unasked;
}

static bool has_untried(const struct host_group *g)
{
	for (size_t i = 0; i < g->count; i++)
		if (is_untried(g->members[i].watch))
			return true;
	return false;
}

/* Is the choice of a primary to wait for hosts that have not been tried? */
static bool is_unsettled(const struct host_group *g)
{
	if (g->chosen && may_be_primary(g, g->chosen))
		return false;
	if (g->is_settled)
		return (g->primary && is_untried(g->primary)) ||
		       (g->chosen && is_untried(g->chosen));
	return has_untried(g);
}

/* Which primary is in force; the one before stays in mind while there is none. */
static void settle_primary(struct host_group *g, uint64_t now_us, uint64_t *wake_us)
{
	struct host_watch *found = find_primary(g);
	uint64_t until_us = g->begun_us + SETTLE_US;

	if (!g->begun_us)
		return;
	if (is_unsettled(g) && now_us < until_us) {
		*wake_us = until_us < *wake_us ? until_us : *wake_us;
		return;
	}
	g->is_settled = true;
	if (!found)
		return;
	if (found != g->primary)
		g->sample_count = 0;
	g->primary = found;
	if (g->chosen && g->chosen != found && is_for_writers(g))
		g->chosen = NULL;
	if (found->value.report.timeline > g->timeline || found == g->chosen)
		g->timeline = found->value.report.timeline
				  ? found->value.report.timeline
				  : g->timeline;
}

/* ---- lag ---- */

void host_group_note(struct host_group *g, const struct host_watch *w)
{
	const struct host_report *r = &w->value.report;

	if (w != g->primary || r->role != HOST_PRIMARY || !r->position)
		return;
	g->heard_us = r->at_us;
	if (g->sample_count) {
		uint64_t newest = g->samples[g->sample_count - 1].position;
		if (newest == r->position)
			return;
		/* it has lost something in a crash, or was restored */
		if (newest > r->position)
			g->sample_count = 0;
	}
	if (g->sample_count == HOST_SAMPLES) {
		/* leaves out every second one of the older samples */
		size_t kept = 0;
		for (size_t i = 0; i < g->sample_count; i++)
			if (i % 2 == 0 || i >= HOST_SAMPLES / 2)
				g->samples[kept++] = g->samples[i];
		g->sample_count = kept;
	}
	g->samples[g->sample_count++] =
	    (struct host_sample){.at_us = r->at_us, .position = r->position};
}

static void measure(const struct host_group *g, struct host_member *m)
{
	const struct host_report *r = &m->watch->value.report;
	struct host_verdict *v = &m->verdict;

	v->lag_us = v->lag_bytes = UINT64_MAX;
	if (r->role != HOST_STANDBY || !r->position || !g->sample_count)
		return;
	v->lag_us = v->lag_bytes = 0;
	const struct host_sample *newest = &g->samples[g->sample_count - 1];
	if (newest->position <= r->position)
		return;
	v->lag_bytes = newest->position - r->position;
	for (size_t i = 0; i < g->sample_count; i++) {
		const struct host_sample *s = &g->samples[i];
		if (s->position <= r->position)
			continue;
		/* a primary that is silent goes no further ahead */
		uint64_t until_us = time_earlier(r->at_us, g->heard_us);
		v->lag_us = s->at_us < until_us ? until_us - s->at_us : 0;
		return;
	}
}

static bool is_over(uint64_t lag, uint64_t limit)
{
	return limit && lag != UINT64_MAX && lag > limit;
}

/* ---- verdicts ---- */

bool host_group_serves(const struct host_verdict *v)
{
	return v->is_fit && (v->value.state == HOST_UP || v->may_be_tried);
}

bool host_group_is_hopeless(const struct host_verdict *v)
{
	return v->value.state == HOST_HANGS || v->is_outdated;
}

static bool is_standby_serving(const struct host_group *g, const struct host_watch *but)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct host_member *m = &g->members[i];
		if (m->watch != but && !m->is_lagging &&
		    m->watch->value.state == HOST_UP &&
		    m->watch->value.report.role == HOST_STANDBY)
			return true;
	}
	return false;
}

static const char *why_not_primary(
    const struct host_group *g, const struct host_watch *w)
{
	const struct host_report *r = &w->value.report;

	if (r->role == HOST_STANDBY)
		return "it is a standby";
	if (r->is_read_only && g->rules.target == TARGET_READ_WRITE)
		return "it is read-only";
	if (is_old(g, w))
		return older_timeline;
	if (!g->is_settled)
		return "other hosts have not been tried yet";
	if (w == g->primary)
		return NULL;
	if (g->chosen)
		return "another host was chosen";
	return g->primary ? "another primary is in force" : NULL;
}

/* Why a host in this state does not have what the database asks for; NULL: it has. */
static const char *why_not_fit(const struct host_group *g, const struct host_member *m)
{
	const struct host_watch *w = m->watch;
	const struct host_report *r = &w->value.report;

	if (m->is_lagging)
		return is_over(m->verdict.lag_bytes, g->rules.max_lag_bytes / 2)
			   ? "further behind than max_replica_lag_bytes"
			   : "further behind than max_replica_lag";
	switch (g->rules.target) {
	case TARGET_READ_WRITE:
	case TARGET_PRIMARY:
		return why_not_primary(g, w);
	case TARGET_READ_ONLY:
		if (r->role == HOST_PRIMARY && !r->is_read_only)
			return "it is not read-only";
		break;
	case TARGET_STANDBY:
		return r->role == HOST_PRIMARY ? "it is a primary" : NULL;
	case TARGET_PREFER_STANDBY:
		if (r->role != HOST_PRIMARY)
			break;
		return is_standby_serving(g, w) ? standby_is_up : why_not_primary(g, w);
	case TARGET_ANY:
		break;
	}
	return NULL;
}

/* Why the database does not use it in this state; NULL: it may. */
static const char *why_unfit(const struct host_group *g, const struct host_member *m)
{
	const struct host_member *chosen = member_of(g, g->chosen);
	const char *why = why_not_fit(g, m);

	if (why || !chosen || chosen == m || chosen->watch->value.state != HOST_UP)
		return why;
	return why_not_fit(g, chosen) ? NULL : "another host was chosen";
}

static struct host_verdict judge(
    const struct host_group *g, const struct host_member *m)
{
	const struct host_value *value = &m->watch->value;
	const char *why = why_unfit(g, m);
	struct host_verdict v = m->verdict;

	v.value = *value;
	v.is_fit = !why;
	v.is_outdated = why == older_timeline && value->state == HOST_UP;
	v.is_spare = why == standby_is_up && !why_not_primary(g, m->watch);
	v.is_primary = m->watch == g->primary;
	v.is_in_force = is_for_writers(g) && v.is_primary && !why;
	v.highest_timeline = v.is_primary ? g->timeline : 0;
	v.may_be_tried = value->state == HOST_NOT_TRIED &&
			 (g->rules.target == TARGET_ANY || *value->unasked);
	snprintf(v.unfit_reason, sizeof(v.unfit_reason), "%s", why ? why : "");
	return v;
}

/* The position changes all the time; for lag see measure_lag. */
static bool is_same(const struct host_verdict *a, const struct host_verdict *b)
{
	return a->is_fit == b->is_fit && a->is_spare == b->is_spare &&
	       a->is_in_force == b->is_in_force && a->is_primary == b->is_primary &&
	       a->highest_timeline == b->highest_timeline &&
	       a->may_be_tried == b->may_be_tried && a->value.state == b->value.state &&
	       a->value.since_us == b->value.since_us &&
	       a->value.report.role == b->value.report.role &&
	       a->value.report.is_read_only == b->value.report.is_read_only &&
	       a->value.report.timeline == b->value.report.timeline &&
	       strcmp(a->value.reason, b->value.reason) == 0 &&
	       strcmp(a->value.unasked, b->value.unasked) == 0 &&
	       strcmp(a->unfit_reason, b->unfit_reason) == 0;
}

/* Does a second primary come up, where a role is asked for?  Each of them must have
 * said that it is one after the other was seen: the old primary of a planned change has
 * not been asked yet since it was stopped, and one that hangs says nothing any more. */
static bool note_primaries(struct host_group *g, uint64_t now_us, uint64_t *wake_us)
{
	uint64_t oldest_us = UINT64_MAX;
	unsigned count = 0;

	for (size_t i = 0; i < g->count; i++) {
		const struct host_value *v = &g->members[i].watch->value;
		if (v->state != HOST_UP || v->report.role != HOST_PRIMARY)
			continue;
		count++;
		if (!*v->unasked && v->report.at_us < oldest_us)
			oldest_us = v->report.at_us;
	}
	if (count < 2 || g->rules.target == TARGET_ANY)
		g->both_us = count = 0;
	else if (!g->both_us)
		g->both_us = now_us;
	bool is_split = count > 1 && oldest_us >= g->both_us;
	bool is_news = is_split && (!g->split_us || now_us >= g->split_us + NEWS_US) &&
		       !g->is_split;
	uint64_t again_us = now_us + SPLIT_AGAIN_US;
	if (count > 1 && !is_split && again_us < *wake_us)
		*wake_us = again_us;

	if (is_split || g->is_split)
		g->split_us = now_us;
	g->is_split = is_split;
	return is_news;
}

static void note_service(
    struct host_group *g, bool serves, uint64_t now_us, struct host_change *change)
{
	change->is_lost = !serves && !g->lacking_us &&
			  (g->serves || (g->is_settled && !has_untried(g)));
	change->is_back = !g->serves && serves && g->lacking_us;
	change->lacked_us = change->is_back ? now_us - g->lacking_us : 0;
	if (change->is_lost)
		g->lacking_us = now_us;
	if (serves)
		g->lacking_us = 0;
	g->serves = serves;
}

void host_group_decide(struct host_group *g, uint64_t now_us,
    struct host_change *change, uint64_t *wake_us)
{
	bool serves = false;

	*change = (struct host_change){.is_split = note_primaries(g, now_us, wake_us)};
	settle_primary(g, now_us, wake_us);
	const struct host_group_rules *rules = &g->rules;
	bool has_changed = false;
	for (size_t i = 0; i < g->count; i++) {
		struct host_member *m = &g->members[i];
		uint64_t part = m->is_lagging ? 2 : 1;
		struct host_verdict before = m->verdict;
		measure(g, m);
		has_changed |= before.lag_us != m->verdict.lag_us ||
			       before.lag_bytes != m->verdict.lag_bytes;
		m->is_lagging =
		    is_over(m->verdict.lag_us, rules->max_lag_us / part) ||
		    is_over(m->verdict.lag_bytes, rules->max_lag_bytes / part);
	}
	change->is_any = has_changed && (rules->max_lag_us || rules->max_lag_bytes);
	for (size_t i = 0; i < g->count; i++) {
		struct host_member *m = &g->members[i];
		struct host_verdict v = judge(g, m);
		change->is_any = change->is_any || !is_same(&v, &m->verdict);
		m->verdict = v;
		serves = serves || host_group_serves(&v);
	}
	note_service(g, serves, now_us, change);
}

/* ---- from outside ---- */

void host_group_choose(struct host_group *g, struct host_watch *w)
{
	g->chosen = w;
}

void host_group_restore(struct host_group *g, struct host_watch *w, uint32_t timeline)
{
	g->primary = w;
	g->timeline = timeline;
	g->is_settled = true;
}

/* ---- shown ---- */

const char *host_group_state_shown(const struct host_verdict *v)
{
	static const char *const names[] = {
	    [HOST_NOT_TRIED] = "not tried",
	    [HOST_UP] = "up",
	    [HOST_REFUSES] = "refuses",
	    [HOST_HANGS] = "hangs",
	    [HOST_DOWN] = "down",
	};

	return v->value.state == HOST_UP && !v->is_fit ? "unfit"
						       : names[v->value.state];
}

const char *host_group_reason_shown(const struct host_verdict *v)
{
	if (v->value.state != HOST_UP)
		return *v->value.reason ? v->value.reason : v->value.unasked;
	return v->is_fit ? v->value.unasked : v->unfit_reason;
}

void host_group_describe(const struct host_verdict *v, struct buf *out)
{
	const char *reason = host_group_reason_shown(v);
	bool is_verb = v->value.state == HOST_REFUSES || v->value.state == HOST_HANGS;

	buf_printf(out, is_verb ? " %s" : " is %s", host_group_state_shown(v));
	if (*reason)
		buf_printf(out, " (%s)", reason);
}

const char *host_group_report_shown(const struct host_report *report)
{
	switch (report->role) {
	case HOST_ROLE_UNKNOWN:
		break;
	case HOST_STANDBY:
		return "standby";
	case HOST_PRIMARY:
		return report->is_read_only ? "read-only" : "primary";
	}
	return NULL;
}
