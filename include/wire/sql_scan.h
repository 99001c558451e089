/*
 * The scanner of SQL texts.  It cuts them into words, quoted names, strings and
 * comments in one forward pass.  It follows PostgreSQL's "Lexical Structure": nested
 * comments, '..', E'..', U&'..', $tag$..$tag$, "..".  It is no parser: the meaning of
 * words is decided elsewhere.
 *
 * It looks at every byte a limited number of times, whatever the text is.
 */
#ifndef WIRE_SQL_SCAN_H
#define WIRE_SQL_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/text.h"

enum sql_token_kind {
	SQL_END,    /* the text ends here */
	SQL_WORD,   /* a keyword or an unquoted name */
	SQL_NAME,   /* a name in double quotes */
	SQL_STRING, /* a string of any kind */
	SQL_MARK,   /* one other character, or a number (mark is '0') */
};

struct sql_token {
	enum sql_token_kind kind;
	char mark;             /* the character of a SQL_MARK */
	bool is_open;          /* the closing quote is missing */
	const char *from, *to; /* the token as it is written, with its quotes */
	const char *at;        /* the text between the quotes */
	size_t len;
};

/* Is called with each block comment that is skipped, with its comment marks. */
typedef void sql_comment_fn(void *ctx, const char *comment, size_t len);

/* The rest of the text, and the state of the scan. */
struct sql_scan {
	const char *at, *end;
	sql_comment_fn *on_comment; /* NULL: comments are skipped silently */
	void *on_comment_ctx;
	/* standard_conforming_strings is off, so that '..' has backslash escapes */
	bool has_escapes;
	/* the string before was E'..'; a string behind a line break continues it */
	bool is_continued;
};

/* Can it stand within an unquoted name? */
static inline bool sql_is_of_name(char c)
{
	return text_is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
	       (c & 0x80);
}

/* Begins a scan.  The text ends at a NUL or after len bytes. */
void sql_scan_init(struct sql_scan *s, const char *text, size_t len, bool has_escapes);

/* Reads the next token; skips blanks and comments. */
void sql_scan_next(struct sql_scan *s, struct sql_token *t);

/* The words at which sql_scan_find stops, by first letter and length. */
struct sql_filter {
	/* index: first letter & 31; each has a bit per length up to 31 */
	uint32_t lengths[32];
};
/* Reads the next token that is a semicolon, the end, a string (if wants_strings), or a
 * word that passes the filter; other words with the same first letter and length pass
 * too.  *before gets the word (SQL_WORD) in front of it, if there is one.  This is the
 * fast way through a text in which little is of interest. */
void sql_scan_find(struct sql_scan *s, const struct sql_filter *filter,
    bool wants_strings, struct sql_token *t, struct sql_token *before);

/* Appends the name that the scan's last token is, as PostgreSQL has it, with a NUL.
 * What is no name, and one that is written with U&, becomes a name that nothing has. */
void sql_name_put(const struct sql_scan *s, const struct sql_token *t, struct buf *out);

/* Whether the token is this unquoted word.  `word` is in lower case. */
bool sql_token_is(const struct sql_token *t, const char *word);
static inline bool sql_token_is_mark(const struct sql_token *t, char mark)
{
	return t->kind == SQL_MARK && t->mark == mark;
}

/* ---- a text without its literals ---- */

/* Writes the text to out, at most len + 1 bytes with a NUL: each string and each number
 * is a question mark, comments are left out, and blanks are one blank.  A literal whose
 * end is cut off is one as well.  has_escapes: standard_conforming_strings is off. */
void sql_normalize(const char *text, size_t len, bool has_escapes, char *out);

#endif
