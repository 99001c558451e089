/* links: pool conf wire auth base */
/*
 * The monitor of hosts against a model: hosts that die, hang, refuse, are promoted,
 * come back as a second primary, follow as standbys, with a clock of its own.  At every
 * moment at most one host serves writers, and never one whose timeline is older than
 * that of a primary that served; a fitting host is in use within the time that the
 * settings promise; a host that is not used has a reason; nothing is told twice; a
 * standby that follows is never too far behind.  Now and then nobody needs the hosts:
 * then the monitor has no connection and asks nothing, and afterwards it knows nothing
 * but the highest timeline.
 */
#include <string.h>

#include "pool/host_group.h"
#include "prop.h"

enum { SEEDS = 2, RUNS = 40, STEPS = 400, HOSTS_MOST = 4, GROUPS = 4 };

#define MS UINT64_C(1000)
#define S  UINT64_C(1000000)

/* A server as it is. */
struct server {
	bool is_up, is_hanging, is_refusing, is_standby, is_asked_in_vain;
	uint32_t timeline;
	uint64_t position;
	uint64_t replies_us; /* when the outcome under way comes; 0: nothing is */
	enum watch_step step;
};

struct fixture {
	uint64_t random, now_us, calm_us;
	size_t count;
	struct server servers[HOSTS_MOST];
	struct host_watch watches[HOSTS_MOST];
	uint64_t wakes[HOSTS_MOST];
	struct host_policy policy;
	struct host_group groups[GROUPS];
	uint64_t group_wakes[GROUPS];
	uint32_t served; /* the highest timeline that served writers */
	char told[HOSTS_MOST][3 * HOST_REASON_MAX];
	unsigned long decisions, failovers, rests;
};

static const enum target_attrs targets[GROUPS] = {
    TARGET_READ_WRITE, TARGET_PREFER_STANDBY, TARGET_ANY, TARGET_READ_ONLY};

static unsigned draw(struct fixture *w, unsigned below)
{
	return (unsigned)(random_next(&w->random) >> 20) % below;
}

/* ---- invariants ---- */

static void check_reasons(const struct host_verdict *v)
{
	const char *shown = host_group_state_shown(v);

	if (v->value.state != HOST_UP && v->value.state != HOST_NOT_TRIED)
		CHECK(*v->value.reason);
	if (strcmp(shown, "unfit") == 0)
		CHECK(*host_group_reason_shown(v));
	CHECK(v->is_fit == !*v->unfit_reason);
	if (v->is_in_force)
		CHECK(v->is_fit);
}

/* Some host has not been tried since its hosts began to be watched, a moment ago: the
 * others may be older primaries than that one. */
static bool is_early(const struct fixture *w, const struct host_group *g)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->members[i].watch->value.state == HOST_NOT_TRIED)
			return w->now_us < g->begun_us + S;
	return false;
}

static void check_group(struct fixture *w, const struct host_group *g)
{
	unsigned serving = 0;

	for (size_t i = 0; i < g->count; i++) {
		const struct host_verdict *v = &g->members[i].verdict;
		check_reasons(v);
		if (!host_group_serves(v))
			continue;
		serving++;
		if (g->rules.target != TARGET_READ_WRITE)
			continue;
		CHECK(v->is_in_force);
		CHECK(g->chosen || !is_early(w, g));
		if (v->value.report.timeline) {
			CHECK(v->value.report.timeline >= w->served || g->chosen);
			w->served = v->value.report.timeline;
		}
	}
	if (g->rules.target == TARGET_READ_WRITE)
		CHECK(serving <= 1);
}

static void decide(struct fixture *w, int at)
{
	struct host_group *g = &w->groups[at];
	struct host_change change, again;
	uint64_t wake_us = UINT64_MAX;

	host_group_decide(g, w->now_us, &change, &wake_us);
	w->group_wakes[at] = wake_us;
	w->decisions++;
	w->failovers += change.is_back;
	CHECK(!(change.is_back && change.is_lost));
	check_group(w, g);
	/* what has been decided stays so */
	host_group_decide(g, w->now_us, &again, &wake_us);
	CHECK(!again.is_any && !again.is_back && !again.is_lost && !again.is_split);
}

static void tell(struct fixture *w, size_t i)
{
	const struct host_watch *watch = &w->watches[i];
	char now[3 * HOST_REASON_MAX];

	if (!host_watch_take_change(&w->watches[i]))
		return;
	snprintf(now, sizeof(now), "%d %d %d %u %s %s", watch->value.state,
	    watch->value.report.role, watch->value.report.is_read_only,
	    watch->value.report.timeline, watch->value.reason, watch->value.unasked);
	CHECK(strcmp(now, w->told[i]) != 0);
	memcpy(w->told[i], now, sizeof(now));
}

