/*
 * Prometheus's protobuf exposition: messages io.prometheus.client.MetricFamily, each
 * with its length in front.
 */
#ifndef METRICS_PROTOBUF_H
#define METRICS_PROTOBUF_H

#include "metrics/writer.h"

/* Writes a family without its samples.  The caller appends them: samples_len bytes by
 * protobuf_put_sample. */
void protobuf_put_head(
    struct buf *out, const struct served *served, size_t samples_len);
void protobuf_put_sample(
    struct buf *out, const struct served *served, const struct sample *sample);

#endif
