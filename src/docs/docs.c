/*
 * The program that prints a table for a document: TABLE FORM.
 */
#include "docs/docs.h"

#include <string.h>

static const struct topic {
	const char *name;
	int (*print)(FILE *out, const char *as);
} topics[] = {
    {"settings", docs_settings},
    {"databases", docs_databases},
    {"users", docs_users},
    {"peers", docs_peers},
    {"commands", docs_commands},
    {"views", docs_views},
    {"options", docs_options},
    {"errors", docs_errors},
    {"states", docs_states},
    {"metrics", docs_metrics},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 3 && i < sizeof(topics) / sizeof(topics[0]); i++)
		if (strcmp(topics[i].name, argv[1]) == 0)
			return topics[i].print(stdout, argv[2]) == 0 &&
				       fflush(stdout) == 0
				   ? 0
				   : 1;
	fputs("usage: docs TABLE md|man|ini\ntables:", stderr);
	for (size_t i = 0; i < sizeof(topics) / sizeof(topics[0]); i++)
		fprintf(stderr, " %s", topics[i].name);
	fputc('\n', stderr);
	return 1;
}