/* ---- the monitor's connections ---- */

/* What the monitor sets after each decision. */
static void set_urgency(struct fixture *w)
{
	/* without a period only hints and urgency lead to questions */
	w->policy.is_urgent = !w->policy.period_us;
	for (int g = 0; g < GROUPS; g++)
		w->policy.is_urgent |= !w->groups[g].serves;
}

static void go_on(struct fixture *w, size_t i)
{
	struct server *s = &w->servers[i];
	enum watch_step step;

	set_urgency(w);
	w->wakes[i] = UINT64_MAX;
	while ((step = host_watch_next(&w->watches[i], &w->policy, w->now_us,
		    &w->wakes[i])) != WATCH_NOTHING) {
		CHECK(w->policy.is_wanted || step == WATCH_CLOSE);
		s->step = step;
		s->replies_us =
		    step == WATCH_CLOSE ? 0 : w->now_us + 1 + draw(w, 20) * MS;
	}
	CHECK(!w->policy.is_wanted || w->wakes[i] != UINT64_MAX || s->replies_us);
	CHECK(w->policy.is_wanted || (w->wakes[i] == UINT64_MAX && !s->replies_us));
	tell(w, i);
	for (int g = 0; w->policy.is_wanted && g < GROUPS; g++)
		decide(w, g);
}

/* The outcome of what is under way, unless the host does not answer. */
static void reply(struct fixture *w, size_t i)
{
	struct server *s = &w->servers[i];
	struct host_watch *watch = &w->watches[i];
	struct host_report report = {
	    .role = s->is_standby ? HOST_STANDBY : HOST_PRIMARY,
	    .timeline = s->is_standby ? 0 : s->timeline,
	    .position = s->position};

	s->replies_us = 0;
	if (s->is_up && s->is_hanging)
		return;
	if (!s->is_up)
		host_watch_failed(watch, WATCH_LOST, "Connection refused", w->now_us);
	else if (s->step == WATCH_CONNECT && s->is_refusing)
		host_watch_failed(
		    watch, WATCH_REFUSED, "pg_hba.conf rejects it", w->now_us);
	else if (s->step == WATCH_CONNECT)
		host_watch_connected(watch, w->now_us);
	else {
		host_watch_answered(watch, &report, "", w->now_us);
		for (int g = 0; g < GROUPS; g++)
			host_group_note(&w->groups[g], watch);
	}
	go_on(w, i);
}

/* The host ends, or goes on: what was under way gets its outcome. */
static void stir(struct fixture *w, size_t i)
{
	struct server *s = &w->servers[i];
	enum watch_phase phase = w->watches[i].phase;

	if (s->is_up && s->is_hanging)
		return;
	if (!s->is_up && (phase == WATCH_RESTING || phase == WATCH_ASKING)) {
		s->replies_us = 0;
		host_watch_failed(&w->watches[i], WATCH_LOST, "closed", w->now_us);
		go_on(w, i);
	} else if (phase == WATCH_CONNECTING || phase == WATCH_ASKING) {
		s->replies_us = w->now_us + 1;
	}
}

/* ---- what happens to hosts ---- */

static bool is_usable(const struct server *s)
{
	return s->is_up && !s->is_hanging && !s->is_refusing;
}

static uint32_t newest_timeline(const struct fixture *w)
{
	uint32_t newest = 0;

	for (size_t i = 0; i < w->count; i++)
		if (w->servers[i].timeline > newest)
			newest = w->servers[i].timeline;
	return newest;
}

