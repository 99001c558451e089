/*
 * Time, chance and events of the simulated world, its trace, and its failures.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

struct world world;
uint64_t sim_disturbed_us;

enum { LOG_KEPT = 60, LINE_MOST = 300 };
#define LAST_US (UINT64_MAX >> NUMBER_BITS)
static char kept[LOG_KEPT][LINE_MOST];
static unsigned kept_count;

/* ---- chance ---- */

uint64_t draw(uint64_t *rng)
{
	uint64_t z = *rng += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t draw_below(uint64_t *rng, uint64_t most)
{
	return most ? draw(rng) % most : 0;
}

uint64_t draw_between(uint64_t *rng, uint64_t a, uint64_t b)
{
	return a + draw_below(rng, b - a + 1);
}

bool draw_chance(uint64_t *rng, unsigned per_mille)
{
	return draw_below(rng, 1000) < per_mille;
}

bool draw_fault(uint64_t *rng, enum fault fault, unsigned per_million)
{
	bool is_due = draw_below(rng, 1000000) < per_million;

	if (!is_due || !(world.options.faults & fault) || world.is_healing)
		return false;
	world.counts.faults++;
	return true;
}

uint64_t rng_for(const char *what, uint64_t number)
{
	uint64_t state = world.options.seed;

	for (; *what; what++)
		state = (state ^ (uint8_t)*what) * UINT64_C(1099511628211);
	state ^= number * UINT64_C(0x9e3779b97f4a7c15);
	(void)draw(&state);
	return state;
}

/* ---- events ---- */

void event_at(struct event *e, uint64_t at_us)
{
	event_cancel(e);
	if (at_us < world.now_us)
		at_us = world.now_us;
	if (at_us > LAST_US)
		at_us = LAST_US;
	MUST(!(world.event_count >> NUMBER_BITS) && world.now_us < LAST_US,
	    "the run is too long");
	/* those of the same time keep their order */
	heap_put(&world.events, &e->node, at_us << NUMBER_BITS | world.event_count++);
}

void event_cancel(struct event *e)
{
	if (heap_has(&e->node))
		heap_remove(&world.events, &e->node);
}

/* ---- the trace ---- */

static void mix(uint64_t v)
{
	world.hash = (world.hash ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	world.hash ^= world.hash >> 29;
}

static void mix_text(const char *text)
{
	for (; *text; text++)
		mix((uint8_t)*text);
}

void seen(const char *fmt, ...)
{
	va_list ap;

	printf("%11.6f ", (double)world.now_us / 1e6);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

void note(const char *what, uint64_t a, uint64_t b)
{
	mix(world.now_us);
	mix_text(what);
	mix(a);
	mix(b);
	SEEN("%s %llu %llu", what, (unsigned long long)a, (unsigned long long)b);
}

void note_bytes(const char *what, uint64_t a, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	size_t rest = len;

	for (uint64_t v = 0; rest; v = 0) {
		size_t n = rest < sizeof(v) ? rest : sizeof(v);
		memcpy(&v, p, n);
		mix(v);
		p += n;
		rest -= n;
	}
	note(what, a, len);
}

void note_log(const void *bytes, size_t len)
{
	const char *at = bytes, *end = at + len;

	note_bytes("log", 0, bytes, len);
	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((stop ? stop : end) - at);
		char *line = kept[kept_count++ % LOG_KEPT];
		snprintf(line, LINE_MOST, "%.*s",
		    (int)(n < LINE_MOST ? n : LINE_MOST - 1), at);
		SEEN("LOG %s", line);
		at = stop ? stop + 1 : end;
	}
}

void failed(const char *fmt, ...)
{
	const struct sim_options *o = &world.options;
	va_list ap;

	fflush(stdout);
	for (unsigned i = kept_count > LOG_KEPT ? kept_count - LOG_KEPT : 0;
	     i < kept_count; i++)
		fprintf(stderr, "  log: %s\n", kept[i % LOG_KEPT]);
	fprintf(stderr, "FAILED: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr,
	    "\nAT: %.6f\nREPEAT: sim --seed=%llu --clients=%u --mask=%llu --seconds=%u "
	    "--faults=%u --workers=%u\n",
	    (double)world.now_us / 1e6, (unsigned long long)o->seed, o->clients,
	    (unsigned long long)o->mask, o->seconds, o->faults, o->workers);
	fflush(stderr);
	__real__exit(3);
}

/* ---- what happens ---- */

static unsigned one_of(uint64_t *rng, unsigned a, unsigned b, unsigned c)
{
	const unsigned values[] = {a, a, b, c};

	return values[draw_below(rng, 4)];
}

void world_init(const struct sim_options *options)
{
	uint64_t rng;

	world.options = *options;
	world.now_us = UINT64_C(1000) * 1000000;
	list_init(&world.tasks);
	list_init(&world.ready);
	world.rng = rng_for("world", 0);
	rng = rng_for("habits", 0);
	world.habits.cancels = one_of(&rng, 60000, 250000, 20000);
	world.habits.slow = one_of(&rng, 200, 600, 50);
	world.habits.slow_us = one_of(&rng, 20000, 3000, 100000);
	world.habits.work = one_of(&rng, 50, 500, 0);
	world.habits.work_us = one_of(&rng, 2000, 30000, 500);
	world.habits.early = one_of(&rng, 200, 700, 50);
	world.habits.starts = one_of(&rng, 200, 600, 50);
	world.habits.crowd = one_of(&rng, 0, 900, 500);
	world.habits.crowded = (unsigned)draw(&rng);
	world.habits.cancel_us = one_of(&rng, 0, 3000, 20000);
	world.habits.turn_us = one_of(&rng, 15, 15, 1500);
	/* requests to cancel that come late, to what is short, in every eighth run */
	if (draw_chance(&rng, 125)) {
		world.habits.cancels = 250000;
		world.habits.work = 500;
		world.habits.work_us = 2000;
		world.habits.cancel_us = 3000;
		world.habits.sets = 250;
	}
	/* few that listen at a time, and they come and go, in every eighth run */
	if (draw_chance(&rng, 125)) {
		world.habits.crowd = 900;
		world.habits.crowded = 4;
		world.habits.hears = 1000;
		world.habits.turn_us = 3000;
	}
}
