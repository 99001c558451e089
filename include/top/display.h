/*
 * The terminal that the live view is drawn on; the only file that includes ncurses.
 */
#ifndef TOP_DISPLAY_H
#define TOP_DISPLAY_H

#include <stdbool.h>

#include "base/err.h"

struct display;

/* Was the program built with ncurses? */
bool display_is_built_in(void);
/* Takes the terminal over.  NULL and err: that cannot be done. */
struct display *display_open(struct err *err);
/* Gives it back as it was. */
void display_close(struct display **display);
/* Its size may have changed. */
void display_resize(struct display *display);
void display_size(const struct display *display, int *width, int *lines);
/* Lines from the top, with the one at `titles` set off, and a last line at the bottom.
 */
void display_draw(
    struct display *display, const char *text, int titles, const char *foot);
/* The next key, as top/keys.h has them; -1: none was pressed. */
int display_key(struct display *display);

#endif
