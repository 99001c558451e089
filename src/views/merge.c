/*
 * Merges rows with the same key; the types of their columns (views.def) say how.
 */
#include "views/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "wire/codec.h"

struct cell {
	char *text; /* owned; NULL: SQL NULL */
};

struct merged {
	size_t number; /* position in the order of arrival */
	char *key;     /* owned */
	size_t key_len;
	struct cell cells[];
};

struct merge {
	const struct view *view;
	struct map *rows; /* struct merged by key */
};

struct merge *merge_new(const struct view *view)
{
	struct merge *m = mem_zero(sizeof(*m));

	m->view = view;
	m->rows = map_new();
	return m;
}

static void merged_free(const struct merge *m, struct merged *row)
{
	for (size_t i = 0; i < m->view->column_count; i++)
		mem_free(row->cells[i].text);
	mem_free(row->key);
	mem_free(row);
}

void merge_free(struct merge **mp)
{
	struct merge *m = *mp;
	struct merged *row;
	size_t at = 0;

	if (!m)
		return;
	while ((row = map_next(m->rows, &at)))
		merged_free(m, row);
	map_free(&m->rows);
	mem_free(m);
	*mp = NULL;
}

/* ---- reading ---- */

static uint32_t read_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads a DataRow that this program has written, so it is well-formed. */
static struct merged *read_row(const struct merge *m, const uint8_t *body)
{
	size_t count = m->view->column_count;
	struct merged *row = mem_zero(sizeof(*row) + count * sizeof(row->cells[0]));
	const uint8_t *at = body + 2;

	for (size_t i = 0; i < count; i++) {
		uint32_t len = read_u32(at);
		at += 4;
		if (len != UINT32_MAX) {
			row->cells[i].text = mem_alloc(len + 1);
			memcpy(row->cells[i].text, at, len);
			row->cells[i].text[len] = '\0';
			at += len;
		}
		if (i + 1 == m->view->key_count)
			row->key_len = (size_t)(at - body) - 2;
	}
	row->key = mem_dup(body + 2, row->key_len);
	row->number = map_count(m->rows);
	return row;
}

/* ---- putting together ---- */

static long long number_of(const struct cell *cell)
{
	return cell->text ? strtoll(cell->text, NULL, 10) : 0;
}

static void set_number(struct cell *cell, long long number)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", number);
	mem_free(cell->text);
	cell->text = mem_strdup(text);
}

static void swap(struct cell *a, struct cell *b)
{
	struct cell c = *a;

	*a = *b;
	*b = c;
}

static int rank_of(const char *state)
{
	static const char *const states[] = {
	    "up", "unfit", "not tried", "probing", "refuses", "hangs", "down"};
	int rank = 0;

	for (int i = 0; state && i < (int)(sizeof(states) / sizeof(states[0])); i++)
		if (strcmp(state, states[i]) == 0)
			rank = i;
	return rank;
}

int merge_compare_states(const char *a, const char *b)
{
	return rank_of(a) - rank_of(b);
}

/* Merges a row into another one.  A CELL_REST cell comes from the row whose cell before
 * it was taken. */
static void combine(const struct merge *m, struct merged *into, struct merged *from)
{
	int is_more = 0;

	for (size_t i = m->view->key_count; i < m->view->column_count; i++) {
		struct cell *a = &into->cells[i], *b = &from->cells[i];
		long long x = number_of(a), y = number_of(b);
		switch (m->view->columns[i].type->merge) {
		case CELL_FIRST:
			if (!a->text || !*a->text)
				swap(a, b);
			break;
		case CELL_SUM:
			set_number(a, x + y);
			break;
		case CELL_MOST:
			is_more = (y > x) - (y < x);
			if (is_more > 0)
				swap(a, b);
			break;
		case CELL_WORST:
			is_more = merge_compare_states(b->text, a->text);
			if (is_more > 0)
				swap(a, b);
			break;
		case CELL_REST:
			if (b->text &&
			    (!a->text || is_more > 0 || (is_more == 0 && y > x)))
				swap(a, b);
			break;
		case CELL_LATEST:
			if (b->text && (!a->text || strcmp(b->text, a->text) > 0))
				swap(a, b);
			break;
		}
	}
}

static void add_row(struct merge *m, const uint8_t *body)
{
	struct merged *row = read_row(m, body);
	struct merged *known = map_get(m->rows, row->key, row->key_len);

	if (!known) {
		map_put(m->rows, row->key, row->key_len, row);
		return;
	}
	combine(m, known, row);
	merged_free(m, row);
}

void merge_add(struct merge *m, const struct buf *rows)
{
	const uint8_t *at = rows->bytes, *end = at + rows->len;

	while (at < end) {
		add_row(m, at + 5);
		at += 1 + read_u32(at + 1);
	}
}

/* ---- writing ---- */

struct order {
	const struct merged *row;
	const struct view *view;
};

/* Columns of fixed length are numbers. */
static int compare_cells(
    const struct column *column, const struct cell *a, const struct cell *b)
{
	long long x = number_of(a), y = number_of(b);

	if (column->type->len > 0)
		return (x > y) - (x < y);
	return strcmp(a->text ? a->text : "", b->text ? b->text : "");
}

static int compare(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	for (size_t i = 0; i < x->view->sorted_by; i++) {
		int result = compare_cells(
		    &x->view->columns[i], &x->row->cells[i], &y->row->cells[i]);
		if (result)
			return result;
	}
	return (x->row->number > y->row->number) - (x->row->number < y->row->number);
}

static void put_row(const struct merge *m, const struct merged *row, struct buf *out)
{
	size_t at = codec_begin_row(out, m->view->column_count);

	for (size_t i = 0; i < m->view->column_count; i++)
		codec_put_field(out, row->cells[i].text);
	codec_end_row(out, at);
}

void merge_put(const struct merge *m, struct buf *out)
{
	size_t count = map_count(m->rows), at = 0, n = 0;
	struct order *order = mem_alloc((count + 1) * sizeof(*order));
	const struct merged *row;

	while ((row = map_next(m->rows, &at)))
		order[n++] = (struct order){row, m->view};
	qsort(order, count, sizeof(*order), compare);
	for (size_t i = 0; i < count; i++)
		put_row(m, order[i].row, out);
	mem_free(order);
}
