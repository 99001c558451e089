/*
 * Everything that the live view shows, as lines of text.
 */
#ifndef TOP_SCREEN_H
#define TOP_SCREEN_H

#include "base/buf.h"
#include "top/board.h"
#include "top/keys.h"

/* The index of the line with the titles of columns. */
enum { SCREEN_TITLES = 5 };

struct screen {
	const struct board *board;
	struct keys *keys;   /* its skip is limited to the rows that exist */
	const char *clock;   /* "12:34:56" */
	const char *message; /* an error to be shown; "": none */
	int width, lines;
};

void screen_put(struct buf *out, const struct screen *screen);

#endif