static void happen(struct fixture *w)
{
	size_t i = draw(w, (unsigned)w->count);
	struct server *s = &w->servers[i];

	switch (draw(w, 10)) {
	case 0:
		s->is_up = !s->is_up;
		s->is_hanging = false;
		break;
	case 1:
		s->is_hanging = s->is_up && !s->is_hanging;
		break;
	case 2:
		s->is_refusing = !s->is_refusing;
		break;
	case 3: /* promoted */
		if (s->is_standby) {
			s->is_standby = false;
			s->timeline = newest_timeline(w) + 1;
			if (draw(w, 2))
				host_watch_hint(&w->watches[i]);
		}
		break;
	case 4: /* made a standby of the newest primary */
		s->is_standby = true;
		s->timeline = newest_timeline(w);
		break;
	case 5:
		host_watch_hint(&w->watches[i]);
		break;
	case 6: /* a pool has logged in, which happens while somebody needs the hosts */
		if (s->is_up && !s->is_hanging && w->policy.is_wanted)
			host_watch_heard(
			    &w->watches[i], &(struct host_report){0}, w->now_us);
		break;
	case 7: { /* SWITCHOVER TO */
		bool is_for_writers = draw(w, 2);
		struct host_group *g =
		    &w->groups[is_for_writers ? 0 : 1 + draw(w, GROUPS - 1)];
		if (!is_usable(s) || (is_for_writers && s->is_standby))
			break;
		host_group_choose(g, &w->watches[i]);
		if (is_for_writers)
			w->served = 0;
		break;
	}
	default:
		break;
	}
	for (size_t at = 0; at < w->count; at++)
		if (w->servers[at].is_up && !w->servers[at].is_standby)
			w->servers[at].position += draw(w, 1000);
	stir(w, i);
	go_on(w, i);
}

/* ---- after a while without events ---- */

/* The primary that must be in force, if it is beyond doubt. */
static const struct server *best_primary(const struct fixture *w)
{
	const struct server *best = NULL;

	for (size_t i = 0; i < w->count; i++) {
		const struct server *s = &w->servers[i];
		if (is_usable(s) && !s->is_standby &&
		    (!best || s->timeline > best->timeline))
			best = s;
	}
	return best;
}

static bool has_usable_standby(const struct fixture *w)
{
	for (size_t i = 0; i < w->count; i++)
		if (is_usable(&w->servers[i]) && w->servers[i].is_standby)
			return true;
	return false;
}

static void check_calm(struct fixture *w)
{
	const struct server *best = best_primary(w);
	const struct host_group *writers = &w->groups[0], *readers = &w->groups[1];

	for (size_t i = 0; i < w->count; i++) {
		const struct server *s = &w->servers[i];
		const struct host_verdict *v = &writers->members[i].verdict;
		if (is_usable(s))
			CHECK(v->value.state == HOST_UP);
		else if (!s->is_up)
			CHECK(v->value.state == HOST_DOWN);
		else if (s->is_hanging)
			CHECK(v->value.state == HOST_HANGS);
		else
			/* an open connection goes on */
			CHECK(v->value.state == HOST_REFUSES || *v->value.unasked ||
			      w->watches[i].phase >= WATCH_RESTING);
		if (is_usable(s) && host_group_serves(v))
			CHECK(!s->is_standby);
	}
	if (best && best->timeline >= writers->timeline)
		CHECK(writers->serves);
	if (best && best->timeline >= writers->timeline && !writers->chosen)
		CHECK(host_group_serves(&writers->members[best - w->servers].verdict));
	for (size_t i = 0; i < w->count; i++)
		if (has_usable_standby(w) &&
		    host_group_serves(&readers->members[i].verdict) &&
		    is_usable(&w->servers[i]))
			CHECK(w->servers[i].is_standby);
	/* whichever host SWITCHOVER has chosen */
	for (int g = 1; g < GROUPS && has_usable_standby(w); g++)
		CHECK(w->groups[g].serves);
}

/* ---- rest ---- */

/* Nobody needs the hosts any more, or somebody does again. */
static void turn_wanted(struct fixture *w)
{
	w->policy.is_wanted = !w->policy.is_wanted;
	for (int g = 0; g < GROUPS; g++) {
		w->group_wakes[g] = UINT64_MAX;
		if (w->policy.is_wanted)
			host_group_begin(&w->groups[g], w->now_us);
		else
			host_group_rest(&w->groups[g]);
	}
	for (size_t i = 0; i < w->count; i++) {
		go_on(w, i);
		CHECK(w->policy.is_wanted ||
		      (w->watches[i].phase == WATCH_APART &&
			  w->watches[i].value.state == HOST_NOT_TRIED));
	}
	w->rests += !w->policy.is_wanted;
}

/* ---- runs ---- */

static uint64_t next_time(const struct fixture *w)
{
	uint64_t at_us = UINT64_MAX;

	for (size_t i = 0; i < w->count; i++) {
		if (w->wakes[i] < at_us)
			at_us = w->wakes[i];
		if (w->servers[i].replies_us && w->servers[i].replies_us < at_us)
			at_us = w->servers[i].replies_us;
	}
	for (int g = 0; g < GROUPS; g++)
		if (w->group_wakes[g] < at_us)
			at_us = w->group_wakes[g];
	return at_us;
}

