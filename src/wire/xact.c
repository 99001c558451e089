/*
 * A text is brought into one spelling first: words in lower case with one blank between
 * them.  What follows compares texts.
 */
#include "wire/xact.h"

#include <stdbool.h>
#include <string.h>

#include "wire/sql_scan.h"

/* A longer text, with its comments, is not read. */
enum { TEXT_MOST = 400 };

/* The bits of one number belong together: only one mode of them can be said. */
enum { ISOLATION = 0x07, ACCESS = 0x18, DEFERRABLE = 0x60 };

static const struct {
	const char *sql;
	uint8_t bits, group;
} modes_known[] = {
    {"isolation level read uncommitted", 0x01, ISOLATION},
    {"isolation level read committed", 0x02, ISOLATION},
    {"isolation level repeatable read", 0x03, ISOLATION},
    {"isolation level serializable", 0x04, ISOLATION},
    {"read only", 0x08, ACCESS},
    {"read write", 0x10, ACCESS},
    {"deferrable", 0x20, DEFERRABLE},
    {"not deferrable", 0x40, DEFERRABLE},
};
enum { MODE_COUNT = sizeof(modes_known) / sizeof(modes_known[0]) };

/* Appends the token.  False: no such text has it. */
static bool put_token(struct buf *out, const struct sql_token *t)
{
	if (sql_token_is_mark(t, ',')) {
		buf_put_u8(out, ',');
		return true;
	}
	if (t->kind != SQL_WORD)
		return false;
	if (out->len)
		buf_put_u8(out, ' ');
	for (const char *c = t->from; c < t->to; c++)
		buf_put_u8(out, (uint8_t)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c));
	return true;
}

/* Writes the text in one spelling.  False: it is another one.  text: len bytes without
 * a NUL. */
static bool spell(const char *text, size_t len, struct buf *out)
{
	char copy[TEXT_MOST + 2];
	struct sql_scan scan;
	struct sql_token t;
	size_t ends = 0;

	/* older servers do not take this one for a blank */
	if (memchr(text, '\v', len))
		return false;
	/* a semicolon that is not found is within an open comment */
	memcpy(copy, text, len);
	memcpy(copy + len, "\n;", 2);
	sql_scan_init(&scan, copy, len + 2, false);
	for (sql_scan_next(&scan, &t); t.kind != SQL_END; sql_scan_next(&scan, &t)) {
		if (sql_token_is_mark(&t, ';'))
			ends++;
		else if (ends || !put_token(out, &t))
			return false;
	}
	buf_put_u8(out, '\0');
	return ends > 0 && !out->failed;
}

/* Moves on behind these words, if they come next. */
static bool skip_words(const char **at, const char *words)
{
	size_t len = strlen(words);

	if (strncmp(*at, words, len) != 0 || !strchr(" ,", (*at)[len]))
		return false;
	*at += len;
	*at += **at == ' ';
	return true;
}

/* Reads the modes up to the end. */
static bool is_modes(const char *at, uint8_t *modes)
{
	while (*at) {
		if (*at == ',') {
			if (!*modes)
				return false;
			at++;
			at += *at == ' ';
		}
		size_t i = 0;
		while (i < MODE_COUNT && !skip_words(&at, modes_known[i].sql))
			i++;
		if (i == MODE_COUNT || *modes & modes_known[i].group)
			return false;
		*modes |= modes_known[i].bits;
	}
	return true;
}

static void skip_noise(const char **at)
{
	if (!skip_words(at, "work"))
		skip_words(at, "transaction");
}

static enum xact_verb verb_of(const char *at, uint8_t *modes)
{
	enum xact_verb verb = XACT_NONE;

	if (skip_words(&at, "start transaction"))
		return is_modes(at, modes) ? XACT_START : XACT_NONE;
	if (skip_words(&at, "begin")) {
		skip_noise(&at);
		return is_modes(at, modes) ? XACT_BEGIN : XACT_NONE;
	}
	if (skip_words(&at, "commit") || skip_words(&at, "end"))
		verb = XACT_COMMIT;
	else if (skip_words(&at, "rollback") || skip_words(&at, "abort"))
		verb = XACT_ROLLBACK;
	else
		return XACT_NONE;
	skip_noise(&at);
	skip_words(&at, "and no chain");
	return *at ? XACT_NONE : verb;
}

enum xact_verb xact_read(const char *text, size_t len, uint8_t *modes)
{
	enum xact_verb verb = XACT_NONE;
	uint8_t room[TEXT_MOST * 2];
	struct buf spelt;

	*modes = 0;
	if (len < 1 || len > TEXT_MOST || memchr(text, '\0', len) != text + len - 1)
		return XACT_NONE;
	buf_init_in(&spelt, sizeof(room), room, sizeof(room));
	if (spell(text, len - 1, &spelt))
		verb = verb_of((const char *)spelt.bytes, modes);
	buf_done(&spelt);
	return verb;
}

const char *xact_tag(enum xact_verb verb)
{
	static const char *const tags[] = {
	    "", "BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK"};

	return tags[verb];
}

void xact_put_begin(uint8_t modes, struct buf *sql)
{
	buf_put_text(sql, "BEGIN");
	for (size_t i = 0; i < MODE_COUNT; i++) {
		if ((modes & modes_known[i].group) != modes_known[i].bits)
			continue;
		buf_put_u8(sql, ' ');
		buf_put_text(sql, modes_known[i].sql);
	}
}
