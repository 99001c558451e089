/* links: net base */
/*
 * The loop's deadlines against a plain array: random ones are set, moved and cleared
 * from inside and outside of expiry.  Each fires once, in order, never early, never
 * later than in the turn in which it is due.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "net/loop.h"
#include "prop.h"

enum { DEADLINES = 300, TURNS = 300, REACH_US = 6000 };

struct fixture;

struct entry {
	struct deadline deadline;
	uint64_t expected_us; /* the expected time; UINT64_MAX: not set */
	struct fixture *fixture;
};

struct fixture {
	struct loop *loop;
	struct mem mem;
	uint64_t random;
	struct entry entries[DEADLINES];
	struct later act, turn_end;
	struct deadline tick; /* makes the loop turn again and again */
	int turns;
	unsigned long fired;
};

static unsigned draw(struct fixture *w, unsigned below)
{
	return (unsigned)(random_next(&w->random) >> 20) % below;
}

static void change_one(struct fixture *w)
{
	struct entry *e = &w->entries[draw(w, DEADLINES)];
	uint64_t now_us = loop_now(w->loop);

	switch (draw(w, 8)) {
	case 0:
		deadline_clear(w->loop, &e->deadline);
		break;
	case 1:
		deadline_set(w->loop, &e->deadline, UINT64_MAX);
		break;
	case 2: /* like a usual timeout: later than the others */
		deadline_set(w->loop, &e->deadline, now_us + REACH_US);
		break;
	case 3: /* at the same time as other deadlines */
		deadline_set(w->loop, &e->deadline, (now_us / 1000 + 2) * 1000);
		break;
	default:
		deadline_set(w->loop, &e->deadline, now_us + 1 + draw(w, REACH_US));
	}
	e->expected_us = e->deadline.at_us;
}

static void expired(struct deadline *d)
{
	struct entry *e = container_of(d, struct entry, deadline);
	struct fixture *w = e->fixture;

	CHECK(e->expected_us <= loop_now(w->loop));
	CHECK(d->at_us == UINT64_MAX && d->index == 0);
	for (int i = 0; i < DEADLINES; i++)
		CHECK(w->entries[i].expected_us >= e->expected_us);
	e->expected_us = UINT64_MAX;
	w->fired++;
	for (unsigned n = draw(w, 4); n; n--)
		change_one(w);
	/* A deadline in the past fires in the next turn, not at once. */
	if (draw(w, 16) == 0) {
		deadline_set(w->loop, d, loop_now(w->loop) - draw(w, 1000));
		CHECK(d->at_us > loop_now(w->loop));
		e->expected_us = d->at_us;
	}
}

static void act(struct later *l)
{
	struct fixture *w = container_of(l, struct fixture, act);

	for (int i = 0; i < 30; i++)
		change_one(w);
}

static void check_turn(struct later *l)
{
	struct fixture *w = container_of(l, struct fixture, turn_end);

	for (int i = 0; i < DEADLINES; i++) {
		CHECK(w->entries[i].expected_us > loop_now(w->loop));
		CHECK(w->entries[i].expected_us == w->entries[i].deadline.at_us);
	}
	if (++w->turns == TURNS)
		loop_stop(w->loop);
}

static void run_turn(struct deadline *d)
{
	struct fixture *w = container_of(d, struct fixture, tick);

	deadline_set(w->loop, d, loop_now(w->loop) + 1000);
	loop_later(w->loop, &w->act);
	loop_at_turn_end(w->loop, &w->turn_end);
}

int main(int argc, char **argv)
{
	struct fixture *w = mem_zero(sizeof(*w));
	uint64_t seed = seed_of_run(argc, argv);
	struct err err;

	w->random = seed * 2 + 88172645463325253u;
	mem_init(&w->mem);
	w->loop = loop_new(&w->mem, &err);
	CHECK(w->loop);
	w->act.run = act;
	w->turn_end.run = check_turn;
	for (int i = 0; i < DEADLINES; i++) {
		deadline_init(&w->entries[i].deadline, expired);
		w->entries[i].expected_us = UINT64_MAX;
		w->entries[i].fixture = w;
	}
	deadline_init(&w->tick, run_turn);
	deadline_set(w->loop, &w->tick, 0);
	loop_run(w->loop);
	CHECK(w->fired > TURNS);
	loop_free(&w->loop);
	mem_free(w);
	return 0;
}
