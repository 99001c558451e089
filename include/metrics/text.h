/*
 * The two text formats: Prometheus's exposition format 0.0.4, and OpenMetrics 1.0.
 */
#ifndef METRICS_TEXT_H
#define METRICS_TEXT_H

#include "metrics/writer.h"

void text_put_head(struct buf *out, const struct served *served, bool is_open);
void text_put_sample(
    struct buf *out, const struct served *served, const struct sample *sample);

#endif
