/*
 * Moments of one clock, in microseconds.
 */
#ifndef BASE_TIME_US_H
#define BASE_TIME_US_H

#include <stdint.h>

static inline uint64_t time_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}
static inline uint64_t time_later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}
/* When a limit that runs from then on ends; UINT64_MAX (never) for a limit of 0. */
static inline uint64_t time_limit(uint64_t from_us, uint64_t limit_us)
{
	return limit_us ? from_us + limit_us : UINT64_MAX;
}

#endif
