/*
 * Makes rows from the cells that a view writes one after the other. Rows of several
 * sites with the same labels become one, by the rules with which SHOW merges them
 * (views/row.h). The kernel is asked at each scrape for the figures of the process.
 */
#include "metrics/samples.h"

#include <assert.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "net/dns.h"
#include "net/net.h"
#include "pool/pool.h"
#include "views/merge.h"
#include "views/show.h"
#include "views/views.h"

/* ---- the table of metrics.def ---- */

#define BY(n)                        n
#define KEYS                         0
#define SAMPLES(id, view, keys, ...) [SAMPLES_##id] = {#view, keys, {__VA_ARGS__}},
static const struct samples_kind samples_kinds[] = {METRIC_SAMPLES(SAMPLES)};

#define METRIC(samples, type, unit, name, other, column, micros, help) \
	{SAMPLES_##samples, FAMILY_##type, unit, name, other, column, micros, help},
static const struct family families[] = {METRICS(METRIC)};

const struct samples_kind *family_samples(enum samples_id id)
{
	return &samples_kinds[id];
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
	const struct samples_kind *kind = &samples_kinds[family->samples];
	unsigned count = 0;

	if (kind->key_count == 0 || family_is_row_count(family))
		return 0;
	if (family->samples == SAMPLES_HOSTS && family->type != FAMILY_INFO)
		return kind->key_count;
	while (kind->labels[count])
		count++;
	return count;
}

/* ---- histograms ---- */

struct durations {
	struct list rows;
	struct map *by_key;
};

#define DURATION(kind, name, help) {LATENCY_##kind, name, help},
static const struct duration kinds[] = {METRIC_DURATIONS(DURATION)};

const struct duration *duration_at(size_t i)
{
	return i < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[i] : NULL;
}

struct durations *durations_new(void)
{
	struct durations *d = mem_zero(sizeof(*d));

	list_init(&d->rows);
	d->by_key = map_new();
	return d;
}

bool durations_drop_rows(struct durations *durations, size_t most)
{
	struct node *n;

	for (; most > 0; most--) {
		n = list_pop_front(&durations->rows);
		if (!n)
			return false;
		struct duration_row *row = container_of(n, struct duration_row, node);
		for (int i = 0; i < LATENCY_KINDS; i++)
			histogram_free(&row->histograms[i]);
		mem_free(row->key);
		mem_free(row);
	}
	return true;
}

void durations_free(struct durations **dp)
{
	struct durations *d = *dp;

	if (!d)
		return;
	durations_drop_rows(d, SIZE_MAX);
	map_free(&d->by_key);
	mem_free(d);
	*dp = NULL;
}

static void take_pool(
    struct durations *d, const struct pool *pool, const struct latency *latency)
{
	char label[LABEL_MOST + 1];
	struct duration_row *row;
	struct buf key;

	buf_init_sure(&key);
	samples_take_label(label, pool->database->name);
	buf_put_str(&key, label);
	samples_take_label(label, pool->user->name);
	buf_put_str(&key, label);
	row = map_get(d->by_key, key.bytes, key.len);
	if (!row) {
		row = mem_zero(sizeof(*row));
		row->key = mem_dup(key.bytes, key.len);
		list_push_back(&d->rows, &row->node);
		map_put(d->by_key, row->key, key.len, row);
	}
	latency_sum(latency, row->histograms, NULL);
	buf_done(&key);
}

bool durations_part(struct rows *rows, size_t most)
{
	struct pool *pool;

	for (; most > 0; most--) {
		pool = view_pools_next(rows->site);
		if (!pool)
			return false;
		const struct latency *latency = catalog_durations_of(pool);
		if (latency)
			take_pool(rows->sink_ctx, pool, latency);
	}
	return true;
}

const struct list *durations_rows(const struct durations *durations)
{
	return &durations->rows;
}

/* ---- the process ---- */

enum { MILLION = 1000000 };

/* Linux says since 6.2 how many entries the folder has; before they are counted. */
static long long open_descriptors(void)
{
	struct stat st;
	DIR *folder = NULL;
	long long count = 0;

	if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
		return (long long)st.st_size;
	folder = opendir("/proc/self/fd");
	if (!folder)
		return 0;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count - 3; /* ".", ".." and the folder itself */
}

void samples_find_process(struct process_sample process[PROCESS_SAMPLE_COUNT],
    const struct site *site, uint64_t began_us, unsigned missed)
{
	uint64_t uptime_us = loop_now(site->loop) - began_us;
	struct rusage used;
	struct rlimit limit;

	memset(process, 0, PROCESS_SAMPLE_COUNT * sizeof(*process));
	/* the texts contain no character that would have to be escaped */
	snprintf(process[PROCESS_VERSION].labels, PROCESS_SAMPLE_LABELS,
	    "version=\"%s\"", site->version);
	snprintf(process[PROCESS_BUILD].labels, PROCESS_SAMPLE_LABELS,
	    "version=\"%s\",libevent=\"%s\",adns=\"%s\",io_engine=\"%s\"",
	    site->version, loop_library_version(), dns_library_version(),
	    net_engine_name(&site->net));
	process[PROCESS_UP].whole = process[PROCESS_VERSION].whole =
	    process[PROCESS_BUILD].whole = 1;
	uint64_t virtual = 0, resident = 0;
	mem_of_process(&virtual, &resident);
	process[PROCESS_VIRTUAL].whole = (long long)virtual;
	process[PROCESS_RESIDENT].whole = (long long)resident;
	process[PROCESS_UPTIME].micros = (long long)uptime_us;
	process[PROCESS_START].micros = (long long)(loop_wall(site->loop) - uptime_us);
	process[PROCESS_MISSED].whole = missed;
	if (getrusage(RUSAGE_SELF, &used) == 0)
		process[PROCESS_CPU].micros =
		    (long long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * MILLION +
		    used.ru_utime.tv_usec + used.ru_stime.tv_usec;
	process[PROCESS_OPEN_FDS].whole = open_descriptors();
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		process[PROCESS_MAX_FDS].whole =
		    limit.rlim_cur > INT64_MAX ? INT64_MAX : (long long)limit.rlim_cur;
}

/* ---- rows of views ---- */

enum { COLUMNS_MOST = 32, APPLICATION_NAME = 2 };

/* How a column of the view is used. */
struct use {
	int label; /* index of its label; -1: it is no label */
	int slot;  /* index of its number; -1: its number is not kept */
	bool is_sum;
	enum cell_merge merge;
	const char *name; /* borrowed from the view */
};

struct samples {
	const struct samples_kind *kind;
	enum samples_id id;
	unsigned label_count, slot_count;
	struct use uses[COLUMNS_MOST];
	const struct use *slot_uses[SLOTS_MOST];
	struct list rows;
	struct map *by_key;
	size_t most; /* see samples_new */
	/* the row that is being written */
	size_t column;
	char labels[LABELS_MOST][LABEL_MOST + 1];
	long long numbers[SLOTS_MOST];
};

/* ---- what is kept ---- */

static int label_of(const struct samples_kind *kind, const char *column)
{
	for (int i = 0; kind->labels[i]; i++)
		if (strcmp(kind->labels[i], column) == 0)
			return i;
	return -1;
}

/* Does a family want this column? */
static bool is_wanted(enum samples_id id, const char *column)
{
	const struct family *f;

	for (size_t i = 0; (f = family_at(i)); i++)
		if (f->samples == id &&
		    (strcmp(f->column, column) == 0 || strcmp(f->micros, column) == 0))
			return true;
	return false;
}

struct samples *samples_new(enum samples_id id, size_t most)
{
	struct samples *s = mem_zero(sizeof(*s));
	const struct view *view;

	s->id = id;
	s->kind = family_samples(id);
	s->most = most;
	view = view_find(s->kind->view);
	assert(view && view->column_count <= COLUMNS_MOST);
	list_init(&s->rows);
	s->by_key = map_new();
	for (size_t i = 0; i < view->column_count; i++) {
		const struct column *column = &view->columns[i];
		struct use *use = &s->uses[i];
		bool has_keys = s->kind->key_count == 0;
		*use = (struct use){
		    .label = label_of(s->kind, column->name),
		    .slot = -1,
		    .merge = column->type->merge,
		    /* SAMPLES_STATS gets a row for each pool, and their sum is served
		     */
		    .is_sum = s->id == SAMPLES_STATS || column->type->merge == CELL_SUM,
		    .name = column->name,
		};
		if (has_keys ? i != 1 : !is_wanted(s->id, column->name))
			continue;
		assert(s->slot_count < SLOTS_MOST);
		s->slot_uses[s->slot_count] = use;
		use->slot = (int)s->slot_count++;
	}
	while (s->kind->labels[s->label_count])
		s->label_count++;
	if (id == SAMPLES_CLIENTS)
		s->slot_count = 1; /* the number of clients */
	return s;
}

bool samples_drop_rows(struct samples *samples, size_t most)
{
	struct node *n;

	for (; most > 0; most--) {
		n = list_pop_front(&samples->rows);
		if (!n)
			return false;
		struct samples_row *row = container_of(n, struct samples_row, node);
		mem_free(row->labels);
		mem_free(row);
	}
	return true;
}

void samples_free(struct samples **sp)
{
	struct samples *s = *sp;

	if (!s)
		return;
	samples_drop_rows(s, SIZE_MAX);
	map_free(&s->by_key);
	mem_free(s);
	*sp = NULL;
}

/* ---- labels ---- */

/* The length of a character that begins with this byte; 0: no character does. */
static size_t utf8_wanted(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef)
		return 3;
	return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* The length of the character at p, 0 if it is none (RFC 3629, section 4). */
static size_t utf8_len(const unsigned char *p)
{
	unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
	size_t len = utf8_wanted(p[0]);

	for (size_t i = 1; i < len; i++) {
		if (p[i] < low || p[i] > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return len;
}

/* Each byte that is not UTF-8 is replaced. */
void samples_take_label(char out[LABEL_MOST + 1], const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	const unsigned char *p = (const unsigned char *)(text ? text : "");
	size_t at = 0;

	while (*p) {
		size_t len = utf8_len(p), put = len ? len : sizeof(replacement) - 1;
		if (at + put > LABEL_MOST)
			break;
		memcpy(out + at, len ? (const char *)p : replacement, put);
		at += put;
		p += len ? len : 1;
	}
	out[at] = '\0';
}

const char *samples_label(const struct samples_row *row, unsigned n)
{
	const char *at = row->labels;

	while (n-- > 0)
		at += strlen(at) + 1;
	return at;
}

/* ---- rows ---- */

/* The labels of the row that is being written; the first len bytes identify the row. */
struct key {
	struct buf labels;
	size_t len;
};

static void key_init(struct key *key, const struct samples *s)
{
	unsigned keys = s->kind->key_count ? s->kind->key_count : 1;

	buf_init_sure(&key->labels);
	for (unsigned i = 0; i < s->label_count; i++) {
		buf_put_str(&key->labels, s->labels[i]);
		if (i + 1 == keys)
			key->len = key->labels.len;
	}
}

static struct samples_row *find_row(const struct samples *s, const struct key *key)
{
	return map_get(s->by_key, key->labels.bytes, key->len);
}

static struct samples_row *add_row(struct samples *s, const struct key *key)
{
	struct samples_row *row =
	    mem_zero(sizeof(*row) + s->slot_count * sizeof(row->numbers[0]));

	row->labels = mem_dup(key->labels.bytes, key->labels.len);
	list_push_back(&s->rows, &row->node);
	map_put(s->by_key, row->labels, key->len, row);
	return row;
}

/* Merges two rows as views/merge does. */
static void combine(const struct samples *s, struct samples_row *row)
{
	int is_more = 0;

	for (unsigned i = 0; i < s->slot_count; i++) {
		const struct use *use = s->slot_uses[i];
		long long *old = &row->numbers[i], new = s->numbers[i];
		if (use->is_sum) {
			*old += new;
		} else if (use->merge == CELL_MOST) {
			is_more = (new > *old) - (new < *old);
			*old = is_more > 0 ? new : *old;
		} else if (use->merge == CELL_REST) {
			*old = is_more > 0 || (is_more == 0 && new > *old) ? new : *old;
		}
	}
}

static enum cell_merge merge_of_label(const struct samples *s, unsigned label)
{
	for (size_t i = 0; i < COLUMNS_MOST; i++)
		if (s->uses[i].name && s->uses[i].label == (int)label)
			return s->uses[i].merge;
	return CELL_FIRST;
}

/* Is what this site says of the label more than what the row has? */
static bool is_better_label(
    const struct samples *s, const struct samples_row *row, unsigned label)
{
	const char *old = samples_label(row, label), *new = s->labels[label];

	if (merge_of_label(s, label) == CELL_WORST)
		return merge_compare_states(new, old) > 0;
	return !*old && *new;
}

static void take_ordinary(struct samples *s)
{
	struct samples_row *row;
	struct key key;
	struct buf labels;

	key_init(&key, s);
	row = find_row(s, &key);
	if (row) {
		combine(s, row);
		bool has_changed = false;
		buf_init_sure(&labels);
		for (unsigned i = 0; i < s->label_count; i++) {
			bool is_better = is_better_label(s, row, i);
			has_changed = has_changed || is_better;
			buf_put_str(
			    &labels, is_better ? s->labels[i] : samples_label(row, i));
		}
		if (has_changed) {
			map_del(s->by_key, row->labels, key.len);
			mem_free(row->labels);
			row->labels = mem_dup(labels.bytes, labels.len);
			map_put(s->by_key, row->labels, key.len, row);
		}
		buf_done(&labels);
	} else {
		row = add_row(s, &key);
		memcpy(row->numbers, s->numbers, s->slot_count * sizeof(s->numbers[0]));
	}
	buf_done(&key.labels);
}

/* The row of application_name "other" for this database, user and state.  It is made
 * with the group's first client, so that the limit never leaves a client without a row.
 */
static struct samples_row *row_of_others(struct samples *s)
{
	char name[LABEL_MOST + 1];
	struct samples_row *row;
	struct key key;

	memcpy(name, s->labels[APPLICATION_NAME], sizeof(name));
	samples_take_label(s->labels[APPLICATION_NAME], "other");
	key_init(&key, s);
	row = find_row(s, &key);
	if (!row)
		row = add_row(s, &key);
	buf_done(&key.labels);
	memcpy(s->labels[APPLICATION_NAME], name, sizeof(name));
	return row;
}

static void take_client(struct samples *s)
{
	struct samples_row *others = row_of_others(s), *row;
	struct key key;

	key_init(&key, s);
	row = find_row(s, &key);
	if (!row && s->rows.count < s->most)
		row = add_row(s, &key);
	buf_done(&key.labels);
	(row ? row : others)->numbers[0]++;
}

static void take_row(void *ctx)
{
	struct samples *s = ctx;

	s->column = 0;
	if (s->id == SAMPLES_CLIENTS)
		take_client(s);
	else
		take_ordinary(s);
}

static void take_number(void *ctx, long long value)
{
	struct samples *s = ctx;
	const struct use *use = &s->uses[s->column++];

	if (use->slot >= 0)
		s->numbers[use->slot] = value;
	if (use->label >= 0)
		snprintf(s->labels[use->label], LABEL_MOST, "%lld", value);
}

static void take_text(void *ctx, const char *text)
{
	struct samples *s = ctx;
	const struct use *use = &s->uses[s->column++];

	if (use->label >= 0)
		samples_take_label(s->labels[use->label], text);
	if (use->slot < 0)
		return;
	s->numbers[use->slot] = 0;
	if (text)
		s->numbers[use->slot] =
		    strcmp(text, "yes") == 0 ? 1 : strtoll(text, NULL, 10);
}

const struct row_sink samples_sink = {
    .text = take_text,
    .number = take_number,
    .end = take_row,
};

/* ---- reading ---- */

const struct list *samples_rows(const struct samples *samples)
{
	return &samples->rows;
}

const struct samples_row *samples_find(const struct samples *samples, const char *key)
{
	return map_get(samples->by_key, key, strlen(key) + 1);
}

int samples_slot(const struct samples *samples, const char *name)
{
	if (*name && samples->kind->key_count == 0)
		return 0;
	for (unsigned i = 0; *name && i < samples->slot_count; i++)
		if (strcmp(samples->slot_uses[i]->name, name) == 0)
			return (int)i;
	return -1;
}
