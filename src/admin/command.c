/*
 * One console command line: cuts it into words and fits them into one of four forms.
 * It knows no command by name, except that SET, EXPLAIN and
 * SWITCHOVER have forms of their own.
 */
#include "admin/command.h"

#include <string.h>

#include "base/text.h"

enum { PIECE_MOST = 6 }; /* EXPLAIN LOGIN USER DATABASE ADDRESS ; */

/* A token of the line.  Of a word that is too long for any use only the length is kept.
 */
struct piece {
	enum token_kind kind;
	char quote;     /* the quote character; 0: it is not quoted */
	bool has_gap;   /* white space stands before it */
	bool is_plain;  /* a word of letters, digits and underscores */
	size_t raw_len; /* its length in the line, quotes included */
	char text[COMMAND_VALUE_MAX + 1];
};

static const struct token_rules line_rules = {
    .blanks = " \t\r\n",
    .quotes = "\"'",
    .singles = "=;",
    .comment = "",
};

/* Reads one token.  -1: no form has such a token. */
static int piece_take(struct piece *piece, struct tokenizer *t, const char *before)
{
	const char *text = tokenizer_text(t);

	piece->kind = t->kind;
	piece->quote = t->kind == TOKEN_QUOTED ? *t->start : '\0';
	piece->has_gap = t->start > before;
	piece->raw_len = (size_t)(t->at - t->start);
	piece->is_plain = t->kind == TOKEN_WORD &&
			  text[strspn(text, "0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
					    "abcdefghijklmnopqrstuvwxyz")] == '\0';
	if (t->kind == TOKEN_BAD)
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
	return piece->is_plain || piece->quote == '"';
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
	/* an empty name would mean everything: KILL "$database" of a script */
	return count == 2 && is_word(&p[0]) && p[1].has_gap && is_word(&p[1]) &&
	       *p[1].text;
}

/* Names and addresses keep their case. */
static bool is_name(const struct piece *piece)
{
	return piece->has_gap &&
	       (piece->kind == TOKEN_WORD || piece->kind == TOKEN_QUOTED);
}

static bool is_explain(const struct piece *p, int count)
{
	if (count < 4 || count > 5 || !is_this(&p[0], TOKEN_WORD, "explain") ||
	    !is_this(&p[1], TOKEN_WORD, "login"))
		return false;
	return is_name(&p[2]) && is_name(&p[3]) && (count == 4 || is_name(&p[4]));
}

static bool is_switchover(const struct piece *p, int count)
{
	return count == 4 && is_this(&p[0], TOKEN_WORD, "switchover") &&
	       is_name(&p[1]) && p[2].has_gap && is_this(&p[2], TOKEN_WORD, "to") &&
	       is_name(&p[3]);
}

/* Copies a piece, which may have at most `most` characters. */
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
	else if (is_explain(pieces, count))
		out->form = COMMAND_EXPLAIN;
	else if (is_switchover(pieces, count))
		out->form = COMMAND_SWITCHOVER;
	else if (is_words(pieces, count))
		out->form = COMMAND_WORDS;
	else
		return;
	enum command_form form = out->form;
	place(out, out->word, COMMAND_WORD_MAX, &pieces[0]);
	if (count > 1)
		place(out, out->argument, COMMAND_ARGUMENT_MAX, &pieces[1]);
	if (form == COMMAND_SET || form == COMMAND_SWITCHOVER)
		place(out, out->value, COMMAND_VALUE_MAX, &pieces[3]);
	if (form != COMMAND_EXPLAIN)
		return;
	place(out, out->user, COMMAND_VALUE_MAX, &pieces[2]);
	place(out, out->database, COMMAND_VALUE_MAX, &pieces[3]);
	if (count > 4)
		place(out, out->value, COMMAND_VALUE_MAX, &pieces[4]);
}
