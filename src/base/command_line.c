#include "base/command_line.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static const struct token_rules rules = {
    .blanks = " \t", .quotes = "'\"", .singles = "", .inner_quotes = true};

char **command_line_words(const char *text, struct err *err)
{
	/* each word takes at least two characters, with the blank behind it */
	char **words = mem_zero((strlen(text) / 2 + 2) * sizeof(*words));
	const char *why = NULL;
	size_t count = 0;
	struct tokenizer t;

	tokenizer_init(&t, &rules, text, strlen(text));
	while (!why && (tokenizer_next(&t) == TOKEN_WORD || t.kind == TOKEN_QUOTED)) {
		words[count++] = mem_strdup(tokenizer_text(&t));
		if (t.kind == TOKEN_QUOTED && t.at < t.end && !strchr(" \t", *t.at))
			why = "a word of the command goes on behind its closing quote: "
			      "quote all of it";
	}
	if (!why && t.kind != TOKEN_END)
		why = "a quote in the command is not closed";
	if (!why && (count == 0 || words[0][0] != '/'))
		why = "a command begins with the absolute path of a program";
	tokenizer_done(&t);
	if (why) {
		command_line_free(&words);
		err_set(err, "%s", why);
	}
	return words;
}

void command_line_free(char ***words)
{
	for (char **word = *words; word && *word; word++)
		mem_free(*word);
	mem_free(*words);
	*words = NULL;
}

int command_line_check(const char *text, struct err *err)
{
	char **words = command_line_words(text, err);
	int rc = words ? 0 : -1;

	command_line_free(&words);
	return rc;
}
