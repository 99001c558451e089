/*
 * Errors, states of server connections, and metrics as tables of the documents.
 */
#include <string.h>

#include "base/errors.h"
#include "docs/docs.h"
#include "metrics/family.h"
#include "pool/pool.h"

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

static void put_successors(FILE *out, unsigned successors)
{
	const char *separator = "";

	for (unsigned i = 0; i < STATES; i++)
		if (successors & 1u << (SLOT_NONE + 1 + i)) {
			fprintf(out, "%s%s", separator, state_rows[i].shown);
			separator = ", ";
		}
}

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
		put_successors(out, row->successors);
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
