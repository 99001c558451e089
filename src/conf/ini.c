/*
 * Parses ini files in place.  A value is the rest of its line, including blanks, quotes
 * and comment characters, so that nothing has to be unescaped.
 */
#include "conf/ini.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_key_char(char c)
{
	return text_is_letter(c) || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("_.-*", c));
}

void ini_init(struct ini *ini, char *text, size_t len)
{
	assert(text[len] == '\0');
	ini->at = text;
	ini->end = text + strlen(text); /* a NUL byte ends the file */
	ini->line = 1;
}

static void skip_blanks(struct ini *ini)
{
	while (*ini->at == ' ' || *ini->at == '\t')
		ini->at++;
}

/* Cuts the rest of the line, without trailing white space. */
static char *take_line(struct ini *ini)
{
	char *start = ini->at;
	char *newline = memchr(start, '\n', (size_t)(ini->end - start));
	char *stop = newline ? newline : ini->end;

	if (newline) {
		ini->at = newline + 1;
		ini->line++;
	} else {
		ini->at = ini->end;
	}
	while (stop > start && is_space(stop[-1]))
		stop--;
	*stop = '\0';
	return start;
}

static enum ini_kind take_section(struct ini *ini, struct ini_item *item)
{
	char *name = ++ini->at;
	char *stop = name + strcspn(name, "]\n");

	if (*stop != ']')
		return INI_BAD;
	*stop = '\0';
	item->name = name;
	ini->at = stop + 1;
	return INI_SECTION;
}

static enum ini_kind take_include(struct ini *ini, struct ini_item *item)
{
	static const char word[] = "%include";

	if (strncmp(ini->at, word, sizeof(word) - 1) != 0)
		return INI_BAD;
	ini->at += sizeof(word) - 1;
	if (*ini->at != ' ' && *ini->at != '\t')
		return INI_BAD;
	skip_blanks(ini);
	if (*ini->at == '\0' || is_space(*ini->at))
		return INI_BAD;
	item->value = take_line(ini);
	return INI_INCLUDE;
}

/* Returns the end of the key, or NULL when there is none; moves `at` behind it. */
static char *take_key(struct ini *ini, struct ini_item *item)
{
	char *stop;

	if (*ini->at != '\'') {
		item->name = ini->at;
		while (is_key_char(*ini->at))
			ini->at++;
		return ini->at > item->name ? ini->at : NULL;
	}
	item->name = ini->at + 1;
	stop = strchr(item->name, '\'');
	if (!stop || stop == item->name)
		return NULL;
	for (const char *p = item->name; p < stop; p++)
		if (*p == '\n')
			ini->line++;
	ini->at = stop + 1;
	return stop;
}

static enum ini_kind take_value(struct ini *ini, struct ini_item *item)
{
	char *stop = take_key(ini, item);

	if (!stop)
		return INI_BAD;
	skip_blanks(ini);
	if (*ini->at != '=')
		return INI_BAD;
	ini->at++;
	*stop = '\0';
	skip_blanks(ini);
	item->value = take_line(ini);
	return INI_VALUE;
}

enum ini_kind ini_next(struct ini *ini, struct ini_item *item)
{
	for (;;) {
		for (; is_space(*ini->at); ini->at++)
			if (*ini->at == '\n')
				ini->line++;
		if (*ini->at != '#' && *ini->at != ';')
			break;
		take_line(ini);
	}
	item->line = ini->line;
	item->name = item->value = "";
	if (*ini->at == '\0')
		item->kind = INI_END;
	else if (*ini->at == '[')
		item->kind = take_section(ini, item);
	else if (*ini->at == '%')
		item->kind = take_include(ini, item);
	else
		item->kind = take_value(ini, item);

	if (item->kind == INI_BAD) {
		item->name = item->value = "";
		take_line(ini);
	}
	return item->kind;
}
