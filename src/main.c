/*
 * Reads the command line and starts the part of the program that it asks for.
 */
#include <stdio.h>

#include "daemon/daemon.h"
#include "daemon/options.h"
#include "daemon/version.h"
#include "tools/ask_reload.h"
#include "tools/check.h"
#include "tools/explain.h"
#include "tools/make_userlist.h"
#include "top/top.h"

/* The exit code of a job that prints: 1 if the output could not be written, for example
 * to a full disk. */
static int printed(void)
{
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct options options;

	if (options_parse(&options, argc, argv) < 0)
		return 1;
	switch (options.action) {
	case OPTIONS_HELP:
		options_help(stdout, options.program);
		return printed();
	case OPTIONS_VERSION:
		version_print(stdout);
		return printed();
	case OPTIONS_CHECK:
		return check_config(stdout, &options) > 0 ? 1 : printed();
	case OPTIONS_EXPLAIN:
		return explain_config(stdout, &options) > 0 ? 1 : printed();
	case OPTIONS_MAKE_USERLIST:
		return make_userlist(&options);
	case OPTIONS_TOP:
		return top_run(&options);
	case OPTIONS_RELOAD:
		return ask_reload(&options);
	case OPTIONS_RUN:
		break;
	}
	return daemon_run(&options);
}
