/*
 * The command line as text for the manual.
 */
#include <string.h>

#include "docs/docs.h"

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
