#include "views/row.h"

#include <stdio.h>
#include <string.h>

#include "wire/codec.h"

const struct cell_type cell_text = {"text", 25, -1, CELL_FIRST};
const struct cell_type cell_int4 = {"int4", 23, 4, CELL_FIRST};
const struct cell_type cell_int8 = {"int8", 20, 8, CELL_FIRST};
const struct cell_type cell_numeric = {"numeric", 1700, -1, CELL_FIRST};
const struct cell_type cell_time = {"text", 25, -1, CELL_LATEST};
const struct cell_type cell_bytea = {"bytea", 17, -1, CELL_FIRST};
const struct cell_type cell_sum4 = {"int4", 23, 4, CELL_SUM};
const struct cell_type cell_sum8 = {"int8", 20, 8, CELL_SUM};
const struct cell_type cell_most4 = {"int4", 23, 4, CELL_MOST};
const struct cell_type cell_most8 = {"int8", 20, 8, CELL_MOST};
const struct cell_type cell_known8 = {"int8", 20, 8, CELL_MOST};
const struct cell_type cell_rest4 = {"int4", 23, 4, CELL_REST};
const struct cell_type cell_rest8 = {"int8", 20, 8, CELL_REST};
const struct cell_type cell_worst = {"text", 25, -1, CELL_WORST};
const struct cell_type cell_rest_text = {"text", 25, -1, CELL_REST};

void rows_init(
    struct rows *rows, struct site *site, struct buf *out, size_t column_count)
{
	memset(rows, 0, sizeof(*rows));
	rows->site = site;
	rows->out = out;
	rows->column_count = column_count;
	if (site && site->loop) {
		rows->now_us = loop_now(site->loop);
		rows->wall_us = loop_wall(site->loop);
	}
}

void rows_init_sink(
    struct rows *rows, struct site *site, const struct row_sink *sink, void *ctx)
{
	rows_init(rows, site, NULL, 0);
	rows->sink = sink;
	rows->sink_ctx = ctx;
}

void row_begin(struct rows *rows)
{
	if (!rows->sink)
		rows->row_at = codec_begin_row(rows->out, rows->column_count);
}

void row_end(struct rows *rows)
{
	if (rows->sink)
		rows->sink->end(rows->sink_ctx);
	else
		codec_end_row(rows->out, rows->row_at);
}

void row_text(struct rows *rows, const char *text)
{
	if (rows->sink)
		rows->sink->text(rows->sink_ctx, text);
	else
		codec_put_field(rows->out, text);
}

void row_bytea(struct rows *rows, const char *hex)
{
	row_text(rows, hex);
}

void row_int8(struct rows *rows, long long value)
{
	char text[24];

	if (rows->sink) {
		rows->sink->number(rows->sink_ctx, value);
		return;
	}
	snprintf(text, sizeof(text), "%lld", value);
	row_text(rows, text);
}

void row_known8(struct rows *rows, uint64_t value)
{
	if (value == UINT64_MAX)
		row_text(rows, NULL);
	else
		row_int8(rows, (long long)value);
}

void row_int4(struct rows *rows, long long value)
{
	row_int8(rows, value);
}

void row_numeric(struct rows *rows, unsigned long long value)
{
	char text[24];

	if (rows->sink) {
		rows->sink->number(rows->sink_ctx, (long long)value);
		return;
	}
	snprintf(text, sizeof(text), "%llu", value);
	row_text(rows, text);
}

/* Thousands of rows contain few different seconds, so the last second's text is
 * kept. */
void row_second(struct rows *rows, time_t second)
{
	struct tm tm;

	if (rows->sink) {
		rows->sink->number(rows->sink_ctx, (long long)second);
		return;
	}
	if (!rows->second_text[0] || second != rows->second) {
		rows->second = second;
		localtime_r(&second, &tm);
		strftime(rows->second_text, sizeof(rows->second_text),
		    "%Y-%m-%d %H:%M:%S %Z", &tm);
	}
	row_text(rows, rows->second_text);
}

void row_time(struct rows *rows, uint64_t at_us)
{
	uint64_t ago_us = rows->now_us > at_us ? rows->now_us - at_us : 0;
	uint64_t wall_us = rows->wall_us > ago_us ? rows->wall_us - ago_us : 0;

	row_second(rows, (time_t)(wall_us / 1000000));
}
