/*
 * Prints advice as the items of a list.
 */
#include "tools/advice_given.h"

#include <stdarg.h>

#include "base/err.h"
#include "base/wrapped.h"

static void __attribute__((format(printf, 4, 0)))
put(struct advice *a, const char *file, unsigned line, const char *fmt, va_list ap)
{
	struct err text;
	struct buf place;

	vsnprintf(text.text, sizeof(text.text), fmt, ap);
	buf_init(&place, 0);
	if (line)
		overview_put_place(&place, a->o->input->config, file, line);
	if (a->count++ == 0)
		fputs("\nAdvice\n", a->out);
	wrapped_put(a->out, "  * ", "%s%s%s%s", text.text, line ? " (" : "",
	    buf_text(&place), line ? ")" : "");
	buf_done(&place);
}

void advice_give(struct advice *a, const struct setting *row, const char *fmt, ...)
{
	const struct config_place *place =
	    row ? config_place(a->o->input->config, row) : NULL;
	va_list ap;

	va_start(ap, fmt);
	put(a, place ? place->file : NULL, place && place->file ? place->line : 0, fmt,
	    ap);
	va_end(ap);
}

void advice_give_at(
    struct advice *a, const char *file, unsigned line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put(a, file, line, fmt, ap);
	va_end(ap);
}
