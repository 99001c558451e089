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
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

/* Parse a whole string as a number, like strtol and strtoul with base 0 (0x..  is
 * hexadecimal, 0..  octal).  Return -1 when the string is empty, has other characters,
 * or is out of range. */
int text_int(const char *s, int *out);
int text_uint(const char *s, unsigned *out);
/* Parses seconds as a non-negative decimal number into microseconds, rounded down.  The
 * number may have a fraction with '.' (in every locale) and an exponent (1e2), but no
 * sign and no unit.  Returns -1 for anything else. */
int text_seconds(const char *s, uint64_t *out_us);
/* Parses a number of bytes: a whole number in decimal, alone or directly followed by
 * kB, MB, GB or TB in any case, which are powers of 1024 as in PostgreSQL.  -1:
 * anything else. */
int text_bytes(const char *s, uint64_t *out);
/* Prints bytes with the greatest of these units that leaves a whole number. */
void text_print_bytes(uint64_t bytes, char *out, size_t size);
/* Prints microseconds as seconds, in the format of C's %g. */
void text_print_seconds(uint64_t us, char *out, size_t size);

/* Cheap replacements for printf.  Each writes at `at`, cuts the result so that it and
 * its NUL stay before `end`, and returns the position of the NUL.  There must be room
 * for the NUL. */
char *text_append(char *at, const char *end, const char *s);
char *text_append_number(char *at, const char *end, uint64_t n);
char *text_append_hex(char *at, const char *end, uint64_t n);
/* Like vsnprintf, but as cheap as the above when all conversions are %s, %d, %u, %llu
 * or %%. */
char *text_vprint(char *at, const char *end, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
/* Appends s in such a form that it stays on its line and does nothing to a terminal:
 * \n, \r, \t and \x1b stand for control characters, \u0085 for the characters of UTF-8
 * that some readers take for one.  In a format that has other conversions, everything
 * from the first of these on is escaped, and cut at 2 KB. */
char *text_append_escaped(char *at, const char *end, const char *s);
char *text_vprint_escaped(char *at, const char *end, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
/* Returns how many bytes of the character at s text_append_escaped would escape; 0: it
 * is printed as it is. */
size_t text_hidden_len(const char *s);

/* Is it a character of ASCII that a terminal shows, or a space? */
static inline bool text_is_printable(uint8_t c)
{
	return c >= ' ' && c <= '~';
}
static inline bool text_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
/* Are these bytes this word? */
static inline bool text_is(const char *s, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(s, word, len) == 0;
}
bool text_equal_nocase(const char *a, const char *b);
bool text_has_prefix(const char *s, const char *prefix);

/* Whether `list` contains `word` as an item; items are separated by commas or white
 * space.  Case-sensitive. */
bool text_list_has(const char *list, const char *word);
/* Returns the next item of a comma-separated list, without blanks around it; empty
 * items are left out.  Use: `const char *at = list; while (text_list_next(&at, &item,
 * &len))`. */
bool text_list_next(const char **at, const char **item, size_t *len);

/* Appends the value as an SQL literal, such as 'it''s'.  A value with a backslash
 * becomes E'..' with doubled backslashes. */
void text_put_literal(struct buf *b, const char *value);
/* Appends a name with its letters A to Z in lower case. */
void text_put_lower(struct buf *b, const char *name);
/* Appends the value as an SQL literal in ASCII: other bytes become \xHH within E'..'.
 */
void text_put_ascii_literal(struct buf *b, const char *value);

/* The tokenizer cuts a text into words and single characters by a set of rules.  It
 * counts lines, so that errors can name the line. */
enum token_kind {
	TOKEN_END,  /* end of text */
	TOKEN_LINE, /* end of line (only with .lines) */
	TOKEN_WORD, /* bare word */
	/* quoted; the text has no outer quotes, and doubled inner ones are single */
	TOKEN_QUOTED,
	TOKEN_CHAR, /* one of .singles */
	TOKEN_BAD,  /* unterminated quote */
};

struct token_rules {
	const char *blanks; /* skipped between tokens */
	/* each one opens and closes a quoted token; a doubled one stands for itself */
	const char *quotes;
	const char *singles; /* characters that are tokens by themselves */
	const char *comment; /* each one starts a comment that ends with the line */
	bool lines;          /* a newline is a token; otherwise it is a blank */
	bool inner_quotes;   /* quotes inside a word quote a part of it, as in a"b c" */
};

struct tokenizer {
	const struct token_rules *rules;
	const char *at, *end;
	unsigned line; /* of the current token, from 1 */
	enum token_kind kind;
	const char *start; /* where the current token begins in the original text */
	struct buf text;   /* the current token; see tokenizer_text */
};

void tokenizer_init(
    struct tokenizer *t, const struct token_rules *rules, const char *text, size_t len);
void tokenizer_done(struct tokenizer *t);
/* Moves to the next token and returns its kind (also in t->kind). */
enum token_kind tokenizer_next(struct tokenizer *t);
/* The text of the current token as a string, valid until the next call. */
const char *tokenizer_text(struct tokenizer *t);

/* Reads a whole file; what stands behind a NUL byte is wiped, and counts in *len.  The
 * caller frees it with mem_free.  On failure returns NULL and fills err with the text
 * of strerror. */
struct err;
char *text_read_file(const char *path, size_t *len, struct err *err);
/* text_read_file for a helper thread, which the throttle (NULL: none) slows down, and
 * the wiping and freeing of such a text. */
struct throttle;
char *text_read_slowly(
    const char *path, struct throttle *throttle, size_t *len, struct err *err);
void text_free_secret_slowly(char *text, size_t len, struct throttle *throttle);

/* Returns s, or NULL when it is empty. */
static inline const char *text_or_null(const char *s)
{
	return s && *s ? s : NULL;
}

/* ---- prose on a terminal ---- */

/* Prints a printf text, wrapped between words.  lead is put before the first line, and
 * as many blanks before the others. */
void text_put_wrapped(FILE *out, const char *lead, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
