/*
 * Text: numbers, durations, quoting, and the one tokenizer used for ini files,
 * connection strings, HBA files and the console.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Whole-string numbers as C strtol/strtoul with base 0 (0x.., 0..); -1 when partial,
 * empty or out of range. */
int text_int(const char *s, int *out);
int text_uint(const char *s, unsigned *out);
/* Non-negative decimal seconds, fraction with '.', whatever the locale, and an exponent
 * (1e2), to microseconds (truncated).  No sign, no unit, not empty. */
int text_seconds(const char *s, uint64_t *out_us);
/* Microseconds as C %g of seconds, into out. */
void text_print_seconds(uint64_t us, char *out, size_t size);

/* What printf would do at a multiple of the cost: these put something at `at`, cut at
 * `end`, with a NUL behind it that stands before `end` as well, and give the place of
 * that NUL.  There is room for the NUL. */
char *text_append(char *at, const char *end, const char *s);
char *text_append_number(char *at, const char *end, uint64_t n);
char *text_append_hex(char *at, const char *end, uint64_t n);
/* vsnprintf itself, which costs as little where all conversions are %s or %llu. */
char *text_vprint(char *at, const char *end, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

bool text_equal_nocase(const char *a, const char *b);
bool text_has_prefix(const char *s, const char *prefix);

/* Does `list` contain `word` as a whole token delimited by comma, white space or the
 * ends?  Case-sensitive. */
bool text_list_has(const char *list, const char *word);
/* Next item of a comma-separated list, blanks trimmed, empty ones left out:
 * `const char *at = list; while (text_list_next(&at, &item, &len))`. */
bool text_list_next(const char **at, const char **item, size_t *len);

/* SQL literal of a value: 'it''s'; E'..' with doubled backslashes when it has one. */
void text_put_literal(struct buf *b, const char *value);

/* The tokenizer.  Cuts a text into words and single characters by a set of rules; it
 * keeps line numbers so that errors can say where. */
enum token_kind {
	TOKEN_END,    /* end of text */
	TOKEN_LINE,   /* end of line (only with .lines) */
	TOKEN_WORD,   /* bare word */
	TOKEN_QUOTED, /* quoted; the text is without quotes and with doubled ones single
		       */
	TOKEN_CHAR,   /* one of .singles */
	TOKEN_BAD,    /* unterminated quote */
};

struct token_rules {
	const char *blanks; /* skipped between tokens */
	const char *quotes; /* each opens and closes a quoted token; doubled = itself */
	const char *singles; /* characters that are tokens by themselves */
	const char *comment; /* characters that start a comment to the end of line */
	bool lines;          /* newline is a token; otherwise it is a blank */
	bool inner_quotes;   /* quotes inside a word quote a part of it: a"b c" */
};

struct tokenizer {
	const struct token_rules *rules;
	const char *at, *end;
	unsigned line; /* of the current token, from 1 */
	enum token_kind kind;
	const char *start; /* where the current token starts in the text */
	struct buf text;   /* the current token as a string (buf_text) */
};

void tokenizer_init(
    struct tokenizer *t, const struct token_rules *rules, const char *text, size_t len);
void tokenizer_done(struct tokenizer *t);
/* Goes on to the next token and returns its kind, which is in t->kind as well. */
enum token_kind tokenizer_next(struct tokenizer *t);
/* The text of the current token. */
const char *tokenizer_text(struct tokenizer *t);

/* Read a whole file; a NUL byte ends it.  NULL and err on failure (text: strerror).
 * Caller frees with mem_free. */
struct err;
char *text_read_file(const char *path, size_t *len, struct err *err);

/* The text, or NULL when it is empty or NULL. */
static inline const char *text_or_null(const char *s)
{
	return s && *s ? s : NULL;
}

#endif
