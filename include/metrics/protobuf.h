/*
 * Prometheus's protobuf exposition: messages io.prometheus.client.MetricFamily, each
 * with its length in front.
 */
#ifndef METRICS_PROTOBUF_H
#define METRICS_PROTOBUF_H

#include "metrics/writer.h"

/* All of a family but its samples, which are samples_len bytes and follow. */
void protobuf_put_head(
    struct buf *out, const struct served *served, size_t samples_len);
void protobuf_put_sample(
    struct buf *out, const struct served *served, const struct sample *sample);

#endif
