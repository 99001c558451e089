/*
 * The words that SQL statements begin with: blanks and comments are passed over, quoted
 * names have no quotes.  PostgreSQL's manual, "Lexical Structure".
 */
#ifndef WIRE_WORDS_H
#define WIRE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of a text. */
struct words {
	const char *at, *end;
};

struct word {
	const char *at;
	size_t len;
};

/* Bytes beyond ASCII are letters of an identifier too. */
bool words_is_letter(char c);
bool words_is_comment(const struct words *t);
/* Behind the comment that begins here; block comments nest. */
void words_skip_comment(struct words *t);
/* To the next word; with semicolons: empty statements before it do nothing. */
void words_skip_blanks(struct words *t, bool semicolons);
/* A word, a quoted name without its quotes, or one other character; of no length at the
 * end. */
struct word words_next(struct words *t);
/* `word` is in lower case and not empty. */
bool words_is(struct word w, const char *word);

#endif
