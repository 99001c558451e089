/*
 * Tracked parameters: the values a client wants and a server has, and their difference
 * as one SET.  Values are interned, and so are sets of them: equal values are equal
 * pointers, a thousand clients that want the same share one set, and a client and a
 * server that agree have the same.
 */
#ifndef WIRE_VARS_H
#define WIRE_VARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Built-in parameters in the order in which the greeting reports them. */
enum {
	VAR_DATESTYLE,
	VAR_CLIENT_ENCODING,
	VAR_TIMEZONE,
	VAR_STD_STRINGS,
	VAR_APPLICATION_NAME,
	VAR_BUILTIN_COUNT
};

/* The names in order (built-in, extra ones, then all that servers are known to report
 * and clients may change) and the pool of interned values. */
struct vars_schema;

/* extra: comma-separated names as in track_extra_parameters; duplicates of earlier ones
 * are left out. */
struct vars_schema *vars_schema_new(const char *extra);
void vars_schema_free(struct vars_schema **s); /* all sets must be done */
size_t vars_schema_count(const struct vars_schema *s);
const char *vars_schema_name(const struct vars_schema *s, size_t i);
/* Is it built-in or in the extra list?  The others are tracked for what servers report
 * of them, but a client may not ask for them at its start: a server that does not
 * report one would not be told. */
bool vars_schema_is_named(const struct vars_schema *s, size_t i);
/* in_hot_standby is tracked, but nobody can SET or RESET it. */
bool vars_schema_may_be_set(const struct vars_schema *s, size_t i);
/* -1 when the name (case-insensitive) is not tracked. */
int vars_schema_find(const struct vars_schema *s, const char *name);

struct vars_set; /* interned, never changed */

struct vars {
	struct vars_set *set; /* a reference; NULL once done */
};

void vars_init(struct vars *v, struct vars_schema *schema);
void vars_done(struct vars *v);
const struct vars_schema *vars_schema(const struct vars *v);
/* Another set from now on.  text NULL unsets.  -1: no memory for a value whose size a
 * peer chose. */
int vars_set(struct vars *v, size_t i, const char *text);
/* NULL when unset. */
const char *vars_get(const struct vars *v, size_t i);
/* A text that stands for the values of those parameters that PostgreSQL reads when it
 * prepares a statement: the same for equal values.  It is valid as long as v is not
 * changed.  NULL: no memory. */
const char *vars_reading(const struct vars *v);
/* Bits of these parameters, of the first 64. */
uint64_t vars_schema_read_bits(const struct vars_schema *s);
/* Take every value that from has (unset ones leave to's alone). */
void vars_take(struct vars *to, const struct vars *from);
/* Take the values that to has none of. */
void vars_fill(struct vars *to, const struct vars *from);
/* Is parameter i the same in both, in every byte? */
bool vars_is_same(const struct vars *a, const struct vars *b, size_t i);
/* Are all of them? */
bool vars_is_equal(const struct vars *a, const struct vars *b);
/* Is there anything to SET on a server that has `server`, for a client that wants
 * `client`?  Both must have a value and they must differ ignoring case. */
bool vars_is_different(const struct vars *client, const struct vars *server);
/* Append `SET name='value';...` for all that differ.  search_path is sent unquoted as
 * reported (an element "" as ''), others as literals.  Returns how many. */
size_t vars_put_set(
    const struct vars *client, const struct vars *server, struct buf *sql);
/* The same for parameter i alone, without the semicolon; word stands behind SET ("", or
 * "LOCAL ").  False: it does not differ. */
bool vars_is_put_set(const struct vars *client, const struct vars *server, size_t i,
    const char *word, struct buf *sql);
/* Append `RESET name` for parameter i. */
void vars_put_reset(const struct vars_schema *s, size_t i, struct buf *sql);
/* Append a ParameterStatus for each value: wanted's if it has one, else server's; names
 * as in the schema; unknown ones are left out. */
void vars_put_status(
    const struct vars *wanted, const struct vars *server, struct buf *out);

#endif
