#include "metrics/family.h"

#define BY(n)                        n
#define KEYS                         0
#define SAMPLES(id, view, keys, ...) [SAMPLES_##id] = {#view, keys, {__VA_ARGS__}},
static const struct samples_kind samples[] = {METRIC_SAMPLES(SAMPLES)};

#define METRIC(samples, type, unit, name, other, column, micros, help) \
	{SAMPLES_##samples, FAMILY_##type, unit, name, other, column, micros, help},
static const struct family families[] = {METRICS(METRIC)};

const struct samples_kind *family_samples(enum samples_id id)
{
	return &samples[id];
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
	const struct samples_kind *kind = &samples[family->samples];
	unsigned count = 0;

	if (kind->key_count == 0 || family_is_row_count(family))
		return 0;
	if (family->samples == SAMPLES_HOSTS && family->type != FAMILY_INFO)
		return kind->key_count;
	while (kind->labels[count])
		count++;
	return count;
}
