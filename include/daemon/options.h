/*
 * The command line: one table feeds getopt, --help and the manual page.
 */
#ifndef DAEMON_OPTIONS_H
#define DAEMON_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

enum options_action {
	OPTIONS_RUN,
	OPTIONS_CHECK,
	OPTIONS_EXPLAIN,
	OPTIONS_MAKE_USERLIST,
	OPTIONS_TOP,
	OPTIONS_RELOAD,
	OPTIONS_VERSION,
	OPTIONS_HELP,
};

/* Texts point into argv. */
struct options {
	enum options_action action;
	const char *program;
	const char *file;     /* NULL for actions that need none */
	const char *user;     /* NULL: not given */
	const char *conninfo; /* NULL: none was given */
	const char *output;   /* NULL: stdout */
	int verbose;          /* how often -v was given */
	bool is_daemon, is_quiet, is_reboot, is_for_pgbouncer;
};

/* Reads the command line; reorders argv.  -1: wrong usage, which has been explained on
 * stderr. */
int options_parse(struct options *o, int argc, char **argv);
/* Prints the text of --help. */
void options_help(FILE *out, const char *program);

#endif
