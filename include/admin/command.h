/*
 * Cuts one console command line into words (operation.md 3).  verbs.c interprets the
 * words.
 */
#ifndef ADMIN_COMMAND_H
#define ADMIN_COMMAND_H

#include <stdbool.h>

enum command_form {
	COMMAND_INVALID,    /* it has none of the forms */
	COMMAND_TOO_LONG,   /* it has one of the forms, but a word is too long */
	COMMAND_WORDS,      /* CMD [ARG] [;] */
	COMMAND_SET,        /* SET KEY (=|TO) VALUE [;] */
	COMMAND_SWITCHOVER, /* SWITCHOVER DATABASE TO HOST [;]; without TO it is
			       COMMAND_WORDS */
	COMMAND_EXPLAIN,    /* EXPLAIN LOGIN USER DATABASE [ADDRESS] [;] */
};

/* The longest words that a command may have, quotes included. */
enum { COMMAND_WORD_MAX = 15, COMMAND_ARGUMENT_MAX = 63, COMMAND_VALUE_MAX = 255 };

/* The words of a command, without quotes; "": none.  `value` has the address of EXPLAIN
 * and the host of SWITCHOVER. */
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
