/* links: admin base */
/*
 * Console command lines: every text is parsed into a command form whose words fit their
 * buffers, and parsing it again with every word quoted gives the same command.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "admin/command.h"
#include "base/buf.h"

static void put_quoted(struct buf *line, const char *word, char quote)
{
	buf_put_u8(line, (uint8_t)quote);
	for (; *word; word++) {
		if (*word == quote)
			buf_put_u8(line, (uint8_t)quote);
		buf_put_u8(line, (uint8_t)*word);
	}
	buf_put_u8(line, (uint8_t)quote);
}

static void write_again(const struct command *command, struct buf *line)
{
	if (command->form == COMMAND_SET)
		buf_put_text(line, command->word);
	else
		put_quoted(line, command->word, '"');
	if (command->form == COMMAND_SET || command->argument[0]) {
		buf_put_u8(line, ' ');
		put_quoted(line, command->argument, '"');
	}
	if (command->form == COMMAND_SET) {
		buf_put_u8(line, '=');
		put_quoted(line, command->value, '\'');
	}
}

static void check_again(const struct command *command)
{
	struct command again;
	struct buf line;

	buf_init(&line, 0);
	write_again(command, &line);
	command_parse(buf_text(&line), &again);
	/* the quotes may have made the line too long */
	if (again.form != COMMAND_TOO_LONG) {
		assert(again.form == command->form);
		assert(strcmp(again.word, command->word) == 0);
		assert(strcmp(again.argument, command->argument) == 0);
		assert(strcmp(again.value, command->value) == 0);
	}
	buf_done(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct command command;
	struct buf text;

	buf_init(&text, 0);
	if (size > 0)
		buf_put(&text, data, size);
	command_parse(buf_text(&text), &command);
	assert(strlen(command.word) <= COMMAND_WORD_MAX);
	assert(strlen(command.argument) <= COMMAND_ARGUMENT_MAX);
	assert(strlen(command.value) <= COMMAND_VALUE_MAX);
	if (command.form == COMMAND_WORDS || command.form == COMMAND_SET)
		check_again(&command);
	buf_done(&text);
	return 0;
}
