/*
 * The answer of a console to one SHOW.
 */
#include "top/table.h"

#include <stdlib.h>
#include <string.h>

void table_clear(struct table *t)
{
	arena_free(&t->arena);
	mem_free((void *)t->cells);
	*t = (struct table){.arena = NULL};
}

/* Copies a text and replaces control characters, which would move the cursor. */
static const char *text_of(struct table *t, const uint8_t *text, size_t len)
{
	if (!t->arena)
		t->arena = arena_new();
	char *copy = arena_alloc(t->arena, len + 1);
	for (size_t i = 0; i < len; i++)
		copy[i] = text[i] < ' ' || text[i] == 0x7f ? ' ' : (char)text[i];
	copy[len] = '\0';
	return copy;
}

void table_put_name(struct table *t, const uint8_t *text, size_t len)
{
	if (t->column_count < TABLE_COLUMNS)
		t->names[t->column_count++] = text_of(t, text, len);
}

int table_begin_row(struct table *t, size_t count)
{
	size_t need = (t->row_count + 1) * t->column_count;

	if (count != t->column_count || count == 0)
		return -1;
	if (need > t->room) {
		t->room = 2 * need;
		t->cells = mem_resize((void *)t->cells, t->room * sizeof(*t->cells));
	}
	for (size_t i = need - count; i < need; i++)
		t->cells[i] = "";
	t->row_count++;
	return 0;
}

void table_put_cell(struct table *t, size_t column, const uint8_t *text, size_t len)
{
	if (text)
		t->cells[(t->row_count - 1) * t->column_count + column] =
		    text_of(t, text, len);
}

int table_column(const struct table *t, const char *name)
{
	for (size_t i = 0; i < t->column_count; i++)
		if (strcmp(t->names[i], name) == 0)
			return (int)i;
	return -1;
}

const char *table_text(const struct table *t, size_t row, const char *name)
{
	int column = table_column(t, name);

	return column < 0 ? "" : t->cells[row * t->column_count + (size_t)column];
}

double table_number(const struct table *t, size_t row, const char *name)
{
	return strtod(table_text(t, row, name), NULL);
}

double table_sum(const struct table *t, const char *name, const char *but)
{
	double sum = 0;

	for (size_t row = 0; row < t->row_count; row++)
		if (!but || strcmp(t->cells[row * t->column_count], but) != 0)
			sum += table_number(t, row, name);
	return sum;
}

int table_find(const struct table *t, const char **texts, size_t count, size_t hint)
{
	if (t->column_count < count)
		return -1;
	for (size_t i = 0; i < t->row_count; i++) {
		size_t row = (hint + i) % t->row_count, key = 0;
		const char **have = t->cells + row * t->column_count;
		while (key < count && strcmp(have[key], texts[key]) == 0)
			key++;
		if (key == count)
			return (int)row;
	}
	return -1;
}
