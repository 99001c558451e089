/*
 * Goes through the families of all tables and the rows of each, and writes the lines.
 */
#include "metrics/writer.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

/* ---- which format is asked for ---- */

enum { ITEM_MOST = 256, QUALITY_ONE = 1000000 };

static const char *const types[] = {
    [FORMAT_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
    [FORMAT_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

const char *writer_format_type(enum format format)
{
	return types[format];
}

static bool is_type(const char *item, const char *type)
{
	size_t len = strcspn(item, ";");

	return strlen(type) == len && strncasecmp(item, type, len) == 0;
}

/* The item's quality (q) in millionths. */
static uint64_t quality_of(const char *item)
{
	char text[16];
	uint64_t quality;

	do {
		item = strchr(item, ';');
		if (!item)
			return QUALITY_ONE;
		item++;
	} while (strncasecmp(item, "q=", 2) != 0);
	item += 2;
	size_t len = strcspn(item, ";");
	if (len >= sizeof(text))
		return 0;
	memcpy(text, item, len);
	text[len] = '\0';
	return text_seconds(text, &quality) < 0 ? 0 : quality;
}

static bool find_format(const char *item, enum format *format)
{
	if (is_type(item, "application/openmetrics-text"))
		*format = FORMAT_OPENMETRICS;
	else if (is_type(item, "text/plain") || is_type(item, "text/*") ||
		 is_type(item, "*/*"))
		*format = FORMAT_TEXT;
	else
		return false;
	return true;
}

enum format writer_choose_format(const char *accept)
{
	enum format best = FORMAT_TEXT, format;
	uint64_t best_quality = 0;
	char item[ITEM_MOST];
	const char *text;
	size_t len;

	while (accept && text_list_next(&accept, &text, &len)) {
		/* copies an item, such as "a/b ; q = 0.5", without its blanks */
		size_t put = 0;
		for (size_t i = 0; i < len && put < ITEM_MOST - 1; i++)
			if (text[i] != ' ' && text[i] != '\t')
				item[put++] = text[i];
		item[put] = '\0';
		if (!find_format(item, &format) || quality_of(item) <= best_quality)
			continue;
		best_quality = quality_of(item);
		best = format;
	}
	return best;
}

/* ---- the text format ---- */

static const char total[] = "_total";

static void text_put_head(struct buf *out, const struct served *s, bool is_open)
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

void writer_put_sample(
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

/* A part ends after so many samples, or when it has this many bytes. */
enum { SAMPLES_PER_PART = 200, BYTES_PER_PART = 32 * 1024 };

#define GAUGE   false
#define COUNTER true
#define OF_PROCESS(id, type, unit, name, labels, help) \
	{name, help, unit, .is_counter = type},
static const struct served process[] = {METRIC_OF_PROCESS(OF_PROCESS)};

/* ---- which family ---- */

static bool find_served(struct writer *w)
{
	const struct collection *h = w->collection;
	size_t i = w->at;

	if (i < PROCESS_SAMPLE_COUNT) {
		w->served = process[i];
		w->served.process = &h->process[i];
		return true;
	}
	const struct family *f = family_at(i - PROCESS_SAMPLE_COUNT);
	if (f) {
		w->served = (struct served){
		    .name = w->other ? f->other : f->name,
		    .help = f->help,
		    .unit = f->unit,
		    .is_counter = f->type == FAMILY_COUNTER,
		    .family = f,
		    .samples = h->samples[f->samples],
		};
		return true;
	}
	const struct duration *d =
	    duration_at(i - PROCESS_SAMPLE_COUNT - family_count());
	if (!d)
		return false;
	w->served = (struct served){
	    .name = d->name,
	    .help = d->help,
	    .unit = "seconds",
	    .is_histogram = true,
	    .duration = d,
	};
	return true;
}

/* ---- which samples ---- */

static const struct list *rows_of(const struct writer *w)
{
	if (w->served.duration)
		return durations_rows(w->collection->durations);
	return samples_rows(w->served.samples);
}

static void take_numbers(
    struct sample *s, const struct served *served, const struct samples_row *row)
{
	const struct family *f = served->family;
	int whole = samples_slot(served->samples, f->column);
	int micros = samples_slot(served->samples, f->micros);

	if (f->type == FAMILY_INFO)
		s->whole = 1;
	else if (f->type == FAMILY_COUNT)
		s->whole = row->numbers[0];
	if (whole >= 0)
		s->whole = row->numbers[whole];
	if (micros >= 0)
		s->micros = row->numbers[micros];
}

/* The single sample of a family without rows.  False: there is no value. */
static bool take_single(const struct writer *w, struct sample *s)
{
	const struct served *served = &w->served;
	const struct family *f = served->family;
	const struct samples_row *row;

	if (served->process) {
		s->whole = served->process->whole;
		s->micros = served->process->micros;
		s->fixed_labels = served->process->labels;
		return true;
	}
	if (family_is_row_count(f)) {
		s->whole = (long long)samples_rows(served->samples)->count;
		return true;
	}
	row = samples_find(served->samples, *f->column ? f->column : f->micros);
	if (row)
		take_numbers(s, served, row);
	return row;
}

static bool take_row(const struct writer *w, const struct node *node, struct sample *s)
{
	if (w->served.family) {
		const struct samples_row *row =
		    container_of(node, struct samples_row, node);
		const struct samples_kind *kind =
		    family_samples(w->served.family->samples);
		s->label_count = family_label_count(w->served.family);
		for (unsigned i = 0; i < s->label_count; i++) {
			s->labels[i] = kind->labels[i];
			s->values[i] = samples_label(row, i);
		}
		take_numbers(s, &w->served, row);
		/* the row of "other" is served only if clients were counted in it */
		return w->served.family->type != FAMILY_COUNT || s->whole > 0;
	}
	const struct duration_row *row = container_of(node, struct duration_row, node);
	s->histogram = row->histograms[w->served.duration->kind];
	s->label_count = 2;
	s->labels[0] = "database";
	s->values[0] = row->key;
	s->labels[1] = "user";
	s->values[1] = row->key + strlen(row->key) + 1;
	return s->histogram;
}

/* Finds the next sample of the family.  False: there are no more. */
static bool next_sample(struct writer *w, struct sample *s)
{
	for (;;) {
		memset(s, 0, sizeof(*s));
		if (w->has_single) {
			w->has_single = false;
			if (take_single(w, s))
				return true;
			continue;
		}
		if (!w->row)
			return false;
		const struct node *node = w->row;
		w->row = list_next(rows_of(w), node);
		if (take_row(w, node, s))
			return true;
	}
}

/* ---- writing ---- */

static void put_head(struct writer *w, struct buf *out)
{
	if (!find_served(w)) {
		w->state = WRITER_OVER;
		if (w->format == FORMAT_OPENMETRICS)
			buf_put_text(out, "# EOF\n");
		return;
	}
	const struct family *f = w->served.family;
	bool is_one =
	    !f || family_samples(f->samples)->key_count == 0 || family_is_row_count(f);

	w->has_single = is_one && !w->served.duration;
	w->row = w->has_single ? NULL : list_first(rows_of(w));
	w->state = WRITER_SAMPLES;
	text_put_head(out, &w->served, w->format == FORMAT_OPENMETRICS);
}

static void put_sample(struct writer *w, struct buf *out)
{
	struct sample sample;

	if (!next_sample(w, &sample)) {
		const struct family *f = w->served.family;
		w->other = f && f->other && !w->other;
		if (!w->other)
			w->at++;
		w->state = WRITER_HEAD;
	} else {
		writer_put_sample(out, &w->served, &sample);
	}
}

void writer_init(
    struct writer *w, const struct collection *collection, enum format format)
{
	memset(w, 0, sizeof(*w));
	w->collection = collection;
	w->format = format;
	w->state = WRITER_HEAD;
}

bool writer_part(struct writer *w, struct buf *out)
{
	for (int i = 0; i < SAMPLES_PER_PART && out->len < BYTES_PER_PART; i++) {
		if (w->state == WRITER_OVER)
			return false;
		if (w->state == WRITER_HEAD)
			put_head(w, out);
		else
			put_sample(w, out);
	}
	return w->state != WRITER_OVER;
}
