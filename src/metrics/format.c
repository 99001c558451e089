/*
 * Reads the Accept header of a scrape.
 */
#include "metrics/format.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

enum { ITEM_MOST = 256, QUALITY_ONE = 1000000 };

#define PROTOBUF_TYPE                       \
	"application/vnd.google.protobuf; " \
	"proto=io.prometheus.client.MetricFamily; encoding=delimited"

static const char *const types[] = {
    [FORMAT_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
    [FORMAT_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
    [FORMAT_PROTOBUF] = PROTOBUF_TYPE,
};

const char *format_type(enum format format)
{
	return types[format];
}

/* Copies an item, such as "a/b ; q = 0.5", without its blanks. */
static void copy_item(char out[ITEM_MOST], const char *item, size_t len)
{
	size_t put = 0;

	for (size_t i = 0; i < len && put < ITEM_MOST - 1; i++)
		if (item[i] != ' ' && item[i] != '\t')
			out[put++] = item[i];
	out[put] = '\0';
}

/* Has the item this parameter, with the value `wanted` (NULL: any)?  *value points to
 * the value. */
static bool has_parameter(
    const char *item, const char *name, const char *wanted, const char **value)
{
	size_t len = strlen(name);

	while ((item = strchr(item, ';'))) {
		item++;
		if (strncasecmp(item, name, len) != 0 || item[len] != '=')
			continue;
		*value = item + len + 1;
		size_t value_len = strcspn(*value, ";");
		if (!wanted || (strlen(wanted) == value_len &&
				   strncasecmp(*value, wanted, value_len) == 0))
			return true;
	}
	return false;
}

static bool is_type(const char *item, const char *type)
{
	size_t len = strcspn(item, ";");

	return strlen(type) == len && strncasecmp(item, type, len) == 0;
}

/* The item's quality (q) in millionths. */
static uint64_t quality_of(const char *item)
{
	const char *value;
	char text[16];
	uint64_t quality;

	if (!has_parameter(item, "q", NULL, &value))
		return QUALITY_ONE;
	size_t len = strcspn(value, ";");
	if (len >= sizeof(text))
		return 0;
	memcpy(text, value, len);
	text[len] = '\0';
	return text_seconds(text, &quality) < 0 ? 0 : quality;
}

static bool find_format(const char *item, enum format *format)
{
	const char *value;

	if (is_type(item, "application/openmetrics-text"))
		*format = FORMAT_OPENMETRICS;
	else if (is_type(item, "text/plain") || is_type(item, "text/*") ||
		 is_type(item, "*/*"))
		*format = FORMAT_TEXT;
	else if (is_type(item, "application/vnd.google.protobuf") &&
		 has_parameter(
		     item, "proto", "io.prometheus.client.MetricFamily", &value) &&
		 has_parameter(item, "encoding", "delimited", &value))
		*format = FORMAT_PROTOBUF;
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
		copy_item(item, text, len);
		if (!find_format(item, &format) || quality_of(item) <= best_quality)
			continue;
		best_quality = quality_of(item);
		best = format;
	}
	return best;
}
