/*
 * Merges the rows of one view from several sites into rows for the whole process.
 */
#ifndef VIEWS_MERGE_H
#define VIEWS_MERGE_H

#include "views/show.h"

struct merge;

struct merge *merge_new(const struct view *view);
void merge_free(struct merge **merge);

/* Begins rows of one site: what the view's walker writes goes to the merge, as values.
 */
void merge_init_rows(struct merge *merge, struct rows *rows, struct site *site);
/* Appends the merged DataRows of all sites. */
void merge_put(const struct merge *merge, struct buf *out);

/* Of two states of one thing that two sites see: above 0 if a needs more attention. */
int merge_compare_states(const char *a, const char *b);

#endif
