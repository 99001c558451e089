/*
 * Whether a text calls a function of which only the server knows what it does.  Names
 * of common functions that PostgreSQL has built in, and words of SQL that stand before
 * a parenthesis, are known; every other name before one may be a call of such a
 * function.
 */
#ifndef WIRE_SQL_CALLS_H
#define WIRE_SQL_CALLS_H

#include <stdbool.h>
#include <stddef.h>

/* May be true for a text without such a call; not the other way round, as far as calls
 * are written with a parenthesis.  True for one with an escaped name. */
bool sql_calls_may_be(const char *text, size_t len);

/* Does it have a name as U&"..", which may be another one than it looks like? */
bool sql_calls_has_escaped_name(const char *text, size_t len);

/* May it send notifications, and have no tag that shows that?  It contains pg_notify,
 * or WITH and a word that changes a table, which may have a trigger. */
bool sql_calls_may_notify(const char *text, size_t len);
/* Does it contain currval or lastval? */
bool sql_calls_read_sequences(const char *text, size_t len);

#endif
