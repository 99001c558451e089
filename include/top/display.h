/*
 * The terminal on which the live view is drawn.  This is the only file that uses
 * ncurses.
 */
#ifndef TOP_DISPLAY_H
#define TOP_DISPLAY_H

#include <stdbool.h>

#include "base/err.h"

struct display;

/* Takes over the terminal.  NULL and err: it cannot be used. */
struct display *display_open(struct err *err);
/* Restores the terminal. */
void display_close(struct display **display);
/* The size of the terminal may have changed. */
void display_resize(struct display *display);
void display_size(const struct display *display, int *width, int *lines);
/* Draws lines from the top, with line `titles` highlighted, and a last line at the
 * bottom. */
void display_draw(
    struct display *display, const char *text, int titles, const char *foot);
/* The next key, a character or one of those in keys.h; -1: none was pressed. */
int display_key(struct display *display);

#endif
