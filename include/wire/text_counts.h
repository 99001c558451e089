/*
 * How often texts were seen lately, in a table of fixed size that keeps no texts. Texts
 * that come once displace each other and leave those that come again alone.
 */
#ifndef WIRE_TEXT_COUNTS_H
#define WIRE_TEXT_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_counts;

enum {
	TEXT_COUNTS_HEAD = 64,  /* bytes of the first and last part of a text that is */
	TEXT_COUNTS_TAIL = 128, /* longer than both; only these are read at first */
	TEXT_COUNTS_BUCKETS = 1024,
	TEXT_COUNTS_IN_BUCKET = 4,
};

/* Bytes of a table. */
size_t text_counts_size(void);
/* An empty table in this memory, which is the caller's and full of zeros. */
struct text_counts *text_counts_init(void *memory);

/* Counts a text of this owner once more.  Returns how often it was seen; 0: it was
 * refused.  A text longer than head and tail is taken for the one that was seen first
 * with the same head, tail and length, until a third one tells them apart. */
uint32_t text_counts_add(
    struct text_counts *c, uint64_t owner, const uint8_t *text, size_t len);
/* The text that was counted last is of no use: it is not counted for as long as its
 * place in the table is not needed for another one. */
void text_counts_refuse(struct text_counts *c);

/* ---- what Parse makes of a text ---- */

/* Whether PostgreSQL makes the same statement of it each time, as long as the schema
 * and the parameters of its reading stay (see vars_reading). */

/* Does the text begin with SELECT, INSERT, UPDATE, DELETE, MERGE, VALUES, TABLE or
 * WITH, and is there nothing in it that Parse reads and that may change, or that it
 * reports?  Not with strings that stand for a time ('now'), that are written with
 * backslashes or in parts (which could hide such a word), names of objects as constants
 * (::regproc; PostgreSQL itself follows
 * ::regclass), and names so long that PostgreSQL tells that it cuts them. */
bool text_counts_is_lasting(const char *text, size_t len);

#endif
