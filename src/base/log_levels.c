#include "base/log_levels.h"

#include <string.h>

#include "base/buf.h"
#include "base/text.h"

static const char *const kind_names[] = {
#define KIND(NAME, name, help) #name,
#include "base/log_kinds.def"
#undef KIND
};

static const char *const level_words[] = {
    [LEVEL_FATAL] = "off", /* the last line before the process exits: always written */
    [LEVEL_ERROR] = "error",
    [LEVEL_WARNING] = "warning",
    [LEVEL_LOG] = "log",
    [LEVEL_DEBUG] = "debug",
    [LEVEL_NOISE] = "noise",
    [LEVEL_TRACE] = "trace",
};

enum { LEVELS = sizeof(level_words) / sizeof(level_words[0]) };

const char *log_kind_name(unsigned what)
{
	return kind_names[what >> LOG_LEVEL_BITS];
}

void log_levels_set_all(struct log_levels *levels, int verbose)
{
	int most = LEVEL_TRACE;

	if (verbose <= 0)
		most = LEVEL_LOG;
	else if (verbose < LEVEL_TRACE - LEVEL_LOG)
		most = LEVEL_LOG + verbose;
	memset(levels->most, most, sizeof(levels->most));
}

void log_levels_set(struct log_levels *levels, enum log_kind kind, enum log_level most)
{
	levels->most[kind >> LOG_LEVEL_BITS] = (signed char)most;
}

/* Returns the index of the text in words, or -1. */
static int find_word(const char *const *words, int count, const char *text, size_t len)
{
	for (int i = 0; i < count; i++)
		if (strlen(words[i]) == len && strncmp(words[i], text, len) == 0)
			return i;
	return -1;
}

static int fail(const char *what, const char *text, size_t len,
    const char *const *words, int count, struct err *err)
{
	struct buf list;

	buf_init(&list, 0);
	for (int i = 0; i < count; i++)
		buf_printf(&list, "%s%s", i ? ", " : "", words[i]);
	err_set(err, "%s '%.*s' is unknown; known are: %s", what, (int)len, text,
	    buf_text(&list));
	buf_done(&list);
	return -1;
}

static void trim(const char **text, size_t *len)
{
	while (*len && strchr(" \t", **text))
		++*text, --*len;
	while (*len && strchr(" \t", (*text)[*len - 1]))
		--*len;
}

/* Parses one item, such as "dns:debug". */
static int parse_one(
    struct log_levels *levels, const char *item, size_t len, struct err *err)
{
	const char *colon = memchr(item, ':', len);

	if (!colon)
		return err_set(err, "'%.*s' should be kind:level, as in dns:debug",
		    (int)len, item);
	const char *name = item, *word = colon + 1;
	size_t name_len = (size_t)(colon - item), word_len = len - name_len - 1;
	trim(&name, &name_len);
	trim(&word, &word_len);
	int kind = find_word(kind_names, LOG_KINDS, name, name_len);
	if (kind < 0)
		return fail("kind", name, name_len, kind_names, LOG_KINDS, err);
	int most = find_word(level_words, LEVELS, word, word_len);
	if (most < 0)
		return fail("level", word, word_len, level_words, LEVELS, err);
	if (levels)
		levels->most[kind] = (signed char)most;
	return 0;
}

int log_levels_parse(struct log_levels *levels, const char *text, struct err *err)
{
	const char *at = text ? text : "", *item;
	size_t len;

	while (text_list_next(&at, &item, &len))
		if (parse_one(levels, item, len, err) < 0)
			return -1;
	return 0;
}
