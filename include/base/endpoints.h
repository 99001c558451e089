/*
 * Lists of places to listen at, as settings have them: "127.0.0.1:9127, [::1]:9127,
 * *:9127, unix:/run/pgbouncer/metrics.sock".  The text is read anew each time.
 */
#ifndef BASE_ENDPOINTS_H
#define BASE_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { ENDPOINT_TEXT = 256, ENDPOINTS_MOST = 16, ENDPOINT_PATH_MOST = 107 };

struct endpoint {
	char text[ENDPOINT_TEXT]; /* as written */
	char host[ENDPOINT_TEXT]; /* name or address without brackets; "*": any */
	int port;                 /* 0: a unix socket */
	char path[ENDPOINT_PATH_MOST + 1]; /* of the unix socket */
};

/* The next item of a list separated by commas.  1: *out is filled; 0: there is none; -1
 * and err: it is not understood; err names it. */
int endpoints_next(const char **at, struct endpoint *out, struct err *err);
/* Are all items understood, and not too many?  -1 and err.  NULL and "" are empty
 * lists. */
int endpoints_check(const char *list, struct err *err);
/* Is there an item with a port? */
bool endpoints_have_tcp(const char *list);
/* How many items there are; those behind one that is not understood do not count. */
size_t endpoints_count(const char *list);

#endif
