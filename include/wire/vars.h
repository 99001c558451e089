/*
 * Tracked parameters: the values that a client wants, the values that a server has, and
 * the SET commands that make the two equal.  Values and whole sets of values are
 * interned: equal sets are the same pointer, so that a thousand clients with the same
 * values share one set, and comparing is cheap.
 */
#ifndef WIRE_VARS_H
#define WIRE_VARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Built-in parameters, in the order in which a server reports them at a login. */
enum {
	VAR_DATESTYLE,
	VAR_CLIENT_ENCODING,
	VAR_TIMEZONE,
	VAR_STD_STRINGS,
	VAR_APPLICATION_NAME,
	VAR_BUILTIN_COUNT
};

/* The names in order (built-in ones, extra ones, then all others that servers are known
 * to report and clients may change, and those that are learned from servers) and the
 * pool of interned values. */
struct vars_schema;

/* extra: comma-separated names as in track_extra_parameters; names that are already
 * there are skipped. */
struct vars_schema *vars_schema_new(const char *extra);
/* vars_done must have been called for all sets */
void vars_schema_free(struct vars_schema **s);
size_t vars_schema_count(const struct vars_schema *s);
const char *vars_schema_name(const struct vars_schema *s, size_t i);
/* Whether it is built-in or in the extra list.  The others are tracked as servers
 * report them, but a client may not set them in its startup packet, because a server
 * that does not report such a parameter would never get it. */
bool vars_schema_is_named(const struct vars_schema *s, size_t i);
/* False for in_hot_standby, which is tracked although nobody can SET or RESET it. */
bool vars_schema_may_be_set(const struct vars_schema *s, size_t i);
/* Returns the index of a name (case-insensitive), or -1 when it is not tracked. */
int vars_schema_find(const struct vars_schema *s, const char *name);
/* The same for a name that a server reports: it is tracked from now on, if a client may
 * set such a parameter and there is room.  Names that nobody has reported yet are "".
 */
int vars_schema_learn(struct vars_schema *s, const char *name);
/* Is it one of these? */
bool vars_schema_is_learned(const struct vars_schema *s, size_t i);
/* Threads that share the list learn the same names.  To be called before anything is
 * learned. */
struct reported_names;
void vars_schema_share(struct vars_schema *s, struct reported_names *reported);

struct vars_set; /* interned, so it never changes */

struct vars {
	struct vars_set *set; /* a reference; NULL after vars_done */
};

void vars_init(struct vars *v, struct vars_schema *schema);
void vars_done(struct vars *v);
const struct vars_schema *vars_schema(const struct vars *v);
/* Sets one value; text NULL unsets it.  -1: no memory (a peer chose the size of the
 * value). */
int vars_set(struct vars *v, size_t i, const char *text);
/* Sets one value to a text in this encoding, which matters only if it has bytes outside
 * ASCII.  vars_set takes it to be in the client_encoding that v has.  NULL: unknown. */
int vars_set_in(struct vars *v, size_t i, const char *text, const char *encoding);
/* Takes over value i with its encoding; none, if `from` has none. */
void vars_copy(struct vars *to, const struct vars *from, size_t i);
/* Values of these parameters (bits) that have bytes outside ASCII are in the
 * client_encoding that v has now.  -1: no memory. */
int vars_set_encoding(struct vars *v, uint64_t parameters);
bool vars_is_outside_ascii(const struct vars *v, size_t i);
/* NULL: the value has only ASCII, or its encoding is not known, or there is none. */
const char *vars_encoding(const struct vars *v, size_t i);
/* Whether a client that wants `client` can be told value i: it is in its
 * client_encoding, or neither PostgreSQL would convert it, because one of the two is
 * SQL_ASCII. */
bool vars_may_be_told(const struct vars *client, const struct vars *v, size_t i);
/* NULL: the parameter has no value. */
const char *vars_get(const struct vars *v, size_t i);
/* Returns a string that stands for the values of all parameters that influence how
 * PostgreSQL understands a text in Parse.  Equal values give equal strings.  It is
 * valid until v changes.  NULL: no memory. */
const char *vars_reading(const struct vars *v);
/* Whether PostgreSQL reads names or operators, evaluates constants, or warns by a
 * parameter of this name, and does not report it: what it makes of a text in Parse is
 * another tree then, or an error.  search_path is none, for it is looked at again with
 * each Bind. */
bool vars_is_silently_read(const char *name, size_t len);
/* The bits of these parameters, as far as they are among the first 64. */
uint64_t vars_schema_read_bits(const struct vars_schema *s);
/* Makes `to`, which may be zeroed or have a set, the same as `from`. */
void vars_share(struct vars *to, const struct vars *from);
/* Takes over every value that `from` has; other values of `to` stay. */
void vars_take(struct vars *to, const struct vars *from);
/* Takes over the values that `to` does not have. */
void vars_fill(struct vars *to, const struct vars *from);
/* Whether parameter i has the same value in both, byte for byte. */
bool vars_is_same(const struct vars *a, const struct vars *b, size_t i);
/* Whether all parameters have the same values. */
bool vars_is_equal(const struct vars *a, const struct vars *b);
/* Appends all values, for a schema with the same names: that of another thread. */
void vars_put_all(const struct vars *v, struct buf *out);
/* Takes over what vars_put_all has appended at *at, and moves *at behind it.  -1: no
 * memory, and v has not changed. */
int vars_take_all(struct vars *v, const uint8_t **at);
/* A number that stands for all values: sets of one schema that have the same id, at
 * whatever times, have the same values.  It is never 0. */
uint64_t vars_id(const struct vars *v);
/* Whether the server with the values `server` needs a SET for a client that wants
 * `client`: both have a value for some parameter, and the two differ. */
bool vars_is_different(const struct vars *client, const struct vars *server);
/* Appends the SET of parameter i, without the semicolon; search_path is set by
 * set_config(), because SET would take the value for one name.  word stands behind SET
 * ("" or "LOCAL "; NULL: as a SELECT of set_config(), which may get a WHERE).  A value
 * with an encoding becomes an expression in ASCII, which converts it from there, so
 * that the client_encoding in force does not matter.  False: the values do not differ,
 * and nothing was appended. */
bool vars_is_put_set(const struct vars *client, const struct vars *server, size_t i,
    const char *word, struct buf *sql);
/* Appends the SET of value i of a startup packet.  PostgreSQL takes the bytes of such a
 * value as they are, in the encoding of the database; so bytes outside ASCII are sent
 * as escapes, which no client_encoding changes. */
void vars_put_set_raw(const struct vars *asked, size_t i, struct buf *sql);
/* Appends `RESET name` for parameter i. */
void vars_put_reset(const struct vars_schema *s, size_t i, struct buf *sql);
/* Appends a ParameterStatus for each parameter that has a value in wanted, or else in
 * server: first the messages in `reported` in their order, with that value if the
 * parameter is tracked but not named (vars_schema_is_named); then the named ones; then
 * all others.  Those that vars_may_be_told denies are left out. */
void vars_put_status(const struct vars *wanted, const struct vars *server,
    const struct buf *reported, struct buf *out);

#endif
