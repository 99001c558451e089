/*
 * Looks at the workers, and carries out what rebalance_plan decides: on the giver's
 * thread clients are chosen and sent, a few at a time.
 */
#include "daemon/rebalance.h"

#include "daemon/daemon.h"
#include "daemon/rebalance_plan.h"
#include "session/migrate.h"
#include "session/workers.h"

/* How often the workers are compared, and for how long it is counted then what the
 * clients of a busy one do. */
enum { LOOK_US = 1000000, WATCH_US = 200000 };

/* Clients that were chosen rest for moments only: it is tried so often, with this time
 * between. */
enum { STEP_US = 2000, STEPS_MOST = 50 };

enum phase {
	PHASE_LOOK,  /* the next thing to do is to compare the workers */
	PHASE_WATCH, /* to choose among the clients of the giver */
	PHASE_MOVE,  /* to send some of those that were chosen */
};

/* When a worker was last looked at, and how long it had been busy until then. */
struct seen {
	uint64_t at_us, busy_us;
};

struct rebalance {
	struct site *control;
	struct deadline due;
	enum phase phase;
	struct rebalance_plan plan;
	unsigned steps_left;
	size_t moved_count;
	struct seen seen[WORKERS_MOST];
};

static struct workers *workers_of(const struct rebalance *r)
{
	return r->control->worker->workers;
}

static void arm(struct rebalance *r, enum phase phase, uint64_t in_us)
{
	r->phase = phase;
	deadline_set(r->control->loop, &r->due, loop_now(r->control->loop) + in_us);
}

/* ---- comparing ---- */

struct look {
	struct seen *seen;
	struct rebalance_load load;
};

/* Runs on the worker's thread.  Ends what was begun there, because nothing goes between
 * a comparison and the next decision. */
static void begin_anew(struct site *site, void *ctx)
{
	struct look *look = ctx;
	struct seen now = {loop_now(site->loop), loop_busy_us(site->loop)};
	uint64_t past_us = now.at_us - look->seen->at_us;
	uint64_t busy_us = now.busy_us - look->seen->busy_us;

	look->load = (struct rebalance_load){.is_there = true,
	    .clients = (unsigned)site_client_count(site),
	    .busy_percent =
		busy_us < past_us ? (unsigned)(100 * busy_us / past_us) : 100};
	*look->seen = now;
	migrate_end(site);
}

static void begin_all_anew(struct rebalance *r, struct rebalance_load *loads)
{
	struct workers *workers = workers_of(r);

	for (unsigned i = 0; i < workers->worker_count; i++) {
		struct look look = {.seen = &r->seen[i]};
		(void)workers_call(&workers->members[i], begin_anew, &look);
		loads[i] = look.load;
	}
}

/* ---- on the giver's thread ---- */

static void watch(struct site *site, void *ctx)
{
	(void)ctx;
	migrate_watch(site);
}

struct choice {
	const struct rebalance_plan *plan;
	size_t count;
};

static void choose(struct site *site, void *ctx)
{
	struct choice *choice = ctx;
	unsigned amount = choice->plan->amount;

	choice->count = choice->plan->kind == REBALANCE_ACTIVE
			    ? migrate_choose_active(site, amount)
			    : migrate_choose_idle(site, amount);
}

struct step {
	struct worker *to;
	size_t gone, left;
};

static void take_step(struct site *site, void *ctx)
{
	struct step *step = ctx;

	step->left = migrate_step(site, step->to, &step->gone);
}

/* ---- the control thread ---- */

static struct worker *giver_of(const struct rebalance *r)
{
	return &workers_of(r)->members[r->plan.from];
}

static void end(struct rebalance *r)
{
	struct rebalance_load ignored[WORKERS_MOST];

	if (r->moved_count)
		log_put(r->control->log, LEVEL_DEBUG | KIND_CONNECTIONS, NULL,
		    "%zu clients have moved from worker %u to worker %u",
		    r->moved_count, r->plan.from, r->plan.to);
	r->moved_count = 0;
	/* the next comparison counts from here on; a worker that does not answer ends
	 * what it has begun then */
	begin_all_anew(r, ignored);
	arm(r, PHASE_LOOK, LOOK_US);
}

static void step(struct rebalance *r)
{
	struct workers *workers = workers_of(r);
	struct step step = {.to = &workers->members[r->plan.to]};

	if (!workers_is_unresponsive(workers, r->plan.to))
		(void)workers_call(giver_of(r), take_step, &step);
	r->moved_count += step.gone;
	if (step.left && --r->steps_left)
		arm(r, PHASE_MOVE, STEP_US);
	else
		end(r);
}

static void begin_moves(struct rebalance *r)
{
	struct choice choice = {.plan = &r->plan};

	(void)workers_call(giver_of(r), choose, &choice);
	r->steps_left = STEPS_MOST;
	if (choice.count)
		step(r);
	else
		end(r);
}

static void compare(struct rebalance *r)
{
	struct workers *workers = workers_of(r);
	struct rebalance_load loads[WORKERS_MOST];

	begin_all_anew(r, loads);
	r->plan = rebalance_plan(loads, workers->worker_count);
	/* new clients are better off at other workers for the next second */
	for (unsigned i = 0; i < workers->worker_count; i++)
		workers->members[i].is_overworked =
		    r->plan.kind == REBALANCE_ACTIVE && i == r->plan.from;
	if (r->plan.kind == REBALANCE_IDLE) {
		begin_moves(r);
	} else if (r->plan.kind == REBALANCE_ACTIVE) {
		(void)workers_call(giver_of(r), watch, NULL);
		arm(r, PHASE_WATCH, WATCH_US);
	} else {
		arm(r, PHASE_LOOK, LOOK_US);
	}
}

static void due(struct deadline *deadline)
{
	struct rebalance *r = container_of(deadline, struct rebalance, due);
	const struct daemon *d = site_daemon(r->control);

	if (r->control->catalog->suspended || d->giving || d->taking)
		arm(r, PHASE_LOOK, LOOK_US);
	else if (r->phase == PHASE_LOOK)
		compare(r);
	else if (r->phase == PHASE_WATCH)
		begin_moves(r);
	else
		step(r);
}

void rebalance_interrupt(struct site *site)
{
	struct rebalance *r = site_daemon(site)->rebalance;

	if (r && r->phase != PHASE_LOOK)
		end(r);
}

void rebalance_start(struct daemon *d)
{
	struct rebalance_load ignored[WORKERS_MOST];

	if (!d->workers)
		return;
	d->rebalance = mem_zero(sizeof(*d->rebalance));
	d->rebalance->control = &d->site;
	deadline_init(&d->rebalance->due, due);
	begin_all_anew(d->rebalance, ignored);
	arm(d->rebalance, PHASE_LOOK, LOOK_US);
}

void rebalance_stop(struct daemon *d)
{
	if (!d->rebalance)
		return;
	deadline_clear(d->site.loop, &d->rebalance->due);
	mem_free(d->rebalance);
	d->rebalance = NULL;
}
