/*
 * Counts of secrets by their number of rounds.
 */
#include "auth/rounds.h"

#include <stddef.h>

/* The place of this number of rounds, or a free one; ROUNDS_KINDS: there is none. */
static size_t find_kind(const struct rounds *r, uint32_t rounds)
{
	size_t place = ROUNDS_KINDS;

	for (size_t i = 0; i < ROUNDS_KINDS; i++) {
		if (r->kinds[i].count && r->kinds[i].rounds == rounds)
			return i;
		if (!r->kinds[i].count)
			place = i;
	}
	return place;
}

void rounds_count(struct rounds *r, uint32_t rounds, int change)
{
	size_t i = find_kind(r, rounds);

	if (i == ROUNDS_KINDS)
		return;
	r->kinds[i].rounds = rounds;
	if (change < 0 && r->kinds[i].count)
		r->kinds[i].count--;
	else if (change > 0 && r->kinds[i].count < UINT32_MAX)
		r->kinds[i].count++;
}

uint32_t rounds_usual(const struct rounds *r, uint32_t *count)
{
	uint32_t rounds = 0;

	*count = 0;
	for (size_t i = 0; i < ROUNDS_KINDS; i++)
		if (r->kinds[i].count > *count) {
			*count = r->kinds[i].count;
			rounds = r->kinds[i].rounds;
		}
	return rounds;
}
