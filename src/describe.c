/*
 * Finds who prints a topic.  Two are put together here: the states of server
 * connections, a table without code of its own, and pgbouncer(1), which is more than
 * its options.
 */
#include "describe.h"

#include <stdlib.h>
#include <string.h>

#include "admin/describe.h"
#include "conf/settings.h"
#include "options.h"
#include "pool/pool.h"
#include "session/errors.h"
#include "troff.h"

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
		if (successors & 1u << (SEAT_NONE + 1 + i)) {
			fprintf(out, "%s%s", separator, state_rows[i].shown);
			separator = ", ";
		}
}

static int states_describe(FILE *out, const char *as)
{
	if (strcmp(as, "md") != 0)
		return -1;
	fputs(
	    "# States of server connections\n\n"
	    "From any of them a connection may also be closed.\n\n"
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

static const char man_console[] =
    ".SH CONSOLE COMMANDS\n"
    "Users named in admin_users and stats_users give them in the database\n"
    ".BR pgbouncer .\n";

static const char man_end[] =
    ".SH SIGNALS\n"
    ".TP\n.B SIGHUP\nRead the configuration again, as RELOAD does, and reopen the "
    "log.\n"
    ".TP\n.B SIGTERM\nShut down when the last client has gone. TCP connections are no\n"
    "longer accepted. A second signal ends the program at once.\n"
    ".TP\n.B SIGINT\nShut down when the last server connection was released; clients "
    "that\n"
    "need one are refused. A second signal ends the program at once.\n"
    ".TP\n.B SIGQUIT\nEnd at once.\n"
    ".TP\n.B SIGUSR1\nPause, as PAUSE does.\n"
    ".TP\n.B SIGUSR2\nGo on, as RESUME does.\n"
    ".SH EXIT STATUS\n"
    "0 after help, version and any shutdown; 1 after misuse, a fatal error, or when\n"
    "\\-\\-check\\-config has found a problem.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B NOTIFY_SOCKET\nWhere systemd is told about start, reload and stop, and "
    "about the\n"
    "statistics of every stats_period.\n"
    ".TP\n.BR LISTEN_FDS ,\\  LISTEN_PID\nSockets that systemd has opened. listen_addr "
    "and\n"
    "unix_socket_dir are not used then.\n"
    ".SH SEE ALSO\n"
    ".BR pgbouncer.ini (5)\n";

/* The command line; as a manual page, all of pgbouncer(1). */
static int program_describe(FILE *out, const char *as)
{
	if (options_describe(out, as) < 0)
		return -1;
	if (strcmp(as, "man") != 0)
		return 0;
	fputs(man_console, out);
	commands_describe(out, as);
	fputs(man_end, out);
	return 0;
}

static const struct topic {
	const char *name;
	int (*describe)(FILE *out, const char *as);
} topics[] = {
    {"settings", settings_describe},
    {"commands", commands_describe},
    {"views", views_describe},
    {"errors", errors_describe},
    {"states", states_describe},
    {"options", program_describe},
};

enum { TOPICS = sizeof(topics) / sizeof(topics[0]) };

/* A manual page of a topic that only knows Markdown. */
static int describe_by_markdown(FILE *out, const struct topic *topic)
{
	char *text = NULL;
	size_t len;
	FILE *md = open_memstream(&text, &len);
	int rc;

	if (!md)
		return -1;
	rc = topic->describe(md, "md");
	if (fclose(md) != 0)
		rc = -1;
	if (rc == 0)
		troff_from_markdown(out, topic->name, text);
	free(text);
	return rc;
}

int describe_topic(FILE *out, const char *topic, const char *form, FILE *complaints)
{
	for (size_t i = 0; i < TOPICS; i++) {
		if (strcmp(topics[i].name, topic) != 0)
			continue;
		if (topics[i].describe(out, form) == 0)
			return 0;
		if (strcmp(form, "man") == 0 &&
		    describe_by_markdown(out, &topics[i]) == 0)
			return 0;
		fprintf(complaints, "%s cannot be printed as %s\n", topic, form);
		return -1;
	}
	fprintf(complaints, "nothing is known about \"%s\"; topics are:", topic);
	for (size_t i = 0; i < TOPICS; i++)
		fprintf(complaints, " %s", topics[i].name);
	fputc('\n', complaints);
	return -1;
}
