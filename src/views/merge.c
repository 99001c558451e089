#include "views/merge.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

struct cell {
	enum { CELL_NULL, CELL_TEXT, CELL_NUMBER } kind;
	char *text; /* owned; of CELL_TEXT */
	long long number;
};

struct merged {
	size_t number; /* position in the order of arrival */
	char *key;     /* owned */
	struct cell cells[];
};

struct merge {
	const struct view *view;
	struct map *rows;   /* struct merged by key */
	struct merged *row; /* the one that is being received, or NULL */
	size_t cell_count;  /* its cells that have come */
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

/* ---- putting together ---- */

static bool is_null(const struct cell *cell)
{
	return cell->kind == CELL_NULL;
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
	    "not tried", "up", "unfit", "refuses", "hangs", "down"};
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
		long long x = a->number, y = b->number;
		switch (m->view->columns[i].type->merge) {
		case CELL_FIRST:
			if (is_null(a) || (a->text && !*a->text))
				swap(a, b);
			break;
		case CELL_SUM:
			*a = (struct cell){.kind = CELL_NUMBER, .number = x + y};
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
			if (!is_null(b) &&
			    (is_null(a) || is_more > 0 || (is_more == 0 && y > x)))
				swap(a, b);
			break;
		case CELL_LATEST:
			if (!is_null(b) && (is_null(a) || y > x))
				swap(a, b);
			break;
		}
	}
}

/* ---- receiving ---- */

static struct cell *next_cell(struct merge *m)
{
	size_t count = m->view->column_count;

	if (!m->row) {
		m->row = mem_zero(sizeof(*m->row) + count * sizeof(m->row->cells[0]));
		m->cell_count = 0;
	}
	assert(m->cell_count < count);
	return &m->row->cells[m->cell_count++];
}

static void receive_text(void *ctx, const char *text)
{
	if (text)
		*next_cell(ctx) =
		    (struct cell){.kind = CELL_TEXT, .text = mem_strdup(text)};
	else
		*next_cell(ctx) = (struct cell){.kind = CELL_NULL};
}

static void receive_number(void *ctx, long long value)
{
	*next_cell(ctx) = (struct cell){.kind = CELL_NUMBER, .number = value};
}

static void receive_end(void *ctx)
{
	struct merge *m = ctx;
	struct merged *row = m->row, *known;
	struct buf key;

	m->row = NULL;
	buf_init_sure(&key);
	for (size_t i = 0; i < m->view->key_count; i++) {
		const struct cell *cell = &row->cells[i];

		buf_put_u8(&key, (uint8_t)cell->kind);
		if (cell->kind == CELL_TEXT)
			buf_put(&key, cell->text, strlen(cell->text) + 1);
		else
			buf_put(&key, &cell->number, sizeof(cell->number));
	}
	known = map_get(m->rows, key.bytes, key.len);
	if (known) {
		combine(m, known, row);
		merged_free(m, row);
	} else {
		row->number = map_count(m->rows);
		row->key = mem_dup(key.bytes, key.len);
		map_put(m->rows, row->key, key.len, row);
	}
	buf_done(&key);
}

void merge_init_rows(struct merge *m, struct rows *rows, struct site *site)
{
	static const struct row_sink sink = {receive_text, receive_number, receive_end};

	rows_init_sink(rows, site, &sink, m);
}

/* ---- writing ---- */

struct order {
	const struct merged *row;
	const struct view *view;
};

static int compare(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	for (size_t i = 0; i < x->view->sorted_by; i++) {
		const struct cell *p = &x->row->cells[i], *q = &y->row->cells[i];
		/* columns of fixed length are numbers */
		bool is_number = x->view->columns[i].type->len > 0;
		int result =
		    is_number ? (p->number > q->number) - (p->number < q->number)
			      : strcmp(p->text ? p->text : "", q->text ? q->text : "");
		if (result)
			return result;
	}
	return (x->row->number > y->row->number) - (x->row->number < y->row->number);
}

static void put_row(const struct merge *m, const struct merged *row, struct rows *rows)
{
	row_begin(rows);
	for (size_t i = 0; i < m->view->column_count; i++) {
		const struct cell *cell = &row->cells[i];

		if (cell->kind != CELL_NUMBER)
			row_text(rows, cell->text);
		else if (m->view->columns[i].type == &cell_time)
			row_second(rows, (time_t)cell->number);
		else
			row_int8(rows, cell->number);
	}
	row_end(rows);
}

void merge_put(const struct merge *m, struct buf *out)
{
	size_t count = map_count(m->rows), at = 0, n = 0;
	struct order *order = mem_alloc((count + 1) * sizeof(*order));
	const struct merged *row;
	struct rows rows;

	rows_init(&rows, NULL, out, m->view->column_count);
	while ((row = map_next(m->rows, &at)))
		order[n++] = (struct order){row, m->view};
	qsort(order, count, sizeof(*order), compare);
	for (size_t i = 0; i < count; i++)
		put_row(m, order[i].row, &rows);
	mem_free(order);
}
