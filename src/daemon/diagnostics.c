#include "daemon/diagnostics.h"

#include <string.h>

#include "base/text.h"
#include "conf/settings.h"

struct found {
	enum diagnostic kind;
	const char *where, *text;
};

void diagnostics_init(struct diagnostics *f)
{
	memset(f, 0, sizeof(*f));
	buf_init(&f->list, 0);
}

void diagnostics_done(struct diagnostics *f)
{
	buf_done(&f->list);
}

void diagnostics_add(
    struct diagnostics *f, enum diagnostic kind, const char *where, const char *text)
{
	f->counts[kind]++;
	buf_put_u8(&f->list, (uint8_t)kind);
	buf_put_str(&f->list, where);
	buf_put_str(&f->list, text);
}

/* Reads the next diagnostic; false at the end. */
static bool next_found(const struct diagnostics *f, size_t *at, struct found *found)
{
	const char *bytes = (const char *)f->list.bytes;

	if (*at >= f->list.len)
		return false;
	found->kind = (enum diagnostic)bytes[(*at)++];
	found->where = bytes + *at;
	*at += strlen(found->where) + 1;
	found->text = bytes + *at;
	*at += strlen(found->text) + 1;
	return true;
}

/* Logs each line of a text as a line of the log.  A line that begins with a tab
 * continues the one before. */
static void log_lines(struct log *log, const char *at)
{
	struct buf line;

	buf_init(&line, 0);
	while (*at) {
		size_t len = strcspn(at, "\n");

		buf_put(&line, at, len);
		at += len + (at[len] == '\n');
		if (*at == '\t') {
			buf_put_u8(&line,
			    '\n'); /* the log indents continuation lines itself */
			at++;
			continue;
		}
		log_put_lines(log, LEVEL_ERROR | KIND_RELOAD, buf_text(&line));
		buf_clear(&line);
	}
	buf_done(&line);
}

/* The line that tools expect comes first, then the place. */
static void log_found(struct log *log, const struct found *found)
{
	static const char *const known[] = {"username too long in auth file",
	    "password too long in auth file", "broken auth file"};

	/* the text about a missing file has its place */
	if (!*found->where ||
	    (found->kind != DIAGNOSTIC_ERROR && setting_find(found->where))) {
		log_lines(log, found->text);
		return;
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (text_has_prefix(found->text, known[i])) {
			log_put(log, LEVEL_ERROR | KIND_RELOAD, NULL, "%s\n%s: %s",
			    known[i], found->where, found->text);
			return;
		}
	}
	log_put(
	    log, LEVEL_ERROR | KIND_RELOAD, NULL, "%s\n%s", found->text, found->where);
}

void diagnostics_log_errors(const struct diagnostics *f, struct log *log)
{
	struct found found;
	size_t at = 0;

	while (next_found(f, &at, &found))
		if (found.kind != DIAGNOSTIC_WARNING)
			log_found(log, &found);
}

void diagnostics_log_warnings(const struct diagnostics *f, struct log *log)
{
	struct found found;
	size_t at = 0;

	while (next_found(f, &at, &found)) {
		if (found.kind != DIAGNOSTIC_WARNING)
			continue;
		log_put(log, LEVEL_WARNING | KIND_RELOAD, NULL,
		    *found.where ? "%s\n%s" : "%s", found.text, found.where);
	}
}

bool diagnostics_are_equal(const struct diagnostics *a, const struct diagnostics *b)
{
	return a->list.len == b->list.len &&
	       (a->list.len == 0 ||
		   memcmp(a->list.bytes, b->list.bytes, a->list.len) == 0);
}

unsigned diagnostics_print(const struct diagnostics *f, FILE *out,
    void (*put_place)(void *ctx, const char *setting), void *ctx)
{
	struct found found;
	unsigned errors = 0;
	size_t at = 0;

	while (next_found(f, &at, &found)) {
		bool is_warning = found.kind == DIAGNOSTIC_WARNING;

		if (found.kind == DIAGNOSTIC_KNOWN)
			continue;
		if (setting_find(found.where))
			put_place(ctx, found.where);
		fprintf(out, "%s%s%s%s\n", found.where, *found.where ? ": " : "",
		    is_warning ? "warning: " : "", found.text);
		errors += !is_warning;
	}
	return errors;
}

void diagnostics_errors(const struct diagnostics *f, struct err *err)
{
	char *to = err->text, *end = to + sizeof(err->text);
	struct found found;
	size_t at = 0;

	err_set(err, "nothing is wrong");
	while (next_found(f, &at, &found) && end - to > 1) {
		if (found.kind != DIAGNOSTIC_ERROR && found.kind != DIAGNOSTIC_LOSS)
			continue;
		snprintf(to, (size_t)(end - to), "%s%s%s%s",
		    to == err->text ? "" : "\n", found.where, *found.where ? ": " : "",
		    found.text);
		/* removes the tabs that mark continuation lines for the log */
		for (const char *from = to; *from; from++)
			if (*from != '\t')
				*to++ = *from;
		*to = '\0';
	}
}
