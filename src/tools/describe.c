/*
 * Finds the function that prints the table of a topic.  The table of states of server
 * connections is printed here, because no other file does it.
 */
#include "tools/describe.h"

#include <stdlib.h>
#include <string.h>

#include "admin/describe.h"
#include "base/errors.h"
#include "conf/settings.h"
#include "daemon/options.h"
#include "metrics/family.h"
#include "pool/pool.h"
#include "tools/troff.h"

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

static const struct topic {
	const char *name;
	int (*describe)(FILE *out, const char *as);
} topics[] = {
    {"settings", describe_settings},
    {"databases", describe_database_keys},
    {"users", describe_user_keys},
    {"peers", describe_peer_keys},
    {"commands", describe_commands},
    {"views", describe_views},
    {"errors", errors_describe},
    {"states", states_describe},
    {"metrics", family_describe},
    {"options", options_describe},
};

enum { TOPICS = sizeof(topics) / sizeof(topics[0]) };

/* Prints a table that is available only as Markdown as a manual page. */
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
		troff_from_markdown(out, text);
	free(text);
	return rc;
}

static int describe_as_man(FILE *out, const struct topic *topic)
{
	fprintf(out, ".TH %s 7 \"\" PgBouncer \"Reference\"\n", topic->name);
	if (topic->describe(out, "man") == 0)
		return 0;
	return describe_by_markdown(out, topic);
}

int describe_topic(FILE *out, const char *topic, const char *form, FILE *complaints)
{
	for (size_t i = 0; i < TOPICS; i++) {
		if (strcmp(topics[i].name, topic) != 0)
			continue;
		if (strcmp(form, "man") == 0 ? describe_as_man(out, &topics[i]) == 0
					     : topics[i].describe(out, form) == 0)
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
