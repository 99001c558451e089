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

#endif
