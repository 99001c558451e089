/*
 * Converts a connection string of libpq, together with libpq's environment variables,
 * to the form of an entry of [databases].
 */
#ifndef TOOLS_LIBPQ_ENTRY_H
#define TOOLS_LIBPQ_ENTRY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum { LIBPQ_ENTRY_KEYS = 8 };

struct libpq_entry {
	struct buf text;
	char *values[LIBPQ_ENTRY_KEYS]; /* owned; NULL: not given */
	bool has_file_password;
};

/* The values that apply if neither the string nor the environment has one; NULL: none.
 */
struct libpq_defaults {
	const char *dbname, *port;
	bool is_console; /* PGDATABASE means another database */
};

void libpq_entry_init(struct libpq_entry *entry);
/* Wipes the text, which may contain a password. */
void libpq_entry_done(struct libpq_entry *entry);
/* A password that stands nowhere else comes from the password file; one that cannot be
 * used is told on stderr. */
int libpq_entry_read(struct libpq_entry *entry, const char *conninfo,
    const struct libpq_defaults *defaults, struct err *err);
void libpq_entry_put(struct libpq_entry *entry, const char *key, const char *value);
/* Adds where the password came from to the error of a refused login. */
void libpq_entry_explain(const struct libpq_entry *entry, struct err *err);

#endif
