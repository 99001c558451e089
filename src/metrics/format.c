/*
 * Reads the Accept header of a scrape.
 */
#include "metrics/format.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { ITEM_MOST = 256, QUALITY_ONE = 1000000 };

static const char *const types[] = {
    [FORMAT_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
    [FORMAT_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

const char *format_type(enum format format)
{
	return types[format];
}

static bool is_type(const char *item, const char *type)
{
	size_t len = strcspn(item, ";");

	return strlen(type) == len && strncasecmp(item, type, len) == 0;
}

/* The item's quality (q) in millionths. */
static uint64_t quality_of(const char *item)
{
	char text[16];
	uint64_t quality;

	do {
		item = strchr(item, ';');
		if (!item)
			return QUALITY_ONE;
		item++;
	} while (strncasecmp(item, "q=", 2) != 0);
	item += 2;
	size_t len = strcspn(item, ";");
	if (len >= sizeof(text))
		return 0;
	memcpy(text, item, len);
	text[len] = '\0';
	return text_seconds(text, &quality) < 0 ? 0 : quality;
}

static bool find_format(const char *item, enum format *format)
{
	if (is_type(item, "application/openmetrics-text"))
		*format = FORMAT_OPENMETRICS;
	else if (is_type(item, "text/plain") || is_type(item, "text/*") ||
		 is_type(item, "*/*"))
		*format = FORMAT_TEXT;
	else
		return false;
	return true;
}

enum format format_choose(const char *accept)
{
	enum format best = FORMAT_TEXT, format;
	uint64_t best_quality = 0;
	char item[ITEM_MOST];
	const char *text;
	size_t len;

	while (accept && text_list_next(&accept, &text, &len)) {
		/* copies an item, such as "a/b ; q = 0.5", without its blanks */
		size_t put = 0;
		for (size_t i = 0; i < len && put < ITEM_MOST - 1; i++)
			if (text[i] != ' ' && text[i] != '\t')
				item[put++] = text[i];
		item[put] = '\0';
		if (!find_format(item, &format) || quality_of(item) <= best_quality)
			continue;
		best_quality = quality_of(item);
		best = format;
	}
	return best;
}
