/*
 * A command in a setting: the path of a program and its arguments, cut as a shell cuts
 * them, but without a shell.
 */
#ifndef BASE_COMMAND_LINE_H
#define BASE_COMMAND_LINE_H

#include "base/err.h"

/* Words are separated by blanks; ' and " quote a whole word, or a part of one that
 * begins without a quote, and a doubled quote within its kind stands for itself.
 * Returns the words with a NULL behind the last one, for command_line_free.  NULL and
 * err: the first word is no absolute path, a quote is not closed, or a word goes on
 * behind the quote that it begins with. */
char **command_line_words(const char *text, struct err *err);
void command_line_free(char ***words);
/* -1 and err: command_line_words would fail. */
int command_line_check(const char *text, struct err *err);

#endif
