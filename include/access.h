/*
 * The files that say who may log in from where: auth_hba_file and auth_ident_file, read
 * when auth_type is hba.
 */
#ifndef ACCESS_H
#define ACCESS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "conf/settings.h"
#include "session/rules.h"

/* What was read. */
struct access {
	struct rules *rules; /* NULL: auth_type does not ask for any */
	struct buf notes;    /* places and texts in turn, each with its NUL */
	/* Why a file could not be read, "" when it could: there are no maps then, or no
	 * rules, so that nobody gets in. */
	struct err no_ident, no_hba;
};

void access_read(struct access *a, const struct settings *s);
void access_done(struct access *a);
bool access_is_complete(const struct access *a);
/* Has one of the settings changed that say what to read? */
bool access_is_other(const struct settings *a, const struct settings *b);
/* Log what was odd. */
void access_tell(const struct access *a, struct log *log);
/* Print it as "FILE:LINE: what is wrong".  Returns the number of lines. */
unsigned access_print(const struct access *a, FILE *out);

#endif
