/*
 * Writes the lines of the text formats.  writer.c chooses families and samples.
 */
#include "metrics/text.h"

#include <string.h>

static const char total[] = "_total";

void text_put_head(struct buf *out, const struct served *s, bool is_open)
{
	const char *type = s->is_histogram ? "histogram"
			   : s->is_counter ? "counter"
					   : "gauge";
	/* OpenMetrics names a family of counters without the suffix of its samples */
	int len =
	    (int)(strlen(s->name) - (is_open && s->is_counter ? strlen(total) : 0));

	buf_printf(out, "# HELP %.*s %s\n", len, s->name, s->help);
	buf_printf(out, "# TYPE %.*s %s\n", len, s->name, type);
	if (is_open && s->unit)
		buf_printf(out, "# UNIT %.*s %s\n", len, s->name, s->unit);
}

static void put_escaped(struct buf *out, const char *value)
{
	for (;;) {
		size_t len = strcspn(value, "\\\"\n");
		buf_put(out, value, len);
		value += len;
		if (!*value)
			return;
		buf_put_u8(out, '\\');
		buf_put_u8(out, *value == '\n' ? 'n' : (uint8_t)*value);
		value++;
	}
}

static void put_name(struct buf *out, const char *name, const char *ending)
{
	buf_put_text(out, name);
	buf_put_text(out, ending);
}

/* le: the value of the label "le"; NULL: none. */
static void put_labels(struct buf *out, const struct sample *sample, const char *le)
{
	const char *between = "{";

	if (sample->fixed_labels && *sample->fixed_labels) {
		buf_put_text(out, "{");
		buf_put_text(out, sample->fixed_labels);
		between = ",";
	}
	for (unsigned i = 0; i < sample->label_count; i++) {
		buf_put_text(out, between);
		put_name(out, sample->labels[i], "=\"");
		put_escaped(out, sample->values[i]);
		buf_put_u8(out, '"');
		between = ",";
	}
	if (le) {
		buf_put_text(out, between);
		put_name(out, "le=\"", le);
		buf_put_u8(out, '"');
		between = ",";
	}
	buf_put_text(out, *between == '{' ? " " : "} ");
}

static void put_micros(struct buf *out, long long whole, long long micros)
{
	whole += micros / 1000000;
	micros %= 1000000;
	if (micros)
		buf_printf(out, "%lld.%06lld\n", whole, micros);
	else
		buf_printf(out, "%lld\n", whole);
}

/* ---- histograms ---- */

/* The bounds of classic buckets.  They are powers of 2, so they are also bounds of the
 * histogram's own buckets.  The texts have OpenMetrics's canonical form. */
static const struct {
	int exponent;
	const char *text;
} bounds[] = {
    {-13, "0.0001220703125"},
    {-11, "0.00048828125"},
    {-10, "0.0009765625"},
    {-9, "0.001953125"},
    {-8, "0.00390625"},
    {-6, "0.015625"},
    {-4, "0.0625"},
    {-2, "0.25"},
    {0, "1.0"},
    {2, "4.0"},
    {4, "16.0"},
    {6, "64.0"},
};
enum { BOUNDS = sizeof(bounds) / sizeof(bounds[0]), BUCKETS_PER_POWER = 8 };

static void count_bucket(void *ctx, int bucket, uint64_t count)
{
	uint64_t *counts = ctx;

	for (size_t i = 0; i < BOUNDS; i++)
		if (bucket <= bounds[i].exponent * BUCKETS_PER_POWER)
			counts[i] += count;
}

static void put_histogram(
    struct buf *out, const struct served *s, const struct sample *sample)
{
	const struct histogram *h = sample->histogram;
	unsigned long long count = histogram_count(h);
	uint64_t counts[BOUNDS];

	for (size_t i = 0; i < BOUNDS; i++)
		counts[i] = histogram_zero_count(h);
	histogram_walk(h, count_bucket, counts);
	for (size_t i = 0; i <= BOUNDS; i++) {
		put_name(out, s->name, "_bucket");
		put_labels(out, sample, i < BOUNDS ? bounds[i].text : "+Inf");
		buf_printf(
		    out, "%llu\n", i < BOUNDS ? (unsigned long long)counts[i] : count);
	}
	put_name(out, s->name, "_sum");
	put_labels(out, sample, NULL);
	put_micros(out, 0, (long long)histogram_sum(h));
	put_name(out, s->name, "_count");
	put_labels(out, sample, NULL);
	buf_printf(out, "%llu\n", count);
}

void text_put_sample(
    struct buf *out, const struct served *served, const struct sample *sample)
{
	if (sample->histogram) {
		put_histogram(out, served, sample);
		return;
	}
	buf_put_text(out, served->name);
	put_labels(out, sample, NULL);
	put_micros(out, sample->whole, sample->micros);
}
