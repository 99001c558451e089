/*
 * The scanner of SQL texts: words, quoted names, strings, comments, in one pass that
 * only goes forward.  It knows PostgreSQL's manual, "Lexical Structure": nested
 * comments, '..', E'..', U&'..', $tag$..$tag$, "..".  It is no parser: what the words
 * mean is decided elsewhere.
 *
 * Every byte of a text is looked at a fixed number of times, whatever stands in it.
 */
#ifndef WIRE_SQL_SCAN_H
#define WIRE_SQL_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sql_token_kind {
	SQL_END,    /* the text ends here */
	SQL_WORD,   /* a keyword or a name without quotes */
	SQL_NAME,   /* a name in double quotes */
	SQL_STRING, /* a string of any kind */
	SQL_MARK,   /* one other character, or a number (mark is '0') */
};

struct sql_token {
	enum sql_token_kind kind;
	char mark;             /* of SQL_MARK */
	bool is_open;          /* its closing quote is missing */
	const char *from, *to; /* as it is written, with quotes */
	const char *at;        /* what stands between the quotes */
	size_t len;
};

/* Is shown each block comment, with its marks, as it is passed over. */
typedef void sql_comment_fn(void *ctx, const char *comment, size_t len);

/* The text that is left, and what is known of it. */
struct sql_scan {
	const char *at, *end;
	sql_comment_fn *on_comment; /* NULL: nobody wants comments */
	void *on_comment_ctx;
	bool has_escapes;  /* standard_conforming_strings is off */
	bool is_continued; /* a string behind a line break continues one of E'..' */
};

/* A text that ends at a NUL, or after so many bytes. */
void sql_scan_init(struct sql_scan *s, const char *text, size_t len, bool has_escapes);

/* The next token.  Blanks and comments are passed over. */
void sql_scan_next(struct sql_scan *s, struct sql_token *t);

/* Words that sql_scan_find stops at: their first letters and lengths. */
struct sql_filter {
	uint32_t lengths[32]; /* by first letter & 31: a bit per length, up to 31 */
};
/* The next token that is a semicolon, the end, a string if they are wanted, or a word
 * that passes the filter; many words that pass are not those that were meant.  *before
 * becomes the word (SQL_WORD) that stands last before it, if there is one. This is the
 * fast way through a text in which little is of interest. */
void sql_scan_find(struct sql_scan *s, const struct sql_filter *filter,
    bool wants_strings, struct sql_token *t, struct sql_token *before);

/* Is it this unquoted word?  `word` is in lower case. */
bool sql_token_is(const struct sql_token *t, const char *word);
static inline bool sql_token_is_mark(const struct sql_token *t, char mark)
{
	return t->kind == SQL_MARK && t->mark == mark;
}

#endif
