#include "base/err.h"

#include <stdio.h>
#include <string.h>

/* Removes an incomplete UTF-8 character from the end of a text that was cut, because
 * some clients refuse invalid UTF-8. */
static void drop_partial_character(char *text)
{
	size_t len = strlen(text), tail = 0;

	while (tail < 3 && tail < len &&
	       ((unsigned char)text[len - 1 - tail] & 0xc0) == 0x80)
		tail++;
	if (tail == len)
		return;
	unsigned char lead = (unsigned char)text[len - 1 - tail];
	size_t wanted = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
	if (tail < wanted)
		text[len - 1 - tail] = '\0';
}

/* Prints into a local buffer first, because the arguments may point into e itself. */
static void __attribute__((format(printf, 2, 0)))
fill_text(struct err *e, const char *fmt, va_list ap)
{
	char text[sizeof(e->text)];
	int len = vsnprintf(text, sizeof(text), fmt, ap);

	if (len < 0)
		text[0] = '\0';
	else if ((size_t)len >= sizeof(text))
		drop_partial_character(text);
	memcpy(e->text, text, sizeof(text));
}

int err_set(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	fill_text(e, fmt, ap);
	va_end(ap);
	memcpy(e->sqlstate, SQLSTATE_PROTOCOL_VIOLATION, sizeof(e->sqlstate));
	return -1;
}

int err_set_row(struct err *e, enum error_id id, ...)
{
	char text[sizeof(e->text)];
	va_list ap;

	va_start(ap, id);
	error_vprint(text, sizeof(text), id, ap);
	va_end(ap);
	err_set(e, "%s", text);
	if (e)
		memcpy(e->sqlstate, error_sqlstate(id), sizeof(e->sqlstate));
	return -1;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -1;
	struct err old = *e;
	va_start(ap, fmt);
	fill_text(e, fmt, ap);
	va_end(ap);
	size_t len = strlen(e->text), room = sizeof(e->text) - len;
	if ((size_t)snprintf(e->text + len, room, "%s", old.text) >= room)
		drop_partial_character(e->text);
	return -1;
}
