/*
 * How many SCRAM secrets have how many rounds.  A user who does not exist is asked for
 * a proof with the rounds that most users have: others would tell that there is no such
 * user.
 */
#ifndef AUTH_ROUNDS_H
#define AUTH_ROUNDS_H

#include <stdint.h>

/* Secrets with more different numbers of rounds are not counted. */
enum { ROUNDS_KINDS = 8 };

/* Zeroed = nothing is counted. */
struct rounds {
	struct {
		uint32_t rounds, count;
	} kinds[ROUNDS_KINDS];
};

/* One secret with these rounds more (change 1), or less (-1). */
void rounds_count(struct rounds *r, uint32_t rounds, int change);
/* The number of rounds that most secrets have, and in *count how many; 0: there are no
 * secrets. */
uint32_t rounds_usual(const struct rounds *r, uint32_t *count);

#endif
