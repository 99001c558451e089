/*
 * What property tests share: numbers drawn from a seed, and conditions that must hold.
 */
#ifndef TEST_PROP_PROP_H
#define TEST_PROP_PROP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

/* The run and step to print with a failure, of all files of a program; programs that do
 * not count leave them 0. */
extern unsigned run_number, step_number;
__attribute__((weak)) unsigned run_number;
__attribute__((weak)) unsigned step_number;

#define CHECK(condition)                                                           \
	do {                                                                       \
		if (!(condition)) {                                                \
			fprintf(stderr, "%s:%d: %s (run %u, step %u)\n", __FILE__, \
			    __LINE__, #condition, run_number, step_number);        \
			abort();                                                   \
		}                                                                  \
	} while (0)

/* The seed that the command line names, or a new one; it is printed, so that a run can
 * be repeated. */
static inline uint64_t seed_of_run(int argc, char **argv)
{
	uint64_t seed = 0;

	mem_random(&seed, sizeof(seed) / 2);
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	printf("seed %llu\n", (unsigned long long)seed);
	return seed;
}

/* The next random number, never 0; *state is the state of the generator. */
static inline uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
