/*
 * Lists of addresses to listen on, as they are written in settings: "127.0.0.1:9127,
 * [::1]:9127, *:9127, unix:/run/pgbouncer/metrics.sock".  The lists are short, so the
 * text is parsed again each time it is asked for something.
 */
#ifndef BASE_ENDPOINTS_H
#define BASE_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { ENDPOINT_TEXT = 256, ENDPOINTS_MOST = 16, ENDPOINT_PATH_MOST = 107 };

struct endpoint {
	char text[ENDPOINT_TEXT]; /* the item as it is written */
	/* name or address without brackets; "*" means every address */
	char host[ENDPOINT_TEXT];
	int port;                          /* 0 for a Unix socket */
	char path[ENDPOINT_PATH_MOST + 1]; /* path of the Unix socket */
};

/* Reads the next item of a comma-separated list.  Returns 1 when *out is filled, 0 at
 * the end of the list, -1 when the item is malformed; err then names it. */
int endpoints_next(const char **at, struct endpoint *out, struct err *err);
/* Checks that all items can be read and that there are at most ENDPOINTS_MOST.  Returns
 * -1 and fills err otherwise.  NULL and "" are empty lists. */
int endpoints_check(const char *list, struct err *err);
/* Returns the number of items in front of the first malformed one. */
size_t endpoints_count(const char *list);

#endif
