/*
 * Cuts commands into words.  auth/program.c runs them.
 */
#include "base/command_line.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static const struct token_rules rules = {
    .blanks = " \t", .quotes = "'\"", .singles = "", .inner_quotes = true};

char **command_line_words(const char *text, struct err *err)
{
	/* each word takes at least a character and a blank */
	char **words = mem_zero((strlen(text) / 2 + 2) * sizeof(*words));
	size_t count = 0;
	struct tokenizer t;

	tokenizer_init(&t, &rules, text, strlen(text));
	while (tokenizer_next(&t) == TOKEN_WORD || t.kind == TOKEN_QUOTED)
		words[count++] = mem_strdup(tokenizer_text(&t));
	bool is_closed = t.kind == TOKEN_END;
	tokenizer_done(&t);
	if (is_closed && count > 0 && words[0][0] == '/')
		return words;
	command_line_free(&words);
	err_set(err, is_closed ? "a command begins with the absolute path of a program"
			       : "a quote in the command is not closed");
	return NULL;
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
