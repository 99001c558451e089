/*
 * One console command line: from text to words (operation.md 3; EXPLAIN is ours).  What
 * the words mean is the business of verbs.
 */
#ifndef ADMIN_COMMAND_H
#define ADMIN_COMMAND_H

#include <stdbool.h>

enum command_form {
	COMMAND_INVALID,    /* fits no form */
	COMMAND_TOO_LONG,   /* fits one, but a word is longer than it may be */
	COMMAND_WORDS,      /* CMD [ARG] [;] */
	COMMAND_SET,        /* SET KEY (=|TO) VALUE [;] */
	COMMAND_SWITCHOVER, /* SWITCHOVER DATABASE TO HOST [;]; without TO it is words
			     */
	COMMAND_EXPLAIN,    /* EXPLAIN LOGIN USER DATABASE [ADDRESS] [;] */
};

/* Longest words in the text of a command, quotes included. */
enum { COMMAND_WORD_MAX = 15, COMMAND_ARGUMENT_MAX = 63, COMMAND_VALUE_MAX = 255 };

/* Words without their quotes; "" where there is none.  The address of EXPLAIN and the
 * host of SWITCHOVER are its value. */
struct command {
	enum command_form form;
	char word[COMMAND_WORD_MAX + 1];
	char argument[COMMAND_ARGUMENT_MAX + 1]; /* of COMMAND_SET: the key */
	char value[COMMAND_VALUE_MAX + 1];
	/* of COMMAND_EXPLAIN: whose argument is LOGIN */
	char user[COMMAND_VALUE_MAX + 1], database[COMMAND_VALUE_MAX + 1];
};

void command_parse(const char *text, struct command *out);

#endif
