/*
 * The table of errors at work: texts, codes, the printed reference.
 */
#include "session/errors.h"

#include <string.h>

static const struct {
	const char *sqlstate, *text, *help;
} error_rows[ERROR_COUNT] = {
#define ERROR_ROW(id, sqlstate, text, help) [ERROR_##id] = {sqlstate, text, help},
#include "session/errors.def"
#undef ERROR_ROW
};

const char *error_sqlstate(enum error_id id)
{
	return error_rows[id].sqlstate;
}

const char *error_text(enum error_id id)
{
	return error_rows[id].text;
}

int errors_describe(FILE *out, const char *as)
{
	if (strcmp(as, "md") != 0)
		return -1;
	fputs("# Errors\n\nWhat the pooler itself tells a client. All are FATAL: the "
	      "connection is closed. Errors of queries come from PostgreSQL "
	      "unchanged.\n\n"
	      "| text | SQLSTATE | what it means, and what to do |\n|---|---|---|\n",
	    out);
	for (size_t i = 0; i < ERROR_COUNT; i++)
		fprintf(out, "| `%s` | %s | %s |\n", error_rows[i].text,
		    error_rows[i].sqlstate, error_rows[i].help);
	return 0;
}
