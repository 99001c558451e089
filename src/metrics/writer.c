/*
 * Goes through the families of all tables and the rows of each.  text.c writes
 * the samples.
 */
#include "metrics/writer.h"

#include <string.h>

#include "metrics/text.h"

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
		text_put_sample(out, &w->served, &sample);
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
