/*
 * Converts Markdown to troff, line by line: headings, tables, paragraphs, inline code.
 * It supports only the Markdown that the program's tables use.
 */
#include "tools/troff.h"

#include <stdbool.h>
#include <string.h>

enum { COLUMNS_MAX = 16 };

struct table {
	size_t count; /* columns; 0: not in a table */
	char *names[COLUMNS_MAX];
};

/* Removes the marks of inline code and the backslashes of Markdown, and escapes troff's
 * special characters. */
static void put_text(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '\\' && text[1])
			text++;
		else if (*text == '`')
			continue;
		if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\\')
			fputs("\\e", out);
		else
			fputc(*text, out);
	}
}

static char *trim(char *text)
{
	char *end;

	text += strspn(text, " ");
	end = text + strlen(text);
	while (end > text && end[-1] == ' ')
		*--end = '\0';
	return text;
}

/* Cuts a row such as "| a | b |" into cells, in place; an escaped bar does not end a
 * cell. */
static size_t cut_cells(char *line, char *cells[COLUMNS_MAX])
{
	size_t count = 0;
	char *at = line + 1;

	for (char *p = at; *p && count < COLUMNS_MAX; p++) {
		if (*p == '\\' && p[1]) {
			p++;
		} else if (*p == '|') {
			*p = '\0';
			cells[count++] = trim(at);
			at = p + 1;
		}
	}
	return count;
}

static void put_row(FILE *out, const struct table *table, char *line)
{
	char *cells[COLUMNS_MAX];
	size_t count = cut_cells(line, cells);

	if (count == 0)
		return;
	fputs(".TP\n\\fB", out);
	put_text(out, cells[0]);
	fputs("\\fR\n", out);
	for (size_t i = 1; i < count && i < table->count; i++) {
		if (!*cells[i])
			continue;
		put_text(out, table->names[i]);
		fputs(": ", out);
		put_text(out, cells[i]);
		fputs("\n.br\n", out);
	}
}

static void put_line(FILE *out, struct table *table, char *line)
{
	bool is_row = line[0] == '|';

	if (!is_row)
		table->count = 0;
	if (is_row && table->count == 0) {
		table->count = cut_cells(line, table->names);
	} else if (is_row && strncmp(line, "|--", 3) != 0) {
		put_row(out, table, line);
	} else if (line[0] == '#') {
		size_t depth = strspn(line, "#");

		fputs(depth < 3 ? ".SH " : ".SS ", out);
		put_text(out, trim(line + depth));
		fputc('\n', out);
	} else if (line[0] == '\0') {
		fputs(".PP\n", out);
	} else if (!is_row) {
		put_text(out, line);
		fputc('\n', out);
	}
}

void troff_from_markdown(FILE *out, char *text)
{
	struct table table = {.count = 0};
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")) && rest)
		put_line(out, &table, line);
}