static void pass_until(struct fixture *w, uint64_t until_us)
{
	uint64_t at_us;

	while ((at_us = next_time(w)) <= until_us) {
		w->now_us = at_us > w->now_us ? at_us : w->now_us;
		for (size_t i = 0; i < w->count; i++) {
			if (w->servers[i].replies_us &&
			    w->servers[i].replies_us <= w->now_us)
				reply(w, i);
			if (w->wakes[i] <= w->now_us)
				go_on(w, i);
		}
		for (int g = 0; g < GROUPS; g++)
			if (w->group_wakes[g] <= w->now_us)
				decide(w, g);
	}
	w->now_us = until_us;
}

static void begin(struct fixture *w)
{
	struct host_watch *hosts[HOSTS_MOST];

	w->count = 1 + draw(w, HOSTS_MOST);
	w->now_us = 1000 * S;
	w->policy = (struct host_policy){.period_us = draw(w, 5) * S,
	    .hung_us = (1 + draw(w, 5)) * S,
	    .is_urgent = true,
	    .is_wanted = true};
	for (size_t i = 0; i < w->count; i++) {
		host_watch_init(&w->watches[i], "host", (int)i);
		w->servers[i] = (struct server){.is_up = draw(w, 4) > 0,
		    .is_standby = i > 0,
		    .timeline = 1,
		    .position = 1};
		hosts[i] = &w->watches[i];
	}
	for (int g = 0; g < GROUPS; g++) {
		struct host_group_rules rules = {.target = targets[g]};
		host_group_init(&w->groups[g]);
		host_group_adopt(&w->groups[g], &rules, hosts, w->count);
		host_group_begin(&w->groups[g], w->now_us);
	}
	for (size_t i = 0; i < w->count; i++)
		go_on(w, i);
}

static void end(struct fixture *w)
{
	for (int g = 0; g < GROUPS; g++)
		host_group_done(&w->groups[g]);
	for (size_t i = 0; i < w->count; i++)
		host_watch_done(&w->watches[i]);
}

static void run(struct fixture *w)
{
	begin(w);
	for (step_number = 0; step_number < STEPS; step_number++) {
		happen(w);
		if (draw(w, w->policy.is_wanted ? 40 : 4) == 0)
			turn_wanted(w);
		if (draw(w, 8) == 0 && w->policy.is_wanted) {
			/* attempts and questions are a second or a period apart, and
			 * each may hang */
			pass_until(w, w->now_us + 2 * w->policy.hung_us + 3 * S +
					  2 * w->policy.period_us);
			check_calm(w);
		} else {
			pass_until(w, w->now_us + draw(w, 3000) * MS);
		}
	}
	end(w);
}

/* ---- lag ---- */

/* A standby replays what the primary writes a moment later, and the primary rests for
 * long and then writes much. */
static void run_lag(struct fixture *w)
{
	struct host_watch watches[2], *hosts[] = {&watches[0], &watches[1]};
	const struct host_group_rules rules = {
	    .target = TARGET_STANDBY, .max_lag_us = 5 * S};
	struct host_report primary = {
	    .role = HOST_PRIMARY, .timeline = 1, .position = 1};
	struct host_report standby = {.role = HOST_STANDBY, .position = 1};
	uint64_t now_us = 1000 * S, stopped_us = 0, wake_us, period_us;
	struct host_change change;
	struct host_group g;

	host_group_init(&g);
	host_watch_init(&watches[0], "a", 1);
	host_watch_init(&watches[1], "b", 2);
	host_group_adopt(&g, &rules, hosts, 2);
	host_group_begin(&g, now_us);
	period_us = (1 + draw(w, 4)) * S;
	for (step_number = 0; step_number < 2000; step_number++) {
		bool is_writing = step_number / 100 % 2;
		primary.position += is_writing ? draw(w, 100000000) : 0;
		host_watch_answered(&watches[0], &primary, "", now_us);
		host_group_note(&g, &watches[0]);
		host_group_decide(&g, now_us, &change, &wake_us);
		now_us += draw(w, 100) * MS;
		/* it is as far as the primary was a moment ago, or it has stopped */
		if (stopped_us == 0)
			standby.position = primary.position - (is_writing ? 1 : 0);
		host_watch_answered(&watches[1], &standby, "", now_us);
		host_group_note(&g, &watches[1]);
		host_group_decide(&g, now_us, &change, &wake_us);
		const struct host_verdict *v = &g.members[1].verdict;
		if (stopped_us == 0)
			CHECK(v->is_fit && (step_number == 0 || v->lag_us < S));
		else if (primary.position == standby.position)
			CHECK(v->is_fit && v->lag_us == 0);
		else if (is_writing && now_us - stopped_us > 2 * period_us + 15 * S)
			CHECK(!v->is_fit && v->lag_us > 5 * S &&
			      v->lag_us <= now_us - stopped_us + S);
		if (step_number % 200 == 130)
			stopped_us = draw(w, 2) ? now_us : 0;
		if (step_number % 200 == 199)
			stopped_us = 0;
		now_us += period_us;
	}
	host_group_done(&g);
	host_watch_done(&watches[0]);
	host_watch_done(&watches[1]);
}

