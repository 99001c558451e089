/*
 * Counts of durations in microseconds, in buckets whose bounds grow by a factor of
 * 2^(1/8): those of a Prometheus native histogram of schema 3 in seconds.  Bucket i
 * holds what is longer than 2^((i-1)/8) s and not longer than 2^(i/8) s.  Nothing is
 * allocated before the first duration, and then only what lies between the shortest and
 * the longest one.
 *
 * A histogram is a pointer that is NULL while it is empty; whoever has it frees it.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

/* The bucket of 1 us, and the one that takes all that is longer than its lower bound
 * (33 hours). */
enum { HISTOGRAM_FIRST = -159, HISTOGRAM_LAST = 136 };

struct histogram;

void histogram_add(struct histogram **h, uint64_t duration_us);
/* So many of 0 us. */
void histogram_add_zeros(struct histogram **h, uint64_t count);
/* Adds all that h has counted; h may be NULL. */
void histogram_merge(struct histogram **sum, const struct histogram *h);
void histogram_free(struct histogram **h);

/* For these h may be NULL. */
uint64_t histogram_count(const struct histogram *h);
uint64_t histogram_zero_count(const struct histogram *h); /* of 0 us: in no bucket */
uint64_t histogram_sum(const struct histogram *h);        /* microseconds */
uint64_t histogram_max(const struct histogram *h);
uint64_t histogram_average(const struct histogram *h);
/* So long that the part q (0 to 1) of all durations is not longer; interpolated within
 * a bucket, and never above the longest one.  0 without any. */
uint64_t histogram_quantile(const struct histogram *h, double q);

/* Each bucket that is not empty, the shortest durations first. */
typedef void histogram_bucket_fn(void *ctx, int bucket, uint64_t count);
void histogram_walk(const struct histogram *h, histogram_bucket_fn *fn, void *ctx);

/* The bucket of a duration that is not 0. */
int histogram_bucket(uint64_t duration_us);
/* Its upper bound; that of the last one too. */
double histogram_bound_us(int bucket);

#endif
