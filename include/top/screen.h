/*
 * All that the live view shows, as lines of text.
 */
#ifndef TOP_SCREEN_H
#define TOP_SCREEN_H

#include "base/buf.h"
#include "top/board.h"
#include "top/keys.h"

/* The line with the titles of columns, from 0 on. */
enum { SCREEN_TITLES = 5 };

struct screen {
	const struct board *board;
	struct keys *keys;   /* its skip is kept within what there is */
	const char *clock;   /* "12:34:56" */
	const char *message; /* "": all is well */
	int width, lines;
};

void screen_put(struct buf *out, const struct screen *screen);

#endif
