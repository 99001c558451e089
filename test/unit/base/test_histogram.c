/*
 * Histograms: each duration is in the bucket that its logarithm gives, and quantiles
 * are right within the width of a bucket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include <math.h>

#include "base/histogram.h"

/* A long double has 64 bits, which is exact for durations below an hour and a half. */
static int bucket_by_logarithm(uint64_t us)
{
	return (int)ceill(8 * (log2l((long double)us) - log2l(1000000)));
}

static void buckets_at_every_bound(void **state)
{
	(void)state;
	for (int bucket = HISTOGRAM_FIRST; bucket < HISTOGRAM_LAST; bucket++) {
		long double bound = 1e6L * exp2l((long double)bucket / 8);
		uint64_t below = (uint64_t)floorl(bound);
		if (bucket % 8 != 0) {
			/* no bound between two powers of two is a whole number */
			assert_int_equal(
			    histogram_bucket(below), bucket_by_logarithm(below));
			assert_int_equal(histogram_bucket(below + 1),
			    bucket_by_logarithm(below + 1));
		}
		assert_true(histogram_bucket(below) <= bucket);
		assert_true(histogram_bucket(below + 1) > bucket);
		assert_true(
		    fabs(histogram_bound_us(bucket) / (double)bound - 1) < 1e-12);
	}
}

static void buckets_of_whole_seconds(void **state)
{
	(void)state;
	assert_int_equal(histogram_bucket(1), HISTOGRAM_FIRST);
	assert_int_equal(histogram_bucket(15625), -48); /* 2^-6 s */
	assert_int_equal(histogram_bucket(15626), -47);
	for (int octave = 0; octave < 17; octave++) {
		uint64_t us = UINT64_C(1000000) << octave;
		assert_int_equal(histogram_bucket(us), 8 * octave);
		assert_int_equal(histogram_bucket(us + 1), 8 * octave + 1);
		assert_true(histogram_bound_us(8 * octave) == (double)us);
	}
	assert_int_equal(histogram_bucket(UINT64_C(1000000) << 17), HISTOGRAM_LAST);
	assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_LAST);
}

static void every_short_duration(void **state)
{
	(void)state;
	for (uint64_t us = 1; us < 300000; us++) {
		int bucket = histogram_bucket(us);
		assert_true((double)us <= histogram_bound_us(bucket));
		assert_true((double)us > histogram_bound_us(bucket - 1));
	}
}

static void nothing(void **state)
{
	struct histogram *h = NULL;

	(void)state;
	assert_int_equal(histogram_count(h), 0);
	assert_int_equal(histogram_sum(h), 0);
	assert_int_equal(histogram_max(h), 0);
	assert_int_equal(histogram_average(h), 0);
	assert_int_equal(histogram_zero_count(h), 0);
	assert_int_equal(histogram_quantile(h, 0.5), 0);
	histogram_walk(h, NULL, NULL);
	histogram_free(&h);
}

static void zeros(void **state)
{
	struct histogram *h = NULL, *sum = NULL;

	(void)state;
	for (int i = 0; i < 99; i++)
		histogram_add(&h, 0);
	assert_int_equal(histogram_quantile(h, 0.99), 0);
	histogram_walk(h, NULL, NULL); /* durations of 0 are in no bucket */
	histogram_add(&h, 5000);
	assert_int_equal(histogram_count(h), 100);
	assert_int_equal(histogram_zero_count(h), 99);
	assert_int_equal(histogram_average(h), 50);
	assert_int_equal(histogram_quantile(h, 0.99), 0);
	assert_int_equal(histogram_quantile(h, 1), 5000);
	histogram_add(&sum, 7);
	histogram_merge(&sum, h);
	assert_int_equal(histogram_count(sum), 101);
	assert_int_equal(histogram_zero_count(sum), 99);
	histogram_free(&h);
	histogram_add(&h, 0);
	histogram_merge(&sum, h);
	histogram_merge(&h, sum);
	assert_int_equal(histogram_count(h), 103);
	histogram_free(&h);
	histogram_free(&sum);
}

static void quantiles(void **state)
{
	static const double parts[] = {0.01, 0.1, 0.5, 0.9, 0.99, 0.999};
	struct histogram *h = NULL;

	(void)state;
	for (uint64_t us = 1; us <= 100000; us++)
		histogram_add(&h, us);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		double found = (double)histogram_quantile(h, parts[i]);
		assert_true(fabs(found / (parts[i] * 100000) - 1) < 0.005);
	}
	assert_int_equal(histogram_quantile(h, 1), 100000);
	assert_int_equal(histogram_max(h), 100000);
	assert_int_equal(histogram_average(h), 50000);
	histogram_free(&h);
	/* never above the longest one, though the bucket ends at 1090507 */
	for (int i = 0; i < 10; i++)
		histogram_add(&h, 1000001);
	assert_in_range(histogram_quantile(h, 0.999), 1000000, 1000001);
	assert_int_equal(histogram_quantile(h, 1), 1000001);
	histogram_free(&h);
	/* the last bucket has no upper bound */
	histogram_add(&h, UINT64_C(1000000) << 20);
	assert_true(histogram_quantile(h, 1) == UINT64_C(1000000) << 20);
	histogram_free(&h);
}

struct seen {
	uint64_t counts[HISTOGRAM_LAST - HISTOGRAM_FIRST + 1];
	int last;
};

static void note(void *ctx, int bucket, uint64_t count)
{
	struct seen *seen = ctx;

	assert_true(bucket > seen->last);
	assert_in_range(bucket - HISTOGRAM_FIRST, 0, HISTOGRAM_LAST - HISTOGRAM_FIRST);
	assert_true(count > 0);
	seen->last = bucket;
	seen->counts[bucket - HISTOGRAM_FIRST] += count;
}

static void see(struct seen *seen, const struct histogram *h)
{
	*seen = (struct seen){.last = HISTOGRAM_FIRST - 1};
	histogram_walk(h, note, seen);
}

/* Compares with a plain array of durations of all sizes in random order. */
static void sums_of_many(void **state)
{
	struct histogram *parts[5] = {NULL}, *sum = NULL;
	struct seen expected = {.last = 0}, found;
	uint64_t sum_us = 0, max_us = 0;

	(void)state;
	srand(11);
	for (int i = 0; i < 20000; i++) {
		uint64_t us = ((uint64_t)rand() << 16 | 1) >> rand() % 46;
		struct histogram **part = &parts[us % 7 % 5];
		if (us == 0)
			continue;
		histogram_add(part, us);
		expected.counts[histogram_bucket(us) - HISTOGRAM_FIRST]++;
		sum_us += us;
		max_us = us > max_us ? us : max_us;
	}
	for (int i = 0; i < 5; i++)
		histogram_merge(&sum, parts[i]);
	see(&found, sum);
	assert_memory_equal(found.counts, expected.counts, sizeof(found.counts));
	assert_true(histogram_sum(sum) == sum_us);
	assert_true(histogram_max(sum) == max_us);
	for (int i = 0; i < 5; i++)
		histogram_free(&parts[i]);
	histogram_free(&sum);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(buckets_at_every_bound),
	    cmocka_unit_test(buckets_of_whole_seconds),
	    cmocka_unit_test(every_short_duration),
	    cmocka_unit_test(nothing),
	    cmocka_unit_test(zeros),
	    cmocka_unit_test(quantiles),
	    cmocka_unit_test(sums_of_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
