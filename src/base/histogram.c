/*
 * The bucket of a duration is found from its highest bit and a table of the eight
 * bounds between two powers of two.
 */
#include "base/histogram.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum {
	PER_OCTAVE = 8,
	/* a place is the number of a bucket, counted from 0 */
	PLACES = HISTOGRAM_LAST - HISTOGRAM_FIRST + 1,
	PIECE = 4, /* memory grows by this many buckets */
};

struct histogram {
	uint64_t sum_us, max_us;
	uint64_t zero_count;
	uint16_t first; /* the place that counts[0] belongs to */
	uint16_t len;
	uint64_t counts[];
};

/* The eight bounds between two powers of two: microseconds 10^6 * 2^(bucket/8), scaled
 * to lie between 1 and 2, then multiplied by 2^63 and rounded down. */
static const uint64_t bounds[PER_OCTAVE + 1] = {
    0x851e5ddc7f9a447e,
    0x912ab8eb868bef75,
    0x9e4e3c6fecde59ab,
    0xaca22c7fbd771b14,
    0xbc42169a6f7a7d91,
    0xcd4c06a4e1143813,
    0xdfe0c0b0f7619f98,
    0xf424000000000000,
    UINT64_MAX,
};

/* Indexed by the four bits below the highest one: how many of the bounds are less.  At
 * most one more bound lies between these bits and the next value. */
static const uint8_t bounds_below[16] = {
    0, 1, 1, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7, 8};

/* Returns the place of a duration; it can be behind the last place. */
static unsigned place_of(uint64_t duration_us)
{
	unsigned zeros = (unsigned)__builtin_clzll(duration_us);
	uint64_t mantissa = duration_us << zeros;
	unsigned below = bounds_below[mantissa >> 59 & 15];

	return (63 - zeros) * PER_OCTAVE + below + (mantissa > bounds[below]);
}

static unsigned place_within(unsigned place)
{
	return place < PLACES ? place : PLACES - 1;
}

int histogram_bucket(uint64_t duration_us)
{
	return (int)place_within(place_of(duration_us)) + HISTOGRAM_FIRST;
}

double histogram_bound_us(int bucket)
{
	static const double roots[PER_OCTAVE] = {1, 1.0905077326652577,
	    1.189207115002721, 1.2968395546510096, 1.4142135623730951,
	    1.5422108254079407, 1.681792830507429, 1.8340080864093424};
	int octave = bucket >> 3;
	double us = 1e6 * roots[bucket & 7];

	return octave < 0 ? us / (double)(UINT64_C(1) << -octave)
			  : us * (double)(UINT64_C(1) << octave);
}

/* ---- memory ---- */

/* Makes room for the places from `from` to to-1. */
static void cover(struct histogram **hp, unsigned from, unsigned to)
{
	struct histogram *old = *hp, *h;

	if (old && old->len > 0) {
		if (old->first < from)
			from = old->first;
		if (old->first + old->len > to)
			to = old->first + old->len;
	}
	from -= from % PIECE;
	to += (PIECE - to % PIECE) % PIECE;
	h = mem_zero(sizeof(*h) + (to - from) * sizeof(h->counts[0]));
	if (old) {
		h->sum_us = old->sum_us;
		h->max_us = old->max_us;
		h->zero_count = old->zero_count;
		if (old->len > 0)
			memcpy(&h->counts[old->first - from], old->counts,
			    old->len * sizeof(h->counts[0]));
	}
	h->first = (uint16_t)from;
	h->len = (uint16_t)(to - from);
	mem_free(old);
	*hp = h;
}

void histogram_free(struct histogram **h)
{
	mem_free(*h);
	*h = NULL;
}

/* ---- counting ---- */

void histogram_add_zeros(struct histogram **hp, uint64_t count)
{
	if (count == 0)
		return;
	if (!*hp)
		*hp = mem_zero(sizeof(**hp));
	(*hp)->zero_count += count;
}

static void count(struct histogram *h, unsigned at, uint64_t duration_us)
{
	h->counts[at]++;
	h->sum_us += duration_us;
	if (duration_us > h->max_us)
		h->max_us = duration_us;
}

void histogram_add(struct histogram **hp, uint64_t duration_us)
{
	struct histogram *h = *hp;
	unsigned place;

	if (duration_us == 0) {
		histogram_add_zeros(hp, 1);
		return;
	}
	place = place_of(duration_us);
	if (h && place - h->first < h->len) {
		count(h, place - h->first, duration_us);
	} else {
		/* counts a duration whose place has no memory yet or is behind the last
		 * place */
		place = place_within(place);
		if (!*hp || place - (*hp)->first >= (*hp)->len)
			cover(hp, place, place + 1);
		count(*hp, place - (*hp)->first, duration_us);
	}
}

void histogram_merge(struct histogram **sum, const struct histogram *h)
{
	struct histogram *s = *sum;

	if (!h)
		return;
	bool has_room =
	    s && s->first <= h->first && h->first + h->len <= s->first + s->len;
	if (!s || (h->len > 0 && !has_room))
		cover(sum, h->first, h->first + h->len);
	s = *sum;
	s->sum_us += h->sum_us;
	s->zero_count += h->zero_count;
	if (h->max_us > s->max_us)
		s->max_us = h->max_us;
	for (unsigned i = 0; i < h->len; i++)
		s->counts[h->first + i - s->first] += h->counts[i];
}

/* ---- figures ---- */

uint64_t histogram_count(const struct histogram *h)
{
	uint64_t count = h ? h->zero_count : 0;

	for (unsigned i = 0; h && i < h->len; i++)
		count += h->counts[i];
	return count;
}

uint64_t histogram_zero_count(const struct histogram *h)
{
	return h ? h->zero_count : 0;
}

uint64_t histogram_sum(const struct histogram *h)
{
	return h ? h->sum_us : 0;
}

uint64_t histogram_max(const struct histogram *h)
{
	return h ? h->max_us : 0;
}

uint64_t histogram_average(const struct histogram *h)
{
	uint64_t count = histogram_count(h);

	return count ? h->sum_us / count : 0;
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
	double left = q * (double)histogram_count(h) - (double)histogram_zero_count(h);

	if (!h || left <= 0)
		return 0;
	for (unsigned i = 0; i < h->len; i++) {
		double count = (double)h->counts[i];
		if (count > 0 && left <= count) {
			/* interpolates within the bucket at this place: a fraction of
			 * its durations is taken to be the same fraction of the way up
			 */
			unsigned place = h->first + i;
			double part = left / count;
			int bucket = (int)place + HISTOGRAM_FIRST;
			double low = histogram_bound_us(bucket - 1);
			double high = histogram_bound_us(bucket);
			if (high > (double)h->max_us || bucket == HISTOGRAM_LAST)
				high = (double)h->max_us;
			return low < high ? (uint64_t)(low + (high - low) * part + 0.5)
					  : h->max_us;
		}
		left -= count;
	}
	return h->max_us;
}

void histogram_walk(const struct histogram *h, histogram_bucket_fn *fn, void *ctx)
{
	for (unsigned i = 0; h && i < h->len; i++)
		if (h->counts[i])
			fn(ctx, (int)(h->first + i) + HISTOGRAM_FIRST, h->counts[i]);
}
