/*
 * One console command line: cuts it into words and fits them into one of the two forms.
 * It knows no command by name, except that SET has a form of its own.
 */
#include "admin/command.h"

#include <string.h>

#include "base/text.h"

enum { PIECE_MOST = 5 }; /* SET KEY = VALUE ; */

/* A token of the line.  Words too long for any place keep only their length. */
struct piece {
	enum token_kind kind;
	char quote;     /* of a quoted one; otherwise 0 */
	bool has_gap;   /* white space stands before it */
	size_t raw_len; /* in the line, quotes included */
	char text[COMMAND_VALUE_MAX + 1];
};

static const struct token_rules line_rules = {
    .blanks = " \t\r\n",
    .quotes = "\"'",
    .singles = "=;",
    .comment = "",
};

static bool is_bare_word(const char *text)
{
	return text[strspn(text, "0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "abcdefghijklmnopqrstuvwxyz")] == '\0';
}

/* -1: this token is in no form. */
static int piece_take(struct piece *piece, struct tokenizer *t, const char *before)
{
	const char *text = tokenizer_text(t);

	piece->kind = t->kind;
	piece->quote = t->kind == TOKEN_QUOTED ? *t->start : '\0';
	piece->has_gap = t->start > before;
	piece->raw_len = (size_t)(t->at - t->start);
	if (t->kind == TOKEN_BAD || (t->kind == TOKEN_WORD && !is_bare_word(text)))
		return -1;
	if (piece->raw_len <= COMMAND_VALUE_MAX)
		memcpy(piece->text, text, strlen(text) + 1);
	else
		piece->text[0] = '\0';
	return 0;
}

/* The number of pieces without a closing semicolon; -1: no form fits. */
static int cut_line(const char *line, struct piece pieces[PIECE_MOST])
{
	struct tokenizer t;
	int count = 0;

	tokenizer_init(&t, &line_rules, line, strlen(line));
	for (;;) {
		const char *before = t.at;
		if (tokenizer_next(&t) == TOKEN_END)
			break;
		if (count == PIECE_MOST || piece_take(&pieces[count], &t, before)) {
			count = -1;
			break;
		}
		count++;
	}
	tokenizer_done(&t);
	if (count > 0 && pieces[count - 1].kind == TOKEN_CHAR &&
	    pieces[count - 1].text[0] == ';')
		count--;
	return count;
}

static bool is_word(const struct piece *piece)
{
	return piece->kind == TOKEN_WORD || piece->quote == '"';
}

static bool is_this(const struct piece *piece, enum token_kind kind, const char *text)
{
	return piece->kind == kind && text_equal_nocase(piece->text, text);
}

static bool is_set(const struct piece *p, int count)
{
	if (count != 4 || !is_this(&p[0], TOKEN_WORD, "set"))
		return false;
	if (!p[1].has_gap || !is_word(&p[1]))
		return false;
	if (!is_this(&p[2], TOKEN_CHAR, "=") &&
	    !(p[2].has_gap && is_this(&p[2], TOKEN_WORD, "to")))
		return false;
	return is_word(&p[3]) || p[3].quote == '\'';
}

static bool is_words(const struct piece *p, int count)
{
	if (count == 1)
		return is_word(&p[0]);
	return count == 2 && is_word(&p[0]) && p[1].has_gap && is_word(&p[1]);
}

/* Copy a piece to where at most `most` characters may stand. */
static void place(struct command *out, char *to, size_t most, const struct piece *piece)
{
	if (piece->raw_len > most)
		out->form = COMMAND_TOO_LONG;
	else
		memcpy(to, piece->text, strlen(piece->text) + 1);
}

void command_parse(const char *text, struct command *out)
{
	struct piece pieces[PIECE_MOST];
	int count = cut_line(text, pieces);

	memset(out, 0, sizeof(*out));
	if (is_set(pieces, count))
		out->form = COMMAND_SET;
	else if (is_words(pieces, count))
		out->form = COMMAND_WORDS;
	else
		return;
	bool has_value = out->form == COMMAND_SET;
	place(out, out->word, COMMAND_WORD_MAX, &pieces[0]);
	if (count > 1)
		place(out, out->argument, COMMAND_ARGUMENT_MAX, &pieces[1]);
	if (has_value)
		place(out, out->value, COMMAND_VALUE_MAX, &pieces[3]);
}
