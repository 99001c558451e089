/*
 * Counts of durations in microseconds.  The bounds of the buckets grow by a factor of
 * 2^(1/8), as in a Prometheus native histogram of schema 3 in seconds: bucket i counts
 * durations d with 2^((i-1)/8) s < d <= 2^(i/8) s.  Memory is allocated with the first
 * duration, and only for the buckets between the shortest and the longest one.
 *
 * A histogram is a pointer, which is NULL while nothing was counted.  Its owner frees
 * it.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

/* The bucket of 1 us, and the last one, which also takes everything longer (its lower
 * bound is 33 hours). */
enum { HISTOGRAM_FIRST = -159, HISTOGRAM_LAST = 136 };

struct histogram;

void histogram_add(struct histogram **h, uint64_t duration_us);
/* Counts `count` durations of 0 us. */
void histogram_add_zeros(struct histogram **h, uint64_t count);
/* Adds everything that h has counted to *sum; h may be NULL. */
void histogram_merge(struct histogram **sum, const struct histogram *h);
void histogram_free(struct histogram **h);

/* These functions allow h to be NULL. */
uint64_t histogram_count(const struct histogram *h);
/* durations of 0 us, which are in no bucket */
uint64_t histogram_zero_count(const struct histogram *h);
uint64_t histogram_sum(const struct histogram *h); /* microseconds */
uint64_t histogram_max(const struct histogram *h);
uint64_t histogram_average(const struct histogram *h);
/* Returns a duration such that the fraction q (0 to 1) of all durations is not longer.
 * It is interpolated within a bucket and never above the longest duration.  0 when
 * nothing was counted. */
uint64_t histogram_quantile(const struct histogram *h, double q);

/* Calls fn for each bucket that is not empty, the shortest durations first. */
typedef void histogram_bucket_fn(void *ctx, int bucket, uint64_t count);
void histogram_walk(const struct histogram *h, histogram_bucket_fn *fn, void *ctx);

/* The bucket of a duration, which must not be 0. */
int histogram_bucket(uint64_t duration_us);
/* The upper bound of a bucket in microseconds.  The last bucket has a computed one too,
 * although it also counts what is longer. */
double histogram_bound_us(int bucket);

#endif
