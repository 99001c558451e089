/*
 * The figures of the last ten minutes, a second apart: 30 kB.
 */
#ifndef METRICS_HISTORY_H
#define METRICS_HISTORY_H

#include "base/buf.h"
#include "session/site.h"

struct history;

/* Takes the first figures now, and further ones each second. */
struct history *history_new(struct site *site);
void history_free(struct history **history);
/* Appends them as JSON, in the form of a view, the oldest first. */
void history_put(const struct history *history, struct buf *out);

#endif
