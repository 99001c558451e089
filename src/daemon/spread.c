/*
 * Looks at the workers, and carries out what spread_plan decides: on the giver's thread
 * clients are chosen and described, a few at a time.
 */
#include "daemon/spread.h"

#include "daemon/daemon.h"
#include "daemon/spread_plan.h"
#include "moving/relocate.h"
#include "session/crew.h"

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

struct spread {
	struct site *control;
	struct deadline due;
	enum phase phase;
	struct spread_plan plan;
	unsigned steps_left;
	size_t moved_count;
	struct seen seen[CREW_MOST];
};

static struct crew *crew_of(const struct spread *s)
{
	return s->control->crew->crew;
}

static void arm(struct spread *s, enum phase phase, uint64_t in_us)
{
	s->phase = phase;
	deadline_set(s->control->loop, &s->due, loop_now(s->control->loop) + in_us);
}

/* ---- comparing ---- */

struct look {
	struct seen *seen;
	struct spread_load load;
};

/* Runs on the worker's thread. */
static void look_at(struct site *site, void *ctx)
{
	struct look *look = ctx;
	struct seen now = {loop_now(site->loop), loop_busy_us(site->loop)};
	uint64_t past_us = now.at_us - look->seen->at_us;
	uint64_t busy_us = now.busy_us - look->seen->busy_us;

	look->load = (struct spread_load){.is_there = true,
	    .clients = (unsigned)site_client_count(site),
	    .busy_percent =
		busy_us < past_us ? (unsigned)(100 * busy_us / past_us) : 100};
	*look->seen = now;
}

static void look_at_all(struct spread *s, struct spread_load *loads)
{
	struct crew *crew = crew_of(s);

	for (unsigned i = 0; i < crew->worker_count; i++) {
		struct look look = {.seen = &s->seen[i]};
		(void)crew_call(&crew->members[i], look_at, &look);
		loads[i] = look.load;
	}
}

/* New clients are better off at other workers for the next second. */
static void note_overwork(const struct spread *s)
{
	struct crew *crew = crew_of(s);

	for (unsigned i = 0; i < crew->worker_count; i++)
		crew->members[i].is_overworked =
		    s->plan.kind == SPREAD_ACTIVE && i == s->plan.from;
}

/* ---- on the giver's thread ---- */

static void watch(struct site *site, void *ctx)
{
	(void)ctx;
	relocate_watch(site);
}

struct choice {
	const struct spread_plan *plan;
	size_t count;
};

static void choose(struct site *site, void *ctx)
{
	struct choice *choice = ctx;
	unsigned amount = choice->plan->amount;

	choice->count = choice->plan->kind == SPREAD_ACTIVE
			    ? relocate_choose_active(site, amount)
			    : relocate_choose_idle(site, amount);
}

struct step {
	struct crew_member *to;
	struct list gone;
	size_t left;
};

static void take_step(struct site *site, void *ctx)
{
	struct step *step = ctx;

	step->left = relocate_step(site, step->to, &step->gone);
}

static void end_at(struct site *site, void *ctx)
{
	(void)ctx;
	relocate_end(site);
}

/* For a giver that does not answer. */
struct reminder {
	struct letter letter;
	struct crew_member *to;
};

static void reminder_opened(struct letter *letter)
{
	struct reminder *reminder = container_of(letter, struct reminder, letter);

	relocate_end(reminder->to->site);
	mem_free(reminder);
}

static void end_surely(struct crew_member *giver)
{
	struct reminder *reminder;

	if (crew_call(giver, end_at, NULL))
		return;
	reminder = mem_zero(sizeof(*reminder));
	reminder->letter.open = reminder_opened;
	reminder->to = giver;
	crew_post(giver, &reminder->letter);
}

/* ---- the control thread ---- */

static struct crew_member *giver_of(const struct spread *s)
{
	return &crew_of(s)->members[s->plan.from];
}

static void end(struct spread *s)
{
	struct spread_load ignored[CREW_MOST];

	end_surely(giver_of(s));
	if (s->moved_count)
		log_put(s->control->log, LEVEL_DEBUG | KIND_CONNECTIONS, NULL,
		    "%zu clients have moved from worker %u to worker %u",
		    s->moved_count, s->plan.from, s->plan.to);
	s->moved_count = 0;
	/* the next comparison counts from here on */
	look_at_all(s, ignored);
	arm(s, PHASE_LOOK, LOOK_US);
}

static void step(struct spread *s)
{
	struct crew *crew = crew_of(s);
	struct step step = {.to = &crew->members[s->plan.to]};

	list_init(&step.gone);
	if (!crew_is_deaf(crew, s->plan.to))
		(void)crew_call(giver_of(s), take_step, &step);
	s->moved_count += step.gone.count;
	relocate_post(&step.gone);
	if (step.left && --s->steps_left)
		arm(s, PHASE_MOVE, STEP_US);
	else
		end(s);
}

static void begin_moves(struct spread *s)
{
	struct choice choice = {.plan = &s->plan};

	(void)crew_call(giver_of(s), choose, &choice);
	s->steps_left = STEPS_MOST;
	if (choice.count)
		step(s);
	else
		end(s);
}

static void compare(struct spread *s)
{
	struct spread_load loads[CREW_MOST];

	look_at_all(s, loads);
	s->plan = spread_plan(loads, crew_of(s)->worker_count);
	note_overwork(s);
	if (s->plan.kind == SPREAD_IDLE) {
		begin_moves(s);
	} else if (s->plan.kind == SPREAD_ACTIVE) {
		(void)crew_call(giver_of(s), watch, NULL);
		arm(s, PHASE_WATCH, WATCH_US);
	} else {
		arm(s, PHASE_LOOK, LOOK_US);
	}
}

static bool may_move(const struct spread *s)
{
	const struct daemon *d = site_daemon(s->control);

	return !s->control->catalog->suspended && !d->giving && !d->taking;
}

static void due(struct deadline *deadline)
{
	struct spread *s = container_of(deadline, struct spread, due);

	if (!may_move(s))
		arm(s, PHASE_LOOK, LOOK_US);
	else if (s->phase == PHASE_LOOK)
		compare(s);
	else if (s->phase == PHASE_WATCH)
		begin_moves(s);
	else
		step(s);
}

void spread_interrupt(struct site *site)
{
	struct spread *s = site_daemon(site)->spread;

	if (s && s->phase != PHASE_LOOK)
		end(s);
}

void spread_start(struct daemon *d)
{
	struct spread_load ignored[CREW_MOST];

	if (!d->crew)
		return;
	d->spread = mem_zero(sizeof(*d->spread));
	d->spread->control = &d->site;
	deadline_init(&d->spread->due, due);
	look_at_all(d->spread, ignored);
	arm(d->spread, PHASE_LOOK, LOOK_US);
}

void spread_stop(struct daemon *d)
{
	if (!d->spread)
		return;
	deadline_clear(d->site.loop, &d->spread->due);
	mem_free(d->spread);
	d->spread = NULL;
}
