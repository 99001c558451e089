/*
 * Errors, states of server connections, metrics, the command line, and the commands and
 * views of the console, as tables of the documents. The prose around them is in doc/in.
 */
#include <string.h>

#include "admin/verbs.h"
#include "base/errors.h"
#include "docs/docs.h"
#include "metrics/family.h"
#include "pool/pool.h"
#include "views/show.h"

/* ---- what clients are told ---- */

int docs_errors(FILE *out, const char *as)
{
	if (strcmp(as, "md") != 0)
		return -1;
	fputs(
	    "| text | severity, SQLSTATE | cause | remedy |\n|---|---|---|---|\n", out);
	for (enum error_id id = 0; id < ERROR_COUNT; id++)
		fprintf(out, "| `%s` | %s %s | %s | %s |\n", error_text(id),
		    error_severity(id), error_sqlstate(id), error_cause(id),
		    error_remedy(id));
	return 0;
}

/* ---- states of server connections ---- */

static const struct state_row {
	const char *shown, *socket, *column;
	unsigned successors; /* bits by position in the table */
	const char *deadline, *help;
} state_rows[] = {
#define STATE(name, shown, socket, column, successors, deadline, help) \
	{shown, socket, column, successors, deadline, help},
#include "pool/states.def"
#undef STATE
};

enum { STATES = sizeof(state_rows) / sizeof(state_rows[0]) };

int docs_states(FILE *out, const char *as)
{
	if (strcmp(as, "md") != 0)
		return -1;
	fputs(
	    "| SHOW SERVERS | SHOW SOCKETS | SHOW POOLS | what it means | may become | "
	    "limited by |\n|---|---|---|---|---|---|\n",
	    out);
	for (size_t i = 0; i < STATES; i++) {
		const struct state_row *row = &state_rows[i];

		fprintf(out, "| `%s` | `%s` | `%s` | %s | ", row->shown, row->socket,
		    row->column, row->help);
		const char *separator = "";

		for (unsigned next = 0; next < STATES; next++)
			if (row->successors & 1u << (SLOT_NONE + 1 + next)) {
				fprintf(out, "%s%s", separator, state_rows[next].shown);
				separator = ", ";
			}
		fprintf(out, " | %s |\n", row->deadline);
	}
	return 0;
}

/* ---- metrics ---- */

int docs_metrics(FILE *out, const char *as)
{
	const struct family *f;

	if (strcmp(as, "md") != 0)
		return -1;
	fputs("| metric | type | labels | from | what it is |\n|---|---|---|---|---|\n",
	    out);
#define GAUGE   "gauge"
#define COUNTER "counter"
#define OF_PROCESS(id, type, unit, name, labels, help) \
	fprintf(out, "| `%s` | %s | %s | | %s |\n", name, type, labels, help);
	METRIC_OF_PROCESS(OF_PROCESS)
#undef OF_PROCESS
#undef GAUGE
#undef COUNTER
	for (size_t i = 0; (f = family_at(i)); i++) {
		fprintf(out, "| `%s`", f->name);
		if (f->other)
			fprintf(out, "<br>`%s`", f->other);
		fprintf(
		    out, " | %s | ", f->type == FAMILY_COUNTER ? "counter" : "gauge");
		for (unsigned n = 0; n < family_label_count(f); n++)
			fprintf(out, "%s%s", n ? ", " : "",
			    family_samples(f->samples)->labels[n]);
		fputs(" | ", out);
		fprintf(out, "SHOW %s", family_samples(f->samples)->view);
		if (*f->column)
			fprintf(out, " `%s`", f->column);
		if (*f->micros)
			fprintf(out, " `%s`", f->micros);
		fprintf(out, " | %s |\n", f->help);
	}
#define DURATION(kind, name, help) \
	fprintf(out, "| `%s` | histogram | database, user | | %s |\n", name, help);
	METRIC_DURATIONS(DURATION)
#undef DURATION
	return 0;
}

/* ---- options ---- */

static const struct option_row {
	char letter; /* 0: long form only */
	const char *name, *argument, *help, *details;
} options[] = {
#define OPTION(id, ...) {__VA_ARGS__},
#include "daemon/options.def"
#undef OPTION
};

enum { OPTIONS = sizeof(options) / sizeof(options[0]) };

static void options_as_md(FILE *out)
{
	fputs("| option | what it does |\n|---|---|\n", out);
	for (int id = 0; id < OPTIONS; id++) {
		const struct option_row *row = &options[id];

		fputs("| ", out);
		if (row->letter)
			fprintf(out, "`-%c%s%s`, ", row->letter,
			    row->argument ? " " : "",
			    row->argument ? row->argument : "");
		fprintf(out, "`--%s%s%s` | %c%s.%s%s |\n", row->name,
		    row->argument ? "=" : "", row->argument ? row->argument : "",
		    row->help[0] - 'a' + 'A', row->help + 1, *row->details ? " " : "",
		    row->details);
	}
}

/* Escapes hyphens, so that they can be copied from the page. */
static void put_man_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '-')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void put_man_option(FILE *out, const struct option_row *row)
{
	fputs(".TP\n", out);
	if (row->letter)
		fprintf(out, "\\fB\\-%c\\fR%s%s%s, ", row->letter,
		    row->argument ? " \\fI" : "", row->argument ? row->argument : "",
		    row->argument ? "\\fR" : "");
	fputs("\\fB\\-\\-", out);
	put_man_text(out, row->name);
	fprintf(out, "\\fR%s%s%s\n", row->argument ? "=\\fI" : "",
	    row->argument ? row->argument : "", row->argument ? "\\fR" : "");
	fputc(row->help[0] - 'a' + 'A', out);
	put_man_text(out, row->help + 1);
	fputs(".\n", out);
	if (*row->details) {
		put_man_text(out, row->details);
		fputc('\n', out);
	}
}

int docs_options(FILE *out, const char *as)
{
	if (strcmp(as, "md") == 0) {
		options_as_md(out);
		return 0;
	}
	if (strcmp(as, "man") != 0)
		return -1;
	for (int id = 0; id < OPTIONS; id++)
		put_man_option(out, &options[id]);
	return 0;
}

/* ---- the console ---- */

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