/* The only host of its databases: servers that are silent, because queries are long or
 * because it hangs, and a monitor that is told of them once a second. */
static void run_lone(struct fixture *w)
{
	struct host_policy policy = {.is_lone = true, .is_wanted = true};
	uint64_t now_us = 1000 * S, wake_us, frozen_us = 0, heard_us = now_us;
	struct host_report report = {.role = HOST_PRIMARY};
	uint64_t attempts = 0, first_us = now_us;
	struct host_watch watch;
	enum watch_step step;

	policy.period_us = (draw(w, 2) ? 1 + draw(w, 9) : 0) * S;
	policy.hung_us = (1 + draw(w, 5)) * S;
	host_watch_init(&watch, "a", 1);
	host_watch_alive(&watch, now_us);
	for (step_number = 0; step_number < 4000; step_number++) {
		now_us += S;
		policy.is_urgent = step_number / 40 % 2;
		bool is_silent = frozen_us || step_number / 10 % 3 == 0;
		/* what it owed is answered when it goes on */
		if (!frozen_us && watch.phase == WATCH_CONNECTING)
			host_watch_connected(&watch, now_us);
		if (!frozen_us && watch.phase == WATCH_ASKING)
			host_watch_answered(&watch, &report, "", now_us);
		if (!is_silent) {
			host_watch_alive(&watch, now_us);
			heard_us = now_us;
			CHECK(watch.value.state == HOST_UP);
		}
		while ((step = host_watch_next(&watch, &policy, now_us, &wake_us)) !=
		       WATCH_NOTHING) {
			attempts += step == WATCH_CONNECT;
			if (frozen_us || step == WATCH_CLOSE)
				continue;
			/* nothing is asked while the servers speak */
			CHECK(is_silent);
			if (step == WATCH_CONNECT)
				host_watch_connected(&watch, now_us);
			else
				host_watch_answered(&watch, &report, "", now_us);
		}
		/* no connection is kept */
		CHECK(watch.phase == WATCH_APART || frozen_us);
		uint64_t first_wait_us = policy.is_urgent ? S : policy.period_us;
		if (!frozen_us)
			CHECK(watch.value.state == HOST_UP ||
			      now_us - heard_us < policy.hung_us + 2 * S);
		else if (policy.period_us &&
			 now_us - frozen_us > policy.period_us + policy.hung_us + 2 * S)
			CHECK(watch.value.state == HOST_HANGS);
		else if (policy.is_urgent && step_number % 40 > 12 &&
			 watch.begun_us == 0)
			CHECK(now_us - heard_us < first_wait_us + 2 * S);
		if (step_number % 100 == 99) {
			frozen_us = frozen_us ? 0 : now_us;
			heard_us = now_us;
		}
	}
	/* a long query costs one question in a period */
	CHECK(!policy.period_us || attempts < (now_us - first_us) / S);
	CHECK(policy.period_us || attempts > 0);
	host_watch_done(&watch);
}

static void run_seed(struct fixture *sums, uint64_t seed)
{
	struct fixture w = {.random = seed | 1};

	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	for (run_number = 0; run_number < RUNS; run_number++) {
		run(&w);
		sums->decisions += w.decisions;
		sums->failovers += w.failovers;
		sums->rests += w.rests;
		w = (struct fixture){.random = w.random};
	}
	for (run_number = 0; run_number < 20; run_number++)
		run_lag(&w);
	for (run_number = 0; run_number < 20; run_number++)
		run_lone(&w);
}

int main(int argc, char **argv)
{
	uint64_t seed = seed_of_run(argc, argv);
	struct fixture sums = {0};

	/* neighbours begin with numbers that have nothing in common */
	for (uint64_t i = 0; i < SEEDS; i++)
		run_seed(&sums, seed + i * UINT64_C(0x9e3779b97f4a7c15));
	printf("%lu decisions, %lu failovers, %lu rests\n", sums.decisions,
	    sums.failovers, sums.rests);
	return 0;
}
