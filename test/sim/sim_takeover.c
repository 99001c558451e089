/*
 * Takeovers: from time to time another process of the pooler is started with -R, and
 * either of the two may be killed at any step.  If nobody is left, one is started as
 * usual.
 */
#include <stdio.h>

#include "sim_net.h"
#include "sim_process.h"

enum {
	FIRST_US = 3000000,
	MOST_US = 40000000,
	STEPS = 900,
	ALIVE_MOST = 3,
	CALM_US = 2000000,
	YOUNG_US = 200000
};

static struct {
	struct event event, restart;
	uint64_t rng;
	struct process *victim; /* is killed after so many steps */
	uint64_t steps;
	bool is_restarting;
	const struct process *ended; /* whose place is to be taken */
	uint64_t changed_us;         /* when a process has begun or ended */
} operator;

/* Whoever serves alone is found by its pidfile and its socket. */
static void check_files(const struct process *p)
{
	FILE *f;
	int pid = 0;

	if (process_count_alive() != 1 || !p->is_up || world.counts.kills ||
	    world.now_us < operator.changed_us + CALM_US ||
			   world.options.faults & FAULT_RELOAD)
		return;
	f = fopen("pid", "r");
	if (f && fscanf(f, "%d", &pid) != 1)
		pid = 0;
	if (f)
		fclose(f);
	MUST(pid == p->pid, "the pidfile has %d, and process %d serves", pid, p->pid);
	MUST(local_is_served("./.s.PGSQL.6432", p),
	    "process %d is not found at its socket", p->pid);
}

static void operate(struct event *e)
{
	struct process *elder = process_serving(), *young;

	event_in(e, draw_between(&operator.rng, FIRST_US, MOST_US));
	if (elder)
		check_files(elder);
	if (!elder || !elder->is_up || process_count_alive() >= ALIVE_MOST ||
	    !draw_fault(&operator.rng, FAULT_TAKEOVER, 1000000))
		return;
	world.counts.takeovers++;
	operator.changed_us = world.now_us;
	young = process_start(true);
	if (operator.victim || !draw_fault(&operator.rng, FAULT_KILL, 500000))
		return;
	operator.victim = draw_chance(&operator.rng, 500) ? elder : young;
	operator.steps = draw_below(&operator.rng, STEPS);
}

void takeover_init(void)
{
	operator.rng = rng_for("operator", 0);
	operator.event.run = operate;
	if (world.options.faults & FAULT_TAKEOVER)
		event_in(
		    &operator.event, draw_between(&operator.rng, FIRST_US, MOST_US));
}

bool takeover_kills(struct process *p)
{
	struct process *victim = operator.victim;

	if (!victim || victim != p || world.is_healing || operator.steps--> 0)
		return false;
	operator.victim = NULL;
	world.counts.kills++;
	process_kill(p);
	return true;
}

/* Whether one lives that began later, and so serves or tries to. */
static bool has_younger(const struct process *p)
{
	const struct process *other;

	for (unsigned i = 0; (other = process_number(i)); i++)
		if (other->pid > p->pid && !other->is_over)
			return true;
	return false;
}

static void start_again(struct event *e)
{
	(void)e;
	operator.is_restarting = false;
	/* a takeover may have begun meanwhile, and serves alone */
	if (has_younger(operator.ended))
		return;
	config_write_calm();
	process_start(false);
}

void takeover_process_over(struct process *p)
{
	bool is_alone = process_count_alive() == 0;
	/* it has no socket: whoever has started it starts it again */
	bool has_not_begun =
	    !p->is_up && !p->is_reboot && world.options.faults & FAULT_CALLS;

	operator.changed_us = world.now_us;
	if (operator.victim == p)
		operator.victim = NULL;
	if (world.is_ending) {
		world.is_over = is_alone;
		return;
	}
	MUST(p->is_killed || p->code == 0 || p->is_reboot || has_not_begun ||
		 world.counts.kills,
	    "process %d ends with %d", p->pid, p->code);
	MUST(p->is_killed || p->code != 0 || !is_alone || world.counts.kills,
	    "process %d ends although nobody has taken over", p->pid);
	MUST(
	    !is_alone || has_not_begun || world.counts.kills, "nobody serves any more");
	/* what is left serves those who are there, and lets nobody in */
	if (!is_alone && (has_younger(p) ||
			     (p->is_killed ? !p->is_up : p->code == 0 || p->is_reboot)))
		return;
	operator.restart.run = start_again;
	operator.ended = p;
	operator.is_restarting = true;
	event_in(&operator.restart, draw_between(&operator.rng, 1000, 2000000));
}

bool takeover_is_young(void)
{
	return process_count_alive() > 1 &&
	       world.now_us < operator.changed_us + YOUNG_US;
}

bool takeover_is_done(void)
{
	return process_count_alive() == 1 && !operator.is_restarting;
}
