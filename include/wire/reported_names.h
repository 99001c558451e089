/*
 * Names of parameters that servers have reported and that the pooler did not know:
 * other versions of PostgreSQL report others.  There is one list for all threads, so
 * that a parameter has the same place everywhere.
 */
#ifndef WIRE_REPORTED_NAMES_H
#define WIRE_REPORTED_NAMES_H

#include <stddef.h>

/* Of more names nothing is kept, so that no server can make the list long. */
enum { REPORTED_NAMES_MOST = 8 };

struct reported_names;

/* The caller has a reference. */
struct reported_names *reported_names_new(void);
struct reported_names *reported_names_ref(struct reported_names *r);
void reported_names_unref(struct reported_names **r);

/* Any thread may call these.  The place of a name (case-insensitive), which is added if
 * it is new; -1: the list is full, or no client may set such a parameter. */
int reported_names_add(struct reported_names *r, const char *name);
/* -1: it is not among them. */
int reported_names_find(struct reported_names *r, const char *name);
/* "": there is none at this place yet. */
const char *reported_names_get(struct reported_names *r, size_t i);

#endif
