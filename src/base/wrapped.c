/*
 * Breaks lines between words.  A word that is longer than a line gets a line of its
 * own.
 */
#include "base/wrapped.h"

#include <stdarg.h>
#include <string.h>

#include "base/buf.h"

enum { COLUMNS = 80 };

static void put_words(FILE *out, const char *lead, const char *text)
{
	size_t indent = strlen(lead), column = indent;

	fputs(lead, out);
	while (*(text += strspn(text, " "))) {
		size_t len = strcspn(text, " ");

		if (column > indent && column + 1 + len > COLUMNS) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		}
		if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fwrite(text, 1, len, out);
		column += len;
		text += len;
	}
	fputc('\n', out);
}

void wrapped_put(FILE *out, const char *lead, const char *fmt, ...)
{
	struct buf text;
	va_list ap;

	buf_init(&text, 0);
	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	put_words(out, lead, buf_text(&text));
	buf_done(&text);
}
