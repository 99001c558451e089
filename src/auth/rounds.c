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

/* The place of the smallest number of rounds above this one; ROUNDS_KINDS: none. */
static size_t next_above(const struct rounds *r, uint32_t rounds)
{
	size_t place = ROUNDS_KINDS;

	for (size_t i = 0; i < ROUNDS_KINDS; i++)
		if (r->kinds[i].count && r->kinds[i].rounds > rounds &&
		    (place == ROUNDS_KINDS ||
			r->kinds[i].rounds < r->kinds[place].rounds))
			place = i;
	return place;
}

uint32_t rounds_like(const struct rounds *r, uint32_t others_count,
    uint32_t others_rounds, uint32_t pick)
{
	uint64_t sum = others_count, at;
	uint32_t rounds = others_rounds;
	size_t i;

	for (i = 0; i < ROUNDS_KINDS; i++)
		sum += r->kinds[i].count;
	at = pick * sum >> 32;
	if (at < others_count || sum == 0)
		return others_rounds;
	at -= others_count;
	for (i = next_above(r, 0); i < ROUNDS_KINDS; i = next_above(r, rounds)) {
		rounds = r->kinds[i].rounds;
		if (at < r->kinds[i].count)
			break;
		at -= r->kinds[i].count;
	}
	return rounds;
}
