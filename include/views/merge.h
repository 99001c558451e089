/*
 * The rows of one view from several sites, put together as those of one pooler.
 */
#ifndef VIEWS_MERGE_H
#define VIEWS_MERGE_H

#include "views/show.h"

struct merge;

struct merge *merge_new(const struct view *view);
void merge_free(struct merge **merge);

/* The DataRow messages that the view's walker has written for one site. */
void merge_add(struct merge *merge, const struct buf *rows);
/* Append the DataRows of all sites together. */
void merge_put(const struct merge *merge, struct buf *out);

/* Of two states of one thing that two sites see: above 0 if a needs more attention. */
int merge_compare_states(const char *a, const char *b);

#endif
