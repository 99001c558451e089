/*
 * DROP DATABASE, ALTER DATABASE and CREATE DATABASE: PostgreSQL refuses them while
 * others are connected to the database that goes, changes or is copied.
 */
#ifndef WIRE_SQL_VACATED_H
#define WIRE_SQL_VACATED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Reads a text with the effect `vacates`, and appends the database's name with a NUL.
 * False: it names none. */
bool sql_vacated(const char *text, size_t len, bool has_escapes, struct buf *name);

#endif
