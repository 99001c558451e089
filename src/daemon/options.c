#include "daemon/options.h"

#include <getopt.h>

#include "base/text.h"

enum option_id {
#define OPTION(id, ...) OPTION_##id,
#include "daemon/options.def"
#undef OPTION
	OPTION_COUNT
};

static const struct option_row {
	char letter; /* 0: long form only */
	const char *name, *argument, *help, *details;
} option_rows[OPTION_COUNT] = {
#define OPTION(id, letter, name, argument, help, details) \
	[OPTION_##id] = {letter, name, argument, help, details},
#include "daemon/options.def"
#undef OPTION
};

/* getopt's codes for options without a letter begin above all letters. */
enum { CODE_BASE = 256 };

static int code_of(enum option_id id)
{
	return option_rows[id].letter ? option_rows[id].letter : CODE_BASE + (int)id;
}

static int id_of(int code)
{
	for (int id = 0; id < OPTION_COUNT; id++)
		if (code_of((enum option_id)id) == code)
			return id;
	return -1;
}

static void make_getopt_tables(
    char letters[2 * OPTION_COUNT + 1], struct option longs[OPTION_COUNT + 1])
{
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = &option_rows[id];

		longs[id] = (struct option){row->name,
		    row->argument ? required_argument : no_argument, NULL,
		    code_of((enum option_id)id)};
		if (!row->letter)
			continue;
		*letters++ = row->letter;
		if (row->argument)
			*letters++ = ':';
	}
	*letters = '\0';
	longs[OPTION_COUNT] = (struct option){NULL, 0, NULL, 0};
}

static void take_option(struct options *o, enum option_id id, const char *argument)
{
	switch (id) {
	case OPTION_DAEMON:
		o->is_daemon = true;
		break;
	case OPTION_QUIET:
		o->is_quiet = true;
		break;
	case OPTION_REBOOT:
		o->is_reboot = true;
		break;
	case OPTION_USER:
		o->user = argument;
		break;
	case OPTION_VERBOSE:
		o->verbose++;
		break;
	case OPTION_CHECK:
		o->action = OPTIONS_CHECK;
		break;
	case OPTION_EXPLAIN:
		o->action = OPTIONS_EXPLAIN;
		break;
	case OPTION_FOR_PGBOUNCER:
		o->is_for_pgbouncer = true;
		break;
	case OPTION_MAKE_USERLIST:
		o->action = OPTIONS_MAKE_USERLIST;
		o->conninfo = argument;
		break;
	case OPTION_OUTPUT:
		o->output = argument;
		break;
	case OPTION_TOP:
		o->action = OPTIONS_TOP;
		break;
	case OPTION_RELOAD:
		o->action = OPTIONS_RELOAD;
		break;
	case OPTION_VERSION:
		o->action = OPTIONS_VERSION;
		break;
	case OPTION_HELP:
		o->action = OPTIONS_HELP;
		break;
	case OPTION_COUNT:
		break;
	}
}

static int misuse(const struct options *o, const char *what)
{
	if (what)
		fprintf(stderr, "%s: %s\n", o->program, what);
	fprintf(stderr, "Try \"%s --help\" for more information.\n", o->program);
	return -1;
}

int options_parse(struct options *o, int argc, char **argv)
{
	struct option longs[OPTION_COUNT + 1];
	char letters[2 * OPTION_COUNT + 1];
	int code;

	*o = (struct options){.program = argc > 0 ? argv[0] : "pgbouncer"};
	make_getopt_tables(letters, longs);
	optind = 0; /* getopt may have been used before */
	while ((code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		int id = id_of(code);

		if (id < 0)
			return misuse(o, NULL);
		take_option(o, (enum option_id)id, optarg);
		/* further options are ignored */
		if (o->action == OPTIONS_HELP || o->action == OPTIONS_VERSION)
			return 0;
	}
	if (o->is_for_pgbouncer && o->action != OPTIONS_CHECK)
		return misuse(o, "--for-pgbouncer belongs to --check-config");
	if (o->action == OPTIONS_MAKE_USERLIST)
		return argc == optind
			   ? 0
			   : misuse(o, "--make-userlist takes one CONNINFO: quote it");
	if (o->output)
		return misuse(o, "--output belongs to --make-userlist");
	if (o->action == OPTIONS_TOP || o->action == OPTIONS_RELOAD) {
		o->conninfo = argv[optind];
		return argc - optind <= 1
			   ? 0
			   : misuse(
				 o, "--top and --reload take one CONNINFO: quote it");
	}
	if (argc - optind != 1)
		return misuse(o, "no configuration file specified");
	o->file = argv[optind];
	return 0;
}

enum { HELP_COLUMN = 26 };

void options_help(FILE *out, const char *program)
{
	fprintf(out,
	    "%s is a connection pooler for PostgreSQL.\n\n"
	    "Usage:\n  %s [OPTION]... CONFIG_FILE\n"
	    "  %s --make-userlist CONNINFO [-o FILE]\n"
	    "  %s --top [CONNINFO]\n"
	    "  %s --reload [CONNINFO]\n\nOptions:\n",
	    program, program, program, program, program);
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = &option_rows[id];
		char option[64], lead[sizeof(option)];
		int width = snprintf(option, sizeof(option), "  %c%c%c --%s%s%s",
		    row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
		    row->letter ? ',' : ' ', row->name, row->argument ? "=" : "",
		    row->argument ? row->argument : "");

		if (width >= HELP_COLUMN)
			fprintf(out, "%s\n", option);
		snprintf(lead, sizeof(lead), "%-*s", HELP_COLUMN,
		    width < HELP_COLUMN ? option : "");
		text_put_wrapped(out, lead, "%s", row->help);
	}
	fputs("\nReport bugs where you got this program from.\n"
	      "Manual and home page: see pgbouncer(1) and the README beside it.\n",
	    out);
}
