/*
 * A connection string as libpq takes it, with the variables of its environment, made an
 * entry as in [databases].
 */
#ifndef DAEMON_LIBPQ_ENTRY_H
#define DAEMON_LIBPQ_ENTRY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum { LIBPQ_ENTRY_KEYS = 7 };

struct libpq_entry {
	struct buf text;
	bool has[LIBPQ_ENTRY_KEYS];
};

/* What counts where neither string nor environment says it; NULL: nothing. */
struct libpq_defaults {
	const char *dbname, *port;
};

void libpq_entry_init(struct libpq_entry *entry);
/* The text may hold a password: it is wiped. */
void libpq_entry_done(struct libpq_entry *entry);
int libpq_entry_read(struct libpq_entry *entry, const char *conninfo,
    const struct libpq_defaults *defaults, struct err *err);
void libpq_entry_put(struct libpq_entry *entry, const char *key, const char *value);

#endif
