/*
 * The rows of metrics.def, and their table in the documents.
 */
#include "metrics/family.h"

#include <string.h>

#define BY(n)                      n
#define KEYS                       0
#define SHEET(id, view, keys, ...) [SHEET_##id] = {#view, keys, {__VA_ARGS__}},
static const struct sheet_kind sheets[] = {METRIC_SHEETS(SHEET)};

#define METRIC(sheet, type, unit, name, other, column, micros, help) \
	{SHEET_##sheet, FAMILY_##type, unit, name, other, column, micros, help},
static const struct family families[] = {METRICS(METRIC)};

const struct sheet_kind *family_sheet(enum sheet_id id)
{
	return &sheets[id];
}

const struct family *family_at(size_t i)
{
	return i < family_count() ? &families[i] : NULL;
}

size_t family_count(void)
{
	return sizeof(families) / sizeof(families[0]);
}

bool family_is_row_count(const struct family *f)
{
	return f->type == FAMILY_GAUGE && !*f->column && !*f->micros;
}

/* Only the family of type INFO has all labels of SHOW HOSTS: role and state of a host
 * change, and each change would begin new series of all its numbers. */
unsigned family_label_count(const struct family *family)
{
	const struct sheet_kind *kind = &sheets[family->sheet];
	unsigned count = 0;

	if (kind->key_count == 0 || family_is_row_count(family))
		return 0;
	if (family->sheet == SHEET_HOSTS && family->type != FAMILY_INFO)
		return kind->key_count;
	while (kind->labels[count])
		count++;
	return count;
}

/* ---- the table ---- */

static void put_facts(FILE *out)
{
#define GAUGE   "gauge"
#define COUNTER "counter"
#define FACT(id, type, unit, name, labels, help) \
	fprintf(out, "| `%s` | %s | %s | | %s |\n", name, type, labels, help);
	METRIC_FACTS(FACT)
#undef FACT
#undef GAUGE
#undef COUNTER
}

static void put_durations(FILE *out)
{
#define DURATION(kind, name, help) \
	fprintf(out, "| `%s` | histogram | database, user | | %s |\n", name, help);
	METRIC_DURATIONS(DURATION)
#undef DURATION
}

static void put_source(FILE *out, const struct family *f)
{
	fprintf(out, "SHOW %s", sheets[f->sheet].view);
	if (*f->column)
		fprintf(out, " `%s`", f->column);
	if (*f->micros)
		fprintf(out, " `%s`", f->micros);
}

static void put_labels(FILE *out, const struct family *f)
{
	unsigned count = family_label_count(f);

	for (unsigned i = 0; i < count; i++)
		fprintf(out, "%s%s", i ? ", " : "", sheets[f->sheet].labels[i]);
}

int family_describe(FILE *out, const char *as)
{
	const struct family *f;

	if (strcmp(as, "md") != 0)
		return -1;
	fputs("| metric | type | labels | from | what it is |\n|---|---|---|---|---|\n",
	    out);
	put_facts(out);
	for (size_t i = 0; (f = family_at(i)); i++) {
		fprintf(out, "| `%s`", f->name);
		if (f->other)
			fprintf(out, "<br>`%s`", f->other);
		fprintf(
		    out, " | %s | ", f->type == FAMILY_COUNTER ? "counter" : "gauge");
		put_labels(out, f);
		fputs(" | ", out);
		put_source(out, f);
		fprintf(out, " | %s |\n", f->help);
	}
	put_durations(out);
	return 0;
}
