/*
 * Prints commands and views from the tables that the console uses.  The prose around
 * them is in doc/in.
 */
#include <string.h>

#include "admin/verbs.h"
#include "docs/docs.h"
#include "views/show.h"

/* Escapes the character |, which would end a cell of the table. */
static void put_cell(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '|')
			fputc('\\', out);
		fputc(*text, out);
	}
}

/* Prints each line of a usage as code. */
static void put_usage(FILE *out, const char *usage)
{
	for (;;) {
		int len = (int)strcspn(usage, "\n");
		char line[128];
		snprintf(line, sizeof(line), "%.*s", len, usage);
		fputs("`", out);
		put_cell(out, line);
		fputs("`", out);
		if (!usage[len])
			return;
		usage += len + 1;
		fputs("<br>", out);
	}
}

static const char *usage_of(const struct verb *verb)
{
	if (verb->usage)
		return verb->usage;
	return strcmp(verb->name, "SHOW") == 0 ? "SHOW <view>" : "SELECT <view>";
}

/* Escapes hyphens, so that they can be copied from the page. */
static void put_troff(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\n.TQ\n.B ", out);
		else if (*text == '-' || *text == '\\')
			fprintf(out, "\\%c", *text == '\\' ? 'e' : '-');
		else
			fputc(*text, out);
	}
}

int docs_commands(FILE *out, const char *as)
{
	const struct verb *verb;

	if (strcmp(as, "md") == 0) {
		fputs("| command | who | what it does |\n|---|---|---|\n", out);
		for (size_t i = 0; (verb = verb_at(i)); i++) {
			fputs("| ", out);
			put_usage(out, usage_of(verb));
			fprintf(out, " | %s | ", verb->is_for_anyone ? "all" : "admin");
			put_cell(out, verb->help);
			fputs(" |\n", out);
		}
	} else if (strcmp(as, "man") == 0) {
		for (size_t i = 0; (verb = verb_at(i)); i++) {
			fputs(".TP\n.B ", out);
			put_troff(out, usage_of(verb));
			fputc('\n', out);
			put_troff(out, verb->help);
			fputc('\n', out);
		}
	} else {
		return -1;
	}
	return 0;
}

static void view_as_md(FILE *out, const struct view *view)
{
	fprintf(out, "\n### SHOW %s\n\n%s\n", view->name, view->help);
	if (view->is_admin_only)
		fputs("For admins only.\n", out);
	if (view->column_count == 0)
		return;
	fputs("\n| column | type | meaning |\n|---|---|---|\n", out);
	for (size_t i = 0; i < view->column_count; i++) {
		const struct column *column = &view->columns[i];
		fprintf(out, "| %s | %s | ", column->name, column->type->word);
		put_cell(out, column->help);
		fputs(" |\n", out);
	}
}

int docs_views(FILE *out, const char *as)
{
	const struct view *view;

	if (strcmp(as, "md") != 0)
		return -1;
	for (size_t i = 0; (view = view_at(i)); i++)
		view_as_md(out, view);
	return 0;
}
