/*
 * SHOW CLIENTS with many clients: the rows are written in slices, a few at a time, so
 * that no client is delayed.  The rows are for the clients that were there
 * when the command came and still exist; each row shows the moment in which it is
 * written.  With several workers each writes its slices on its own thread, one worker
 * after the other; a client that changes workers is shown in its old place.
 */
#ifndef ADMIN_SHOW_STREAM_H
#define ADMIN_SHOW_STREAM_H

#include <stdbool.h>

#include "session/client.h"
#include "views/show.h"

struct show_stream;

/* Does the view have so many rows that they must be sent in slices? */
bool show_stream_are_due(const struct view *view, const struct site *site);
/* Sends the head of the answer at once and the rest in later turns.  After the end
 * *place is NULL again, and the console continues with the next command. */
void show_stream_start(
    struct show_stream **place, const struct view *view, struct client *console);
/* The console has read its output: continues if the slices have waited for that. */
void show_stream_go_on(struct show_stream *slices);
/* The console closes: frees the slices.  *place may be NULL. */
void show_stream_drop(struct show_stream **place);

#endif
