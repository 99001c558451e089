/*
 * Writes the few messages of Prometheus's metrics.proto that are needed, without a
 * protobuf library (protobuf.dev, "Encoding").
 */
#include "metrics/protobuf.h"

#include <string.h>

/* The wire types of fields. */
enum wire { WIRE_VARINT = 0, WIRE_DOUBLE = 1, WIRE_BYTES = 2 };

/* The field numbers of metrics.proto. */
enum {
	FAMILY_NAME = 1,
	FAMILY_HELP = 2,
	FAMILY_TYPE = 3,
	FAMILY_METRIC = 4,
	FAMILY_UNIT = 5,
	METRIC_LABEL = 1,
	METRIC_GAUGE = 2,
	METRIC_COUNTER = 3,
	METRIC_HISTOGRAM = 7,
	LABEL_NAME = 1,
	LABEL_VALUE = 2,
	NUMBER_VALUE = 1,
	HISTOGRAM_COUNT = 1,
	HISTOGRAM_SUM = 2,
	HISTOGRAM_SCHEMA = 5,
	HISTOGRAM_ZERO_THRESHOLD = 6,
	HISTOGRAM_ZERO_COUNT = 7,
	HISTOGRAM_SPAN = 12,
	HISTOGRAM_DELTA = 13,
	SPAN_OFFSET = 1,
	SPAN_LENGTH = 2,
};

enum { TYPE_COUNTER = 0, TYPE_GAUGE = 1, TYPE_HISTOGRAM = 4 };

enum { SCHEMA = 3 }; /* 2^3 buckets for each power of 2, as base/histogram has them */

static void put_varint(struct buf *out, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		buf_put_u8(out, (uint8_t)(v | 0x80));
	buf_put_u8(out, (uint8_t)v);
}

static void put_tag(struct buf *out, unsigned field, enum wire wire)
{
	put_varint(out, field << 3 | wire);
}

static void put_number(struct buf *out, unsigned field, uint64_t v)
{
	put_tag(out, field, WIRE_VARINT);
	put_varint(out, v);
}

/* The zigzag encoding, which keeps small negative numbers short. */
static uint64_t zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static void put_double(struct buf *out, unsigned field, double v)
{
	uint64_t bits;

	put_tag(out, field, WIRE_DOUBLE);
	memcpy(&bits, &v, sizeof(bits));
	for (int i = 0; i < 8; i++)
		buf_put_u8(out, (uint8_t)(bits >> 8 * i));
}

static void put_bytes(struct buf *out, unsigned field, const void *p, size_t len)
{
	put_tag(out, field, WIRE_BYTES);
	put_varint(out, len);
	buf_put(out, p, len);
}

static void put_text(struct buf *out, unsigned field, const char *text)
{
	put_bytes(out, field, text, strlen(text));
}

/* Writes a message within a message and frees its buffer. */
static void put_message(struct buf *out, unsigned field, struct buf *message)
{
	put_bytes(out, field, message->bytes, message->len);
	buf_done(message);
}

/* ---- a family ---- */

void protobuf_put_head(struct buf *out, const struct served *s, size_t samples_len)
{
	struct buf head;

	buf_init(&head, 0);
	put_text(&head, FAMILY_NAME, s->name);
	put_text(&head, FAMILY_HELP, s->help);
	put_number(&head, FAMILY_TYPE,
	    s->is_histogram ? TYPE_HISTOGRAM
	    : s->is_counter ? TYPE_COUNTER
			    : TYPE_GAUGE);
	if (s->unit)
		put_text(&head, FAMILY_UNIT, s->unit);
	put_varint(out, head.len + samples_len);
	buf_put(out, head.bytes, head.len);
	buf_done(&head);
}

/* ---- samples ---- */

static void put_label(
    struct buf *out, const char *name, size_t name_len, const char *value, size_t len)
{
	struct buf label;

	buf_init(&label, 0);
	put_bytes(&label, LABEL_NAME, name, name_len);
	put_bytes(&label, LABEL_VALUE, value, len);
	put_message(out, METRIC_LABEL, &label);
}

/* a="b",c="d" */
static void put_fixed_labels(struct buf *out, const char *at)
{
	while (at && *at) {
		const char *value = strchr(at, '"') + 1, *end = strchr(value, '"');
		put_label(
		    out, at, (size_t)(value - 2 - at), value, (size_t)(end - value));
		at = end[1] ? end + 2 : NULL;
	}
}

/* The buckets of a native histogram in the order of their bounds.  They are written as
 * spans, which are runs of buckets without a gap; each count is the difference to the
 * one before. */
struct native {
	struct buf spans, deltas;
	int next;        /* the bucket after the last one */
	int offset;      /* of the open span, from the end of the span before */
	unsigned length; /* buckets of the open span */
	int64_t count;   /* of the last bucket */
};

static void close_span(struct native *n)
{
	struct buf span;

	if (n->length == 0)
		return;
	buf_init(&span, 0);
	put_number(&span, SPAN_OFFSET, zigzag(n->offset));
	put_number(&span, SPAN_LENGTH, n->length);
	put_message(&n->spans, HISTOGRAM_SPAN, &span);
	n->length = 0;
}

static void put_bucket(void *ctx, int bucket, uint64_t count)
{
	struct native *n = ctx;

	if (n->length == 0 || bucket != n->next) {
		close_span(n);
		n->offset = bucket - n->next;
	}
	n->length++;
	n->next = bucket + 1;
	put_varint(&n->deltas, zigzag((int64_t)count - n->count));
	n->count = (int64_t)count;
}

static void put_histogram(struct buf *out, const struct histogram *h)
{
	struct native n = {.next = 0};
	struct buf message;

	buf_init(&n.spans, 0);
	buf_init(&n.deltas, 0);
	buf_init(&message, 0);
	histogram_walk(h, put_bucket, &n);
	close_span(&n);
	put_number(&message, HISTOGRAM_COUNT, histogram_count(h));
	put_double(&message, HISTOGRAM_SUM, (double)histogram_sum(h) / 1e6);
	put_number(&message, HISTOGRAM_SCHEMA, zigzag(SCHEMA));
	put_double(&message, HISTOGRAM_ZERO_THRESHOLD, 0x1p-128);
	put_number(&message, HISTOGRAM_ZERO_COUNT, histogram_zero_count(h));
	buf_put(&message, n.spans.bytes, n.spans.len);
	put_message(&message, HISTOGRAM_DELTA, &n.deltas);
	buf_done(&n.spans);
	put_message(out, METRIC_HISTOGRAM, &message);
}

void protobuf_put_sample(
    struct buf *out, const struct served *served, const struct sample *sample)
{
	struct buf metric, value;

	buf_init(&metric, 0);
	put_fixed_labels(&metric, sample->fixed_labels);
	for (unsigned i = 0; i < sample->label_count; i++)
		put_label(&metric, sample->labels[i], strlen(sample->labels[i]),
		    sample->values[i], strlen(sample->values[i]));
	if (sample->histogram) {
		put_histogram(&metric, sample->histogram);
	} else {
		buf_init(&value, 0);
		put_double(&value, NUMBER_VALUE,
		    (double)sample->whole + (double)sample->micros / 1e6);
		put_message(&metric, served->is_counter ? METRIC_COUNTER : METRIC_GAUGE,
		    &value);
	}
	put_message(out, FAMILY_METRIC, &metric);
}
