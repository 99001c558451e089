/*
 * SQL cut into words.  Not a scanner of PostgreSQL's: strings are not known as such.
 */
#include "wire/words.h"

#include <string.h>
#include <strings.h>

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Bytes beyond ASCII are letters of an identifier too. */
bool words_is_letter(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z') || c == '_' || c == '$' || (uint8_t)c >= 0x80;
}

bool words_is_comment(const struct words *t)
{
	return t->end - t->at >= 2 && ((t->at[0] == '-' && t->at[1] == '-') ||
					  (t->at[0] == '/' && t->at[1] == '*'));
}

/* Block comments nest. */
void words_skip_comment(struct words *t)
{
	size_t depth = 0;

	if (*t->at == '-') {
		while (t->at < t->end && *t->at != '\n' && *t->at != '\r')
			t->at++;
		return;
	}
	while (t->end - t->at >= 2) {
		int step = t->at[0] == '/' && t->at[1] == '*'   ? 1
			   : t->at[0] == '*' && t->at[1] == '/' ? -1
								: 0;
		t->at += step ? 2 : 1;
		depth += (size_t)step;
		if (depth == 0)
			return;
	}
	t->at = t->end;
}

/* To the next word; empty statements before the first one do nothing. */
void words_skip_blanks(struct words *t, bool semicolons)
{
	while (t->at < t->end) {
		if (is_blank(*t->at) || (semicolons && *t->at == ';'))
			t->at++;
		else if (words_is_comment(t))
			words_skip_comment(t);
		else
			return;
	}
}

/* A word, a quoted name without its quotes, or one other character. */
struct word words_next(struct words *t)
{
	struct word w;

	words_skip_blanks(t, false);
	w = (struct word){.at = t->at};
	if (t->at < t->end && *t->at == '"') {
		w.at = ++t->at;
		while (t->at < t->end && *t->at != '"')
			t->at++;
		w.len = (size_t)(t->at - w.at);
		t->at += t->at < t->end;
		return w;
	}
	while (t->at < t->end && (words_is_letter(*t->at) || *t->at == '.'))
		t->at++;
	if (t->at == w.at && t->at < t->end)
		t->at++;
	w.len = (size_t)(t->at - w.at);
	return w;
}

bool words_is(struct word w, const char *word)
{
	return w.len == strlen(word) && (w.at[0] | 0x20) == (word[0] | 0x20) &&
	       strncasecmp(w.at, word, w.len) == 0;
}
