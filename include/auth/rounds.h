/*
 * How many SCRAM secrets have how many rounds.  Users who do not exist are asked for
 * proofs with the rounds that those who exist have: others would tell that there is no
 * such user.
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
/* Rounds for one of many names that do not exist: over all values of `pick` they are
 * distributed as those of the secrets, of which others_count more have others_rounds.
 * A few secrets more or less change the answer for few values. */
uint32_t rounds_like(const struct rounds *r, uint32_t others_count,
    uint32_t others_rounds, uint32_t pick);

#endif
