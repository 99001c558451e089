/*
 * The rows of a view: typed cells, written as DataRow messages into a buffer.  The
 * function for a cell has the name of its type in views.def, so that one entry there
 * both describes and writes a column.
 */
#ifndef VIEWS_ROW_H
#define VIEWS_ROW_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "session/site.h"

/* How the cells of a column are merged when rows of several sites become one. */
enum cell_merge {
	CELL_FIRST, /* the first one that is not empty, because all are equal */
	CELL_SUM,
	CELL_MOST,  /* the greatest number */
	CELL_WORST, /* the state that needs most attention */
	CELL_REST,  /* belongs to the column before it, CELL_MOST or CELL_WORST */
	CELL_LATEST /* the greatest text */
};

/* A type of cell in the protocol. */
struct cell_type {
	const char *word; /* such as "text" */
	uint32_t oid;
	int16_t len;
	enum cell_merge merge;
};
extern const struct cell_type cell_text, cell_int4, cell_int8, cell_numeric, cell_time,
    cell_bytea, cell_known8, cell_sum4, cell_sum8, cell_most4, cell_most8, cell_rest4,
    cell_rest8, cell_worst, cell_rest_text;

struct column {
	const char *name;
	const struct cell_type *type;
};

/* Receives the cells instead of a DataRow made of them. */
struct row_sink {
	void (*text)(void *ctx, const char *text); /* NULL: SQL NULL */
	void (*number)(void *ctx, long long value);
	void (*end)(void *ctx);
};

struct rows {
	struct site *site; /* borrowed, as everything here */
	struct buf *out;   /* NULL: there is a sink */
	const struct row_sink *sink;
	void *sink_ctx;
	size_t column_count;
	size_t row_at;        /* where the current row begins */
	uint64_t now_us;      /* loop time, the same for the whole view */
	uint64_t wall_us;     /* wall-clock time of the same instant */
	time_t second;        /* the second that second_text is about */
	char second_text[64]; /* "": not made yet */
	unsigned missed; /* workers that did not answer a view that asks them itself */
};

void rows_init(
    struct rows *rows, struct site *site, struct buf *out, size_t column_count);
/* Begins rows that go to a sink.  Cells that need a system call are left empty. */
void rows_init_sink(
    struct rows *rows, struct site *site, const struct row_sink *sink, void *ctx);
void row_begin(struct rows *rows);
void row_end(struct rows *rows);

/* Are called for each cell, in the order of the columns. */
void row_text(struct rows *rows, const char *text); /* NULL: SQL NULL */
void row_bytea(struct rows *rows, const char *hex); /* "\\x..."; NULL: SQL NULL */
void row_int4(struct rows *rows, long long value);
void row_int8(struct rows *rows, long long value);
/* int4 and int8 under names that say how cells of several sites are merged. */
#define row_sum4  row_int4
#define row_most4 row_int4
#define row_rest4 row_int4
#define row_sum8  row_int8
#define row_most8 row_int8
/* UINT64_MAX: not known, SQL NULL; merged by the most */
void row_known8(struct rows *rows, uint64_t value);
#define row_rest8 row_int8
/* and text */
#define row_worst     row_text
#define row_rest_text row_text
void row_numeric(struct rows *rows, unsigned long long value);
/* Writes a time of loop_now() as local wall-clock time; to a sink, as seconds since
 * 1970. */
void row_time(struct rows *rows, uint64_t at_us);
/* Such a time in seconds since 1970. */
void row_second(struct rows *rows, time_t second);

#endif
